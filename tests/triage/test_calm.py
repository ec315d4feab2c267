"""Nobody is sent back to bed while a group stands still: stories at the pace of real life, with default thresholds and windows.

A lag exporter alone, scraped every 15 to 60 s, or with what the members say of themselves. A story is a group of some partitions whose
consumers follow the arrivals, each commit up to its time, until something happens some minutes before the window ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.triage.judging import rows_of
from workbench.samples import SampleBatch, concat
from workbench.thresholds import Thresholds
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import State, Verdict
from workbench.window import Window

pytestmark = pytest.mark.jvm

END = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
WINDOW = Window.ending(END, length=timedelta(minutes=15), baseline=timedelta(hours=1))
LOADED = 75 * 60.0
MINUTE = 60.0

Consumed = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass
class Group:
    """A group and how it is measured; times in seconds before the end, positive."""

    name: str
    partitions: int = 6
    rate: float = 40.0  # messages per second and partition
    scrape: float = 30.0
    commit_every: float = 5.0
    members: float | None = 3.0
    polls: bool = False  # whether its members export their own metrics
    stops: dict[int, float] = field(default_factory=dict)  # partition → since when its commits have stopped
    gone: float | None = None  # since when there are no members
    resumes: float | None = None  # until when the stops lasted

    def samples(self) -> pa.Table:
        """What an exporter shows of it."""
        seed = np.random.default_rng(len(self.name) * 7 + self.partitions)
        batch = SampleBatch("c", "kafka_exporter")
        times = np.arange(-LOADED, 1.0, self.scrape) - seed.uniform(0, min(5.0, self.scrape))
        stamps = np.round((END.timestamp() + times) * 1e6).astype(np.int64)
        for number in range(self.partitions):
            phase = seed.uniform(0, self.commit_every)
            end = np.floor(1e6 + self.rate * (times + LOADED))
            at = np.floor((times - phase) / self.commit_every) * self.commit_every + phase - 0.2
            stopped = self.stops.get(number)
            if stopped is not None:
                until = -(self.resumes or 0.0)
                at = np.where(
                    (at > -stopped) & (times < until) | (self.resumes is None) & (at > -stopped), -stopped, at
                )
            committed = np.floor(1e6 + self.rate * (np.minimum(at, times) + LOADED))
            place = {"group": self.name, "topic": f"{self.name}-topic", "partition": number}
            log = {"topic": f"{self.name}-topic", "partition": number}
            batch.add("log_end_offset", log, stamps, end)
            batch.add("log_start_offset", log, stamps, np.zeros(len(times)))
            batch.add("committed_offset", place, stamps, committed)
            batch.add("consumer_lag", place, stamps, end - committed)
        if self.members is not None:
            there = np.full(len(times), self.members)
            if self.gone is not None:
                there[times > -self.gone] = 0.0
            batch.add("group_members", {"group": self.name}, stamps, there)
        if self.polls:
            for number in range(3):
                member = {"group": self.name, "member": f"m{number}"}
                batch.add("poll_age", member, stamps, np.full(len(times), 0.2))
                batch.add("rebalances", member, stamps, np.ones(len(times)))
        return batch.to_arrow()


def everything(since: float, partitions: int = 6) -> dict[int, float]:
    """All partitions have stopped."""
    return dict.fromkeys(range(partitions), since)


SICK = {
    **{
        f"everything stops {minutes} min ago, scraped every {scrape} s": Group(
            f"all-{minutes}-{scrape}", stops=everything(minutes * MINUTE), scrape=scrape
        )
        for minutes in (3, 5, 9, 14, 40)
        for scrape in (15, 30, 60)
    },
    **{
        f"one of six stops {minutes} min ago": Group(f"one-{minutes}", stops={2: minutes * MINUTE})
        for minutes in (3, 5, 9, 14, 40)
    },
    **{
        f"all members are gone for {minutes} min": Group(
            f"gone-{minutes}", stops=everything(minutes * MINUTE), gone=minutes * MINUTE
        )
        for minutes in (3, 4, 8)
    },
    "one partition, stopped for 6 min": Group("single", partitions=1, stops={0: 6 * MINUTE}),
    "a trickle of messages, stopped for 8 min": Group("trickle", rate=0.2, stops=everything(8 * MINUTE)),
    "stopped for 5 min, commits every minute": Group("minutely", commit_every=60.0, stops=everything(5 * MINUTE)),
    "stopped for 9 min while the members poll": Group("polling", polls=True, stops=everything(9 * MINUTE)),
    "half of the partitions, for 14 min, while the members poll": Group(
        "half", polls=True, stops=dict.fromkeys(range(3), 14 * MINUTE)
    ),
}
WELL = {
    **{f"commits every {every:g} s": Group(f"every-{every:g}", commit_every=every) for every in (1.0, 5.0, 30.0, 60.0)},
    **{f"scraped every {scrape} s": Group(f"scraped-{scrape}", scrape=scrape) for scrape in (15, 60)},
    "a trickle": Group("drips", rate=0.05),
    "nothing arrives": Group("quiet", rate=0.0),
    "without members in the metrics": Group("memberless", members=None),
    "a stop of 40 s, half an hour ago": Group("hiccup", stops=everything(30 * MINUTE), resumes=29 * MINUTE),
}


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All of them in one job."""
    return rows_of(
        spark, concat(it.samples() for it in (*SICK.values(), *WELL.values())), thresholds=Thresholds(), window=WINDOW
    )


def told(row: SubscriptionFeatures) -> str:
    """For a failure."""
    return f"{row.verdict}: {row.time_lag_seconds} s, frozen {row.frozen_partitions}, stuck {row.stuck_partitions}, {row.answers}"


@pytest.mark.parametrize("name", SICK)
def test_a_group_that_stands_still_is_never_called_calm(name: str, rows: dict[str, SubscriptionFeatures]) -> None:
    """It lags, or the evidence is missing; and nobody is advised to add consumers or partitions."""
    row = rows[SICK[name].name]
    assert leaf_of(row.verdict).state in (State.LAGGING, State.CANNOT_TELL), told(row)
    assert row.verdict not in (Verdict.TOO_FEW_CONSUMERS, Verdict.PARTITION_CEILING, Verdict.HOT_PARTITION), told(row)


@pytest.mark.parametrize("name", WELL)
def test_a_healthy_rhythm_alarms_nobody(name: str, rows: dict[str, SubscriptionFeatures]) -> None:
    """Whatever it is."""
    row = rows[WELL[name].name]
    assert row.verdict is Verdict.HEALTHY, told(row)


def test_all_gone_is_consumer_stopped(rows: dict[str, SubscriptionFeatures]) -> None:
    """By the count of members, while the lag is still small."""
    for minutes in (3, 4, 8):
        assert rows[f"gone-{minutes}"].verdict is Verdict.CONSUMER_STOPPED, told(rows[f"gone-{minutes}"])


def test_one_stopped_partition_is_named(rows: dict[str, SubscriptionFeatures]) -> None:
    """Whether it is judged or not."""
    for minutes in (5, 9, 14, 40):
        assert rows[f"one-{minutes}"].frozen_partitions == (2,), told(rows[f"one-{minutes}"])
