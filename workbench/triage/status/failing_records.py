"""The group keeps up, but its handlers fail, time out or give records up more than usual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.features.measured import ProcessorFeatures
from workbench.humanize import listed, percent
from workbench.numbers import FAR, PART
from workbench.settings import Thresholds
from workbench.triage.checks import Check
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict

if TYPE_CHECKING:
    from workbench.features.series import Series
    from workbench.triage.leaf import Sign


def _share(it: ProcessorFeatures) -> float:
    return (it.failed or 0.0) / it.outcomes if it.outcomes else 0.0


def _names(row: SubscriptionFeatures) -> list[str]:
    """Event types that fail about as much as the worst of them."""
    worst = max((_share(it) for it in row.processors), default=0.0)
    return sorted({it.processor for it in row.processors if worst and _share(it) >= worst / 2})


def _headline(row: SubscriptionFeatures) -> str:
    was = f", was {percent(row.failing_baseline_share)}" if row.failing_baseline_share is not None else ""
    return f"Records fail: {percent(row.failing_share)} of the attempts{was} ({listed(_names(row))}), while the group keeps up."


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    names = listed(_names(row))
    return [
        Action(
            title=f"Read the handlers' log for the errors of {names}, and what they depend on",
            command=None,
            verify="you know why they fail",
        ),
        Action(
            title="Once it is fixed, replay what was given up from the onset on, into a new group",
            command=f"{it.triage} --json",
            verify="the share of failures is as before",
            checks=(Check(feature="failing_share", relation="<", value=it.thresholds.failing_ratio),),
        ),
    ]


def _onset(series: Series, row: SubscriptionFeatures, thresholds: Thresholds) -> Sign:
    """The share of attempts that fail, above the threshold and three times the usual."""
    usual = row.failing_baseline_share or 0.0
    return series.failing.values, max(thresholds.failing_ratio, FAR * usual if usual < PART else usual)


LEAF = Leaf(
    verdict=Verdict.FAILING_RECORDS,
    headline=_headline,
    scope=lambda row: Scope(processors=tuple(_names(row))),
    actions=_actions,
    onset=_onset,
)
