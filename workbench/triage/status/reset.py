"""Commits went back, so records are read again; or they are above the end of a log that began anew."""

from __future__ import annotations

from workbench.humanize import counted, duration, numbered
from workbench.judgement_numbers import MISSED
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
    if not parts and not any(it.committed_high is not None for it in row.partitions):
        return "no commits are measured"
    return ", ".join(parts) or "no commit went back within the log by more than a member commits late"


QUESTION = Node(
    id="reset",
    by="side",
    question="Did commits go back, or are they above the log's end?",
    short="offsets reset?",
    rules=(
        no(
            "late_commits",
            "members that rebalance as often as in a storm committed late what they had before others took their partitions over",
            lambda row: _cause(row) == "late_commit" and row.rebalances_often,
        ),
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
            "no commit is seen that went back within the log by more than a member commits late, or is above its end",
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


def _all(row: Row, name: str) -> bool:
    """Whether a fact is told of every partition whose commits went back."""
    return all(row.told(name).get(it) for it in row.told("back"))


def read_again(row: Row) -> bool:
    """Whether commits that went back are all where they were, so that what keeps the lag now is something else."""
    return _cause(row) == "went_back" and _all(row, "back_over")


def _cause(row: Row) -> str:
    """What is known of it: the log itself comes first, and only a leap back to where they were is a late commit."""
    if row.above_end_messages:
        return "above_end"
    if _all(row, "recreated_ago"):
        return "topic_recreated"
    return "late_commit" if _all(row, "back_amid_members") and _all(row, "back_leapt") else "went_back"


def _headline(row: Row) -> str:
    where, cause = numbered("partition", _hit(row)), _cause(row)
    if cause == "above_end":
        return (
            f"Offsets above the end: the commits of {where} are {counted(row.above_end_messages, 'message')} above the log's end. "
            "The topic was created anew, or its log was cut."
        )
    ago = min(row.told("back_ago").values(), default=None)
    when = f" {duration(ago)} ago" if ago is not None else ""
    moved = f"commits of {where} went back by {counted(row.back_messages, 'message')}{when}"
    if cause == "topic_recreated":
        since = max(row.told("recreated_ago").values())
        return f"Offsets reset: {moved}, as the log's end did {duration(since)} ago: the topic was created anew, or its log was cut."
    if cause == "late_commit":
        return (
            f"Commits went back: {moved}, while the group had members, and then leapt forward again: a member committed late what it"
            " had before others took its partitions over, or its client sought back and forth."
        )
    unseen = [
        seconds
        for it, seconds in row.told("back_unseen").items()
        if seconds > MISSED * row.told("interval").get(it, seconds)
    ]
    gone = f", after {duration(max(unseen))} without any" if unseen else ""
    by = (
        " The group had members at each count then, and Kafka refuses a reset from outside while it has: its consumer goes back so by"
        " auto.offset.reset (an offset that expired, was lost or out of range), by a seek, or by a commit that comes late."
        if _all(row, "back_amid_members")
        else ""
    )
    one, over = row.back_messages == 1, read_again(row)
    again = f"{'it' if one else 'they'} {('was' if one else 'were') if over else ('is' if one else 'are')} read again"
    if not over and all(row.told("moved_ago").get(it) == ago for it, ago in row.told("back_ago").items()):
        again += ", at the latest when the consumer starts anew: no commit has followed"
    return f"Offsets reset: {moved}{gone}; {again}.{by}"


def _actions(it: Subject, row: Row) -> list[Action]:
    cause, command = _cause(row), it.describe
    fact = "above_end_messages" if cause == "above_end" else "back_messages"
    if cause in ("above_end", "topic_recreated"):
        title = "Find out whether the topic was created anew, and what auto.offset.reset will do to the records in it"
        verify = "you know from where the group goes on: latest loses what is in the log now"
    elif cause == "late_commit":
        command = it.members
        title = (
            "Find why a member lost its partitions and came back: a pause of its process, or a poll that came too late; a"
            " client that seeks back itself looks the same"
        )
        verify = "members keep their partitions, and a later triage sees no commit go back"
    elif _all(row, "back_amid_members"):
        title = (
            "Look in the consumer's log for “Resetting offset” and “out of range”, and for its own seeks; compare"
            " offsets.retention.minutes with how long it commits nothing"
        )
        verify = "you know what the consumer began again from, and a later triage sees no commit go back"
    else:
        title = (
            "Ask who reset the offsets (a replay on purpose belongs into a new group), or look in the consumer's log for “Resetting"
            " offset”: auto.offset.reset, after a commit had expired or was lost"
        )
        verify = "you know whether records may be processed twice, and a later triage sees no commit go back"
    return [Action(title=title, command=command, verify=verify, checks=(Check(fact, "=", 0.0),))]


def _began_ago(row: Row) -> float | None:
    """When offsets moved; None where that is over, and the lag of now began later."""
    seen = [*row.told("recreated_ago").values(), *row.told("back_ago").values()]
    return max(seen) if seen and not read_again(row) else None


LEAF = Leaf(
    verdict=Verdict.OFFSETS_RESET,
    headline=_headline,
    scope=lambda row: Scope(partitions=_hit(row), cause=_cause(row)),
    actions=_actions,
    began_ago=_began_ago,
)
