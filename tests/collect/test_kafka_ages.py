"""Ages by time look-ups, on logs whose timestamps contradict their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from workbench.api.groups_now import _above_ends
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.unread_ages import Age, ages
from workbench.queues.snapshot_views import Partition, Snapshot

NOW = 1_700_000_000.0
PART = ("t", 0)


class Log:
    """One partition: the timestamp of each record, in seconds; it may grow while one looks."""

    deadline_seconds = 10.0

    def __init__(self, stamps: Sequence[float], *, later: int = 0, start: int = 0) -> None:
        self.stamps, self.later, self.start = stamps, later, start

    def offsets_at(self, parts: Sequence[Partition], instant: float, *_more: Any) -> dict[Partition, int | None]:
        """First offset at or after a time, as a broker answers it."""
        there = list(enumerate(self.stamps))[self.start :]
        return dict.fromkeys(parts, next((at for at, it in there if it >= instant), None))

    def ends_of(self, parts: Sequence[Partition], *_more: Any) -> dict[Partition, int]:
        """By now."""
        return dict.fromkeys(parts, len(self.stamps) + self.later)


def looked_at(log: Log, committed: int) -> tuple[Age | None, list[str]]:
    """The age of what a group with this commit has not read, and what is said of it."""
    snapshot = Snapshot(
        taken_at=NOW,
        groups=(),
        commits={("g", *PART): committed},
        ends={PART: len(log.stamps)},
        starts={PART: log.start},
    )
    incomplete: list[str] = []
    return ages(cast(KafkaCluster, log), snapshot, incomplete).get(("g", *PART)), incomplete


def test_an_age_lies_between_two_steps() -> None:
    """Records of an hour, one a second, the last 600 unread; and no lag is no age."""
    log = Log([NOW - 3600 + at for at in range(3600)])
    age, incomplete = looked_at(log, 3000)
    assert age is not None and age.high is not None and not incomplete
    assert age.low <= 600 <= age.high
    assert looked_at(log, 3600)[0] == Age(low=0.0, high=0.0)


def test_what_retention_has_deleted_makes_nothing_a_month_old() -> None:
    """The oldest record that is there is an hour old; the unread ones before it were older, and nobody knows by how much."""
    age, incomplete = looked_at(Log([NOW - 3600 + at for at in range(3600)], start=100), 20)
    assert age is not None and not incomplete
    assert age.low <= 3500 < 1.5 * age.low
    assert age.high is None
    assert looked_at(Log([NOW - 3600] * 50, start=50), 20) == (None, [])


def test_a_producer_whose_clock_is_ahead_makes_nothing_young() -> None:
    """Dated 50 min from now, and unread for long: its age is not known, instead of 0 s."""
    age, incomplete = looked_at(Log([NOW + 3000 + at for at in range(100)]), 40)
    assert age is None
    assert "in the future" in incomplete[0] and "t 0" in incomplete[0]


@pytest.mark.parametrize(("later", "known"), [(0, True), (5, False)])
def test_times_of_events_are_no_ages_where_the_log_grows_and_no_record_is_young(later: int, known: bool) -> None:
    """A quiet topic's last record is as old as it says; one that is written to has records of other times."""
    age, incomplete = looked_at(Log([NOW - 7200 + at / 10 for at in range(100)], later=later), 97)
    assert (age is not None) is known
    assert bool(incomplete) is not known


def test_a_commit_above_the_end_has_no_lag() -> None:
    """A topic that was created anew: neither 0 messages nor 0 s behind, and the snapshot says why."""
    log = Log([NOW - 60] * 10)
    assert looked_at(log, 5000) == (None, [])
    snapshot = Snapshot(taken_at=NOW, groups=(), commits={("g", *PART): 5000}, ends={PART: 10}, starts={PART: 0})
    assert snapshot.lag("g", *PART) is None
    assert _above_ends(snapshot) == [
        "lag of 'g' on t-0: its commit 5,000 is above the log's end 10 (cut, or recreated?)"
    ]
    rows = {row["signal"]: row for row in snapshot.to_samples("c").to_pylist()}
    assert (rows["consumer_lag"]["value"], rows["consumer_lag"]["flag"]) == (0.0, "skew")
