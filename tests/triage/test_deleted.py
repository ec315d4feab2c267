"""What lies between a commit and the start of its log is deleted: it does not wait, and nobody reads it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, WINDOW, Story, steps
from tests.features.whole import summarise
from tests.triage.judging import rows_of
from workbench.features.chart_series import series_of
from workbench.features.entity_features import fleet_entities
from workbench.triage.status import lagging
from workbench.triage.status.lost import words
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Verdict

pytestmark = pytest.mark.jvm

END = 5_000_000.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """A partition where nothing arrives: so many messages are deleted behind its commit, and so many left in its log.

    `since` seconds before the end its commit went there; None: it was there all the time. `busy` partitions are well.
    """

    deleted: float
    left: float = 0.0
    since: float | None = None
    members: int | None = 2
    busy: int = 0

    @property
    def name(self) -> str:
        """Of its group."""
        return f"{self.deleted:g}-{self.left:g}-{self.since}-{self.members}-{self.busy}"

    def story(self) -> Story:
        """What a lag exporter shows of it: the lag from the commit on."""
        story = Story(group=self.name, topic=self.name, partitions=self.busy + 1, members=self.members)
        start = END - self.left
        low = start - self.deleted
        commit = (
            np.full(len(TIMES), low) if self.since is None else np.asarray(steps(start, low, at=-self.since)(TIMES))
        )
        own = {"topic": story.topic, "partition": 0}
        story.add("log_end_offset", END, **own).add("log_start_offset", start, **own)
        story.add("committed_offset", commit.tolist(), group=story.group, **own)
        story.add("consumer_lag", (END - commit).tolist(), group=story.group, **own)
        for number in range(1, self.busy + 1):
            story.partition(number, time_lag=None)
        if self.members is not None:
            story.add("group_members", self.members, group=story.group)
        return story


GONE = [
    *(Case(deleted=deleted, members=members) for deleted in (3, 1e3, 4e6) for members in (None, 0, 2)),
    Case(deleted=1e3, busy=3),
    Case(deleted=1e3, busy=1, members=0),
    *(Case(deleted=deleted, since=60.0, members=members) for deleted in (40, 4e6) for members in (None, 2)),
]
WAITING = [
    Case(deleted=deleted, left=left, busy=busy) for deleted in (0, 3, 1e6) for left in (3, 400) for busy in (0, 3)
]


@pytest.fixture(scope="module")
def judged(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All cases, by name."""
    return rows_of(spark, [it.story() for it in (*GONE, *WAITING)])


@pytest.mark.parametrize("case", GONE, ids=lambda it: it.name)
def test_what_is_deleted_does_not_wait(judged: dict[str, SubscriptionFeatures], case: Case) -> None:
    """However much it was, whether the group has members or not, and whenever the commit went there; that it was unread is said."""
    row = judged[case.name]
    assert row.verdict is Verdict.HEALTHY
    assert next(it for it in row.partitions if it.partition == 0).lag_messages == 0.0
    assert row.lag_messages == pytest.approx(5.0 * case.busy)
    assert ("were deleted before the data begin" in words(row)) == (case.since is None)


@pytest.mark.parametrize("case", WAITING, ids=lambda it: it.name)
def test_what_is_left_of_a_log_waits(judged: dict[str, SubscriptionFeatures], case: Case) -> None:
    """No all-clear, and no message that is gone is counted."""
    row = judged[case.name]
    assert row.verdict not in (Verdict.HEALTHY, Verdict.RECOVERED)
    first = next(it for it in row.partitions if it.partition == 0)
    assert (first.lag_messages, first.committed) == (case.left, END - case.left)


def test_a_fleet_counts_what_waits_alike(spark: Any) -> None:
    """In a pass of its own, where the log comes to its groups by a join."""
    for case in (GONE[1], WAITING[-1]):
        rows = (
            fleet_entities(summarise(spark, case.story().samples(), WINDOW), stale_after_seconds=10)
            .toArrow()
            .to_pylist()
        )
        [first] = [it for it in rows if it["kind"] == "partition" and it["partition"] == 0]
        assert (first["lag_messages"], first["lag_recent_low"]) == (case.left, case.left)


