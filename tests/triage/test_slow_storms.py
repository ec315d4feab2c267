"""Rounds of a rebalance storm that take as long as the window: members that poll too rarely are removed after a time that is set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, Story, growing
from tests.triage.judging import rows_of
from workbench.triage.causes.rebalance_storm import rebalances_counted
from workbench.triage.verdict_names import Answer, Verdict

pytestmark = pytest.mark.jvm
ONSET = -110.0  # long before the window, which is 60 s


def slow_storm(name: str, at: Sequence[float], *, polls: bool = False) -> Story:
    """A group that falls behind, with rebalances at these times; its members poll all the time, or one of them pauses in each round."""
    late = growing(20.0, start=5.0, since=ONSET), growing(0.5, start=0.1, since=ONSET)
    story = Story(group=name, topic=name).all_partitions(lag=late[0], time_lag=late[1]).processor("order").fetch_queue()
    counted = np.searchsorted(np.array(at), TIMES, side="right").astype(float)
    ages = 0.05 if polls else np.where(TIMES > ONSET, (TIMES - ONSET) % 30.0, 0.05).tolist()
    return story.people(rebalances=counted.tolist(), poll_age=ages)


CASES = {
    "two rounds, one of them in the window": (slow_storm("a", [-95, -90, -35, -30]), True),
    "two rounds, and polls are never late": (slow_storm("b", [-95, -90, -35, -30], polls=True), False),
    "one less": (slow_storm("c", [-90, -35, -30]), False),
    "only the end of one in the window": (slow_storm("d", [-95, -90, -85, -30]), False),
    "none since the lag began": (slow_storm("e", [-150, -145, -140, -135]), False),
}


@pytest.fixture(scope="module")
def judged(spark: Any) -> Any:
    """All stories in one job."""
    return rows_of(spark, [story for story, _ in CASES.values()])


@pytest.mark.parametrize("case", CASES)
def test_rounds_count_since_the_lag_began(judged: Any, case: str) -> None:
    """Where a member misses its polls, one round in the window and one before are enough."""
    story, storm = CASES[case]
    row = judged[story.group]
    assert row.answers["rebalancing"] is (Answer.YES if storm else Answer.NO)
    if storm:
        assert row.verdict is Verdict.REBALANCE_STORM
        assert row.storm_cause == "poll_stall"
        assert rebalances_counted(row) == "2 in the window, 4 since it began"
        assert rebalances_counted(row, "rebalance") == "2 rebalances in the window, 4 since it began"


def test_the_last_one_and_the_time_between_two_are_measured(judged: Any) -> None:
    """Of the window alone; of a single one no time between two is known."""
    measured = {"a": (30.0, 4.0), "b": (30.0, 4.0), "c": (30.0, 4.0), "d": (30.0, None), "e": (None, None)}
    assert {name: (row.rebalanced_ago, row.rebalances_apart) for name, row in judged.items()} == measured
