"""The handler of one event type is slow, compared with its own baseline and its peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.humanize import duration, listed, plural, printable, times
from workbench.settings import Thresholds
from workbench.triage import capacity
from workbench.triage.actions import more_threads
from workbench.triage.capacity import Sizing
from workbench.triage.checks import Check
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict

if TYPE_CHECKING:
    from workbench.features.series import Series
    from workbench.triage.leaf import Sign


def _headline(row: SubscriptionFeatures) -> str:
    slow = [p for p in row.processors if p.processor in row.slow_processors]
    if len(slow) == 1:
        [it] = slow
        peers, took = row.peers_seconds, it.process_seconds
        if it.slow_down is None:
            return (
                f"One processor is slow: event type “{printable(it.processor)}” takes {duration(took)}, ten times its peers'"
                " time or more, and most of all the time; the data show no good time to compare with."
            )
        if len(row.processors) == 1:
            return f"The handler is slow: it takes {duration(took)}, {times(it.slow_down)} its own baseline."
        against = f" and {times(took / peers)} its peers" if peers and took is not None else ""
        return (
            f"One processor is slow: event type “{printable(it.processor)}” takes {duration(took)}, "
            f"{times(it.slow_down)} its own baseline{against}."
        )
    return f"{plural(len(slow), 'processor is', 'processors are')} slow: event types {listed([p.processor for p in slow])}."


def _sizing(row: SubscriptionFeatures, thresholds: Thresholds) -> Sizing | None:
    names = set(row.slow_processors)
    return capacity.processor_threads(row, names, objective_seconds=thresholds.time_lag_objective_seconds)


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    names = sorted(row.slow_processors)
    shown = listed(names)
    others = [
        it.process_seconds for it in row.processors if it.processor not in names and it.process_seconds is not None
    ]
    usual = max(others, default=0.0) if row.slow_by_peers else row.slowest_baseline_seconds or 0.0
    as_usual = Check(
        feature="processors",
        field="process_seconds",
        items=tuple(names),
        relation="<",
        value=usual * it.thresholds.slow_ratio,
    )
    return [
        Action(
            title=f"Check what changed{it.when} in the handler of {shown}, or in what it calls",
            command=it.changes,
            verify=f"process time of {shown} is back at {duration(usual)}",
            checks=(as_usual,),
        ),
        # A poll loop has no threads to add.
        *([more_threads(it, row, set(names), f"Raise the processor threads of {shown}")] if not row.queueless else []),
    ]


def _onset(series: Series, row: SubscriptionFeatures, thresholds: Thresholds) -> Sign:
    """Process time of the slowest processor, and its threshold."""
    slowest = row.slowest
    if slowest is None:
        return None, 0.0
    mine = [line.values for line in series.process_time if line.name == slowest.processor]
    return (mine[0] if mine else None), thresholds.slow_ratio * slowest.baseline_seconds


LEAF = Leaf(
    verdict=Verdict.SLOW_PROCESSOR,
    headline=_headline,
    scope=lambda row: Scope(processors=row.slow_processors),
    sizing=_sizing,
    actions=_actions,
    onset=_onset,
)
