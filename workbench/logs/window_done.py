"""Whether a group is through with its window in a partition: one statement for follow, verify, retire and the gate of a cutover. Pure.

A commit proves a position, not that the records below it were processed: `auto.offset.reset` moves a group over what retention has
deleted, too, and a group may never have begun at the window's start. So besides what is left, this says what speaks against the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.commit_note import CommitNote, OffsetRange
from workbench.errors import SourceUnreachableError
from workbench.humanize import listed
from workbench.logs.read_request import Asked, AskedPartition
from workbench.logs.window_end import TAIL_OFFSETS, WindowEnd
from workbench.queues.replay_port import Gateway, LogView, ReadLimits
from workbench.queues.snapshot_views import Partition

# Of remainders that may be transaction markers: each has at most TAIL_OFFSETS offsets, and mostly one.
_TAIL_LIMITS = ReadLimits(records=20_000, bytes=64 << 20, seconds=20.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Through:
    """How far a group is in one partition.

    Attributes:
        reached: the commit, within the window; its end if no record is left.
        left: offsets up to the end that are not committed and are there; 0 if they are known to hold no record.
        deleted: ranges of the window behind the commit that are gone from the log: nobody can process them any more.
        skipped: ranges of the window that the group's own notes say were never read.
        doubt: why the commit is no proof that all below it was processed, in words; None if nothing speaks against it.
    """

    reached: int
    left: int
    deleted: Sequence[OffsetRange] = ()
    skipped: Sequence[OffsetRange] = ()
    doubt: str | None = None

    @property
    def reservation(self) -> str | None:
        """What is to be said once nothing is left: what was certainly not processed, or the doubt."""
        if self.deleted:
            return f"Retention has deleted {ranges_in_words(self.deleted)} before they were processed."
        return f"Its members have not read {ranges_in_words(self.skipped)}." if self.skipped else self.doubt


def through(
    part: AskedPartition,
    committed: int | None,
    end: int,
    *,
    log_start: int | None,
    tail: int | None = None,
    note: CommitNote | None = None,
    has_begun: bool = True,
) -> Through:
    """Compare a commit with the window [target, end) of a partition.

    Args:
        end: of the window, as far as it can be read (`window_end`).
        log_start: None if it is not known.
        tail: records from the commit to the end; None: not counted.
        note: that was stored with the commit.
        has_begun: whether it is known that the group began at the target.
    """
    if part.target is None or end <= part.target:
        return Through(reached=end, left=0)
    reached = part.target if committed is None else min(max(committed, part.target), end)
    if tail == 0 and committed is not None:
        reached = end
    readable = min(max(reached, log_start or 0), end)
    spans = part.spans if part.ranges is not None else [(part.target, end)]
    deleted = _common([(reached, readable)], spans)
    skipped = _common(note.skipped, spans) if note is not None and committed is not None else ()
    doubt = None
    if note is not None and not note.is_readable:
        doubt = "Its members have skipped something, and their note does not say what."
    elif log_start is not None and (gone := _common([(0, log_start)], spans)):
        doubt = f"Retention has deleted {ranges_in_words(gone)}: a commit does not prove that they were processed."
    elif not has_begun and committed is not None and committed > part.target:
        doubt = f"Neither journal nor receipt tells that the group began at {part.target:,}: then its commit proves nothing."
    return Through(reached=reached, left=end - readable, deleted=deleted, skipped=skipped, doubt=doubt)


def ranges_in_words(ranges: Sequence[OffsetRange]) -> str:
    """Offsets of ranges [start, stop), both ends included: `offsets 50 to 799`."""
    return "offsets " + listed(
        [f"{start:,} to {stop - 1:,}" if stop - start > 1 else f"{start:,}" for start, stop in ranges]
    )


def _common(some: Sequence[OffsetRange], others: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
    pairs = [(max(a, c), min(b, d)) for a, b in some for c, d in others]
    return tuple(sorted((low, high) for low, high in pairs if low < high))


def count_tails(
    asked: Asked, gateway: Gateway, commits: Mapping[Partition, int], logs: LogView, ends: Mapping[Partition, WindowEnd]
) -> dict[Partition, int]:
    """Records between commit and end where these are close: there may be only transaction markers. What cannot be read is left out."""
    spans = tail_spans(asked, commits, logs, ends)
    try:
        found = gateway.times(spans, _TAIL_LIMITS, committed=True) if spans else {}
    except SourceUnreachableError:
        return {}
    return {key: len(it.records) for key, it in found.items() if it.records or it.through >= spans[key][1]}


def tail_spans(
    asked: Asked, commits: Mapping[Partition, int], logs: LogView, ends: Mapping[Partition, WindowEnd]
) -> dict[Partition, tuple[int, int]]:
    """Offsets from the commit to the readable end of the window, where they are few enough to be read."""
    return {
        part.key: (committed, end)
        for part in asked.partitions
        if part.target is not None
        and (committed := commits.get(part.key)) is not None
        and part.target <= committed < (end := ends[part.key].readable) <= committed + TAIL_OFFSETS
        and logs.starts.get(part.key, 0) <= committed
    }


def reading_ends(asked: Asked, ends: Mapping[Partition, int], *, stops_at_ranges: bool) -> dict[Partition, int]:
    """Where consumers of the plan's group have nothing more to read: the log's end, or the end of the plan's ranges before it."""
    stops = {part.key: part.stop for part in asked.partitions if part.ranges is not None} if stops_at_ranges else {}
    return {key: min(end, stops.get(key, end)) for key, end in ends.items()}
