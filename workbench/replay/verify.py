"""Verification that the new group processed every record of the window. Pure: compares commits, counts and logs with the plan.

Three kinds of evidence, each stronger than the one before: committed offsets, the instances' own counts (records completed since they
got the partition), and a log of processed records. Contradictory evidence is always reported. A commit proves a position only: where
retention has taken a part of the window, or its end is not certain, it takes the stronger kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from workbench.commit_note import CommitNote
from workbench.humanize import plural
from workbench.logs.late_records import Late
from workbench.logs.window_done import ranges_in_words, through
from workbench.logs.window_end import TAIL_OFFSETS, WindowEnd
from workbench.queues.replay_port import LogView
from workbench.queues.snapshot_views import Partition
from workbench.replay.planfile import Plan, PlannedPartition
from workbench.replay.service_fleet import InstanceStatus


class VerifyVerdict(StrEnum):
    """Verdict, for one partition or for all."""

    VERIFIED = "verified"
    INCOMPLETE = "incomplete"
    CANNOT_TELL = "cannot_tell"
    NOT_PLANNED = "not_planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """Verdict for one partition.

    Attributes:
        records: read in [target, stop); None if they were not read.
        processed: of those, by the log of processed records; None without one.
    """

    topic: str
    partition: int
    target: int | None
    stop: int
    committed: int | None
    verdict: VerifyVerdict
    reason: str
    records: int | None = None
    processed: int | None = None
    first_missing: int | None = None

    def document(self) -> dict[str, Any]:
        """As plain values."""
        names = ("topic", "partition", "target", "stop", "committed", "records", "processed", "first_missing", "reason")
        return {**{name: getattr(self, name) for name in names}, "verdict": self.verdict.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCounts:
    """Counts from reading the records of a partition.

    Attributes:
        gone: offsets of the window that are deleted, so nobody knows which of them had a record.
        gone_processed: of these, by the log of processed records.
    """

    records: int
    processed: int | None = None
    first_missing: int | None = None
    gone: int = 0
    gone_processed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyEvidence:
    """All evidence for a verification.

    Attributes:
        ends: of the window, as known now.
        tails: records between commit and stop, for partitions where they were counted; 0 means that only markers are left.
        unread: why tails could not be counted, if that was tried.
        statuses: of the fleet's instances, if there is a fleet.
        counts: from reading the records, if requested.
        processed_before: processed records before the target, by partition, from the log of processed records.
        notes: that the group's members have stored with their commits.
        late: records of the window behind its end, where they were looked for.
        begun: partitions where it is known that the group began at the target; None: that was not looked for.
    """

    commits: Mapping[Partition, int]
    logs: LogView
    ends: Mapping[Partition, WindowEnd]
    tails: Mapping[Partition, int] = field(default_factory=dict)
    unread: str | None = None
    statuses: Sequence[InstanceStatus] = ()
    counts: Mapping[Partition, ReadCounts] | None = None
    processed_before: Mapping[Partition, int] = field(default_factory=dict)
    notes: Mapping[Partition, CommitNote] = field(default_factory=dict)
    late: Mapping[Partition, Late] = field(default_factory=dict)
    begun: Collection[Partition] | None = None


def verify(plan: Plan, evidence: VerifyEvidence) -> list[PartitionVerdict]:
    """Verify each partition of the plan."""
    return [_partition(plan, part, evidence) for part in plan.partitions]


def overall(verdicts: Sequence[PartitionVerdict]) -> VerifyVerdict:
    """Combine the verdicts: incomplete if a partition is; otherwise "cannot tell" if one is."""
    found = {verdict.verdict for verdict in verdicts}
    for worst in (VerifyVerdict.INCOMPLETE, VerifyVerdict.CANNOT_TELL, VerifyVerdict.VERIFIED):
        if worst in found:
            return worst
    return VerifyVerdict.CANNOT_TELL


def _partition(plan: Plan, part: PlannedPartition, evidence: VerifyEvidence) -> PartitionVerdict:
    committed, end = evidence.commits.get(part.key), evidence.ends[part.key]
    counts = (evidence.counts or {}).get(part.key)

    def say(verdict: VerifyVerdict, reason: str) -> PartitionVerdict:
        return PartitionVerdict(
            topic=part.topic,
            partition=part.partition,
            target=part.target,
            stop=end.stop,
            committed=committed,
            verdict=verdict,
            reason=reason,
            records=counts.records if counts is not None else None,
            processed=counts.processed if counts is not None else None,
            first_missing=counts.first_missing if counts is not None else None,
        )

    target = part.target
    if target is None:
        first = evidence.logs.found.get(plan.since_ms, {}).get(part.key)
        late = evidence.late.get(part.key, Late())
        if late.records or (
            plan.until_ms is not None and first is not None and (first.timestamp_ms or plan.until_ms) < plan.until_ms
        ):
            return say(
                VerifyVerdict.CANNOT_TELL,
                "The plan commits nothing here, but records of the window have arrived since.",
            )
        if late.told is not None and first is not None and first.offset is not None:
            return say(VerifyVerdict.CANNOT_TELL, f"The plan commits nothing here. {late.told}")
        return say(VerifyVerdict.NOT_PLANNED, "The plan commits nothing here.")
    if counts is not None and counts.processed is not None and counts.processed < counts.records:
        missing = counts.records - counts.processed
        return say(
            VerifyVerdict.INCOMPLETE,
            f"Not processed: {missing:,} of {plural(counts.records, 'record')}, from {counts.first_missing:,} on.",
        )
    if early := evidence.processed_before.get(part.key):
        return say(
            VerifyVerdict.INCOMPLETE,
            f"{plural(early, 'record')} before the target {'was' if early == 1 else 'were'} processed.",
        )
    if committed is None:
        return say(VerifyVerdict.INCOMPLETE, "The new group has no commit.")
    if committed < target:
        return say(VerifyVerdict.INCOMPLETE, f"The commit {committed:,} is before the target.")
    found = through(
        part,
        committed,
        end.readable,
        log_start=evidence.logs.starts.get(part.key),
        tail=evidence.tails.get(part.key),
        note=evidence.notes.get(part.key),
        has_begun=evidence.begun is None or part.key in evidence.begun,
    )
    if found.skipped and not _is_whole(counts):
        return say(VerifyVerdict.INCOMPLETE, f"Its members have not read {ranges_in_words(found.skipped)}.")
    if found.deleted:
        return say(VerifyVerdict.INCOMPLETE, found.reservation or "")
    if found.left:
        if evidence.unread is not None and part.key not in evidence.tails and found.left <= TAIL_OFFSETS:
            return say(
                VerifyVerdict.CANNOT_TELL,
                f"{plural(found.left, 'offset is', 'offsets are')} not committed; what is there cannot be read: {evidence.unread}",
            )
        return say(VerifyVerdict.INCOMPLETE, f"{plural(found.left, 'offset is', 'offsets are')} not committed yet.")
    late = evidence.late.get(part.key, Late())
    if late.records:
        return say(VerifyVerdict.INCOMPLETE, late.told or "")
    if late.told is not None:
        return _at_most_unknown(_by_counts(plan, part, target, committed, evidence, found.doubt, say), late.told, say)
    return _by_counts(plan, part, target, committed, evidence, found.doubt, say)


def _is_whole(counts: ReadCounts | None) -> bool:
    """Whether a log of processed records has every record of the window, and every offset that is deleted."""
    return counts is not None and counts.processed == counts.records and counts.gone_processed == counts.gone


def _at_most_unknown(
    found: PartitionVerdict, words: str, say: Callable[[VerifyVerdict, str], PartitionVerdict]
) -> PartitionVerdict:
    return say(VerifyVerdict.CANNOT_TELL, words) if found.verdict is VerifyVerdict.VERIFIED else found


def _by_counts(
    plan: Plan,
    part: PlannedPartition,
    target: int,
    committed: int,
    evidence: VerifyEvidence,
    doubt: str | None,
    say: Callable[[VerifyVerdict, str], PartitionVerdict],
) -> PartitionVerdict:
    """Compare a complete commit with the other evidence; with a doubt it proves nothing by itself."""
    end = evidence.logs.ends.get(part.key)
    if end is not None and committed > end:
        return say(
            VerifyVerdict.INCOMPLETE,
            f"The commit {committed:,} is after the log end {end:,}: the log was truncated or recreated.",
        )
    window = evidence.ends[part.key]
    if window.open is not None:
        return say(VerifyVerdict.CANNOT_TELL, window.open)
    counts = evidence.counts.get(part.key) if evidence.counts is not None else None
    if counts is not None and counts.processed is not None:
        if not _is_whole(counts):
            return say(
                VerifyVerdict.CANNOT_TELL,
                f"Retention has deleted {plural(counts.gone, 'offset')} of the window; {counts.gone_processed:,} of them are "
                "in the log of processed records, and whether the others had a record is not known.",
            )
        return say(
            VerifyVerdict.VERIFIED,
            f"{plural(counts.records, 'record')}, all in the log of processed records, and committed.",
        )
    holders = [
        (held, status.ranges_complete is not None)
        for status in evidence.statuses
        if status.group == plan.new_group
        for member in status.members
        for held in member.partitions
        if (held.topic, held.partition) == part.key
    ]

    def by_commit(words: str) -> PartitionVerdict:
        return say(VerifyVerdict.VERIFIED, words) if doubt is None else say(VerifyVerdict.CANNOT_TELL, doubt)

    if not evidence.statuses or window.stop <= target:
        return by_commit("Committed up to the window's end.")
    if not holders:
        return by_commit(
            "Committed up to the window's end. No instance of the fleet file owns it now, so there are no counts."
        )
    held, has_ranges = max(holders, key=lambda item: item[0].completed or 0)
    if held.first_offset is None or held.committed is None or held.completed is None:
        return by_commit("Committed up to the window's end. Its instance has no counts for it.")
    # What lies between ranges is not processed, and not counted.
    spans = part.spans if has_ranges and part.ranges is not None else [(held.first_offset, held.committed)]
    expected = sum(max(0, min(high, held.committed) - max(low, held.first_offset)) for low, high in spans)
    if held.first_offset > target:
        return by_commit(
            f"Committed up to the window's end; its instance got it at {held.first_offset:,}, so counts cover only later records.",
        )
    if held.completed < expected and (counts is None or held.completed < counts.records):
        gap = expected - held.completed
        reason = (
            f"Its instance completed {plural(held.completed, 'record')}, but committed {plural(expected, 'offset')}: "
            f"{plural(gap, 'is', 'are')} not completed."
        )
        known = counts is not None and held.completed < counts.records
        return say(VerifyVerdict.INCOMPLETE if known else VerifyVerdict.CANNOT_TELL, reason)
    return say(
        VerifyVerdict.VERIFIED, f"Committed up to the window's end, and {plural(held.completed, 'record')} completed."
    )
