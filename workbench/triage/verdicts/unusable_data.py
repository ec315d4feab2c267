"""Samples arrive, but most of them are not usable numbers."""

from __future__ import annotations

from workbench.humanize import count
from workbench.triage.actions import see_the_source
from workbench.triage.leaf import Leaf
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import State, Verdict


def _headline(row: SubscriptionFeatures) -> str:
    bad, all_samples = row.lag_bad_samples, row.lag_samples + row.lag_bad_samples
    return (
        f"The data cannot be used: {count(bad)} of {count(all_samples)} lag "
        "samples are NaN, infinite or a placeholder for “none”."
    )


LEAF = Leaf(
    verdict=Verdict.UNUSABLE_DATA,
    state=State.CANNOT_TELL,
    headline=_headline,
    actions=lambda it, _row: (see_the_source(it),),
)
