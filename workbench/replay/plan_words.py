"""What a person must know of a plan before applying it, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.humanize import counted, duration, listed, percent, plural, size
from workbench.logs.windows_in_unordered_logs import TAIL_LIMITS, WindowSpan
from workbench.queues.group_kinds import STREAMS, STREAMS_SOURCE
from workbench.queues.replay_port import Audience, TopicSettings, names_of
from workbench.queues.snapshot_views import Partition
from workbench.replay.group_gap import gaps
from workbench.replay.planfile import PlannedPartition, Resolution
from workbench.window import instant_ms

if TYPE_CHECKING:
    from workbench.replay.replay_request import PlanRequest, Survey

# Warn if retention may delete the first record within this time: a replay rarely starts within the hour.
_TIGHT_RETENTION_SECONDS = 3600.0
_MOST_NAMED = 8  # of other groups
_MOST_ZONES_APART_SECONDS = 26 * 3600.0  # from -12:00 to +14:00


def seconds_until_lost(part: PlannedPartition, settings: TopicSettings, *, now_ms: float) -> float | None:
    """Seconds until time-based retention may delete the record at the target; None if it does not apply.

    A lower bound: Kafka deletes whole segments, once the latest record of one is old enough.
    """
    if part.target_timestamp is None or settings.retention_ms is None or settings.retention_ms < 0:
        return None
    return (part.target_timestamp + settings.retention_ms - now_ms) / 1000


def plan_warnings(request: PlanRequest, planned: Sequence[PlannedPartition], found: Survey) -> list[str]:
    """What a person must know before applying."""
    now_ms = found.taken_at.timestamp() * 1000
    warnings = [
        *whole_topic_words(request, planned),
        *in_use_words(request.new_group, found.in_use, found.new_members),
        "Every record of the window is processed again, some more than once: side effects must be idempotent.",
        f"Consumers that use assign() are not in the member list of a group: stop those that use {request.new_group!r} yourself.",
    ]
    if found.old_kind == STREAMS:
        warnings.append(STREAMS_SOURCE.format(group=request.from_group))
    if request.until is not None:
        warnings.append(
            "A consumer does not stop at the window's end by itself; `follow` and `verify` measure up to it."
        )
        if instant_ms(request.until) > now_ms:
            warnings.append(
                f"The window ends in {duration((instant_ms(request.until) - now_ms) / 1000)} only: counts cover the records so far, "
                "and `verify` cannot tell before."
            )
    for topic in dict.fromkeys(request.topics):
        settings, mine = found.settings.get(topic, TopicSettings()), [part for part in planned if part.topic == topic]
        if settings.compacted:
            warnings.append(f"{topic} is compacted: older records of a key may be gone, and counts are upper bounds.")
        if settings.retention_ms is None:
            warnings.append(f"{topic}: its retention cannot be read, so the margin is unknown.")
        left = [t for part in mine if (t := seconds_until_lost(part, settings, now_ms=now_ms)) is not None]
        if left and min(left) < _TIGHT_RETENTION_SECONDS:
            due = "now" if min(left) <= 0 else f"in {duration(min(left))}"
            warnings.append(f"{topic}: retention may delete records of the window {due}. Raise retention.ms first.")
        cut = [part for part in mine if _begins_late(part, request) and part.log_start > 0]
        if cut:
            warnings.append(
                f"{topic}: {plural(len(cut), 'partition')} begin after the start of the window; earlier records are deleted."
            )
        open_ends = [part for part in mine if found.logs.stable_ends.get(part.key, part.log_end) < part.log_end]
        if open_ends:
            warnings.append(
                f"{topic}: a transaction is open in {plural(len(open_ends), 'partition')}; consumers of committed records stop there "
                "until it ends, and `verify` cannot tell before."
            )
        skipped = [part for part in mine if part.target is None]
        if skipped:
            warnings.append(
                f"{topic}: no offset is committed for {plural(len(skipped), 'partition')}; auto.offset.reset applies there."
            )
    warnings += order_words(found.spans, found.older)
    warnings += _quota(request, planned, found)
    warnings += remote_words(planned, found.local_starts)
    if gap := gaps(planned, found.commits, read=found.read_by_old):
        warnings.append(
            f"The old group has not yet processed {counted(sum(gap.values()), 'message')} before the targets (in "
            f"{plural(len(gap), 'partition')}): after a cutover they would be skipped. Let it catch up, or begin earlier."
        )
    if others := found.read_by_old - {part.key for part in planned}:
        warnings.append(
            f"The old group also reads {names_of(others)}: the plan does not cover them, and a cutover switches the group of the whole "
            "fleet. Add them to the plan, or use cutover --carry-others: the new group then begins at the old group's commits there."
        )
    warnings += audience_words(found.audience, but=(request.from_group, request.new_group))
    short = found.cluster.under_replicated
    if short:
        warnings.append(
            f"{plural(len(short), 'partition')} of the cluster lack a replica; apply will refuse until they are replicated."
        )
    return warnings


def whole_topic_words(request: PlanRequest, planned: Sequence[PlannedPartition]) -> list[str]:
    """Topics of which every record is replayed, because the window begins before the oldest: a wrong time zone looks like this."""
    lines = []
    for topic in dict.fromkeys(request.topics):
        mine = [part for part in planned if part.topic == topic and part.messages]
        if not mine or any(it.resolution is not Resolution.BEFORE_START or it.stop != it.log_end for it in mine):
            continue
        oldest = min(it.target_timestamp for it in mine if it.target_timestamp is not None)
        early = (oldest - instant_ms(request.since)) / 1000
        zone = "Is the time zone right?" if early <= _MOST_ZONES_APART_SECONDS else "Is the start right?"
        lines.append(
            f"ALL {counted(sum(it.messages for it in mine), 'record')} of {topic}: the window begins "
            f"{duration(early if early < 3600 else round(early / 60) * 60)} before the topic's oldest record. {zone}"
        )
    return lines


def in_use_words(group: str, partitions: Collection[Partition], members: int) -> list[str]:
    """Whether the new group is somebody's."""
    if not partitions and not members:
        return []
    topics = sorted({topic for topic, _ in partitions})
    what = f"it reads {listed(topics)}" if topics else "it has commits of no topic"
    return [
        f"The group {group!r} is in use: {what} ({plural(len(partitions), 'partition')}, {plural(members, 'member')}). "
        "Choose a name that no group has."
    ]


