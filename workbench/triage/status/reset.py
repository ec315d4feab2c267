"""Commits went back, so records are read again; or they are above the end of a log that began anew."""

from __future__ import annotations

from workbench.humanize import counted, duration, numbered
from workbench.triage.action_subject import Subject
from workbench.triage.facts.unknown_numbers import above
from workbench.triage.finding import Action, Scope
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, yes
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Verdict


def _words(row: Row) -> str:
    parts = []
    if row.back_messages:
        parts.append(f"commits went back by {counted(row.back_messages, 'message')}")
    if row.above_end_messages:
        parts.append(f"commits are {counted(row.above_end_messages, 'message')} above the log's end")
    return ", ".join(parts) or "no commit went back by more than a member commits late"


QUESTION = Node(
    id="reset",
    by="side",
    question="Did commits go back, or are they above the log's end?",
    short="offsets reset?",
    rules=(
        yes("back", "commits went back", lambda row: above(row.back_messages, 0)),
        yes("above_end", "commits are above the log's end", lambda row: above(row.above_end_messages, 0)),
        leaves_open(
            "anew",
            "a log has just begun anew, or been misread once: too lately to compare commits with its end",
            lambda row: row.began_anew,
            look="look again in a minute; or ask Kafka for the log's end",
        ),
        no(
            "forward",
            "no commit went back by more than a member commits late, or is above the log's end",
            always,
        ),
    ),
    yes=Conclude(Verdict.OFFSETS_RESET),
    words=_words,
    needs=("committed_offset", "log_end_offset"),
    measures=(
        Measure("committed_offset", "back_messages", "messages back"),
        Measure("committed_offset", "above_end_messages", "messages above the end"),
    ),
)


def _hit(row: Row) -> tuple[int, ...]:
    return tuple(sorted({*row.told("back"), *row.told("above_end")}))


def _by_member(row: Row) -> bool:
    """Whether the group had members wherever its commits went back."""
    return not row.above_end_messages and all(row.told("back_by_member").get(it) for it in row.told("back"))


def _cause(row: Row) -> str:
    if row.above_end_messages:
        return "above_end"
    if _by_member(row):
        return "late_commit"
    return "topic_recreated" if row.told("recreated_ago") else "went_back"


def _headline(row: Row) -> str:
    where = numbered("partition", _hit(row))
    if row.above_end_messages:
        return (
            f"Offsets above the end: the commits of {where} are {counted(row.above_end_messages, 'message')} above the log's end. "
            "The topic was created anew, or its log was cut."
        )
    ago = min(row.told("back_ago").values(), default=None)
    when = f" {duration(ago)} ago" if ago is not None else ""
    back = counted(row.back_messages, "message")
    again = "it is read again" if row.back_messages == 1 else "they are read again"
    if _by_member(row):
        return (
            f"Commits went back: those of {where}, by {back}{when}, while the group had members, so that nobody could reset them:"
            f" a member committed late what it had before others took its partitions over; {again}."
        )
    return f"Offsets reset: commits of {where} went back by {back}{when}; {again}."


def _actions(it: Subject, row: Row) -> list[Action]:
    fact, command = "back_messages", it.describe
    if row.above_end_messages:
        fact = "above_end_messages"
        title = "Find out whether the topic was created anew, and what auto.offset.reset will do to the records in it"
        verify = "you know from where the group goes on: latest loses what is in the log now"
    elif _by_member(row):
        command = it.members
        title = (
            "Find why a member lost its partitions and came back: a pause of its process, or a poll that came too late; a"
            " client that seeks back itself looks the same"
        )
        verify = "members keep their partitions, and a later triage sees no commit go back"
    else:
        title = "Ask who reset the offsets; a replay on purpose belongs into a new group"
        verify = "you know whether records may be processed twice, and a later triage sees no commit go back"
    return [Action(title=title, command=command, verify=verify, checks=(Check(fact, "=", 0.0),))]


LEAF = Leaf(
    verdict=Verdict.OFFSETS_RESET,
    headline=_headline,
    scope=lambda row: Scope(partitions=_hit(row), cause=_cause(row)),
    actions=_actions,
    began_ago=lambda row: max([*row.told("recreated_ago").values(), *row.told("back_ago").values()], default=None),
)
