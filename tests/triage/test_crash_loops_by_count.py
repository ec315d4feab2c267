"""A group whose members all come and go, of which an exporter shows no more than their number: it crashes on its start.

Not a job that starts and ends, and not a rollout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.triage.judging import rows_of
from tests.triage.test_calm import END, LOADED, MINUTE, WINDOW
from workbench.samples import SampleBatch, concat
from workbench.thresholds import Thresholds
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import State, Verdict

pytestmark = pytest.mark.jvm
RATE = 50.0


@dataclass(frozen=True)
class Loop:
    """Members that live for some seconds of each period, since a time; before, they are there all the time, or in the same rhythm."""

    name: str
    scrape: float
    life: float
    period: float
    since: float = 20 * MINUTE
    always: bool = False
    read: float = 2.0  # times what arrives, while they live

    def samples(self) -> pa.Table:
        """What a lag exporter shows of it."""
        fine = np.arange(-LOADED, 1.0, 1.0)
        lives = np.mod(fine + 7.0, self.period) < self.life
        there = lives | ((fine < -self.since) & (not self.always))
        ends = np.floor(1e6 + RATE * (fine + LOADED))
        read = np.zeros(len(fine))
        for at in range(1, len(fine)):
            read[at] = min(ends[at] - 1e6, read[at - 1] + (self.read * RATE if there[at] else 0.0))
        shown = np.searchsorted(fine, np.arange(-LOADED + 3.0, 1.0, self.scrape))
        stamps = np.round((END.timestamp() + fine[shown]) * 1e6).astype(np.int64)
        batch = SampleBatch("c", "kafka_exporter")
        for partition in range(4):
            log = {"topic": f"{self.name}-topic", "partition": partition}
            batch.add("log_end_offset", log, stamps, ends[shown])
            batch.add("committed_offset", {**log, "group": self.name}, stamps, 1e6 + np.floor(read[shown]))
            batch.add("consumer_lag", {**log, "group": self.name}, stamps, ends[shown] - 1e6 - np.floor(read[shown]))
        batch.add("group_members", {"group": self.name}, stamps, np.where(there[shown], 3.0, 0.0))
        return batch.to_arrow()


CRASHES = [
    Loop(f"crash-{scrape:g}-{life:g}-{period:g}", scrape, life, period)
    for scrape in (15.0, 30.0)
    for life, period in ((40.0, 150.0), (35.0, 130.0), (60.0, 200.0))
]
JOBS = [Loop(f"job-{scrape:g}", scrape, 100.0, 300.0, always=True, read=4.0) for scrape in (15.0, 30.0)]
STOPPED = [Loop(f"stopped-{scrape:g}", scrape, 4000.0, 4800.0, since=70 * MINUTE) for scrape in (15.0, 30.0)]


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All of them in one job."""
    made = concat(it.samples() for it in (*CRASHES, *JOBS, *STOPPED))
    return rows_of(spark, made, thresholds=Thresholds(), window=WINDOW)


@pytest.mark.parametrize("it", CRASHES, ids=lambda it: it.name)
def test_who_comes_and_goes_crashes(it: Loop, rows: dict[str, SubscriptionFeatures]) -> None:
    """Told by the number of members alone, whether or not somebody is there just now."""
    row = rows[it.name]
    assert row.verdict is Verdict.REBALANCE_STORM, (row.verdict, row.emptied, row.reasons)
    assert row.storm_cause == "member_crash"
    assert "in the window nobody was left in the group; crashing" in leaf_of(row.verdict).headline(row)


@pytest.mark.parametrize("it", JOBS, ids=lambda it: it.name)
def test_who_always_comes_and_goes_does_not(it: Loop, rows: dict[str, SubscriptionFeatures]) -> None:
    """It is a job."""
    row = rows[it.name]
    assert leaf_of(row.verdict).state in (State.HEALTHY, State.DRAINING, State.CANNOT_TELL), (row.verdict, row.reasons)


@pytest.mark.parametrize("it", STOPPED, ids=lambda it: it.name)
def test_who_has_gone_once_has_stopped(it: Loop, rows: dict[str, SubscriptionFeatures]) -> None:
    """For minutes, after an hour of work."""
    assert rows[it.name].verdict is Verdict.CONSUMER_STOPPED
