"""What a task tells an audit (`workbench.audit/1`): rows about each partition, written before the commit that they belong to.

The first commit of an assignment claims the partition: it says the task's incarnation, and only then rows are written (those of this
first commit behind it). So the next task, which reads that commit, has a larger number, whatever the clocks of their machines say. Rows
that cannot be written within a while are given up, and the
commit goes on: an audit says then that it does not know, and nobody waits for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from workbench.commit_note import CommitNote
from workbench.layers.marks import NO_MARKS, OURS, Marks, marks_of
from workbench.layers.meter import Meter, MeterColumns, Pieces
from workbench.layers.rows import AuditRow, Point
from workbench.runtime.config import AuditConfig
from workbench.runtime.event import Headers, Record, TopicPartition

_POINTS: tuple[Point, ...] = ("in", "out", "rejected", "dead")
# A window is final once a partition has told of a later time, so one without records must tell now and then.
HEARTBEAT_SECONDS = 30.0
SKIPPED, NOT_DECODED = "skip", "not_decoded"
# One of so many offsets is measured until its end: percentiles need no more, and each costs as much as all else that is told.
MEASURED = 16
_MOST_CODE = 200


class RowsUnderWay(Protocol):
    """Rows on their way."""

    @property
    def is_over(self) -> bool:
        """Whether they are safe, or given up."""


class RowWriter(Protocol):
    """Writes rows where an audit reads them. Any thread may call it."""

    def put(self, lines: Sequence[str]) -> RowsUnderWay:
        """Write rows, JSON documents, in order; never waits."""

    def close(self, seconds: float) -> None:
        """Wait for those on their way."""


class _Chunk(NamedTuple):
    """Records that were taken in together, a column each."""

    offsets: Sequence[int]
    stamps_ms: Sequence[int]
    key_bytes: Sequence[int]
    value_bytes: Sequence[int]
    marks: Sequence[Marks] | None  # None: none has any
    taken_ms: int


class _Gathered(NamedTuple):
    """What is not told yet, a column each; updated_ms -1: not known."""

    offsets: np.ndarray
    created_ms: np.ndarray
    sizes: np.ndarray
    hashes: np.ndarray
    named: np.ndarray
    updated_ms: np.ndarray
    taken_ms: np.ndarray


def _gathered(chunks: Sequence[_Chunk]) -> _Gathered:
    def column(parts: Iterable[Sequence[Any]], kind: Any = np.int64) -> np.ndarray:
        return np.array(list(chain.from_iterable(parts)), dtype=kind)

    marks = [it.marks or [NO_MARKS] * len(it.offsets) for it in chunks] if any(it.marks for it in chunks) else []
    stamps = column(it.stamps_ms for it in chunks)
    hashes, named, updated = np.zeros(len(stamps), np.int64), np.zeros(len(stamps), bool), np.full(len(stamps), -1)
    if marks:
        told = column([-1 if it.created_ms is None else it.created_ms for it in some] for some in marks)
        stamps = np.where(told >= 0, told, stamps)
        hashes = column([it.hash or 0 for it in some] for some in marks)
        named = column(([it.hash is not None for it in some] for some in marks), bool)
        updated = column([-1 if it.updated_ms is None else it.updated_ms for it in some] for some in marks)
    return _Gathered(
        offsets=column(it.offsets for it in chunks),
        created_ms=np.maximum(stamps, 0),
        sizes=column(it.key_bytes for it in chunks) + column(it.value_bytes for it in chunks),
        hashes=hashes,
        named=named,
        updated_ms=updated,
        taken_ms=np.repeat([it.taken_ms for it in chunks], [len(it.offsets) for it in chunks]),
    )


def _lengths(parts: Sequence[bytes | None]) -> list[int]:
    try:
        return list(map(len, parts))  # type: ignore[arg-type]
    except TypeError:  # some are None
        return [len(it or b"") for it in parts]


def _may_have_marks(headers: Sequence[Headers | None]) -> bool:
    try:
        return not OURS.isdisjoint({name for name, _ in chain.from_iterable(filter(None, headers))})
    except ValueError:  # of one record they cannot be read
        return True


@dataclass(slots=True)
class _TaskMeter(Meter):
    """A meter whose records come in batches, and whose fate is known by offset.

    Attributes:
        others: what became of an offset if it was not handled with success; processor threads write it before the offset is finished.
        ended: time at which some offsets were finished (one of `MEASURED`), ms since the epoch.
    """

    others: dict[int, tuple[Point, str]] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    _chunks: list[_Chunk] = field(default_factory=list)
    _all: _Gathered | None = None  # of the chunks

    def took(self, records: Sequence[Record], now_ms: int) -> None:
        """Records of this partition were taken in."""
        # Column by column in C: each loop here costs as much as all else that is told.
        _, _, offsets, keys, values, stamps, headers, _ = zip(*records, strict=True)
        marks = [marks_of(it) for it in headers] if _may_have_marks(headers) else None
        self._chunks.append(_Chunk(offsets, stamps, _lengths(keys), _lengths(values), marks, now_ms))
        self._all = None

    def columns(self, point: Point, start: int, stop: int) -> MeterColumns | None:
        """See `Meter`."""
        if self._all is None:
            self._all = _gathered(self._chunks)
        every = self._all
        keep = (every.offsets >= start) & (every.offsets < stop)
        if point != "in":
            mine = [offset for offset, (of, _) in list(self.others.items()) if point == "out" or of == point]
            chosen = np.isin(every.offsets, mine) if mine else np.zeros(len(keep), dtype=bool)
            keep &= ~chosen if point == "out" else chosen
        if not keep.any():
            return None
        offsets, created, sizes, hashes, named, updated, now = (it[keep] for it in every)
        errors: Counter[str] = Counter()
        if point in ("rejected", "dead"):
            errors.update(self.others[offset][1] for offset in offsets.tolist())
        if point != "in":
            measured = offsets % MEASURED == 0
            now = np.array([self.ended.get(offset, -1) for offset in offsets[measured].tolist()], dtype=np.int64)
            known = now >= 0
            now, created_then, updated = now[known], created[measured][known], updated[measured][known]
        else:
            created_then = created
        return MeterColumns(
            created_ms=created, sizes=sizes, hashes=hashes, named=named, since_created_ms=now - created_then,
            since_updated_ms=(now - updated)[updated >= 0], errors=errors,
        )  # fmt: skip

    def forget(self, stop: int) -> None:
        """See `Meter`."""
        self._chunks = [it for it in self._chunks if it.offsets[-1] >= stop]
        self._all = None
        for known in (self.others, self.ended):
            for offset in [it for it in list(known) if it < stop]:
                del known[offset]
        self.start = stop


@dataclass(slots=True, eq=False)
class PartitionAudit:
    """One assignment of one partition, as an audit sees it. Only its consumer thread calls it, but for `gave_up` and `skipped`.

    Attributes:
        told_at: when rows were last written, in seconds of the consumer thread's clock.
        is_begun: whether it is known where reading begins, before the first record.
        is_claimed: whether a commit with the incarnation was stored.
        taken: records of this batch.
    """

    meter: _TaskMeter
    told_at: float
    is_begun: bool
    is_claimed: bool = False
    taken: list[Record] = field(default_factory=list)

    @property
    def incarnation(self) -> int:
        """Of this assignment."""
        return self.meter.incarnation or 0

    def took(self, now_ms: int) -> None:
        """The batch was taken in."""
        if not self.taken:
            return
        if not self.is_begun:
            self.is_begun, self.meter.start = True, self.taken[0].offset
        self.meter.took(self.taken, now_ms)
        self.taken.clear()

    def ended(self, offset: int, now_ms: int) -> None:
        """A record is finished, whatever became of it."""
        self.meter.ended[offset] = now_ms

    def left_out(self, offset: int, reason: str) -> None:
        """Nothing was to be done for a record; any thread may call it."""
        self.meter.others[offset] = ("rejected", reason)

    def gave_up(self, offset: int, code: object) -> None:
        """An event is dead; any thread may call it. The code is the handler's object, and may be anything."""
        words = code if type(code) is str else str(code) if type(code) is int else type(code).__name__
        self.meter.others[offset] = ("dead", words[:_MOST_CODE])

    def rows(
        self, stop: int, *, wanted: Sequence[tuple[int, int]] | None, skipped: Pieces, clock: float
    ) -> list[AuditRow]:
        """Rows of everything below an offset, which are not told again.

        Args:
            wanted: the ranges that this task processes; None: everything.
            skipped: offsets that were gone.
        """
        start = self.meter.start
        gone = _within(skipped, start, stop)
        pieces = _without([(start, stop)] if wanted is None else _within(wanted, start, stop), gone)
        found = self.meter.rows(stop, pieces=pieces, gone=gone)
        self.meter.forget(stop)
        self.told_at = clock
        # The ledger asks no row of the others where they have nothing to tell.
        return [it for it in found if it.windows or it.point in ("in", "out")]

    def anew(self, offset: int) -> PartitionAudit:
        """The same partition, read again from an offset: its log is another one."""
        meter = self.meter
        again = _TaskMeter(
            meter.stream, meter.layer, topic=meter.topic, partition=meter.partition, start=offset, points=_POINTS,
            window_ms=meter.window_ms, incarnation=self.incarnation + 1, adds=meter.adds, now_ms=meter.now_ms,
        )  # fmt: skip
        return PartitionAudit(again, self.told_at, is_begun=True)


