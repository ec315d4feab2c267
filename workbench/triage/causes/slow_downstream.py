"""All processors are slower than their baseline: a shared dependency is slow."""

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
    return f"All processors are slow: they take {factor} their baseline, which points to a shared dependency."


def _actions(it: Subject, _row: SubscriptionFeatures) -> list[Action]:
    return [
        Action(
            title=f"Check what all processors depend on, and what changed there{it.when}: database, service, lock, the host",
            command=it.changes,
            verify="process times are back at their baseline",
            checks=(Check(feature="median_slow_down", relation="<", value=it.thresholds.all_slow_ratio),),
        )
    ]


LEAF = Leaf(verdict=Verdict.SLOW_DOWNSTREAM, headline=_headline, actions=_actions)
