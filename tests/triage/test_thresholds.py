"""Every threshold of the settings, tested at both of its sides: a story just under it and one just over it, all in one job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, Story, growing, steps
from tests.triage import test_events
from tests.triage.judging import rows_of
from workbench.settings_of_groups import Expectations, GroupSettings
from workbench.thresholds import Thresholds
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Answer

pytestmark = pytest.mark.jvm

# Round numbers, so that both sides can be seen.
T = Thresholds(
    time_lag_objective_seconds=10.0,
    stale_after_seconds=10.0,
    poll_age_seconds=10.0,
    growth_ratio=0.05,
    growth_floor_ratio=0.25,
)
FULL = 0.95
Make = Callable[[Story, float], Story]


@dataclass(frozen=True)
class Edge:
    """A threshold: a story that depends on one number, that number on either side, and what answers to it."""

    make: Make
    under: float
    over: float
    column: str
    # The answer over the threshold; under it, it is the opposite, or open.
    over_is: bool = True
    open_under: bool = False


def one(story: Story, **shape: Any) -> Story:
    """One partition and one member."""
    story.partitions = story.members = 1
    return story.all_partitions(**shape)


def aged(story: Story, seconds: float) -> Story:
    """Waiting for so long, steadily."""
    return one(story, lag=50.0 * seconds, time_lag=seconds).people()


def grows(story: Story, share: float) -> Story:
    """From 5 s on, by a share of the arrivals."""
    return one(story, lag=lambda t: 300.0 + share * 50.0 * (t - t[0]), time_lag=None).people()


def floor(story: Story, seconds: float) -> Story:
    """Growing by a tenth of the arrivals, around so many seconds of them."""
    return one(story, lag=lambda t: 50.0 * seconds + 5.0 * (t + 20), time_lag=None).people()


def ended(story: Story, age: float) -> Story:
    """The last sample is so old."""
    return one(story, keep=-age >= TIMES).people()


def polled(story: Story, age: float) -> Story:
    """Nothing is committed any more, and the last poll was so long ago."""
    return one(story, lag=growing(50.0, since=-40.0), time_lag=growing(1.0, since=-40.0)).people(
        poll_age=steps(0.05, age, at=-20)
    )


def rebalanced(story: Story, times: float) -> Story:
    """So many rebalances in the window."""
    return one(story).people(rebalances=lambda t: np.floor(np.clip((t + 60) / 60 * (times + 0.5), 0, times)))


def restarted(story: Story, times: float) -> Story:
    """Two of two members start anew so often."""
    story.partitions, story.members = 2, 2
    story.all_partitions().people()
    for number in range(2):
        starts = np.floor(np.clip((TIMES + 60) / 60 * (times + 0.5), 0, times))
        story.add("start_time", (1e9 + starts).tolist(), group=story.group, member=f"m-{number}")
    return story


def few(story: Story, hot: float) -> Story:
    """So many of twelve partitions get four times as much as the others, and lag."""
    story.partitions = story.members = 12
    for number in range(12):
        lags = number < hot
        story.partition(number, rate=20.0 if lags else 5.0, lag=600.0 if lags else 5.0, time_lag=None)
    return story.people(keep=TIMES < -1000).calm()


def entry(story: Story, seconds: float, before: float = 0.0005) -> Story:
    """Entry takes so long."""
    return one(story).people().enqueue(steps(before, seconds))


def delay(story: Story, mean: float, high: float) -> Story:
    """The delay queue is so full on average, and at most."""
    one(story).people()
    labels = {"group": story.group, "member": "d"}
    low = 2 * mean - high
    story.add("delayed_length", np.where(np.arange(len(TIMES)) % 2, high, low).tolist(), **labels)
    story.add("delayed_capacity", 1.0, **labels)
    return story


def slow(story: Story, factor: float, peers: float = 1.0, fill: float = FULL) -> Story:
    """One processor takes so many times its baseline; its two peers another factor."""
    one(story).people().processor("slow", seconds=steps(0.01, 0.01 * factor), fill=fill)
    for name in ("a", "b"):
        story.processor(name, seconds=steps(0.01, 0.01 * peers))
    return story


def idle(story: Story, fill: float) -> Story:
    """One queue is full, its two siblings so full."""
    return one(story).people().processor("x", fill=[FULL, fill, fill])


EDGES: dict[str, Edge] = {
    "time_lag_objective_seconds": Edge(aged, 9.8, 10.2, "late"),
    "growth_ratio": Edge(grows, 0.045, 0.055, "growing"),
    "growth_floor_ratio": Edge(floor, 2.2, 2.9, "growing"),
    "stale_after_seconds": Edge(ended, 14, 16, "answer_data_usable", over_is=False),
    "poll_age_seconds": Edge(polled, 9.9, 10.1, "answer_consuming", over_is=False),
    "rebalances": Edge(rebalanced, 3, 4, "answer_rebalancing"),
    "deploy_restarts": Edge(restarted, 2, 3, "storm_cause = 'member_crash'"),
    "few_partitions_ratio": Edge(few, 4, 5, "answer_hot_partition", over_is=False),
    "queue_fill_ratio": Edge(lambda s, x: one(s).people().processor("x", fill=x), 0.48, 0.52, "queue_long"),
    "enqueue_seconds": Edge(entry, 0.098, 0.102, "entry_slow"),
    "enqueue_ratio": Edge(lambda s, x: entry(s, 0.2, before=0.2 / x), 4.9, 5.1, "entry_slow"),
    "delay_fill_ratio": Edge(lambda s, x: delay(s, x, 0.98), 0.48, 0.52, "delay_full"),
    "delay_high_ratio": Edge(lambda s, x: delay(s, 0.7, x), 0.94, 0.96, "delay_full"),
    "slow_ratio": Edge(slow, 2.9, 3.1, "one_slow"),
    "slow_peers_ratio": Edge(lambda s, x: slow(s, 2.0 * x, peers=2.0), 1.9, 2.1, "one_slow"),
    "all_slow_ratio": Edge(lambda s, x: slow(s, x, peers=x), 1.45, 1.55, "answer_all_slow", open_under=True),
    "idle_queue_ratio": Edge(idle, 0.19, 0.22, "answer_one_queue", over_is=False),
    "throttle_seconds": Edge(lambda s, x: one(s).people(throttle=x), 0.009, 0.011, "answer_throttled"),
    "rtt_seconds": Edge(
        lambda s, x: one(s).people(rtt=steps(0.01, x)).fetch_queue(), 0.19, 0.21, "answer_slow_network"
    ),
    "rtt_ratio": Edge(
        lambda s, x: one(s).people(rtt=steps(0.3, 0.3 * x)).fetch_queue(), 2.9, 3.1, "answer_slow_network"
    ),
    "fetch_queue_messages": Edge(
        lambda s, x: one(s).people(rtt=steps(0.01, 2.0)).fetch_queue(x), 49, 51, "answer_slow_network", over_is=False
    ),
    "hot_factor": Edge(
        lambda s, x: _two_levels(s, 200.0 * x, 200.0), 2.9, 3.1, "answer_hot_partition"
    ),
    "hot_floor_messages": Edge(lambda s, x: _two_levels(s, x, 5.0), 98, 102, "answer_hot_partition"),
}  # fmt: skip


def _two_levels(story: Story, high: float, low: float) -> Story:
    """One of six partitions gets four times as much as the others, and lags by more."""
    story.partitions = story.members = 6
    for number in range(6):
        story.partition(number, rate=200.0 if number == 0 else 50.0, lag=high if number == 0 else low, time_lag=None)
    return story.people().processor("order")


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, Any]:
    """Both sides of all thresholds."""
    stories = []
    for name, edge in EDGES.items():
        for side in ("under", "over"):
            stories.append(edge.make(Story(group=f"{name}/{side}", topic=f"{name}/{side}"), getattr(edge, side)))
    return rows_of(spark, stories, thresholds=T)


def test_every_threshold_is_here() -> None:
    """A new one needs its two sides."""
    elsewhere = {"commit_every_seconds", *(name for name in Thresholds.model_fields if name in test_events.EDGES)}
    assert set(EDGES) | elsewhere == set(Thresholds.model_fields)


def test_a_commit_interval_explains_an_age(spark: Any) -> None:
    """By a threshold, and by what is expected of a group."""
    stories = [aged(Story(group=f"{name}/{age}", topic=f"{name}/{age}"), age) for name in "ab" for age in (29.0, 31.0)]
    for_all = T.model_copy(update={"commit_every_seconds": 20.0})
    found = rows_of(spark, stories, thresholds=for_all)
    assert {name: row.late for name, row in found.items()} == {
        "a/29.0": False,
        "a/31.0": True,
        "b/29.0": False,
        "b/31.0": True,
    }
    expected = Expectations(
        {
            "a*": GroupSettings(commit_every=timedelta(seconds=20)),
            "b*": GroupSettings(time_lag_objective=timedelta(seconds=30)),
            "*31.0": GroupSettings(owner="nobody"),
        }
    )
    found = rows_of(spark, stories, thresholds=T, expectations=expected)
    assert {name: row.late for name, row in found.items()} == {
        "a/29.0": False,
        "a/31.0": True,
        "b/29.0": False,
        "b/31.0": True,
    }
    assert {row.objective_seconds for row in found.values()} == {10.0, 30.0}


def told(row: SubscriptionFeatures, column: str) -> Any:
    """A feature, or an answer as true, false or None."""
    if column.startswith("answer_"):
        answer = row.answers[column.removeprefix("answer_")]
        return None if answer is Answer.CANNOT_TELL else answer is Answer.YES
    return getattr(row, column)


@pytest.mark.parametrize("name", EDGES)
def test_both_sides(name: str, rows: dict[str, SubscriptionFeatures]) -> None:
    """Just over it the answer is one, just under it the other."""
    edge = EDGES[name]
    for side in ("under", "over"):
        column, _, wanted = edge.column.partition(" = ")
        found = told(rows[f"{name}/{side}"], column)
        found = found == wanted.strip("'") if wanted else found
        below = None if edge.open_under else not edge.over_is
        assert found is (edge.over_is if side == "over" else below), (side, found)


def test_a_slow_processor_whose_queue_is_empty_holds_nobody_up(rows: dict[str, Any], spark: Any) -> None:
    """Slow and idle is no cause."""
    story = slow(Story(group="idle", topic="idle"), 5.0, fill=0.0)
    assert rows_of(spark, [story], thresholds=T)["idle"].one_slow is False
