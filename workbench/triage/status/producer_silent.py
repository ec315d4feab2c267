"""Nothing arrives, although records usually do: the consumers are well, and something before them may not be."""

from __future__ import annotations

from workbench.humanize import duration
from workbench.triage.leaf import Leaf
from workbench.triage.verdict import State, Verdict

LEAF = Leaf(
    verdict=Verdict.PRODUCER_SILENT,
    state=State.HEALTHY,
    headline=lambda row: (
        f"Nothing arrives: the last record came {duration(row.quiet_seconds)} ago, before at most "
        f"{duration(row.usual_gap_seconds)} apart. The group itself keeps up; look at the producers."
    ),
)
