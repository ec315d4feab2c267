"""What a task tells an audit (`workbench.audit/1`): rows about each partition, written before the commit that they belong to.

The first commit of an assignment claims the partition: it says the task's incarnation, and only then rows are written (those of this
first commit behind it). So the next task, which reads that commit, has a larger number, whatever the clocks of their machines say. Rows
that cannot be written within a while are given up, and the
commit goes on: an audit says then that it does not know, and nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.commit_note import CommitNote
from workbench.layers.marks import NO_MARKS, marks_of
from workbench.layers.meter import CountedRecord, Meter, Pieces
from workbench.layers.rows import AuditRow, Point
from workbench.runtime.config import AuditConfig
from workbench.runtime.event import Record, TopicPartition

_POINTS: tuple[Point, ...] = ("in", "out", "rejected", "dead")
# A window is final once a partition has told of a later time, so one without records must tell now and then.
HEARTBEAT_SECONDS = 30.0
SKIPPED, NOT_DECODED = "skip", "not_decoded"
_make: Any = tuple.__new__


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


@dataclass(slots=True, eq=False)
class PartitionAudit:
    """One assignment of one partition, as an audit sees it. Only its consumer thread calls it, but for `other`.

    Attributes:
        is_claimed: whether a commit with the incarnation was stored.
        ended: time at which each offset was finished, ms since the epoch.
        others: what became of an offset if it was not handled with success; processor threads write it before the offset is finished.
        told_at: when rows were last written, in seconds of the consumer thread's clock.
    """

    meter: Meter
    told_at: float
    is_begun: bool  # whether it is known where reading begins, before the first record
    is_claimed: bool = False
    ended: dict[int, int] = field(default_factory=dict)
    others: dict[int, tuple[Point, str]] = field(default_factory=dict)

    @property
    def incarnation(self) -> int:
        """Of this assignment."""
        return self.meter.incarnation or 0

    def took(self, record: Record, now_ms: int) -> None:
        """A record was taken in."""
        _, _, offset, key, value, timestamp_ms, headers, _ = record
        if not self.is_begun:
            self.is_begun, self.meter.start = True, offset
        marks = marks_of(headers) if headers else NO_MARKS
        created = timestamp_ms if marks.created_ms is None else marks.created_ms
        size = (len(key) if key else 0) + (len(value) if value else 0)
        # As `CountedRecord(…)`, at a third of its time: this is the path of every record.
        self.meter.seen["in"].append(
            _make(CountedRecord, (offset, max(created, 0), size, marks.hash, marks.updated_ms, now_ms, None))
        )

    def gave_up(self, offset: int, code: object) -> None:
        """An event is dead; any thread may call it. The code is the handler's object, and may be anything."""
        self.others[offset] = (
            "dead",
            code if type(code) is str else str(code) if type(code) is int else type(code).__name__,
        )

    def rows(
        self, stop: int, *, wanted: Sequence[tuple[int, int]] | None, skipped: Pieces, clock: float
    ) -> list[AuditRow]:
        """Rows of everything below an offset, which are not told again.

        Args:
            wanted: the ranges that this task processes; None: everything.
            skipped: offsets that were gone.
        """
        meter, start = self.meter, self.meter.start
        gone = _within(skipped, start, stop)
        pieces = _without([(start, stop)] if wanted is None else _within(wanted, start, stop), gone)
        outs = meter.seen["out"]
        for it in meter.seen["in"]:
            if it.offset >= stop:
                continue
            ended = self.ended.pop(it.offset, it.now_ms)
            other = self.others.pop(it.offset, None)
            if other is None:
                outs.append(_make(CountedRecord, (*it[:5], ended, None)))
            else:
                meter.seen[other[0]].append(it._replace(now_ms=ended, error=other[1]))
        found = meter.rows(stop, pieces=pieces, gone=gone)
        meter.forget(stop)
        self.told_at = clock
        # The ledger asks no row of the others where they have nothing to tell.
        return [it for it in found if it.windows or it.point in ("in", "out")]

    def anew(self, offset: int) -> PartitionAudit:
        """The same partition, read again from an offset: its log is another one."""
        meter = self.meter
        again = Meter(
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
        meter = Meter(
            self._config.stream or topic, self._config.layer or self._group, topic=topic, partition=number, start=start or 0,
            points=_POINTS, window_ms=round(self._config.window_seconds * 1000), incarnation=max(before + 1, now),
            adds=self._ranges is not None, now_ms=lambda: self._wall_clock() * 1000,
        )  # fmt: skip
        return PartitionAudit(meter, self._clock(), is_begun=start is not None)

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
