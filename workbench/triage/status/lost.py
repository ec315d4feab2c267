"""Records were deleted, or passed over by a commit, before the group read them."""

from __future__ import annotations

from workbench.humanize import count, counted, duration, listed, percent, plural
from workbench.triage.action_subject import Subject
from workbench.triage.facts.unknown_numbers import above
from workbench.triage.finding import Action, Scope
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, yes
from workbench.triage.shared_actions import consume_again, keep_longer
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Answer, Verdict

# Such a leap is none only where a group without members made it.
NO_RECORD = (
    "; where a topic is compacted, or a transaction was aborted, offsets have no record, and nothing was skipped there"
)


def _leapt(row: Row) -> str:
    """What the next commit passed, for a consumer that then begins at the end."""
    return f", and commits then passed {count(row.leapt_messages)} more to the log's end" if row.leapt_messages else ""


def words(row: Row) -> str:
    """Messages that nobody read."""
    parts = []
    if row.lost_messages:
        parts.append(f"retention deleted {counted(row.lost_messages, 'message')} before they were read{_leapt(row)}")
    if row.skipped_messages:
        parts.append(f"commits passed {counted(row.skipped_messages, 'message')} in one step")
    if row.doubtful_messages and not parts:
        parts.append(
            f"commits passed {counted(row.doubtful_messages, 'message')} in one step: read very fast, skipped, or offsets without a"
            " record, as an aborted transaction leaves them"
        )
    before = sum(row.told("lost_before").values())
    if before and not row.lost_messages:
        parts.append(f"{counted(before, 'message')} behind the commits were deleted before the data begin")
    if parts:
        return ", ".join(parts)
    if not any(it.committed_high is not None for it in row.partitions):
        return "no commits are measured"
    return (
        "no unread message was deleted, as far as offsets show"
        if any(it.log_start is not None for it in row.partitions)
        else "no log start"
    )


QUESTION = Node(
    id="lost",
    by="side",
    question="Were records lost: deleted, or passed by a commit, before they were read?",
    short="records lost?",
    rules=(
        yes("deleted", "retention deleted records before they were read", lambda row: above(row.lost_messages, 0)),
        yes("skipped", "commits passed records that nobody read", lambda row: above(row.skipped_messages, 0)),
        leaves_open(
            "doubtful",
            "commits passed records so fast that they were skipped, read by a consumer with much room, or had no record",
            lambda row: above(row.doubtful_messages, 0),
            look="compare with what the handlers counted, or with what they wrote",
        ),
        no("none", "the offsets show no record that was passed unread", always),
    ),
    yes=Conclude(Verdict.RECORDS_LOST),
    words=words,
    needs=("log_start_offset", "committed_offset"),
    measures=(
        Measure("log_start_offset", "lost_messages", "messages deleted before they were read"),
        Measure("committed_offset", "skipped_messages", "messages that a commit passed unread"),
    ),
)


def _what(row: Row) -> str:
    """Which of the two, as the names of the facts begin."""
    return "lost" if row.lost_messages else "skipped"


def _hit(row: Row) -> list[int]:
    return list(row.told("lost") if row.lost_messages else row.skipped_partitions)


def _told(row: Row, name: str) -> dict[int, float]:
    """A fact of the partitions that were hit."""
    hit = _hit(row)
    return {number: value for number, value in row.told(name).items() if number in hit}


def _offset(row: Row) -> int | None:
    """The first offset that nobody read, of the first such partition."""
    return next((round(offset) for offset in _told(row, f"{_what(row)}_from").values()), None)


def _headline(row: Row) -> str:
    ago = min(_told(row, f"{_what(row)}_ago").values(), default=None)
    when = f", last {duration(ago)} ago" if ago is not None else ""
    where = f"{plural(len(_hit(row)), 'partition')} ({listed(_hit(row))})"
    if row.lost_messages:
        lost = counted(row.lost_messages, "message")
        they = "it was" if row.lost_messages == 1 else "they were"
        return f"Records lost: retention deleted {lost} of {where} before {they} read{_leapt(row)}{when}."
    passed = f"Records skipped: commits of {where} passed {counted(row.skipped_messages, 'message')} in one step{when}"
    if any(_told(row, "skip_alone").values()):
        return f"{passed}, while the group had no members."
    return f"{passed}; the handlers account for {percent(min(_told(row, 'skip_read').values()))} of them."


def _actions(it: Subject, row: Row) -> list[Action]:
    first = next(iter(_hit(row)), 0)
    offset, by_hand = _offset(row), any(_told(row, "skip_alone").values())
    if row.lost_messages:
        return [
            keep_longer(
                it,
                "Keep what is left: raise retention.ms of the topic (retention.bytes, if its size is the limit) until the group has"
                " caught up",
                "the log start no longer passes the commits",
                Check("lost_messages", "=", 0.0),
            ),
            # Nobody reads: each segment that goes is one more.
            *(consume_again(it, row) if row.answers["consuming"] is Answer.NO else ()),
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
            title=f"Ask who moved the offsets, and whether auto.offset.reset=latest is set{'' if by_hand else NO_RECORD}",
            command=it.describe,
            verify="you know why the commits jumped",
        ),
        Action(
            title=f"Replay what was skipped (from offset {offset:,} of partition {first} on) by time, into a new group"
            if offset is not None
            else "Replay what was skipped by time, into a new group",
            verify="the replay's group has read all of it",
            checks=(Check("skipped_messages", "=", 0.0),),
        ),
    ]


LEAF = Leaf(
    verdict=Verdict.RECORDS_LOST,
    headline=_headline,
    scope=lambda row: Scope(
        partitions=tuple(_hit(row)), offset=_offset(row), cause="deleted" if row.lost_messages else "skipped"
    ),
    actions=_actions,
    began_ago=lambda row: max([*_told(row, "lost_ago").values(), *_told(row, "skipped_ago").values()], default=None),
)