@pytest.mark.parametrize("start", [0.0, END, None])
def test_a_lag_that_is_not_known_is_not_nothing(spark: Any, start: float | None) -> None:
    """A new partition that nobody has committed yet, beside one that is well: whatever its log's start, in both passes."""
    story = Story(group="new", topic="new", partitions=2, members=2).partition(1, time_lag=None)
    story.add("log_end_offset", END, topic="new", partition=0)
    story.add("consumer_lag", float("nan"), group="new", topic="new", partition=0)
    if start is not None:
        story.add("log_start_offset", start, topic="new", partition=0)
    fleet = fleet_entities(summarise(spark, story.samples(), WINDOW), stale_after_seconds=10).toArrow().to_pylist()
    [found] = [it for it in fleet if it["kind"] == "partition" and it["partition"] == 0]
    assert (found["lag_messages"], found["lag_recent_low"], found["committed"]) == (None, None, None)
    unknown, known = rows_of(spark, [story])["new"].partitions
    assert (unknown.lag_messages, unknown.lag_recent_low, unknown.committed) == (None, None, None)
    assert known.lag_messages == 5.0


def test_a_chart_draws_what_waits() -> None:
    """And not what an exporter makes of a commit before the log's start; where no start is known, what it says."""
    case = WAITING[-1]
    story = case.story()
    lines = series_of(story.samples(), WINDOW, group=story.group, topic=story.topic).lag
    assert all(np.nanmax(it.values) == (case.left if it.name == "0" else 5.0) for it in lines)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_the_mark_of_a_transaction_does_not_wait_and_a_record_before_it_does(spark: Any, left: int) -> None:
    """Two records and their mark each 20 s, read at once, and nothing arrives in the last 50 s, whatever was left of it by then."""
    times = np.floor(np.minimum(TIMES, -50.0) / 20)
    end = END + 3 * times
    commit = np.where(TIMES >= -59, end - 1 - left, end - 1)
    story = Story(group="payments", topic="orders", partitions=1, members=2)
    story.add("log_end_offset", end.tolist(), topic="orders", partition=0)
    story.add("committed_offset", commit.tolist(), group="payments", topic="orders", partition=0)
    story.add("consumer_lag", (end - commit).tolist(), group="payments", topic="orders", partition=0)
    story.add("group_members", 2, group="payments")
    [row] = rows_of(spark, story.samples()).values()
    assert row.lag_messages == (0 if not left else left + 1)
    assert (row.verdict is Verdict.HEALTHY) is (left == 0)
    assert ("the mark of a transaction" in lagging.words(row)) is (left == 0)


@pytest.mark.parametrize("old", [None, 4000.0])
def test_offsets_decide_against_timestamps_from_before_the_records_came(spark: Any, old: float | None) -> None:
    """A second and a half behind, by what was committed; its source tells the age of what a device had kept for an hour."""
    end = END + np.floor(50 * TIMES)
    commit = END + np.floor(50 * (TIMES - 1.5))
    story = Story(group="payments", topic="orders", partitions=1, members=2)
    story.add("log_end_offset", end.tolist(), topic="orders", partition=0)
    story.add("committed_offset", commit.tolist(), group="payments", topic="orders", partition=0)
    story.add("consumer_lag", (end - commit).tolist(), group="payments", topic="orders", partition=0)
    story.add("time_lag", (old or 0.0) + 1.5, group="payments", topic="orders", partition=0)
    story.add("group_members", 2, group="payments")
    [row] = rows_of(spark, story.samples()).values()
    assert row.verdict is Verdict.HEALTHY
    assert row.time_lag_seconds == pytest.approx(1.5, abs=2.0)
    assert row.oldest is not None
    assert row.oldest.time_lag_method == ("exact_record" if old is None else "interpolated")
    assert ("from before they came" in lagging.words(row)) is (old is not None)
