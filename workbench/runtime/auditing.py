"""What a task tells an audit (`workbench.audit/1`): rows about each partition, written before the commit that they belong to.

The first commit of an assignment claims the partition: it says the task's incarnation, and only then rows are written (those of this
first commit behind it). So the next task, which reads that commit, has a larger number, whatever the clocks of their machines say. Rows
that cannot be written within a while are given up, and the
commit goes on: an audit says then that it does not know, and nobody waits for it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple, Protocol

import numpy as np

from workbench.commit_note import CommitNote
from workbench.layers.marks import MarkColumns, marks_in
from workbench.layers.meter import Meter, MeterColumns, Pieces
from workbench.layers.rows import AuditRow, Point
from workbench.runtime.config import AuditConfig
from workbench.runtime.event import Record, TopicPartition

_POINTS: tuple[Point, ...] = ("in", "out", "rejected", "dead")
# A window is final once a partition has told of a later time, so one without records must tell now and then.
HEARTBEAT_SECONDS = 30.0
SKIPPED, NOT_DECODED = "skip", "not_decoded"
# One of so many offsets (a power of 2) is measured until its end: percentiles need no more.
MEASURED = 16
_MOST_CODE = 200
_headers = itemgetter(Record._fields.index("headers"))


def _numbers(values: Iterable[int] = ()) -> array[int]:
    return array("q", values)


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


@dataclass(slots=True)
class _Taken:
    """What was taken in and is not told yet, in the order of the log: columns of 64-bit numbers, which no loop of ours fills.

    Attributes:
        marked: (first place, marks) of the runs in which records have some.
        taken_ms: (first place, time) of each run.
        ended: offsets that were finished, in any order.
        ended_ms: (first place in `ended`, time) of those finished together.
    """

    offsets: array[int] = field(default_factory=_numbers)
    stamps_ms: array[int] = field(default_factory=_numbers)
    sizes: array[int] = field(default_factory=_numbers)
    marked: list[tuple[int, MarkColumns]] = field(default_factory=list)
    taken_ms: list[tuple[int, int]] = field(default_factory=list)
    ended: array[int] = field(default_factory=_numbers)
    ended_ms: list[tuple[int, int]] = field(default_factory=list)

    def add(
        self, run: Sequence[Record], offsets: Sequence[int], stamps_ms: Sequence[int], sizes: Sequence[int], now_ms: int
    ) -> None:
        """Records that were read together."""
        place = len(self.offsets)
        self.taken_ms.append((place, now_ms))
        if (marks := marks_in(list(map(_headers, run)))) is not None:
            self.marked.append((place, marks))
        # By arrays: one that is extended by a list takes twice the time.
        self.offsets.extend(_numbers(offsets))
        self.stamps_ms.extend(_numbers(stamps_ms))
        self.sizes.extend(_numbers(sizes))

    def end(self, offsets: Sequence[int], now_ms: int) -> None:
        """Records are finished."""
        self.ended_ms.append((len(self.ended), now_ms))
        self.ended.extend(_numbers(offsets))

    def gathered(self) -> _Gathered:
        """The same, for numpy."""
        offsets, stamps, sizes = (np.array(it, dtype=np.int64) for it in (self.offsets, self.stamps_ms, self.sizes))
        number = len(offsets)
        hashes, named, updated = np.zeros(number, np.int64), np.zeros(number, bool), np.full(number, -1)
        for place, marks in self.marked:
            mine = slice(place, place + len(marks.hashes))
            hashes[mine], named[mine], updated[mine] = marks.hashes, marks.named, marks.updated_ms
            stamps[mine] = np.where(marks.created_ms >= 0, marks.created_ms, stamps[mine])
        return _Gathered(
            offsets=offsets, created_ms=np.maximum(stamps, 0), sizes=sizes, hashes=hashes, named=named, updated_ms=updated,
            taken_ms=_spread(self.taken_ms, number), ended_ms=self._ended_of(offsets),
        )  # fmt: skip

    def _ended_of(self, offsets: np.ndarray) -> np.ndarray:
        """When those that are measured were finished; -1: not known."""
        ended, times = self._measured()
        found = np.full(len(offsets), -1)
        places = np.searchsorted(offsets, ended)
        known = offsets[np.minimum(places, len(offsets) - 1)] == ended
        found[places[known]] = times[known]
        return found

    def _measured(self) -> tuple[np.ndarray, np.ndarray]:
        """Offsets that were finished and are measured, and when."""
        ended = np.array(self.ended, dtype=np.int64)
        chosen = ended & (MEASURED - 1) == 0
        return ended[chosen], _spread(self.ended_ms, len(ended))[chosen]

    def forget(self, stop: int) -> None:
        """What lies below an offset was told."""
        ended, times = self._measured()
        later = ended >= stop
        self.ended, self.ended_ms = _numbers(ended[later].tolist()), list(enumerate(times[later].tolist()))
        gone = bisect_left(self.offsets, stop)
        for column in (self.offsets, self.stamps_ms, self.sizes):
            del column[:gone]
        batch = max(0, bisect_right(self.taken_ms, gone, key=itemgetter(0)) - 1)
        self.taken_ms = [(max(0, place - gone), now) for place, now in self.taken_ms[batch:]] if self.offsets else []
        kept = ((place - gone, marks) for place, marks in self.marked if place + len(marks.hashes) > gone)
        self.marked = [(max(0, place), _behind(marks, -place) if place < 0 else marks) for place, marks in kept]


def _spread(pieces: Sequence[tuple[int, int]], number: int) -> np.ndarray:
    """A number for each of so many places, from (first place, number) of each piece."""
    if not pieces:
        return np.zeros(0, np.int64)
    places, numbers = (np.array(it, dtype=np.int64) for it in zip(*pieces, strict=True))
    return np.repeat(numbers, np.diff(np.append(places, number)))


def _behind(marks: MarkColumns, number: int) -> MarkColumns:
    return MarkColumns(*(it[number:] for it in marks))


class _Gathered(NamedTuple):
    """What is not told yet, a column each, in the order of the offsets; updated_ms and ended_ms -1: not known, or not measured."""

    offsets: np.ndarray
    created_ms: np.ndarray
    sizes: np.ndarray
    hashes: np.ndarray
    named: np.ndarray
    updated_ms: np.ndarray
    taken_ms: np.ndarray
    ended_ms: np.ndarray


@dataclass(slots=True)
class _TaskMeter(Meter):
    """A meter whose records come in runs, and whose fate is known by offset.

    Attributes:
        others: what became of an offset if it was not handled with success; processor threads write it before the offset is finished.
    """

    others: dict[int, tuple[Point, str]] = field(default_factory=dict)
    _taken: _Taken = field(default_factory=_Taken)
    _all: _Gathered | None = None  # of what was taken

    def took(
        self, run: Sequence[Record], offsets: Sequence[int], stamps_ms: Sequence[int], sizes: Sequence[int], now_ms: int
    ) -> None:
        """Records of this partition were taken in together; sizes are bytes of their bodies."""
        self._taken.add(run, offsets, stamps_ms, sizes, now_ms)
        self._all = None

    def ended(self, offsets: Sequence[int], now_ms: int) -> None:
        """Records are finished, whatever became of them."""
        self._taken.end(offsets, now_ms)
        self._all = None

    def columns(self, point: Point, start: int, stop: int) -> MeterColumns | None:
        """See `Meter`."""
        if not self._taken.offsets:
            return None
        if self._all is None:
            self._all = self._taken.gathered()
        every = self._all
        others = [
            offset
            for offset, (of, _) in (list(self.others.items()) if point != "in" else ())
            if start <= offset < stop and (point == "out" or of == point)
        ]
        if not others and point not in ("in", "out"):
            return None
        first, last = np.searchsorted(every.offsets, (start, stop)).tolist()
        mine = _Gathered(*(it[first:last] for it in every))
        if others:
            chosen = np.isin(mine.offsets, others, invert=point == "out")
            mine = _Gathered(*(it[chosen] for it in mine))
        if not len(mine.offsets):
            return None
        errors: Counter[str] = Counter()
        if point in ("rejected", "dead"):
            errors.update(self.others[offset][1] for offset in mine.offsets.tolist())
        created, updated, now = mine.created_ms, mine.updated_ms, mine.taken_ms
        if point != "in":
            known = mine.ended_ms >= 0
            now, created, updated = mine.ended_ms[known], created[known], updated[known]
        return MeterColumns(
            created_ms=mine.created_ms, sizes=mine.sizes, hashes=mine.hashes, named=mine.named, since_created_ms=now - created,
            since_updated_ms=(now - updated)[updated >= 0], errors=errors,
        )  # fmt: skip

    def forget(self, stop: int) -> None:
        """See `Meter`."""
        self._taken.forget(stop)
        self._all = None
        for offset in [it for it in list(self.others) if it < stop]:
            del self.others[offset]
        self.start = stop


@dataclass(slots=True, eq=False)
class PartitionAudit:
    """One assignment of one partition, as an audit sees it. Only its consumer thread calls it, but for `gave_up` and `skipped`.

    Attributes:
        told_at: when rows were last written, in seconds of the consumer thread's clock.
        is_begun: whether it is known where reading begins, before the first record.
        is_claimed: whether a commit with the incarnation was stored.
        is_told: whether a row has said where reading begins.
    """

    meter: _TaskMeter
    told_at: float
    is_begun: bool
    is_claimed: bool = False
    is_told: bool = False

    @property
    def incarnation(self) -> int:
        """Of this assignment."""
        return self.meter.incarnation or 0

    def took(
        self, run: Sequence[Record], offsets: Sequence[int], stamps_ms: Sequence[int], sizes: Sequence[int], now_ms: int
    ) -> None:
        """Records were taken in together: their offsets, timestamps, and bytes of key and value."""
        if not self.is_begun:
            self.is_begun, self.meter.start = True, offsets[0]
        self.meter.took(run, offsets, stamps_ms, sizes, now_ms)

    def ended(self, offsets: Sequence[int], now_ms: int) -> None:
        """Records are finished, whatever became of them."""
        self.meter.ended(offsets, now_ms)

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

    def beginning(self) -> list[AuditRow]:
        """Rows without positions: somebody begins to read here, so that windows wait for what it has not told yet."""
        self.is_told = True
        start = self.meter.start
        return [
            it.model_copy(update={"emitted_ms": 0, "sequence": 0})
            for it in self.meter.rows(start)
            if it.point in ("in", "out")
        ]

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
            adds=self._group if self._ranges is not None else "", now_ms=lambda: self._wall_clock() * 1000,
        )  # fmt: skip
        return PartitionAudit(meter, self._clock(), is_begun=start is not None)

    def begin_rows(self, audits: Iterable[PartitionAudit | None]) -> None:
        """Tell of partitions that have just been taken over; nobody waits for that."""
        lines = [
            row.line()
            for audit in audits
            if audit is not None and audit.is_begun and not audit.is_told
            for row in audit.beginning()
        ]
        if lines:
            self._writer.put(lines)

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
        if position is None or audit.meter.start < position or self._clock() - audit.told_at < HEARTBEAT_SECONDS:
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
