"""Gather the evidence for `verify`: commits, logs, the instances' counts, and on request the records."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workbench.commit_note import parse_note
from workbench.errors import SourceUnreachableError
from workbench.humanize import plural
from workbench.logs.late_records import Late, find_late, late_spans
from workbench.logs.window_done import tail_spans
from workbench.logs.window_end import WindowEnd, instants_of
from workbench.queues.replay_port import Gateway, LogView, names_of
from workbench.queues.snapshot_views import Partition
from workbench.queues.systems import CountRecords, system_of
from workbench.replay.follow import check_same_cluster
from workbench.replay.planfile import Plan
from workbench.replay.records_beside_plan import added_since, records_beside
from workbench.replay.service_fleet import InstanceStatus, ServiceFleet
from workbench.replay.verify import PartitionVerdict, ReadCounts, VerifyEvidence, VerifyVerdict, overall, verify
from workbench.replay.window_end_now import windows_now
from workbench.settings import Cluster

_SENTENCES = {
    VerifyVerdict.VERIFIED: "Verified: the new group got every record of the window.",
    VerifyVerdict.INCOMPLETE: "INCOMPLETE: the new group did not get every record of the window.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """Evidence beyond the commits.

    Attributes:
        begun: partitions where it is known that the group began at the target (`known_starts`); None: that was not looked for.
    """

    fleet: ServiceFleet | None = None
    processed: Path | None = None
    records: bool = False
    key_ranges: int | None = None
    begun: Collection[Partition] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A verdict and its evidence.

    Attributes:
        evidence: what was checked: commits, counts, processed, records.
        late: records with a timestamp in the window but after its last offset, by partition; None if not checked.
        is_started: whether a consumer is in the new group, or one of its commits is behind its first offset.
    """

    plan: Plan
    verdict: VerifyVerdict
    partitions: Sequence[PartitionVerdict]
    evidence: Sequence[str]
    notes: Sequence[str]
    old_moved: Mapping[Partition, tuple[int | None, int | None]]
    key_ranges: Sequence[Mapping[str, Any]] = field(default=())
    is_started: bool = True

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.verdict is VerifyVerdict.INCOMPLETE and not self.is_started:
            return f"Not started: no consumer in {self.plan.new_group}."
        return _SENTENCES.get(self.verdict, "Cannot tell.")

    def document(self) -> dict[str, Any]:
        """Plain values in the schema `workbench.replay-verify/1`."""
        return {
            "schema": "workbench.replay-verify/1",
            "plan": self.plan.hash,
            "group": self.plan.new_group,
            "verdict": self.verdict.value,
            "evidence": list(self.evidence),
            "notes": list(self.notes),
            "partitions": [part.document() for part in self.partitions],
            "old_group_moved": [
                {"topic": topic, "partition": number, "planned": before, "now": now}
                for (topic, number), (before, now) in sorted(self.old_moved.items())
            ],
            "key_ranges": [dict(item) for item in self.key_ranges],
        }


