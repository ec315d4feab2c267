"""Safety checks before a write. Pure: compares the cluster's current state with the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from workbench.humanize import duration, listed, plural
from workbench.plans.refusal import COMMON_HINTS, Refusal
from workbench.queues.group_kinds import cannot_replay_into
from workbench.queues.replay_port import (
    ABSENT,
    WITHOUT_MEMBERS,
    ClusterView,
    FirstRecord,
    LogView,
    TopicSettings,
)
from workbench.queues.snapshot_views import GroupView, Partition
from workbench.replay.plan_words import seconds_until_lost
from workbench.replay.planfile import Plan, PlannedPartition, Resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayLimits:
    """Limits that the operator sets.

    Attributes:
        retention_margin_seconds: refuse if retention may delete a record of the window within this time; 0: never refuse. 10 min:
        a cutover takes minutes.
        allow_existing: the new group may have commits already.
        allow_under_replicated: continue although the cluster has under-replicated partitions.
        allow_busy_brokers: continue although a broker that leads partitions of the plan has no room for more reading.
        allow_gap: cut over although the old group has not reached the new group's start, or the new group has no commit
        on a partition that the old one reads.
        allow_forgetting: cut over although a restart of an instance brings it back to the old group.
        allow_beyond: cut over to a plan of ranges although the instances do not stop at their ends.
        allow_unnamed: cut over although the group has members that the fleet file does not name.
    """

    retention_margin_seconds: float = 600.0
    allow_existing: bool = False
    allow_under_replicated: bool = False
    allow_busy_brokers: bool = False
    allow_gap: bool = False
    allow_forgetting: bool = False
    allow_beyond: bool = False
    allow_unnamed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """Current state of the cluster.

    Attributes:
        lacking: permissions to commit that the brokers say are lacking, in words.
        before: the new group's commits before an earlier run of the same plan; None if there was none.
    """

    cluster: ClusterView
    group: GroupView
    commits: Mapping[Partition, int]
    logs: LogView
    settings: Mapping[str, TopicSettings]
    now_ms: float
    lacking: tuple[str, ...] = ()
    before: Mapping[Partition, int] | None = None


def remade_topics(plan: Plan, cluster: ClusterView) -> list[str]:
    """Topics that were recreated since the plan was made: what it says of their offsets holds no more."""
    there = [cluster.topics[name] for name in plan.topics if name in cluster.topics]
    return [it.topic for it in there if it.is_remade(plan.topic_ids.get(it.topic))]


def check_cluster(plan: Plan, cluster: ClusterView, limits: ReplayLimits) -> list[Refusal]:
    """Check that this is the plan's cluster, with exactly the planned partitions and all replicas."""
    if cluster.cluster_id != plan.cluster_id:
        text = f"The plan is for the cluster {plan.cluster_id}, this one is {cluster.cluster_id}."
        return [Refusal(code="other_cluster", message=text)]
    found = []
    planned, known = {part.key for part in plan.partitions}, plan.known
    for topic in plan.topics:
        view = cluster.topics.get(topic)
        if view is None and topic in cluster.denied:
            text = f"These credentials may not describe the topic {topic!r}: {cluster.denied[topic]}."
            found.append(Refusal(code="not_allowed", message=text))
            continue
        if view is None:
            found.append(Refusal(code="topic_gone", message=f"The topic {topic!r} does not exist any more."))
            continue
        if view.is_remade(plan.topic_ids.get(topic)):
            text = f"The topic {topic!r} was deleted and recreated since the plan was made."
            found.append(Refusal(code="log_changed", message=text))
        added = [number for number in view.leaders if (topic, number) not in known]
        if topic in plan.whole_topics and added:
            text = f"{topic!r} has gained {plural(len(added), 'partition')} since the plan was made: {listed(added)}."
            found.append(Refusal(code="partitions_added", message=text))
        found += [
            Refusal(code="partition_gone", message="The partition does not exist any more.", partition=key)
            for key in planned
            if key[0] == topic and key[1] not in view.leaders
        ]
    short = cluster.under_replicated
    if short and not limits.allow_under_replicated:
        names = listed([f"{topic}-{number}" for topic, number in short])
        text = f"{plural(len(short), 'partition')} of the cluster lack a replica ({names}); a replay would slow down their recovery."
        found.append(Refusal(code="under_replicated", message=text))
    return found


