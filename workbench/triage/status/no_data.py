"""The lag has no recent samples."""

from __future__ import annotations

from workbench.triage import wording
from workbench.triage.actions import see_the_source
from workbench.triage.leaf import Leaf
from workbench.triage.verdict import State, Verdict

LEAF = Leaf(
    verdict=Verdict.NO_DATA,
    state=State.CANNOT_TELL,
    headline=lambda row: f"No data: {wording.data(row)}.",
    actions=lambda it, _row: (see_the_source(it),),
)
