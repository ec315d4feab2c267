"""Groups whose members nobody counts, but whose state an exporter tells: an empty one has no members, by Kafka's own words.

Not where commits move all the same: a group that assigns its partitions itself is empty for Kafka as long as it lives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.triage.judging import rows_of
from tests.triage.test_calm import END, LOADED, MINUTE, WINDOW, Group, everything
from workbench.samples import SampleBatch, concat
from workbench.signals import GROUP_STATES
from workbench.thresholds import Thresholds
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import State, Verdict

pytestmark = pytest.mark.jvm


@dataclass
class Stated(Group):
    """A group with its state instead of a count of members: empty from some seconds before the end on, for some time, or always."""

    members: float | None = None
    empty: float | None = None
    refilled: float = 0.0

    def samples(self) -> pa.Table:
        """With the states."""
        batch = SampleBatch("c", "klag")
        times = np.arange(-LOADED, 1.0, self.scrape)
        empty = (
            np.zeros(len(times), bool)
            if self.empty is None
            else (times > -self.empty) & (times < (-self.refilled or 1))
        )
        states = np.where(empty, GROUP_STATES["empty"], GROUP_STATES["stable"]).astype(float)
        batch.add(
            "group_state", {"group": self.name}, np.round((END.timestamp() + times) * 1e6).astype(np.int64), states
        )
        return concat([super().samples(), batch.to_arrow()])


ALWAYS = LOADED + MINUTE
GROUPS = {
    **{
        f"all members gone for {minutes} min, scraped every {scrape} s": (
            Stated(f"gone-{minutes}-{scrape}", stops=everything(minutes * MINUTE), empty=minutes * MINUTE, scrape=scrape),
            {Verdict.CONSUMER_STOPPED},
        )
        for minutes in (4, 9, 40)
        for scrape in (15.0, 30.0, 60.0)
    },
    "assigns its partitions itself": (Stated("assigns", empty=ALWAYS), {Verdict.HEALTHY}),
    "assigns them itself, and has stopped": (
        Stated("assigned", empty=ALWAYS, stops=everything(9 * MINUTE)), {Verdict.CANNOT_TELL}
    ),
    "empty for a moment of a rollout": (Stated("rollout", empty=5 * MINUTE, refilled=4.4 * MINUTE), {Verdict.HEALTHY}),
    "empty for 3 min, and back": (
        Stated("back", stops=everything(8 * MINUTE), resumes=5 * MINUTE, empty=8 * MINUTE, refilled=5 * MINUTE),
        {Verdict.HEALTHY, Verdict.RECOVERED},
    ),
    "stands still with members": (
        Stated("stands", stops=everything(9 * MINUTE)), {Verdict.CANNOT_TELL, Verdict.STUCK_PARTITION}
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All of them in one job."""
    made = concat(it.samples() for it, _ in GROUPS.values())
    return rows_of(spark, made, thresholds=Thresholds(), window=WINDOW)


@pytest.mark.parametrize("name", GROUPS)
def test_an_empty_group_has_no_members(name: str, rows: dict[str, SubscriptionFeatures]) -> None:
    """And says so; what moves all the same is counted by nobody."""
    group, wanted = GROUPS[name]
    row = rows[group.name]
    assert row.verdict in wanted, (row.verdict, row.answers)
    if row.verdict is Verdict.CONSUMER_STOPPED:
        assert "has no members" in leaf_of(row.verdict).headline(row)
    elif leaf_of(row.verdict).state is not State.HEALTHY:
        assert row.lag_messages
