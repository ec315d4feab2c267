"""All processors are slower than they were: something that they share is slow."""

from __future__ import annotations

from workbench.humanize import times
from workbench.triage.checks import Check
from workbench.triage.finding import Action
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _headline(row: SubscriptionFeatures) -> str:
    factor = times(row.median_slow_down)
    return f"Everything is slow: the processors take {factor} their baseline, which points at what they all call."


def _actions(it: Subject, _row: SubscriptionFeatures) -> list[Action]:
    return [
        Action(
            title=f"Look at what all processors call, and what changed there{it.when}: database, service, lock, the machine itself",
            command=it.triage,
            verify="process times are back at their baseline",
            checks=(Check(feature="median_slow_down", relation="<", value=it.thresholds.all_slow_ratio),),
        )
    ]


LEAF = Leaf(verdict=Verdict.SLOW_DOWNSTREAM, headline=_headline, actions=_actions)
