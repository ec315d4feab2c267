"""Rows for an audit, written to a topic."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from workbench.kafka.clients_without_brokers import STATISTICS, is_stranded, made_in
from workbench.layers.row_batch import RowBatch

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_PURGE_SECONDS = 1.0  # for the delivery reports of a producer that is replaced
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
_SAY_EVERY = 1_000


class KafkaRows:
    """See `RowWriter`. Rows come in any order and more than once: the ledger does not mind.

    Attributes:
        given_up: number of rows that were not written; the ledger finds positions that nobody tells of.
    """

    def __init__(self, topic: str, properties: dict[str, Any], *, make_producer: Callable[..., Any] = Producer) -> None:
        self._topic = topic
        self.given_up = 0
        common: dict[str, Any] = {
            "enable.idempotence": True,
            "linger.ms": 5,  # each batch delays a commit
            "compression.type": "zstd",
            "message.timeout.ms": 300_000,
            **STATISTICS,
            **properties,
            "stats_cb": self._told,
        }
        self._make: Callable[[], Any] = lambda: make_producer(common, logger=_log)
        self._producer, self._made_seconds = made_in(self._make)
        self._is_stranded = False
        self._swap = threading.Lock()  # so that no row goes to a producer that is being replaced
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="audit-rows", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(_POLL_SECONDS)
            if self._is_stranded:
                self._replace()

    def _told(self, statistics: str) -> None:
        self._is_stranded = is_stranded(statistics, made_seconds=self._made_seconds)

    def _replace(self) -> None:
        """Go on with a new producer, which writes what the old one still has."""
        _log.error("the producer of rows for the audit has no brokers left, and is replaced")
        try:
            made, self._made_seconds = made_in(self._make)  # nobody waits for that
        except KafkaException as error:  # for example a certificate that is being renewed
            _log.error("there is no new one: %s", error)
            self._is_stranded = False  # until the next statistics
            return
        with self._swap:
            stranded, self._producer = self._producer, made
        stranded.purge()
        stranded.flush(_PURGE_SECONDS)
        self._is_stranded = False  # it has perhaps said so once more

    def put(self, lines: Sequence[str]) -> RowBatch:
        """See `RowWriter`."""
        batch = RowBatch(len(lines))

        def write(row: bytes | None) -> None:
            try:
                with self._swap:
                    self._producer.produce(self._topic, value=row, on_delivery=delivered)
            except (BufferError, KafkaException) as error:
                self._lost(str(error))
                batch.one_less(failed=True)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None and error.code() in _PURGED:
                return write(message.value())
            if error is not None:
                self._lost(error.str())
            return batch.one_less(failed=error is not None)

        for line in lines:
            write(line.encode())
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
