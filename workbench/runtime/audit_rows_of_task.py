"""What a task tells an audit (`workbench.audit/1`): rows about each partition, written before the commit that they belong to.

The first commit of an assignment claims the partition: it says the task's incarnation, and only then rows are written (those of this
first commit behind it). So the next task, which reads that commit, has a larger number, whatever the clocks of their machines say.
Where commits keep no such number, the writer of rows gives it, and until then none are written. Rows
that cannot be written within a while are given up, and the
commit goes on: an audit says then that it does not know, and nobody waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from workbench.commit_note import CommitNote
from workbench.layers.meter import Pieces
from workbench.layers.rows import AuditRow, Point, texts_of
from workbench.runtime.audit_row_writer import RowPlaces, RowsUnderWay, RowWriter
from workbench.runtime.config import AuditConfig
from workbench.runtime.event import Record, TopicPartition
from workbench.runtime.task_audit_meter import TaskMeter

_log = logging.getLogger(__name__)

_POINTS: tuple[Point, ...] = ("in", "out", "rejected", "dead")
# A window is final once a partition has told of a later time, so one without records must tell now and then.
HEARTBEAT_SECONDS = 30.0
SKIPPED, NOT_DECODED = "skip", "not_decoded"
_MOST_CODE = 200
MOST_UNTOLD = 500_000  # records of a partition that wait for a number: some 30 MB


@dataclass(slots=True, eq=False)
class PartitionAudit:
    """One assignment of one partition, as an audit sees it. Only its consumer thread calls it, but for `gave_up` and `skipped`.

    Attributes:
        told_at: when rows were last written, in seconds of the consumer thread's clock.
        is_begun: whether it is known where reading begins, before the first record.
        is_claimed: whether a commit with the incarnation was stored.
        is_told: whether a row has said where reading begins.
    """

    meter: TaskMeter
    told_at: float
    is_begun: bool
    is_told: bool = False
    partition: TopicPartition = ("", 0)
    places: RowPlaces | None = None
    claim: Future[int] | None = None
    anew_since: int = 0  # how often the log has begun anew under the claim
    is_read: bool = False  # whether a record has come
    is_beyond: bool = False  # a position is too large for rows: nothing more is told
    _is_claimed: bool = False

    @property
    def incarnation(self) -> int:
        """Of this assignment."""
        return self.meter.incarnation or 0

    @property
    def is_claimed(self) -> bool:
        """Whether the next task will have a larger number than this one."""
        if not self._is_claimed and self.claim is not None and self.claim.done():
            self.meter.incarnation, self._is_claimed = self.claim.result() + self.anew_since, True
        return self._is_claimed

    @property
    def is_numbered(self) -> bool:
        """Whether its rows may have its number: where the writer gives it, only then."""
        return self.claim is None or self.is_claimed

    def committed(self) -> None:
        """A commit with the incarnation is stored."""
        self._is_claimed = self._is_claimed or self.claim is None

    def place(self, offset: int) -> int:
        """Position of an offset; it is the first one again if it is too large, and nothing is told any more."""
        if self.places is None:
            return offset
        if (found := self.places.of(offset)) is None:
            self._give_up()
        return found or 0

    def _give_up(self) -> None:
        if not self.is_beyond:
            _log.error(
                "%s-%d has positions that are too large for an audit: nothing is told",
                self.meter.topic,
                self.meter.partition,
            )
        self.is_beyond = True

    def ends(self, offsets: Iterable[int]) -> list[int]:
        """Where rows that are not told yet end for commits at these offsets, in order: what is read again begins with a row."""
        every = set(offsets) - {-1}
        if self.places is not None:
            every = {at for offset in every for at in self.places.ends(self.partition, offset)}
        return sorted(at for at in every if at > self.meter.start) if not self.is_beyond else []

    def took(
        self, run: Sequence[Record], offsets: Sequence[int], stamps_ms: Sequence[int], sizes: Sequence[int], now_ms: int
    ) -> None:
        """Records were taken in together: their offsets, timestamps, and bytes of key and value."""
        if self.places is not None:
            offsets = [self.place(it) for it in offsets]
            if self.is_beyond:
                return
            if not self.is_read:
                self.is_read, self.meter.start = True, self.places.begin(self.meter.start, offsets[0])
        if not self.is_begun:
            self.is_begun, self.meter.start = True, offsets[0]
        self.meter.took(run, offsets, stamps_ms, sizes, now_ms)

    def ended(self, offsets: Sequence[int], now_ms: int) -> None:
        """Records are finished, whatever became of them."""
        if not self.is_beyond:
            self.meter.ended(offsets if self.places is None else [self.place(it) for it in offsets], now_ms)

    def left_out(self, offset: int, reason: str) -> None:
        """Nothing was to be done for a record; any thread may call it."""
        self.meter.others[self.place(offset)] = ("rejected", reason)

    def gave_up(self, offset: int, code: object) -> None:
        """An event is dead; any thread may call it. The code is the handler's object, and may be anything."""
        words = code if type(code) is str else str(code) if type(code) is int else type(code).__name__
        self.meter.others[self.place(offset)] = ("dead", words[:_MOST_CODE])

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

    def spare(self, committed: int) -> None:
        """Forget what is committed if too much waits for a number that nobody gives: the ledger finds that it is missing."""
        if not self.is_numbered and self.meter.untold > MOST_UNTOLD:
            for stop in self.ends([committed])[-1:]:
                self.meter.forget(stop)

    def beginning(self) -> list[AuditRow]:
        """Rows without positions: somebody begins to read here, so that windows wait for what it has not told yet.

        They cover nothing, so they need no number.
        """
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
        again = TaskMeter(
            meter.stream, meter.layer, topic=meter.topic, partition=meter.partition, start=self.place(offset), points=_POINTS,
            window_ms=meter.window_ms, incarnation=self.incarnation + 1, adds=meter.adds, now_ms=meter.now_ms,
        )  # fmt: skip
        return PartitionAudit(
            again, self.told_at, is_begun=True, partition=self.partition, places=self.places, claim=self.claim,
            anew_since=self.anew_since + 1,
        )  # fmt: skip


