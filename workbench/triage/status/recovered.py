"""The group was late in the window, and has caught up."""

from __future__ import annotations

from workbench.humanize import duration
from workbench.triage import wording
from workbench.triage.leaf import Leaf
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import State, Verdict


def _headline(row: SubscriptionFeatures) -> str:
    since = min(row.told("late_from").values(), default=0.0)
    until = max(row.told("late_to").values(), default=0.0)
    peak = max(row.told("late_peak").values(), default=0.0)
    return (
        f"Recovered {duration(-until)} ago: late for {duration(until - since)}, up to {duration(peak)} behind; "
        f"now {wording.lagging(row)}."
    )


LEAF = Leaf(verdict=Verdict.RECOVERED, state=State.HEALTHY, headline=_headline)
