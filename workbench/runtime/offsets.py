"""Where the log ends, asked of the broker on a period.

The consumer itself learns of new messages only with what it fetches, and a paused partition is not fetched: under back-pressure its
own lag would stand still. One request per leader and period costs next to nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from workbench.runtime.event import TopicPartition as Partition

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 10.0


class LogEnds:
    """Ends and starts of the log of the partitions that are assigned here."""

    def __init__(
        self,
        properties: dict[str, Any],
        *,
        partitions: Callable[[], Iterable[Partition]],
        period_seconds: float,
        enabled: bool = True,
    ) -> None:
        self.ends: dict[Partition, int] = {}
        self.starts: dict[Partition, int] = {}
        self._partitions = partitions
        self._period = period_seconds
        self._enabled = enabled
        self._properties = properties
        self._admin: AdminClient | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-ends", daemon=True)

    def start(self) -> None:
        """Begin asking."""
        if self._enabled:
            self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_TIMEOUT_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(self._period):
            wanted = list(self._partitions())
            if wanted:
                self.ends = self._ask(wanted, OffsetSpec.latest())
                self.starts = self._ask(wanted, OffsetSpec.earliest())

    def _ask(self, wanted: Iterable[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        """Offsets by partition; a partition that does not answer is left out, so that nothing old passes for new."""
        found: dict[Partition, int] = {}
        try:
            if self._admin is None:
                self._admin = AdminClient(self._properties, logger=_log)
            answers = self._admin.list_offsets(
                {TopicPartition(*partition): spec for partition in wanted}, request_timeout=_TIMEOUT_SECONDS
            )
            for part, answer in answers.items():
                found[part.topic, part.partition] = answer.result(_TIMEOUT_SECONDS).offset
        except (KafkaException, TimeoutError) as error:
            _log.warning("the ends of the log are not known: %s", error)
            # The client keeps what it knew of the leaders: after a restart of the broker it was refused for good (FENCED_LEADER_EPOCH).
            self._admin = None
        return found