def check_brokers(plan: Plan, cluster: ClusterView, busy: Mapping[int, str], limits: ReplayLimits) -> list[Refusal]:
    """Check that the leaders of the plan's partitions have room for more reading; `busy`: those that have not, and why."""
    led = Counter(
        cluster.topics[topic].leaders.get(number) for topic, number in plan.targets if topic in cluster.topics
    )
    return [
        Refusal(
            code="busy_broker",
            message=f"Broker {broker}, which leads {plural(led[broker], 'partition')} of the plan, has no room for more: {why}.",
        )
        for broker, why in busy.items()
        if led[broker] and not limits.allow_busy_brokers
    ]


def wrong_kind(view: GroupView) -> str | None:
    """Why no replay can begin in this group, in a sentence; None for a consumer group, and for one that does not exist."""
    why = cannot_replay_into(view.protocol) if view.state != ABSENT else None
    return f"{view.group!r} is {why}." if why is not None else None


def check_group(plan: Plan, now: Now, limits: ReplayLimits) -> list[Refusal]:
    """Check that the new group is a consumer group without members and without unexpected commits."""
    if (wrong := wrong_kind(now.group)) is not None:
        return [Refusal(code="wrong_kind", message=wrong)]
    if now.group.state not in WITHOUT_MEMBERS:
        who = listed(sorted({member.client_id for member in now.group.members}))
        state = now.group.state.replace("_", " ")
        text = f"The group is {state} with {plural(len(now.group.members), 'member')}" + (f": {who}." if who else ".")
        return [Refusal(code="live_members", message=text, partition=key) for key in plan.targets]
    if now.lacking:  # else the broker refuses what it refuses, and takes the other half
        return [Refusal(code="not_allowed", message=words) for words in now.lacking]
    if now.before is not None:
        return [
            Refusal(
                code="group_moved",
                message=f"The group has moved to {now.commits[key]:,} since the plan was applied (target {target:,}).",
                partition=key,
            )
            for key, target in plan.targets.items()
            if key in now.commits and now.commits[key] not in (target, now.before.get(key))
        ]
    if now.commits and not limits.allow_existing:
        text = (
            f"The group {plan.new_group!r} already has committed offsets, on {plural(len(now.commits), 'partition')}."
        )
        return [Refusal(code="existing_commits", message=text)]
    return []


def check_same_logs(plan: Plan, logs: LogView) -> list[Refusal]:
    """Check that each log is the planned one: neither its start nor its end has gone back."""
    found = []
    for part in plan.partitions:
        start, end = logs.starts.get(part.key), logs.ends.get(part.key)
        if start is None or end is None:
            words = logs.errors.get(part.key, "no reason given")
            if part.key in logs.denied:
                text = f"These credentials may not read it: {words}."
                found.append(Refusal(code="not_allowed", message=text, partition=part.key))
            else:
                found.append(Refusal(code="silent", message=f"It does not answer: {words}.", partition=part.key))
        elif end < part.log_end or start < part.log_start:
            text = (
                f"The log is not the one of the plan (planned: {part.log_start:,} to {part.log_end:,}, now {start:,} to "
                f"{end:,}): was the topic recreated?"
            )
            found.append(Refusal(code="log_changed", message=text, partition=part.key))
    return found


