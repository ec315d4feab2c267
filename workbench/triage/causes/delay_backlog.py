"""The delay queue is full, and the consumer pauses."""

from __future__ import annotations

from workbench.humanize import count, percent
from workbench.judgement_numbers import TENTH
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, yes
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Verdict


def _words(row: Row) -> str:
    if row.delay_fill is None:
        return "no delay queue metrics"
    return f"{percent(row.delay_fill)} full on average, {percent(row.delay_high)} at the maximum"


QUESTION = Node(
    id="delay_full",
    question="Is the delay queue full?",
    short="delay queue full?",
    rules=(
        yes(
            "full",
            "the delay queue is full",
            Operand("delay_fill", "of capacity", ">=", setting="delay_fill_ratio"),
            Operand("delay_high", "of capacity at most", ">=", setting="delay_high_ratio"),
        ),
        no("none", "it has no delay queue, or one with room", lambda row: row.queueless or row.delay_full is False),
        leaves_open(
            "unknown",
            "the delay queue is not measured",
            always,
            look="the length of the delay queue: docs/metrics.md has its name",
        ),
    ),
    yes=Conclude(Verdict.DELAY_BACKLOG),
    words=_words,
    needs=("delayed_length", "delayed_capacity"),
    measures=(
        Measure("delayed_length", "delay_fill", "of capacity", threshold="delay_fill_ratio"),
        Measure("delayed_length", "delay_high", "of capacity at most", threshold="delay_high_ratio"),
    ),
)


def _actions(_it: Subject, row: Row) -> list[Action]:
    capacity = max((m.delayed_capacity or 0 for m in row.members), default=0)
    wanted = round(capacity / TENTH) or None
    more = f", from {count(capacity)} to {count(wanted)}" if wanted else ""
    return [
        Action(
            title=f"Raise delay_capacity{more}, or delay fewer events",
            verify=f"the delay queue is less than {percent(row.limits.delay_high_ratio)} full at its highest",
            kind="raise_delay_capacity",
            parameters={"capacity": wanted},
            checks=(Check("delay_high", "<", row.limits.delay_high_ratio),),
        )
    ]


LEAF = Leaf(
    verdict=Verdict.DELAY_BACKLOG,
    headline=lambda row: f"The delay queue is full ({percent(row.delay_fill)}) and blocks the consumer.",
    actions=_actions,
)
