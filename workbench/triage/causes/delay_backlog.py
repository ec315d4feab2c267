"""The delay queue is full, and the consumer pauses."""

from __future__ import annotations

from workbench.humanize import count, percent
from workbench.numbers import TENTH
from workbench.triage.checks import Check
from workbench.triage.finding import Action
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    capacity = max((m.delayed_capacity or 0 for m in row.members), default=0)
    wanted = round(capacity / TENTH) or None
    more = f", from {count(capacity)} to {count(wanted)}" if wanted else ""
    return [
        Action(
            title=f"Raise delay_capacity{more}, or delay fewer events",
            command=None,
            verify="the delay queue is less than half full",
            kind="raise_delay_capacity",
            parameters={"capacity": wanted},
            checks=(Check(feature="delay_high", relation="<", value=it.thresholds.delay_high_ratio),),
        )
    ]


LEAF = Leaf(
    verdict=Verdict.DELAY_BACKLOG,
    headline=lambda row: f"The delay queue is full ({percent(row.delay_fill)}) and blocks the consumer.",
    actions=_actions,
)
