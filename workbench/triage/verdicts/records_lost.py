"""Records were deleted, or passed over by a commit, before the group read them."""

from __future__ import annotations

from workbench.features.measured import PartitionFeatures
from workbench.humanize import count, duration, listed, plural, shell_word
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _hit(row: SubscriptionFeatures) -> list[PartitionFeatures]:
    name = "lost" if row.lost_messages else "skipped"
    return [it for it in row.partitions if it.story and it.story.get(name, 0) > 0]


def _offset(row: SubscriptionFeatures) -> int | None:
    """The first offset that nobody read, of the first such partition."""
    name = "lost_from" if row.lost_messages else "skipped_from"
    return next((round(it.story[name]) for it in _hit(row) if it.story and name in it.story), None)


def _headline(row: SubscriptionFeatures) -> str:
    name = "lost_ago" if row.lost_messages else "skipped_ago"
    ago = min((it.story[name] for it in _hit(row) if it.story and name in it.story), default=None)
    when = f", last {duration(ago)} ago" if ago is not None else ""
    where = f"{plural(len(_hit(row)), 'partition')} ({listed([it.partition for it in _hit(row)])})"
    if row.lost_messages:
        return f"Records lost: retention deleted {count(row.lost_messages)} messages of {where} before they were read{when}."
    return (
        f"Records skipped: commits of {where} jumped over {count(row.skipped_messages)} messages to the end{when}, "
        "faster than this group ever read."
    )


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    first = _hit(row)[0].partition if _hit(row) else 0
    offset = _offset(row)
    if row.lost_messages:
        return [
            Action(
                title="Keep what is left: raise retention.ms of the topic until the group has caught up",
                command=f"kafka-configs --bootstrap-server {it.brokers} --alter --entity-type topics"
                f" --entity-name {shell_word(it.topic)} --add-config retention.ms=604800000",
                verify="the log start no longer passes the commits",
            ),
            Action(
                title=f"Look for a copy of the records from offset {offset:,} of partition {first} on: a mirror, a sink, a backup"
                if offset is not None
                else "Look for a copy of the deleted records: a mirror, a sink, a backup",
                command=it.describe,
                verify="you know which records are gone for good",
            ),
        ]
    return [
        Action(
            title="Ask who moved the offsets, and whether auto.offset.reset=latest is set",
            command=it.describe,
            verify="you know why the commits jumped",
        ),
        Action(
            title=f"Replay what was skipped (from offset {offset:,} of partition {first} on) by time, into a new group"
            if offset is not None
            else "Replay what was skipped by time, into a new group",
            command=None,
            verify="the replay's group has read all of it",
        ),
    ]


LEAF = Leaf(
    verdict=Verdict.RECORDS_LOST,
    headline=_headline,
    scope=lambda row: Scope(
        partitions=tuple(it.partition for it in _hit(row)),
        offset=_offset(row),
        cause="deleted" if row.lost_messages else "skipped",
    ),
    actions=_actions,
)
