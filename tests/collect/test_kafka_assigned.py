"""Partitions that a member has, or that nobody has: from the coordinator's list of members."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from workbench.kafka.assigned_partitions import (
    assigned_samples,
    held_by,
    never_committed,
    read_partitions,
    without_owner,
)
from workbench.queues.snapshot_views import GroupView, Member, Partition, Snapshot, views_table
from workbench.samples import SampleBatch

READ = {("g", "t", 0), ("g", "t", 1), ("g", "old", 0), ("other", "t", 0)}


def group(*, state: str = "stable", protocol: str = "classic", has: Sequence[Sequence[Partition]] = ()) -> GroupView:
    """A group whose members have these partitions."""
    members = tuple(
        Member(member_id=str(at), client_id="c", host="/h", partitions=tuple(parts)) for at, parts in enumerate(has)
    )
    return GroupView(group="g", state=state, protocol=protocol, coordinator=1, members=members)


def found(view: GroupView) -> dict[tuple[str, str, int], float]:
    """By partition."""
    rows = assigned_samples(held_by(views_table([view], "c", 5.0)), READ, "c", 5.0).to_pylist()
    assert {row["signal"] for row in rows} <= {"assigned"}
    return {(row["group"], row["topic"], row["partition"]): row["value"] for row in rows}


def test_partitions_with_and_without_a_member() -> None:
    """Also of a topic that no member reads any more; nothing of groups that were not asked for."""
    assert found(group(has=[[("t", 0)], [("new", 0)], []])) == {("g", "t", 0): 1, ("g", "t", 1): 0, ("g", "old", 0): 0}


@pytest.mark.parametrize(
    "view",
    [
        group(),  # without members
        group(has=[[], []]),  # that assign partitions themselves, or have none yet
        group(state="rebalance", has=[[("t", 0)]]),
        group(protocol="streams", has=[[("t", 0)]]),
        group(protocol="share", has=[[("t", 0)]]),
    ],
)
def test_what_is_not_known_is_not_told(view: GroupView) -> None:
    """No sample, rather than a 0."""
    assert found(view) == {}


def test_what_a_group_reads_is_what_it_has_commits_of() -> None:
    """Or a lag, where an exporter has that alone; the log's own series belong to no group."""
    batch = SampleBatch("c", "x")
    batch.add("committed_offset", {"group": "g", "topic": "t", "partition": 0}, [1], [5.0])
    batch.add("consumer_lag", {"group": "h", "topic": "t", "partition": 3}, [1], [5.0])
    batch.add("log_end_offset", {"topic": "t", "partition": 1}, [1], [5.0])
    batch.add("group_members", {"group": "g"}, [1], [5.0])
    assert read_partitions(batch.to_series()) == {("g", "t", 0), ("h", "t", 3)}


def test_partitions_of_a_topic_that_is_read_and_nobody_has() -> None:
    """Only of topics that its members have some of: a topic that they have left is said by its commits."""
    topics = {
        "t": SimpleNamespace(partitions={0: None, 1: None, 2: None}),
        "old": SimpleNamespace(partitions={0: None}),
    }
    held = {"g": {("t", 1), ("gone", 0)}, "h": {("t", 0), ("t", 1), ("t", 2)}}
    assert without_owner(held, topics) == {("g", "t", 0), ("g", "t", 2)}


def test_a_group_is_without_commits_only_by_topic_and_by_its_coordinator() -> None:
    """Not where another partition of the topic has a commit, where a commit could not be read, or while members rejoin."""
    has = [[("t", 0), ("new", 0), ("new", 1), ("denied", 0)]]
    commits = {("g", "t", 0): None, ("g", "t", 1): 5, ("g", "new", 0): None, ("g", "new", 1): None}

    def found(view: GroupView) -> set[tuple[str, str, int]]:
        return never_committed(Snapshot(taken_at=1.0, groups=(view,), commits=commits, ends={}, starts={}))

    assert found(group(has=has)) == {("g", "new", 0), ("g", "new", 1)}
    assert found(group(has=has, state="rebalance")) == set()
