"""Counts what one task takes in and gives out of one partition, and makes its rows. No Kafka here: use it in any consumer.

    meter = Meter("orders", "collector", topic="orders", partition=3, start=position, write=lines.append)
    for record in batch:
        meter.count("in", record.offset, record.id, created_ms=record.created_ms)
        meter.count("out", record.offset, record.id, created_ms=record.created_ms)
    meter.flush(position)      # write, and wait until the rows are safe …
    consumer.commit(position)  # … then commit: a crash in between is repaired by the overlay

Records may finish in any order: what lies at or behind the flushed position waits for a later row.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

from workbench.audit.rows import LATENCY_MS, POINTS, AuditRow, Point, WindowCount, bucket, signed
from workbench.errors import UsageError


def hash_of(record_id: bytes) -> int:
    """64 bits of a record's id, signed; every layer must use the same."""
    return signed(int.from_bytes(blake2b(record_id, digest_size=8).digest(), "big"))


@dataclass(slots=True)
class _Seen:
    offset: int
    window_ms: int
    hash: int
    bytes: int
    created: int | None
    updated: int | None
    error: str | None


@dataclass(slots=True)
class Meter:
    """One task's counts of one partition. Not safe for threads: call it where the position advances.

    Attributes:
        stream, layer, topic, partition: as in `AuditRow`.
        start: the position at which this task begins to read.
        write: takes one line (a JSON document); it must be safe when `flush` returns, so wait in `write` or after `flush`.
        points: that this layer tells of; each has a row in every flush, so that silence is not loss.
        incarnation: larger than that of the task that read the partition before; None: the clock's milliseconds.
    """

    stream: str
    layer: str
    topic: str
    partition: int
    start: int
    write: Callable[[str], object]
    points: tuple[Point, ...] = ("in", "out")
    window_ms: int = 60_000
    incarnation: int | None = None
    now_ms: Callable[[], float] = lambda: time.time() * 1000
    _seen: dict[Point, list[_Seen]] = field(default_factory=lambda: defaultdict(list))
    _sequence: int = 0

    def __post_init__(self) -> None:
        if self.incarnation is None:
            self.incarnation = round(self.now_ms())

    def count(
        self,
        point: Point,
        offset: int,
        record_id: bytes,
        *,
        created_ms: float,
        size: int = 0,
        updated_ms: float | None = None,
        error: str | None = None,
    ) -> None:
        """Count one record.

        Args:
            offset: its position in the source, which is where it is counted, whatever becomes of it.
            created_ms: when it was made, ms since the epoch: its window.
            updated_ms: when the layer before gave it out.
            error: class of the error, where the point is `rejected` or `dead`.

        Raises:
            UsageError: if this layer does not tell of the point, or the offset lies before what was flushed.
        """
        if point not in self.points:
            raise UsageError(f"This layer does not tell of {point!r}.", hint=f"Name it in points: {', '.join(POINTS)}.")
        if offset < self.start:
            raise UsageError(f"The record at {offset:,} was counted: everything below {self.start:,} is flushed.")
        now = self.now_ms()
        self._seen[point].append(
            _Seen(
                offset=offset,
                window_ms=int(created_ms // self.window_ms * self.window_ms),
                hash=hash_of(record_id),
                bytes=size,
                created=bucket(max(0.0, now - created_ms)),
                updated=None if updated_ms is None else bucket(max(0.0, now - updated_ms)),
                error=error,
            )
        )

    def flush(self, stop: int) -> None:
        """Write the rows of everything below a position; call it before the commit of that position.

        Raises:
            UsageError: if the position goes back. Whatever `write` raises: then nothing is forgotten, and the flush can be repeated.
        """
        if stop < self.start:
            raise UsageError(f"The position goes back from {self.start:,} to {stop:,}.")
        self._sequence += 1
        try:
            for point in self.points:
                self.write(self._row(point, stop).line())
        except BaseException:
            # What was written in part, nobody knows: as another incarnation, it is covered by what is written from here on.
            self.incarnation = (self.incarnation or 0) + 1
            raise
        for point in self.points:
            self._seen[point] = [it for it in self._seen[point] if it.offset >= stop]
        self.start = stop

    def _row(self, point: Point, stop: int) -> AuditRow:
        done = [it for it in self._seen[point] if it.offset < stop]
        windows: dict[int, list[_Seen]] = defaultdict(list)
        for it in done:
            windows[it.window_ms].append(it)
        errors: dict[str, int] = defaultdict(int)
        for it in done:
            if it.error is not None:
                errors[it.error[:200]] += 1
        return AuditRow(
            stream=self.stream,
            layer=self.layer,
            point=point,
            topic=self.topic,
            partition=self.partition,
            start=self.start,
            stop=stop,
            incarnation=self.incarnation or 0,
            sequence=self._sequence,
            emitted_ms=round(self.now_ms()),
            windows=[
                WindowCount(
                    start_ms=at,
                    count=len(some),
                    bytes=sum(it.bytes for it in some),
                    sum=signed(sum(it.hash for it in some)),
                )
                for at, some in sorted(windows.items())
            ],
            created_ms=_histogram([it.created for it in done]),
            updated_ms=_histogram([it.updated for it in done]),
            errors=dict(errors),
        )


def _histogram(buckets: list[int | None]) -> list[int]:
    known = [it for it in buckets if it is not None]
    found = [0] * (len(LATENCY_MS) + 1) if known else []
    for at in known:
        found[at] += 1
    return found