def check(plan: Plan, cluster: Cluster, gateway: Gateway, count_records: CountRecords, asked: CheckRequest) -> Checked:
    """Gather the requested evidence and verify.

    Raises:
        GuardError: if the plan is for another cluster.
        SourceUnreachableError: if the cluster does not answer, or its records cannot be read.
        EvidenceError: if records of the window are deleted and cannot be counted.
    """
    reading = asked.records or asked.processed is not None or asked.key_ranges is not None
    if reading:
        from workbench.spark.session import start_in_background

        start_in_background()
    view = check_same_cluster(plan, gateway)
    commits = gateway.commits(plan.new_group)
    planned = {part.key for part in plan.partitions}
    unplanned = {(topic, number) for topic, number, *_ in plan.unread or ()} - planned
    added = added_since(plan, view)
    logs = gateway.logs(sorted(plan.known | unplanned | set(added)), instants_ms=instants_of(plan), stable=True)
    ends = windows_now(plan, view, logs, now_ms=time.time() * 1000)
    notes: list[str] = _by_our_clock(plan, logs)
    statuses = _statuses(asked.fleet, notes)
    behind = late_spans(plan, logs, ends, commits)
    with ExitStack() as kept:
        read = (
            _read(plan, cluster, logs, ends, behind, asked, kept)
            if reading
            else _Read(late=find_late(plan, gateway, behind))
        )
    tails, unread = _tails(plan, commits, logs, ends, count_records)
    found = VerifyEvidence(
        commits=commits,
        logs=logs,
        ends=ends,
        tails=tails,
        unread=unread,
        statuses=statuses,
        counts=read.counts,
        processed_before=read.before,
        notes={key: parse_note(text) for key, text in gateway.notes(plan.new_group).items()},
        late=read.late,
        begun=asked.begun,
    )
    if late := sum(it.records for it in read.late.values()):
        notes.append(
            f"Outside of the plan, and not known to be read: {plural(late, 'record')} with a timestamp in the window."
        )
    verdicts = verify(plan, found)
    verdict = overall(verdicts)
    for key in sorted(unplanned):
        late_there = read.late.get(key, Late())
        if late_there.told is not None:
            notes.append(f"{names_of([key])} is not in the plan: planning did not read all of it. {late_there.told}")
            nobody = late_there.records and key not in commits  # a commit there does not tell where the group began
            verdict = _worse(verdict, VerifyVerdict.INCOMPLETE if nobody else VerifyVerdict.CANNOT_TELL)
    for told, found_there in records_beside(plan, gateway, logs, added, commits):
        notes.append(told)
        verdict = _worse(verdict, found_there)
    old = gateway.commits(plan.from_group)
    used = [
        "commits",
        "counts" if statuses else "",
        "processed" if asked.processed else "",
        "records" if reading else "",
    ]
    return Checked(
        plan=plan,
        verdict=verdict,
        partitions=verdicts,
        evidence=[name for name in used if name],
        notes=notes,
        old_moved={
            part.key: (part.old_committed, old.get(part.key))
            for part in plan.partitions
            if old.get(part.key) != part.old_committed
        },
        key_ranges=read.key_ranges,
        is_started=bool(gateway.group(plan.new_group).members)
        or any(commits.get(key, target) > target for key, target in plan.targets.items()),
    )


def _by_our_clock(plan: Plan, logs: LogView) -> list[str]:
    """A record behind the window shows that the producers' clocks have passed its end; without one only this machine's says so."""
    if plan.until_ms is None:
        return []
    there = logs.found.get(plan.until_ms, {})
    passed = {topic for (topic, _), first in there.items() if first.offset is not None}
    return [
        f"No record of {topic} is from the window's end or later: that it is over is known by this machine's clock alone."
        for topic in plan.topics
        if topic not in passed
    ]


def _worse(first: VerifyVerdict, second: VerifyVerdict) -> VerifyVerdict:
    for worst in (VerifyVerdict.INCOMPLETE, VerifyVerdict.CANNOT_TELL):
        if worst in (first, second):
            return worst
    return first


def _statuses(fleet: ServiceFleet | None, notes: list[str]) -> list[InstanceStatus]:
    found = []
    for instance in fleet.instances if fleet is not None else ():
        try:
            status = fleet.status(instance) if fleet is not None else None
        except SourceUnreachableError as error:
            notes.append(f"Its counts are missing: {error.message}")
            continue
        if status is None:
            notes.append(f"{instance} did not give its counts.")
        else:
            found.append(status)
    return found


def _tails(
    plan: Plan,
    commits: Mapping[Partition, int],
    logs: LogView,
    ends: Mapping[Partition, WindowEnd],
    count_records: CountRecords,
) -> tuple[Mapping[Partition, int], str | None]:
    """Count records where the commit is slightly before the end (these may be transaction markers), or say why that failed."""
    ranges = tail_spans(plan, commits, logs, ends)
    try:
        return (count_records(ranges) if ranges else {}), None
    except SourceUnreachableError as error:
        return {}, error.message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    counts: Mapping[Partition, ReadCounts] | None = None
    before: Mapping[Partition, int] = field(default_factory=dict)
    key_ranges: Sequence[Mapping[str, Any]] = ()
    late: Mapping[Partition, Late] = field(default_factory=dict)


