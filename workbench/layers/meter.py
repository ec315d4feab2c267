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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from workbench.errors import UsageError
from workbench.layers.record_marks import hash_of, time_that_can_be
from workbench.layers.rows import (
    GONE,
    LATENCY_MS,
    LATEST_MS,
    POINTS,
    SPLIT_WINDOWS,
    AuditRow,
    Point,
    WindowCount,
    texts_of,
)

_BOUNDS = np.array(LATENCY_MS)
_MOST_ERROR = 200
# Classes of errors in a row. Some handlers give each record a class of its own: no broker would take the row.
_MOST_ERRORS, _OTHERS = 100, "(others)"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterColumns:
    """Records at one point, a column each.

    Attributes:
        created_ms, sizes: of each record, ms since the epoch and bytes.
        hashes, named: hash of its id, and whether it has one.
        since_created_ms, since_updated_ms: latencies, of those of which they are known and measured.
        errors: numbers by class.
    """

    created_ms: np.ndarray
    sizes: np.ndarray
    hashes: np.ndarray
    named: np.ndarray
    since_created_ms: np.ndarray
    since_updated_ms: np.ndarray
    errors: Mapping[str, int]

    def windows(self, window_ms: int) -> list[WindowCount]:
        """Counts, bytes and sums of hashes by window. A time that cannot be counts as the first or the last one that can."""
        created = np.clip(self.created_ms, 0, LATEST_MS)
        first, last = (int(it) // window_ms * window_ms for it in (created.min(), created.max()))
        if first == last:  # most often
            total = int(self.hashes.sum()) if self.named.all() else None
            return [WindowCount(start_ms=first, count=len(created), bytes=int(self.sizes.sum()), sum=total)]
        starts = created // window_ms * window_ms
        order = np.argsort(starts, kind="stable")
        ordered = starts[order]
        firsts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        counts = np.diff(np.r_[firsts, len(ordered)])
        many = np.add.reduceat(self.sizes[order], firsts)
        # Sums of 64-bit numbers wrap around, which is what is wanted.
        sums = np.add.reduceat(self.hashes[order], firsts)
        whole = np.logical_and.reduceat(self.named[order], firsts)
        found = zip(
            ordered[firsts].tolist(), counts.tolist(), many.tolist(), sums.tolist(), whole.tolist(), strict=True
        )
        return [
            WindowCount(start_ms=start, count=count, bytes=size, sum=total if is_whole else None)
            for start, count, size, total, is_whole in found
        ]


@dataclass(slots=True)
class Meter:
    """One task's counts of one partition. Not safe for threads: call it where the position advances.

    Attributes:
        stream, layer, topic, partition: as in `AuditRow`.
        start: the position at which this task begins to read.
        write: takes rows as JSON lines (`texts`); they must be safe when it returns.
        points: that this layer tells of; each has a row in every flush, so that silence is not loss.
        incarnation: larger than that of the task that read the partition before; None: the clock's milliseconds.
        adds, of_process: see `AuditRow`.
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
    adds: str = ""
    of_process: bool = False
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
        created, updated = time_that_can_be(created_ms), None if updated_ms is None else time_that_can_be(updated_ms)
        self.seen[point].append(CountedRecord(offset, created, size, hashed, updated, round(self.now_ms()), error))

    def flush(self, stop: int) -> None:
        """Write the rows of everything below a position, and wait; call it before the commit of that position.

        Raises:
            UsageError: if the position goes back. Whatever `write` raises: then nothing is forgotten, and the flush can be repeated.
        """
        try:
            self.write(self.texts(stop))
        except BaseException:
            # What was written in part, nobody knows: as another incarnation, it is covered by what is written from here on.
            self.incarnation = (self.incarnation or 0) + 1
            raise
        self.forget(stop)

    def rows(self, stop: int, *, pieces: Pieces | None = None, gone: Pieces = ()) -> list[AuditRow]:
        """Rows of everything below a position.

        Args:
            pieces: which positions of [start, stop) the task answers for; None: all. Other tasks have read the others.
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
            found += self._rows(start, end)
        for start, end in gone:
            bare = {"start": start, "stop": end, "incarnation": GONE, "sequence": start}
            found += [self._bare(point, **bare) for point in self.points]
        return found

    def texts(self, stop: int) -> list[str]:
        """The rows of everything below a position as JSON: see `rows` and `texts_of`."""
        return texts_of(self.rows(stop))

    def forget(self, stop: int) -> None:
        """The rows below a position are safe."""
        for point, some in self.seen.items():
            self.seen[point] = [it for it in some if it.offset >= stop]
        self.start = stop

    def _bare(self, point: Point, *, start: int, stop: int, incarnation: int, sequence: int) -> AuditRow:
        return AuditRow(
            stream=self.stream, layer=self.layer, point=point, topic=self.topic, partition=self.partition, start=start, stop=stop,
            incarnation=incarnation, sequence=sequence, adds=self.adds, of_process=self.of_process, emitted_ms=round(self.now_ms()),
        )  # fmt: skip

    def columns(self, point: Point, start: int, stop: int) -> MeterColumns | None:
        """What was counted of the positions [start, stop); None: nothing."""
        done = [it for it in self.seen[point] if start <= it.offset < stop]
        if not done:
            return None
        _, created, sizes, hashes, updated, now, errors = zip(*done, strict=True)
        made, at = np.array(created, dtype=np.int64), np.array(now, dtype=np.int64)
        known = [when - then for then, when in zip(updated, now, strict=True) if then is not None]
        return MeterColumns(
            created_ms=made,
            sizes=np.array(sizes, dtype=np.int64),
            hashes=np.array([it or 0 for it in hashes], dtype=np.int64),
            named=np.array([it is not None for it in hashes]),
            since_created_ms=at - made,
            since_updated_ms=np.array(known, dtype=np.int64),
            errors=Counter(it[:_MOST_ERROR] for it in errors if it is not None),
        )

    def _rows(self, start: int, stop: int) -> list[AuditRow]:
        """A row for each point; of halves, where records of many times are next to each other."""
        self._sequence += 1
        found = [self._row(point, start, stop) for point in self.points]
        if stop - start > 1 and sum(len(it.windows) for it in found) > SPLIT_WINDOWS:
            middle = (start + stop) // 2
            return [*self._rows(start, middle), *self._rows(middle, stop)]
        return found

    def _row(self, point: Point, start: int, stop: int) -> AuditRow:
        row = self._bare(point, start=start, stop=stop, incarnation=self.incarnation or 0, sequence=self._sequence)
        done = self.columns(point, start, stop)
        if done is None:
            return row
        return row.model_copy(
            update={
                "windows": done.windows(self.window_ms),
                "created_ms": _histogram(done.since_created_ms),
                "updated_ms": _histogram(done.since_updated_ms),
                "errors": _most(done.errors),
            }
        )


def _most(errors: Mapping[str, int]) -> dict[str, int]:
    found = dict(Counter(errors).most_common(_MOST_ERRORS))
    rest = sum(errors.values()) - sum(found.values())
    return {**found, _OTHERS: rest} if rest else found


def _histogram(latencies: np.ndarray) -> list[int]:
    if not len(latencies):
        return []
    buckets = np.searchsorted(_BOUNDS, np.maximum(latencies, 0), side="left")
    found: list[int] = np.bincount(buckets, minlength=len(LATENCY_MS) + 1).tolist()
    return found
