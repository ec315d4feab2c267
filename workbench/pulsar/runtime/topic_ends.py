"""Ends of the assigned partitions, asked for once a second by the consumers that are there: a request of its own would need one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from time import monotonic

from workbench.errors import SourceUnreachableError
from workbench.pulsar.runtime.pulsar_source import PulsarSource
from workbench.runtime.event import TopicPartition

_log = logging.getLogger(__name__)

_STOP_SECONDS = 10.0


class TopicEnds:
    """See `LogWatch`. A topic that was made again has larger ledgers, so there is no id to watch, and starts are of no use."""

    def __init__(self, sources: Callable[[], Iterable[PulsarSource]], *, period_seconds: float, enabled: bool) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.starts: dict[TopicPartition, int] = {}
        self.ends_at = 0.0
        self._sources, self._period, self._enabled = sources, period_seconds, enabled
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic-ends", daemon=True)

    def known(self, topic: str) -> tuple[str, float] | None:  # noqa: ARG002 - the port's
        """See `LogWatch`."""
        return None

    def ask_soon(self, topic: str) -> bool:  # noqa: ARG002 - the port's
        """See `LogWatch`."""
        return False

    def start(self) -> None:
        """Start the requests."""
        if self._enabled:
            self._thread.start()

    def stop(self) -> None:
        """Stop the requests."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(self._period):
            try:
                found = {part: end for source in self._sources() for part, end in source.ends().items()}
            except SourceUnreachableError as error:
                _log.warning("the ends of the topics are not known: %s", error.message)
                continue
            except Exception:
                _log.exception("the ends of the topics cannot be read")
                continue
            self.ends, self.ends_at = found, monotonic()