def _quota(request: PlanRequest, planned: Sequence[PlannedPartition], found: Survey) -> list[str]:
    """How long the members of the old group would take at their quota, and whether retention is faster."""
    loads: dict[int, int] = {}
    for part in planned:
        loads[part.leader] = loads.get(part.leader, 0) + (part.bytes_estimate or 0)
    most = max(loads.values(), default=0)
    if not found.read_quota or not most:
        return []
    least = most / found.read_quota
    words = (
        f"The members of {request.from_group!r} may read {size(found.read_quota)}/s of each broker, by a quota: those of "
        f"{request.new_group!r} would, with the same client ids, take at least {duration(least)} for the window."
    )
    now_ms = found.taken_at.timestamp() * 1000
    settings = {topic: found.settings.get(topic, TopicSettings()) for topic in request.topics}
    left = [t for part in planned if (t := seconds_until_lost(part, settings[part.topic], now_ms=now_ms)) is not None]
    if left and 0 < min(left) < least:
        words += f" Retention may delete records of it in {duration(min(left))}: raise the quota or retention.ms first."
    return [words]


def remote_words(planned: Sequence[PlannedPartition], starts: Mapping[Partition, int]) -> list[str]:
    """How much of the window is in remote storage alone, and what each broker has to read from there."""
    cold = {
        part.key: max(0, min(part.stop, starts[part.key]) - part.target)
        for part in planned
        if part.key in starts and part.target is not None
    }
    messages, whole = sum(cold.values()), sum(part.messages for part in planned)
    if not messages:
        return []
    loads: dict[int, float] = {}
    for part in planned:
        if cold.get(part.key) and part.messages:
            share = cold[part.key] / part.messages
            loads[part.leader] = loads.get(part.leader, 0.0) + share * (part.bytes_estimate or 0)
    brokers = listed([f"{size(load)} by broker {broker}" for broker, load in sorted(loads.items())], most=_MOST_NAMED)
    return [
        f"{percent(messages / whole)} of the window ({counted(messages, 'message')}) is in remote storage alone, and read from there:"
        f" {brokers}. That is slow, and may hold up groups that share these brokers: set a cap, and watch with `workbench impact`."
    ]


