"""Planning: make a plan from a request and the state of the cluster. Pure; `survey` does the reading."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from workbench.errors import GuardError, SourceUnreachableError, UnknownGroupError
from workbench.humanize import clock, duration, listed, plural, shell_word
from workbench.logs.windows_in_unordered_logs import WindowSpan, find_spans, older_at_start
from workbench.plans.refusal import NO_RIGHT
from workbench.plans.strict_document import current_user
from workbench.queues.group_kinds import cannot_replay_from, cannot_replay_into
from workbench.queues.replay_port import (
    ABSENT,
    ClusterView,
    FirstRecord,
    Gateway,
    LogView,
    names_of,
    read_by,
)
from workbench.queues.snapshot_views import GroupView, Partition
from workbench.queues.tool_words import tools_of
from workbench.replay.plan_words import plan_warnings
from workbench.replay.planfile import AfterEnd, Plan, PlannedPartition, Resolution
from workbench.replay.replay_request import PlanRequest, Survey
from workbench.window import instant_ms


def survey(gateway: Gateway, request: PlanRequest, *, with_start: bool = True) -> tuple[list[Partition], Survey]:
    """Read everything that a plan needs, in a few requests for any number of partitions. Writes nothing.

    Args:
        with_start: look at the records of the start of the request's window; a plan of ranges has its own.

    Raises:
        SourceUnreachableError: if the cluster or one of the partitions does not answer.
        UnknownGroupError: if a topic or partition does not exist, or the old group has no commit on any of the topics.
        GuardError: if the new group is not a consumer group, or the old one has no commits because of its kind.
    """
    cluster = gateway.cluster(request.topics)
    old, new = _checked_kinds(gateway, request)
    partitions = chosen_partitions(cluster, request)
    instants = [instant_ms(request.since)] + ([instant_ms(request.until)] if request.until is not None else [])
    logs = gateway.logs(partitions, instants_ms=instants, stable=True)
    if logs.errors:
        if logs.denied:
            raise SourceUnreachableError(
                f"{plural(len(logs.denied), 'partition')} cannot be read with these credentials: {names_of(logs.denied)}.",
                hint=NO_RIGHT,
            )
        (topic, number), words = next(iter(logs.errors.items()))
        raise GuardError(
            f"{plural(len(logs.errors), 'partition')} cannot be planned, the first is {topic}-{number}: {words}.",
            hint="Every partition needs a leader; or select those that have one with --partition.",
        )
    commits = gateway.commits(request.from_group)
    if not any(part in commits for part in partitions):
        raise UnknownGroupError(
            f"The group {request.from_group!r} has no committed offset on {listed(list(request.topics))}.",
            hint=f"List the groups with: workbench snapshot --cluster {shell_word(request.cluster)}",
        )
    since, settings = logs.found[instants[0]], gateway.settings(request.topics)
    spans: dict[Partition, WindowSpan] = {}
    if request.until is not None:
        window = (instants[0], instants[1])
        spans = {key: it for (key, _), it in find_spans(gateway, partitions, logs, [window], settings).items()}
    heads = {
        key: (spans[key].start, spans[key].stop) if key in spans else (found.offset, logs.ends[key])
        for key, found in since.items()
        if found.offset is not None
    }
    sampled = {part: offset for part in _largest(partitions, logs, since) if (offset := since[part].offset) is not None}
    with ThreadPoolExecutor(2, "replay-survey") as beside:  # readers of records mostly wait
        record_bytes = beside.submit(gateway.record_bytes, sampled)
        older = beside.submit(older_at_start, gateway, heads if with_start else {}, instants[0])
        return partitions, Survey(
            cluster=cluster,
            logs=logs,
            settings=settings,
            commits=commits,
            taken_at=datetime.now(UTC),
            read_by_old=frozenset(read_by(old, commits, cluster)),
            old_kind=old.protocol,
            read_quota=gateway.read_quota({member.client_id for member in old.members}),
            local_starts=gateway.local_starts(_led(cluster, partitions)),
            spans=spans,
            audience=gateway.audience(set(request.topics)),
            in_use=frozenset(read_by(new, gateway.commits(request.new_group), cluster))
            if new.state != ABSENT
            else frozenset(),
            new_members=len(new.members),
            record_bytes=record_bytes.result(),
            older=older.result(),
        )


def _led(cluster: ClusterView, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Broker that leads each partition, of those that have one."""
    found = {(topic, number): cluster.topics[topic].leaders.get(number, -1) for topic, number in partitions}
    return {part: leader for part, leader in found.items() if leader >= 0}


