"""Rows for an audit, written to a topic."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from workbench.layers.row_batch import RowBatch

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_SAY_EVERY = 1_000


class KafkaRows:
    """See `RowWriter`. Rows come in any order and more than once: the ledger does not mind.

    Attributes:
        given_up: number of rows that were not written; the ledger finds positions that nobody tells of.
    """

    def __init__(self, topic: str, properties: dict[str, Any], *, make_producer: Callable[..., Any] = Producer) -> None:
        self._topic = topic
        self.given_up = 0
        self._producer = make_producer(
            {
                "enable.idempotence": True,
                "linger.ms": 5,  # each batch delays a commit
                "compression.type": "zstd",
                "message.timeout.ms": 300_000,
                **properties,
            },
            logger=_log,
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="audit-rows", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(_POLL_SECONDS)

    def put(self, lines: Sequence[str]) -> RowBatch:
        """See `RowWriter`."""
        batch = RowBatch(len(lines))

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                self._lost(error.str())
            batch.one_less(failed=error is not None)

        for line in lines:
            try:
                self._producer.produce(self._topic, value=line.encode(), on_delivery=delivered)
            except (BufferError, KafkaException) as error:
                self._lost(str(error))
                batch.one_less(failed=True)
        return batch

    def claim(self) -> None:
        """See `RowWriter`: a commit keeps the number, for the next task to read."""

    def _lost(self, reason: str) -> None:
        if self.given_up % _SAY_EVERY == 0:
            _log.error("a row for the audit was not written to %s: %s", self._topic, reason)
        self.given_up += 1

    def close(self, seconds: float) -> None:
        """See `RowWriter`."""
        self._producer.flush(seconds)
        self._stopping.set()
        self._thread.join(seconds)