class Auditor:
    """The audits of one consumer thread's partitions."""

    def __init__(
        self,
        config: AuditConfig,
        writer: RowWriter,
        *,
        group: str,
        places: RowPlaces | None,
        log_end: Callable[[str, int], int | None],
        ranges: Mapping[str, Mapping[int, Sequence[tuple[int, int]]]] | None,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._config, self._writer, self._group, self._ranges = config, writer, group, ranges
        self._log_end, self._places = log_end, places
        self._clock, self._wall_clock = clock, wall_clock

    def begin(self, partition: TopicPartition, note: CommitNote, start: int | None) -> PartitionAudit:
        """The audit of a new assignment."""
        topic, number = partition
        now = round(self._wall_clock() * 1000)
        before = note.audit or 0
        begun = start or 0
        if start is not None and self._places is not None:
            begun = self._places.of(start) or 0
        meter = TaskMeter(
            self._config.stream or topic, self._config.layer or self._group, topic=topic, partition=max(0, number), start=begun,
            points=_POINTS, window_ms=round(self._config.window_seconds * 1000), incarnation=max(before + 1, now),
            adds=self._group if self._ranges is not None else "", now_ms=lambda: self._wall_clock() * 1000,
        )  # fmt: skip
        return PartitionAudit(
            meter,
            self._clock(),
            is_begun=start is not None,
            partition=partition,
            places=self._places,
            claim=self._writer.claim(),
        )

    def begin_rows(self, audits: Iterable[PartitionAudit | None]) -> None:
        """Tell of partitions that have just been taken over; nobody waits for that."""
        lines = [
            text
            for audit in audits
            if audit is not None and audit.is_begun and not audit.is_told
            for text in texts_of(audit.beginning())
        ]
        if lines:
            self._writer.put(lines)

    def write(self, found: Iterable[tuple[TopicPartition, PartitionAudit, int, Pieces]]) -> RowsUnderWay | None:
        """Write the rows of everything below these offsets; None: there are none."""
        now = self._clock()
        lines = []
        for (topic, number), audit, stop, skipped in found:
            wanted = None if self._ranges is None else self._ranges.get(topic, {}).get(max(0, number), ())
            lines += texts_of(audit.rows(stop, wanted=wanted, skipped=skipped, clock=now))
        return self._writer.put(lines) if lines else None

    def is_due(self, partition: TopicPartition, audit: PartitionAudit, *, position: int | None) -> bool:
        """Whether a partition of which everything is committed should tell that it lives, and has read all that there is."""
        if (
            position is None
            or not audit.is_numbered
            or audit.meter.start < audit.place(position)
            or self._clock() - audit.told_at < HEARTBEAT_SECONDS
        ):
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
