"""The group does not lag."""

from __future__ import annotations

from workbench.triage import wording
from workbench.triage.leaf import Leaf
from workbench.triage.verdict import State, Verdict

LEAF = Leaf(
    verdict=Verdict.HEALTHY,
    state=State.HEALTHY,
    headline=lambda row: f"Healthy: {wording.lagging(row)}.",
)