def _read(
    plan: Plan,
    cluster: Cluster,
    logs: LogView,
    ends: Mapping[Partition, WindowEnd],
    behind: Mapping[Partition, Sequence[tuple[int, int]]],
    asked: CheckRequest,
    kept: ExitStack,
) -> _Read:
    from workbench.logs import record_counts
    from workbench.spark.session import session

    spark = session()
    spans = {
        part.key: part.spans if plan.is_of_ranges else [(part.target, ends[part.key].readable)]
        for part in plan.partitions
        if part.target is not None and (plan.is_of_ranges or part.target < ends[part.key].readable)
    }
    # What an open transaction hides, or is beyond a log that was cut, is said by `ends`.
    ranges = {key: _between(logs.starts.get(key, 0), ends[key].readable, some) for key, some in spans.items()}
    gone = {key: _until(logs.starts.get(key, 0), some) for key, some in spans.items()}
    columns = ["topic", "partition", "offset", *(["key"] if asked.key_ranges else [])]
    frame = system_of(cluster).read_records(spark, cluster, ranges, columns)
    path = asked.processed
    processed = record_counts.read_processed(spark, path) if path is not None else None
    if asked.key_ranges and (asked.records or processed is not None):
        frame = frame.persist()
        kept.callback(frame.unpersist)
    counts = dict.fromkeys(ranges, ReadCounts(records=0, processed=None if processed is None else 0))
    before: dict[Partition, int] = {}
    if processed is not None and path is not None:
        processed = processed.persist()
        kept.callback(processed.unpersist)  # the next check of this session reads the log as it is then
        record_counts.refuse_unreadable(processed, path)
        for row in record_counts.processed_counts(frame, processed):
            counts[row["topic"], row["partition"]] = ReadCounts(
                records=row["records"], processed=row["processed"], first_missing=row["first_missing"]
            )
        for key, some in gone.items():
            if some:
                there = processed.where((processed["topic"] == key[0]) & (processed["partition"] == key[1]))
                found = [
                    there.where((there["offset"] >= low) & (there["offset"] < high)).select("offset").distinct().count()
                    for low, high in some
                ]
                counts[key] = replace(
                    counts[key], gone=sum(high - low for low, high in some), gone_processed=sum(found)
                )
        starts = {part.key: part.target for part in plan.partitions if part.target is not None}
        lowest = processed.groupBy("topic", "partition").agg({"offset": "min"})
        for row in record_counts.run(lowest.withColumnRenamed("min(offset)", "first")):
            key = (row["topic"], row["partition"])
            if key in starts and row["first"] < starts[key]:
                # By name: `offset` of a frame is a method.
                condition = (
                    (processed["topic"] == key[0])
                    & (processed["partition"] == key[1])
                    & (processed["offset"] < starts[key])
                )
                before[key] = processed.where(condition).select("offset").distinct().count()
    else:
        counted = frame.groupBy("topic", "partition").count()
        for row in record_counts.run(counted):
            counts[row["topic"], row["partition"]] = ReadCounts(records=row["count"])
    key_counts = record_counts.key_range_counts(frame, processed, asked.key_ranges) if asked.key_ranges else []
    late = _late(plan, cluster, behind, logs) if behind else {}
    return _Read(counts=counts, before=before, key_ranges=key_counts, late=late)


def _between(log_start: int, end: int, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is there of some ranges."""
    there = ((max(low, log_start), min(high, end)) for low, high in spans)
    return [(low, high) for low, high in there if low < high]


def _until(log_start: int, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is deleted of some ranges."""
    return [(low, min(high, log_start)) for low, high in spans if low < log_start]


def _late(
    plan: Plan, cluster: Cluster, behind: Mapping[Partition, Sequence[tuple[int, int]]], logs: LogView
) -> dict[Partition, Late]:
    """Records of the windows behind their ends: all of these offsets are read, up to an open transaction."""
    from workbench.logs import record_counts
    from workbench.spark.session import session

    shown = {
        key: there
        for key, pieces in behind.items()
        if (there := _between(0, logs.stable_ends.get(key, pieces[-1][1]), pieces))
    }
    found = {}
    for key, pieces in behind.items():
        hidden = sum(high - low for low, high in pieces) - sum(high - low for low, high in shown.get(key, []))
        if hidden:
            found[key] = Late(unread=hidden, why="a transaction is open")
    columns = ["topic", "partition", "offset", "timestamp"]
    frame = system_of(cluster).read_records(session(), cluster, shown, columns)
    within = " or ".join(
        f"(unix_millis(timestamp) >= {since} and unix_millis(timestamp) < {until})" for since, until in plan.windows_ms
    )
    counted = frame.where(within).groupBy("topic", "partition").agg({"*": "count", "offset": "min"})
    rows = record_counts.run(counted.withColumnsRenamed({"count(1)": "records", "min(offset)": "first"}))
    for row in rows:
        key = (row["topic"], row["partition"])
        found[key] = replace(found.get(key, Late()), records=row["records"], first=row["first"])
    return found
