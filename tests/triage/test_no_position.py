"""Rules of what is said where nothing tells where a group stands: what there is instead, not that a target is down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evaluation.stories import WINDOW
from tests.triage.made import made, subscription
from tests.triage.test_kinds import captured
from workbench.errors import NoSeriesError
from workbench.features.subscription_measurements import PartitionFeatures
from workbench.samples import SampleBatch
from workbench.triage.status.data_usable import QUESTION
from workbench.triage.triage_engine import triage


def words(*partitions: PartitionFeatures) -> str:
    """What the first question says of partitions without a lag."""
    return QUESTION.words(subscription(partitions=partitions))


def test_commits_without_an_end_say_which_half_is_missing() -> None:
    """A Flink job alone commits and knows no end of a log; with one end known, or no commit, something else is wrong."""
    committed = made(PartitionFeatures, partition=0, committed=10.0)
    assert "commits of 1 partition are known, and no log end" in words(committed)
    for others in (
        [made(PartitionFeatures, partition=1, log_end=20.0), committed],
        [made(PartitionFeatures, partition=1)],
    ):
        assert words(*others) == "no lag samples in the window"


@pytest.mark.jvm
def test_without_any_position_what_is_measured_is_named(spark: Any) -> None:
    """Members and their polls are no lag: the hint names both, and where the metrics are looked up."""
    polls = SampleBatch("test", "page")
    polls.add("poll_age", {"group": "pay", "member": "pay-0"}, [round(WINDOW.end.timestamp() * 1e6)], [0.2])
    with pytest.raises(NoSeriesError) as caught:
        triage(replace(captured([], {}), samples=polls.to_arrow()), spark)
    assert (caught.value.hint or "").startswith("Measured: poll_age. A lag takes consumer_lag, or committed_offset")
    assert (caught.value.hint or "").endswith("workbench profiles check --cluster test")
