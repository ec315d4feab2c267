"""The broker throttles the clients by a quota."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.humanize import count, duration, listed, percent, rate, shell_word
from workbench.judgement_numbers import FETCH_SECONDS, NOISE
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, proves
from workbench.triage.shared_actions import SHRINKS
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Answer, Verdict


def _words(row: Row) -> str:
    if row.throttle_seconds is None:
        if row.quota_share is None:
            return "no throttle metrics"
        arriving = f", and {rate(row.arrival_per_second)} arrive" if row.arrival_per_second is not None else ""
        return (
            f"its quota allows about {count(row.read_quota_per_second)} messages/s{arriving}; it reads {percent(row.quota_share)} of"
            " what the quota allows; no throttle metrics"
        )
    return f"{duration(row.throttle_seconds)} on average"


QUESTION = Node(
    id="throttled",
    question="Is the broker throttling this client?",
    short="throttled?",
    rules=(
        proves(
            "told",
            "the client says that the broker makes its fetches wait",
            Operand("throttle_seconds", "s", ">", setting="throttle_seconds"),
        ),
        proves(
            "at_quota",
            "no client tells its throttle time, and it is at its quota: it reads what the quota allows, and no more",
            lambda row: row.throttle_seconds is None and row.at_quota,
        ),
        leaves_open(
            "next_answer",
            "all that is behind may have stopped just now: a throttled client measures how long it waits by its next answer",
            lambda row: row.all_may_have_stopped and (row.throttle_seconds or 0) > 0,
            look="look again in a minute",
        ),
        no(
            "not",
            "the client says that the broker does not make its fetches wait, or hardly",
            lambda row: row.throttle_seconds is not None,
        ),
        leaves_open(
            "not_measured",
            "no client tells its throttle time, and it is not known to be at a quota",
            always,
            look="the quotas of its user and client id",
        ),
    ),
    yes=Conclude(Verdict.THROTTLED),
    words=_words,
    needs=("throttle_time",),
    measures=(
        Measure("throttle_time", "throttle_seconds", "s", threshold="throttle_seconds"),
        Measure("read_quota", "quota_share", "of what its quota lets it read"),
    ),
    look="See whether a quota applies to these clients",
    contributes=True,
)


def raise_quota(it: Subject, row: Row) -> list[Action]:
    """What to do about a quota that allows less than arrives."""
    held = sorted({m.member for m in row.members if (m.throttle_seconds or 0) > row.limits.throttle_seconds})
    name = shell_word(held[0]) if held else '"$CLIENT_ID"'
    these = f" ({listed(held)})" if held else ""
    measured = row.throttle_seconds is not None
    arriving = f" ({count(row.arrival_per_second)} messages/s)" if row.arrival_per_second is not None else ""
    gone = Check("throttle_seconds", "<=", row.limits.throttle_seconds)
    return [
        Action(
            title=f"Check which quota applies to these clients{these}: one of their user counts before one of their client id",
            command=it.tools.list_quotas(),
            verify="you know the quota, and who set it",
        ),
        Action(
            title=f"Raise it above the arrival rate{arriving}, or remove it (here that of a client id)",
            command=it.tools.lift_quota(name),
            verify=f"the throttle time is {duration(row.limits.throttle_seconds)} or less"
            if measured
            else "the lag shrinks",
            kind="raise_quota",
            parameters={"members": held},
            checks=(gone if measured else SHRINKS,),
        ),
    ]


def _headline(row: Row) -> str:
    if row.throttle_seconds is not None:
        return f"Throttled by the broker: {duration(row.throttle_seconds)} per fetch on average."
    return (
        f"At its quota: the brokers let it read about {count(row.read_quota_per_second)} messages/s, and"
        f" {count(row.arrival_per_second)}/s arrive."
    )


def _share(row: Row, arriving: float) -> Iterator[tuple[str, float]]:
    if row.at_quota and row.read_quota_per_second is not None and row.throttle_seconds is None:
        yield f"a quota of about {rate(row.read_quota_per_second)}", arriving - row.read_quota_per_second
    elif row.answers.get("throttled") is Answer.YES and row.throttle_seconds:
        fetch = row.rtt_baseline_seconds or FETCH_SECONDS
        held = min((1 - NOISE), row.throttle_seconds / (row.throttle_seconds + fetch))
        yield f"the broker holds fetches back for {percent(held)} of the time", arriving * held


LEAF = Leaf(verdict=Verdict.THROTTLED, headline=_headline, actions=raise_quota, share=_share)
