"""A producer that marks its records for an audit, tells what was delivered, and leaves out partitions that do not take records.

producer = AuditedProducer({"bootstrap.servers": "kafka-1:9092"}, stream="orders", layer="gateway", rows_topic="audit")
for record in request:
    producer.produce("orders", record.value, record_id=record.id, created_ms=record.created_ms)
producer.settle(10)        # delivered, and the rows are safe …
answer(200)                # … before anybody relies on it
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from workbench.errors import SourceUnreachableError, UsageError
from workbench.humanize import plural
from workbench.kafka.audit_rows import KafkaRows
from workbench.layers.meter import Meter
from workbench.layers.record_marks import headers_for
from workbench.queues.partitions_to_avoid import ExclusionList, read_list

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_FAILURES = 3  # one after the other, until a partition is left out
_PROBE_SECONDS = 10.0  # until it is tried again
_READ_SECONDS = 1.0
_METADATA_SECONDS = 1.0
_FLUSH_SECONDS = 0.01  # until it is seen whether those that one waits for are delivered, beside others


class AuditedProducer:
    """See the module. Any thread may call it.

    Positions are its own sequence numbers, of this process alone: what a killed process has not settled, nobody relies on.

    Args:
        properties: of librdkafka.
        stream, layer: as in `layers.rows`.
        rows_topic: takes the rows, on the same cluster.
        name: of this producer; None: host and process.
        left_out: file with partitions that get no record without a key (`workbench partitions exclude`); it is read again and again.
            Partitions that fail to take records are left out for a while anyway.

    Raises:
        UsageError: if these properties do not let anybody know what was delivered.
    """

    def __init__(
        self,
        properties: dict[str, Any],
        *,
        stream: str,
        layer: str,
        rows_topic: str,
        name: str | None = None,
        left_out: Path | None = None,
        window_ms: int = 60_000,
        make_producer: Callable[..., Any] = Producer,
    ) -> None:
        _check(properties)
        started = round(time.time() * 1000)
        self._name = f"{name or f'{socket.gethostname()}-{os.getpid()}'}/{started}"
        self._producer = make_producer({"enable.idempotence": True, "linger.ms": 5, **properties}, logger=_log)
        self._rows = KafkaRows(rows_topic, properties, make_producer=make_producer)
        self._meter = Meter(
            stream, layer, topic=self._name, partition=0, start=0, points=("in", "out", "dead"), window_ms=window_ms,
            incarnation=started, of_process=True,
        )  # fmt: skip
        self._lock = threading.Lock()
        self._settling = threading.Lock()  # rows of the same positions are written by one thread at a time
        self._open: dict[int, None] = {}  # in their order
        self._next = 0
        self._turn = itertools.count()
        self._list, self._left_out, self._read_at = left_out, ExclusionList(), 0.0
        self._failed: dict[tuple[str, int], tuple[int, float]] = {}  # failures in a row, and when it is tried again
        self._partitions: dict[str, Sequence[int]] = {}

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        record_id: bytes | None = None,
        created_ms: float | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
    ) -> None:
        """Send one record; returns at once.

        Args:
            record_id: None: one of its own.
            created_ms: when it was made, ms since the epoch; None: now.
            on_delivery: is called when it was delivered, or failed.

        Raises:
            BufferError: if too many are on their way.
        """
        now = round(time.time() * 1000)
        created = now if created_ms is None else created_ms
        with self._lock:
            number = self._next
            own = record_id if record_id is not None else f"{self._name}/{number}".encode()
            size = len(value or b"") + len(key or b"")

            def delivered(error: KafkaError | None, message: Message) -> None:
                with self._lock:
                    self._open.pop(number, None)
                    if error is None:
                        self._meter.count("out", number, own, created_ms=created, size=size)
                    else:
                        self._meter.count("dead", number, own, created_ms=created, size=size, error=error.name())
                    self._noted(topic, message.partition(), error)
                if on_delivery is not None:
                    on_delivery(error, message)

            more = {} if key is not None else self._chosen(topic)
            marks = headers_for(own, created_ms=created, updated_ms=now)
            self._producer.produce(topic, value, key, headers=[*headers, *marks], on_delivery=delivered, **more)
            self._next += 1
            self._open[number] = None
            self._meter.count("in", number, own, created_ms=created, size=size)
        self._producer.poll(0)

    def settle(self, seconds: float) -> None:
        """Wait until all records that were given so far are delivered or have failed, and the rows about them are safe.

        Nobody waits for what other threads send meanwhile, and a thread that waits for its turn is done if the one before it has
        settled its records, too.

        Raises:
            SourceUnreachableError: if that is not so in time.
        """
        deadline = time.monotonic() + seconds
        with self._lock:
            told, upto = self._meter.start, self._next
        if not self._settling.acquire(timeout=max(0.0, seconds)):
            raise _late(upto - told, seconds)
        try:
            if upto == told or self._meter.start < upto:  # of none it says that it lives
                is_safe = self._settle(upto, deadline)
                if not is_safe or self._meter.start < upto:
                    raise _late(upto - self._meter.start, seconds)
        finally:
            self._settling.release()

    def _settle(self, upto: int, deadline: float) -> bool:
        """Whether the rows of all that is delivered, or has failed, are safe."""
        while self._first_open() < upto and (left := deadline - time.monotonic()) > 0:
            self._producer.flush(min(left, _FLUSH_SECONDS))
        with self._lock:
            stop = next(iter(self._open), self._next)
            under_way = self._rows.put(self._meter.texts(stop))
        while not under_way.is_over and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS / 10)
        with self._lock:
            is_safe = under_way.is_over and not under_way.failed
            if is_safe:
                self._meter.forget(stop)
            else:  # what of it was written, nobody knows: as another incarnation, it is covered by what is written again
                self._meter.incarnation = (self._meter.incarnation or 0) + 1
        return is_safe

    def _first_open(self) -> int:
        with self._lock:
            return next(iter(self._open), self._next)

    def close(self, seconds: float = 10.0) -> None:
        """Settle, and end."""
        try:
            self.settle(seconds)
        finally:
            self._rows.close(seconds)

    # Partitions

    def _chosen(self, topic: str) -> dict[str, int]:
        """A partition for a record without a key, if some are left out; else the client chooses."""
        now = time.monotonic()
        failing = {
            number
            for (of, number), (failures, again) in self._failed.items()
            if of == topic and failures >= _FAILURES and now < again
        }
        bad = self._listed(topic, now) | failing
        if not bad:
            return {}
        if topic not in self._partitions:
            try:
                known = self._producer.list_topics(topic, timeout=_METADATA_SECONDS).topics.get(topic)
            except KafkaException:
                return {}  # the client chooses
            if known is not None and known.partitions:
                self._partitions[topic] = sorted(known.partitions)
        good = [it for it in self._partitions.get(topic, ()) if it not in bad]
        return {"partition": good[next(self._turn) % len(good)]} if good else {}

    def _listed(self, topic: str, now: float) -> frozenset[int]:
        if self._list is not None and now >= self._read_at:
            self._read_at = now + _READ_SECONDS
            try:
                self._left_out = read_list(self._list)
            except (UsageError, OSError) as error:  # the last list that could be read stands
                _log.warning("%s", error)
        return self._left_out.of(topic)

    def _noted(self, topic: str, number: int | None, error: KafkaError | None) -> None:
        if number is None or number < 0:
            return
        if error is None:
            self._failed.pop((topic, number), None)
        else:
            failures = self._failed.get((topic, number), (0, 0.0))[0] + 1
            self._failed[topic, number] = (failures, time.monotonic() + _PROBE_SECONDS)


def _check(properties: dict[str, Any]) -> None:
    """Refuse what makes a delivery report say less than that a record is safe and counts."""
    if "transactional.id" in properties:
        raise UsageError(
            "An audited producer takes no transactional.id: a transaction that is aborted takes back what was told as delivered.",
            hint="Leave it out, or count what your own producer has committed with a Meter: docs/audit.md.",
        )
    if any(str(properties.get(name, "all")) == "0" for name in ("acks", "request.required.acks")):
        raise UsageError(
            "An audited producer needs acks: with acks=0, no broker says what it has taken.",
            hint="Leave acks out (all is the default).",
        )


def _late(records: int, seconds: float) -> SourceUnreachableError:
    return SourceUnreachableError(f"{plural(records, 'record')} and their rows are not delivered within {seconds:g} s.")
