"""Counts what one task takes in and gives out of one partition, and makes its rows. No queue here: use it in any consumer.

    meter = Meter("orders", "collector", topic="orders", partition=3, start=position, write=write_and_wait)
    for record in batch:
        meter.count("in", record.offset, record.id, created_ms=record.created_ms)
        meter.count("out", record.offset, record.id, created_ms=record.created_ms)
    meter.flush(position)      # write, and wait until the rows are safe …
    consumer.commit(position)  # … then commit: a crash in between is repaired by the overlay

Records may finish in any order: what lies at or behind the flushed position waits for a later row.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from workbench.errors import UsageError
from workbench.layers.marks import hash_of
from workbench.layers.rows import GONE, LATENCY_MS, POINTS, AuditRow, Point, WindowCount

_BOUNDS = np.array(LATENCY_MS)
Pieces = Sequence[tuple[int, int]]  # positions [start, stop)


class CountedRecord(NamedTuple):
    """One record at one point.

    Attributes:
        hash: of its id; None: it has none.
        created_ms, updated_ms, now_ms: ms since the epoch; updated_ms None: not known.
        error: its class, where the point is `rejected` or `dead`.
    """

    offset: int
    created_ms: int
    size: int
    hash: int | None
    updated_ms: int | None
    now_ms: int
    error: str | None = None


@dataclass(slots=True)
class Meter:
    """One task's counts of one partition. Not safe for threads: call it where the position advances.

    Attributes:
        stream, layer, topic, partition: as in `AuditRow`.
        start: the position at which this task begins to read.
        write: takes rows as JSON lines; they must be safe when it returns.
        points: that this layer tells of; each has a row in every flush, so that silence is not loss.
        incarnation: larger than that of the task that read the partition before; None: the clock's milliseconds.
        adds: see `AuditRow`.
        seen: what was counted and is not in a row yet, by point, in any order.
    """

    stream: str
    layer: str
    topic: str
    partition: int
    start: int
    write: Callable[[Sequence[str]], object] = lambda _lines: None
    points: tuple[Point, ...] = ("in", "out")
    window_ms: int = 60_000
    incarnation: int | None = None
    adds: bool = False
    now_ms: Callable[[], float] = lambda: time.time() * 1000
    seen: dict[Point, list[CountedRecord]] = field(init=False)
    _sequence: int = 0

    def __post_init__(self) -> None:
        self.seen = {point: [] for point in self.points}
        if self.incarnation is None:
            self.incarnation = round(self.now_ms())

    def count(
        self,
        point: Point,
        offset: int,
        record_id: bytes | None,
        *,
        created_ms: float,
        size: int = 0,
        updated_ms: float | None = None,
        error: str | None = None,
    ) -> None:
        """Count one record.

        Args:
            offset: its position in the source, which is where it is counted, whatever becomes of it.
            record_id: the same in every layer; None: it has none, so only numbers can be compared.
            created_ms: when it was made, ms since the epoch: its window.
            updated_ms: when the layer before gave it out.
            error: class of the error, where the point is `rejected` or `dead`.

        Raises:
            UsageError: if this layer does not tell of the point, or the offset lies before what was flushed.
        """
        if point not in self.seen:
            raise UsageError(f"This layer does not tell of {point!r}.", hint=f"Name it in points: {', '.join(POINTS)}.")
        if offset < self.start:
            raise UsageError(f"The record at {offset:,} was counted: everything below {self.start:,} is flushed.")
        hashed = None if record_id is None else hash_of(record_id)
        updated = None if updated_ms is None else round(updated_ms)
        self.seen[point].append(
            CountedRecord(offset, round(created_ms), size, hashed, updated, round(self.now_ms()), error)
        )

    def flush(self, stop: int) -> None:
        """Write the rows of everything below a position, and wait; call it before the commit of that position.

        Raises:
            UsageError: if the position goes back. Whatever `write` raises: then nothing is forgotten, and the flush can be repeated.
        """
        try:
            self.write([it.line() for it in self.rows(stop)])
        except BaseException:
            # What was written in part, nobody knows: as another incarnation, it is covered by what is written from here on.
            self.incarnation = (self.incarnation or 0) + 1
            raise
        self.forget(stop)

    def rows(self, stop: int, *, pieces: Pieces | None = None, gone: Pieces = ()) -> list[AuditRow]:
        """Rows of everything below a position.

        Args:
            pieces: which positions of [start, stop) the task answers for; None: all. It leaves others to whoever has read them.
            gone: positions of which the records were gone before they were read.

        Raises:
            UsageError: if the position goes back.
        """
        if stop < self.start:
            raise UsageError(f"The position goes back from {self.start:,} to {stop:,}.")
        if pieces is None:
            pieces = [(self.start, stop)]
        found = []
        for start, end in pieces:
            self._sequence += 1
            found += [self._row(point, start, end) for point in self.points]
        for start, end in gone:
            bare = {"start": start, "stop": end, "incarnation": GONE, "sequence": start}
            found += [self._bare(point, **bare) for point in self.points]
        return found

    def forget(self, stop: int) -> None:
        """The rows below a position are safe."""
        for point, some in self.seen.items():
            self.seen[point] = [it for it in some if it.offset >= stop]
        self.start = stop

    def _bare(self, point: Point, *, start: int, stop: int, incarnation: int, sequence: int) -> AuditRow:
        return AuditRow(
            stream=self.stream, layer=self.layer, point=point, topic=self.topic, partition=self.partition, start=start, stop=stop,
            incarnation=incarnation, sequence=sequence, adds=self.adds, emitted_ms=round(self.now_ms()),
        )  # fmt: skip

    def _row(self, point: Point, start: int, stop: int) -> AuditRow:
        done = [it for it in self.seen[point] if start <= it.offset < stop]
        row = self._bare(point, start=start, stop=stop, incarnation=self.incarnation or 0, sequence=self._sequence)
        if not done:
            return row
        _, created, sizes, hashes, updated, now, errors = zip(*done, strict=True)
        made, at = np.array(created, dtype=np.int64), np.array(now, dtype=np.int64)
        known = [(then, when) for then, when in zip(updated, now, strict=True) if then is not None]
        return row.model_copy(
            update={
                "windows": _windows(made // self.window_ms * self.window_ms, sizes, hashes),
                "created_ms": _histogram(at - made),
                "updated_ms": _histogram(np.array([when - then for then, when in known])) if known else [],
                "errors": dict(Counter(it[:200] for it in errors if it is not None)),
            }
        )


def _windows(starts: np.ndarray, sizes: Sequence[int], hashes: Sequence[int | None]) -> list[WindowCount]:
    order = np.argsort(starts, kind="stable")
    ordered = starts[order]
    firsts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    counts = np.diff(np.r_[firsts, len(ordered)])
    many = np.add.reduceat(np.array(sizes, dtype=np.int64)[order], firsts)
    # Sums of 64-bit numbers wrap around, which is what is wanted.
    named = np.array([it is not None for it in hashes])[order]
    sums = np.add.reduceat(np.array([it or 0 for it in hashes], dtype=np.int64)[order], firsts)
    whole = np.logical_and.reduceat(named, firsts)
    found = zip(ordered[firsts].tolist(), counts.tolist(), many.tolist(), sums.tolist(), whole.tolist(), strict=True)
    return [
        WindowCount(start_ms=start, count=count, bytes=size, sum=total if is_whole else None)
        for start, count, size, total, is_whole in found
    ]


def _histogram(latencies: np.ndarray) -> list[int]:
    buckets = np.searchsorted(_BOUNDS, np.maximum(latencies, 0), side="left")
    found: list[int] = np.bincount(buckets, minlength=len(LATENCY_MS) + 1).tolist()
    return found