def _checked_kinds(gateway: Gateway, request: PlanRequest) -> tuple[GroupView, GroupView]:
    """The old and the new group; both are of kinds that a replay can work with."""
    new, old = gateway.group(request.new_group), gateway.group(request.from_group)
    if (why := cannot_replay_into(new.protocol)) is not None and new.state != ABSENT:
        raise GuardError(
            f"A replay cannot begin in {request.new_group!r}: it is {why}.",
            hint="Choose a name that no group has: --new-group.",
        )
    if (why := cannot_replay_from(old.protocol)) is not None and old.state != ABSENT:
        raise GuardError(
            f"A replay cannot follow {request.from_group!r}: it is {why}.",
            hint=f"List the groups and their kinds with: workbench snapshot --cluster {shell_word(request.cluster)}",
        )
    return old, new


def _largest(partitions: Iterable[Partition], logs: LogView, since: Mapping[Partition, FirstRecord]) -> list[Partition]:
    """Partitions with messages to replay, largest first: their records determine the bytes."""
    sizes = {part: logs.ends[part] - offset for part in partitions if (offset := since[part].offset) is not None}
    return sorted((part for part, size in sizes.items() if size > 0), key=lambda part: -sizes[part])


def chosen_partitions(cluster: ClusterView, request: PlanRequest) -> list[Partition]:
    """Partitions that the request selects.

    Raises:
        UnknownGroupError: if a topic or partition does not exist.
        SourceUnreachableError: if these credentials may not describe a topic.
    """
    chosen = []
    for topic in dict.fromkeys(request.topics):
        view = cluster.topics.get(topic)
        if view is None and topic in cluster.denied:
            raise SourceUnreachableError(
                f"These credentials may not describe the topic {topic!r}: {cluster.denied[topic]}.", hint=NO_RIGHT
            )
        if view is None:
            raise UnknownGroupError(f"The cluster has no topic {topic!r}.", hint="Topic names are case-sensitive.")
        numbers = sorted(set((request.partitions or {}).get(topic, ()))) or sorted(view.leaders)
        for number in numbers:
            if number not in view.leaders:
                raise UnknownGroupError(f"The topic {topic!r} has no partition {number}; it has {len(view.leaders)}.")
            chosen.append((topic, number))
    return chosen


def make_plan(request: PlanRequest, partitions: Sequence[Partition], found: Survey) -> Plan:
    """Make the plan.

    Raises:
        GuardError: if a partition has no record at or after `since` and the policy is to fail.
    """
    planned = [_planned(request, part, found) for part in partitions]
    without = [part for part in planned if part.resolution in (Resolution.AFTER_END, Resolution.EMPTY)]
    if without and request.after_end is AfterEnd.FAIL:
        counts = [
            f"{plural(number, 'partition')} {words}"
            for resolution, words in (
                (Resolution.AFTER_END, "with earlier records alone"),
                (Resolution.EMPTY, "without a record"),
            )
            if (number := sum(part.resolution is resolution for part in without))
        ]
        ahead = (request.since - found.taken_at).total_seconds()
        future = f"The start is {duration(ahead)} in the future. " if ahead > 0 else ""
        names = listed([f"{part.topic}-{part.partition}" for part in without])
        raise GuardError(
            f"{future}There is no record at or after {clock(request.since, now=found.taken_at)} in {' and '.join(counts)}: {names}.",
            hint="Choose what to do there: --after-end end (only new records) or skip (commit nothing).",
        )
    return plan_of(
        request,
        found,
        until=request.until.isoformat() if request.until is not None else None,
        whole_topics=whole_topics(request),
        warnings=plan_warnings(request, planned, found),
        partitions=planned,
    )


def whole_topics(request: PlanRequest) -> list[str]:
    """Topics of which the request selects all partitions."""
    return [topic for topic in dict.fromkeys(request.topics) if not (request.partitions or {}).get(topic)]