def _begins_late(part: PlannedPartition, request: PlanRequest) -> bool:
    """Whether the log begins with a record after the window's start: earlier ones are deleted, or never existed."""
    if part.resolution is Resolution.GIVEN or part.target != part.log_start or part.target_timestamp is None:
        return False
    return part.target_timestamp > instant_ms(request.since)


def order_words(spans: Mapping[Partition, WindowSpan], older: Mapping[Partition, int]) -> list[str]:
    """What is known of the order of timestamps, by topic: late records, records of other times, and what could not be read."""
    lines = []
    for topic in sorted({key[0] for key in (*spans, *older)}):
        mine = [span for key, span in spans.items() if key[0] == topic]
        late = [span for span in mine if span.late]
        if late:
            missed = counted(sum(span.late for span in late), "message")
            others = sum(span.others for span in late)
            also = f", and so covers at least {counted(others, 'message')} of other times" if others else ""
            lines.append(
                f"{topic}: timestamps are out of order in {plural(len(late), 'partition')}. Kafka's lookup leaves out {missed} of the "
                f"window, behind its end: the plan goes on to the last of them{also}."
            )
        early = {key: number for key, number in older.items() if key[0] == topic}
        if early:
            lines.append(
                f"{topic}: timestamps are out of order in {plural(len(early), 'partition')}. At least "
                f"{counted(sum(early.values()), 'message')} older than the start after it are processed again, too."
            )
        unread = [span for span in mine if span.unread is not None]
        if unread:
            places = plural(len(unread), "partition")
            number = sum(span.unread[1] - span.unread[0] for span in unread if span.unread is not None)
            why = next((it.why_unread for it in unread if it.why_unread), None)
            lines.append(
                f"{topic}: it cannot be told whether all messages of the window are in the plan. Timestamps may be out of order, and "
                f"{plural(number, 'offset was', 'offsets were')} not read behind the window's end, in {places} "
                + (f"({why.rstrip('.')}). " if why else f"(limit: {TAIL_LIMITS}). ")
                + "Without an end the plan has them all; `verify` needs a log of processed records, or --records."
            )
        none = sum(span.start == span.stop and span.unread is None for span in mine)
        if none:
            lines.append(f"{topic}: no message of the window is in {plural(none, 'partition')}.")
    return lines


def audience_words(audience: Audience, *, but: Sequence[str]) -> list[str]:
    """Who else reads the topics, and what is not known of that."""
    others = {name: members for name, members in sorted(audience.groups.items()) if name not in but}
    lines = []
    if others:
        shown = [
            f"{name} ({'members not known' if members is None else plural(members, 'member')})"
            for name, members in list(others.items())[:_MOST_NAMED]
        ]
        more = len(others) - len(shown)
        lines.append(
            f"{plural(len(others), 'other group reads', 'other groups read')} these topics: {listed(shown)}"
            + (f" and {more:,} more" if more else "")
            + ". The replay does not move them, but what your consumers write again reaches whoever reads it."
        )
    if audience.unknown is not None:
        lines.append(f"It cannot be told who else reads these topics: {audience.unknown.rstrip('.')}.")
    return lines
