"""Queues are full at normal process times: too few threads for the arrival rate."""

from __future__ import annotations

from workbench.humanize import listed, rate
from workbench.settings import Thresholds
from workbench.triage import capacity
from workbench.triage.actions import more_threads
from workbench.triage.capacity import Sizing
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _full(row: SubscriptionFeatures) -> list[str]:
    return sorted({queue.processor for queue in row.full_queues if queue.processor is not None})


def _headline(row: SubscriptionFeatures) -> str:
    return (
        f"Processors are saturated: queues of {listed(_full(row))} are full at normal process times, "
        f"with {rate(row.arrival_per_second)} arriving."
    )


def _sizing(row: SubscriptionFeatures, thresholds: Thresholds) -> Sizing | None:
    return capacity.processor_threads(row, set(_full(row)), objective_seconds=thresholds.time_lag_objective_seconds)


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    title = f"Raise the processor threads of {listed(_full(row))}, or add an instance"
    return [more_threads(it, row, set(_full(row)), title)]


LEAF = Leaf(
    verdict=Verdict.SATURATED_PROCESSORS,
    headline=_headline,
    scope=lambda row: Scope(processors=tuple(_full(row))),
    sizing=_sizing,
    actions=_actions,
)