def check_logs(plan: Plan, now: Now, limits: ReplayLimits) -> list[Refusal]:
    """Check that every target is still the first record of the window, and stays so for the margin."""
    found = check_same_logs(plan, now.logs)
    known = {refusal.partition for refusal in found}
    since = now.logs.found.get(plan.since_ms, {})
    for part in plan.partitions:
        if part.target is None or part.key in known:
            continue
        key = part.key
        if plan.is_of_ranges:
            found += _check_given(part, now) or _check_margin(part, plan, now, limits)
            continue
        first, start = since.get(key), now.logs.starts[key]
        if first is None:
            text = f"It does not answer: {now.logs.errors.get(key, 'no reason given')}."
            found.append(Refusal(code="silent", message=text, partition=key))
        elif start > part.target:
            text = f"Retention has deleted records from {part.target:,} on; the log now begins at {start:,}."
            found.append(Refusal(code="target_deleted", message=text, partition=key))
        elif _is_earlier(plan, part, first) or (
            # Without a timestamp the target is the log's end: the first record there has come since.
            part.target_timestamp is not None
            and first.offset == part.target
            and first.timestamp_ms != part.target_timestamp
        ):
            text = f"The first record of the window differs from the plan (it is at {first.offset:,}): was the topic recreated?"
            found.append(Refusal(code="log_changed", message=text, partition=key))
        elif part.target_timestamp is not None and (first.offset is None or first.offset > part.target):
            text = f"The record at {part.target:,} was removed (compaction or deletion)."
            found.append(Refusal(code="target_deleted", message=text, partition=key))
        else:
            found += _check_margin(part, plan, now, limits)
    return found


def _is_earlier(plan: Plan, part: PlannedPartition, first: FirstRecord) -> bool:
    """Whether Kafka now finds a record before the target; one that is dated behind the window may have been there at the plan."""
    if first.offset is None or part.target is None or first.offset >= part.target:
        return False
    out_of_order = part.resolution in (Resolution.UNORDERED, Resolution.UNREAD)
    return not (out_of_order and plan.until_ms is not None and (first.timestamp_ms or 0) >= plan.until_ms)


def _check_given(part: PlannedPartition, now: Now) -> list[Refusal]:
    """A plan of ranges: its first offset is still there."""
    start = now.logs.starts[part.key]
    if part.target is None or start <= part.target:
        return []
    text = f"Retention has deleted records from {part.target:,} on; the log now begins at {start:,}."
    return [Refusal(code="target_deleted", message=text, partition=part.key)]


def _check_margin(part: PlannedPartition, plan: Plan, now: Now, limits: ReplayLimits) -> list[Refusal]:
    """Its first offset stays there for the margin, as far as that is known."""
    left = _seconds_left(part, now.logs.starts[part.key], plan, now)
    margin = limits.retention_margin_seconds
    if part.target is None or left is None or not margin or left >= margin:
        return []
    due = "at any moment" if left <= 0 else f"in {duration(left)}"
    text = f"Retention may delete the record at {part.target:,} {due}."
    return [Refusal(code="retention_margin", message=text, partition=part.key)]


def _seconds_left(part: PlannedPartition, start: int, plan: Plan, now: Now) -> float | None:
    """Seconds until retention may delete the target: by the record's age, or by the speed of the log start since the plan."""
    by_time = seconds_until_lost(part, now.settings.get(part.topic, TopicSettings()), now_ms=now.now_ms)
    elapsed = now.now_ms / 1000 - datetime.fromisoformat(plan.created_at).timestamp()
    moved = start - part.log_start
    if moved <= 0 or elapsed <= 0 or part.target is None:
        return by_time
    by_speed = (part.target - start) / (moved / elapsed)
    return by_speed if by_time is None else min(by_time, by_speed)


HINTS = {
    **COMMON_HINTS,
    "busy_broker": "See who needs it: workbench impact --cluster CLUSTER. Wait, or continue with --allow-busy-brokers and a quota.",
    "partitions_added": "Make a new plan: the new partitions may have records of the window.",
    "wrong_kind": "Plan again with the name of a consumer group that does not exist yet.",
    "live_members": "Stop its consumers first, and wait until their session has timed out.",
    "group_moved": "Its consumers have started, so there is nothing to apply. See: workbench replay follow PLAN",
    "existing_commits": "Choose an unused group, or overwrite them with --allow-existing.",
    "target_deleted": "Make a new plan: it begins at the first remaining record.",
    "retention_margin": "Raise retention.ms of the topic first, or replay the remaining records with --retention-margin 0s.",
    "not_quiet": "Something still commits for this group, perhaps consumers that use assign(). Stop them.",
}