class Auditor:
    """The audits of one consumer thread's partitions."""

    def __init__(
        self,
        config: AuditConfig,
        writer: RowWriter,
        *,
        group: str,
        log_end: Callable[[str, int], int | None],
        ranges: Mapping[str, Mapping[int, Sequence[tuple[int, int]]]] | None,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._config, self._writer, self._group, self._ranges = config, writer, group, ranges
        self._log_end = log_end
        self._clock, self._wall_clock = clock, wall_clock

    def begin(self, partition: TopicPartition, note: CommitNote, start: int | None) -> PartitionAudit:
        """The audit of a new assignment."""
        topic, number = partition
        now = round(self._wall_clock() * 1000)
        before = note.audit or 0
        meter = _TaskMeter(
            self._config.stream or topic, self._config.layer or self._group, topic=topic, partition=number, start=start or 0,
            points=_POINTS, window_ms=round(self._config.window_seconds * 1000), incarnation=max(before + 1, now),
            adds=self._ranges is not None, now_ms=lambda: self._wall_clock() * 1000,
        )  # fmt: skip
        return PartitionAudit(meter, self._clock(), is_begun=start is not None)

    def took(self, audits: Iterable[PartitionAudit | None]) -> None:
        """A batch was taken in."""
        now_ms = round(self._wall_clock() * 1000)
        for audit in audits:
            if audit is not None:
                audit.took(now_ms)

    def write(self, found: Iterable[tuple[TopicPartition, PartitionAudit, int, Pieces]]) -> RowsUnderWay | None:
        """Write the rows of everything below these offsets; None: there are none."""
        now = self._clock()
        lines = []
        for (topic, number), audit, stop, skipped in found:
            wanted = None if self._ranges is None else self._ranges.get(topic, {}).get(number, ())
            lines += [it.line() for it in audit.rows(stop, wanted=wanted, skipped=skipped, clock=now)]
        return self._writer.put(lines) if lines else None

    def is_due(self, partition: TopicPartition, audit: PartitionAudit, *, position: int | None) -> bool:
        """Whether a partition of which everything is committed should tell that it lives, and has read all that there is."""
        if not audit.is_claimed or position is None or self._clock() - audit.told_at < HEARTBEAT_SECONDS:
            return False
        end = self._log_end(*partition)
        return end is not None and position >= end

    def is_late(self, since: float) -> bool:
        """Whether rows that are on their way since then are not waited for any longer."""
        return self._clock() - since >= self._config.wait_seconds


def _within(spans: Iterable[tuple[int, int]], start: int, stop: int) -> list[tuple[int, int]]:
    cut = ((max(start, first), min(stop, end)) for first, end in spans)
    return [(first, end) for first, end in cut if first < end]


def _without(spans: Sequence[tuple[int, int]], gone: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, without others in order; an empty span stays (it says that time has passed)."""
    found = list(spans)
    for first, end in gone:
        found = [
            piece
            for start, stop in found
            for piece in ((start, min(stop, first)), (max(start, end), stop))
            if piece[0] < piece[1]
        ]
    return found