def plan_of(request: PlanRequest, found: Survey, **fields: Any) -> Plan:
    """A plan with its hash: what every plan says of its request and of its making, and these fields of its own."""
    topics = {topic: found.cluster.topics[topic].topic_id for topic in request.topics}
    return Plan(
        created_at=found.taken_at.isoformat(timespec="seconds"),
        created_by=current_user(),
        host=socket.gethostname(),
        reason=request.reason,
        cluster=request.cluster,
        cluster_id=found.cluster.cluster_id,
        from_group=request.from_group,
        new_group=request.new_group,
        since=request.since.isoformat(),
        requested_since=request.requested_since,
        requested_until=request.requested_until,
        after_end=request.after_end,
        topic_ids={topic: known for topic, known in topics.items() if known is not None},
        **fields,
    ).sealed()


def _planned(request: PlanRequest, part: Partition, found: Survey) -> PlannedPartition:
    logs, (topic, number) = found.logs, part
    since_ms = instant_ms(request.since)
    first = logs.found[since_ms][part]
    start, end = logs.starts[part], logs.ends[part]
    # Records produced or deleted during the requests move the log ends.
    end = max(start, end, 0 if first.offset is None else first.offset)
    span = found.spans.get(part)
    target: int | None
    timestamp: int | None = None
    if first.offset is not None:
        if span is None:  # no end: every record at or after the start lies at or behind the first one
            span = WindowSpan(start=first.offset, stop=end, first_timestamp_ms=first.timestamp_ms)
        target, timestamp = span.start, span.first_timestamp_ms or first.timestamp_ms
        start, stop = min(start, target), min(span.stop, end)
        resolution = _resolution(request, first, start, span, found.older.get(part, 0))
    else:
        target = end if request.after_end is AfterEnd.END else None
        resolution = Resolution.AFTER_END if end > start else Resolution.EMPTY
        if request.after_end is AfterEnd.FAIL:
            target = end  # never used: the plan is refused
        stop = end
    messages = 0 if target is None else max(0, stop - target)
    size = found.record_bytes.get(topic)
    return PlannedPartition(
        topic=topic,
        partition=number,
        log_start=start,
        log_end=end,
        old_committed=found.commits.get(part),
        target=target,
        target_timestamp=timestamp,
        stop=stop,
        messages=messages,
        bytes_estimate=0 if not messages else (round(messages * size) if size is not None else None),
        resolution=resolution,
        leader=found.cluster.topics[topic].leaders[number],
    )


def _resolution(request: PlanRequest, first: FirstRecord, log_start: int, span: WindowSpan, older: int) -> Resolution:
    """How far the order of the timestamps is known."""
    since_ms = instant_ms(request.since)
    until_ms = instant_ms(request.until) if request.until is not None else None
    if span.unread is not None:
        return Resolution.UNREAD
    if span.start == span.stop and until_ms is not None and (first.timestamp_ms or 0) >= until_ms:
        return Resolution.NONE_INSIDE
    if until_ms is not None and (span.late or older or span.start != first.offset):
        return Resolution.UNORDERED
    before = span.start == log_start and first.timestamp_ms is not None and first.timestamp_ms > since_ms
    return Resolution.BEFORE_START if before else Resolution.EXACT


def bytes_per_broker(plan: Plan) -> dict[int, int | None]:
    """Bytes that each broker must read for the replay, by the current leaders; None where it is not known."""
    loads: dict[int, int | None] = {}
    for part in plan.partitions:
        if part.messages:
            before = loads.get(part.leader, 0)
            known = before is not None and part.bytes_estimate is not None
            loads[part.leader] = before + part.bytes_estimate if known else None  # type: ignore[operator]
    return loads


def kafka_command(plan: Plan, bootstrap: str | None, login_file: str | None = None) -> str:
    """Kafka's own command for the same change, with the CSV of `to_csv`; a dry run unless you add `--execute`."""
    return tools_of(bootstrap, login_file=login_file).reset_from_file(plan.new_group)


def to_csv(plan: Plan) -> str:
    """CSV lines `topic,partition,offset` without a header, as for `--from-file` of Kafka's own tool."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([*part, offset] for part, offset in plan.targets.items())
    return out.getvalue()
