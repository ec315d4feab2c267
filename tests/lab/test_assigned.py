"""On a real broker: the topic that a group has left, and the ones that its members have."""

from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.lab.conftest import commit, produce
from workbench.collect.capture_in_memory import never_committed
from workbench.kafka.assigned_partitions import assigned_samples, held_by
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.kafka_observer import KafkaObserver
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.samples import SampleBatch

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_no_member_reads_any_more(lab: Lab, admin: AdminClient, protocol: str) -> None:
    """Its partitions are nobody's, those of the other topic are the member's; without a member nothing is told."""
    name = uuid.uuid4().hex[:8]
    group, kept, left = f"moved-{name}", f"kept-{name}", f"left-{name}"
    for topic in (kept, left):
        create_topic(lab.bootstrap, topic, 2)
        produce(lab, topic, {0: 5, 1: 5})
        commit(admin, group, topic, {0: 1, 1: 1})

    def found() -> dict[tuple[str, int], float]:
        seen = KafkaCluster(lab.bootstrap).snapshot(groups=[group])
        rows = assigned_samples(held_by(seen.to_groups("c")), seen.commits, "c", seen.taken_at).to_pylist()
        return {(row["topic"], row["partition"]): row["value"] for row in rows}

    assert found() == {}
    consumer = Consumer(
        {"bootstrap.servers": lab.bootstrap, "group.id": group, "group.protocol": protocol, "enable.auto.commit": False}
    )
    consumer.subscribe([kept])
    try:
        deadline = time.monotonic() + 30
        while len(consumer.assignment()) < 2 and time.monotonic() < deadline:
            consumer.poll(0.1)
        while not found() and time.monotonic() < deadline:
            consumer.poll(0.1)
        assert found() == {(kept, 0): 1, (kept, 1): 1, (left, 0): 0, (left, 1): 0}
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_partitions_that_were_added_and_that_nobody_has(lab: Lab, admin: AdminClient, protocol: str) -> None:
    """A client that does not look for new partitions leaves them unread: they are shown, with their records, and without a commit."""
    name = uuid.uuid4().hex[:8]
    group, topic = f"added-{name}", f"grown-{name}"
    create_topic(lab.bootstrap, topic, 2)
    produce(lab, topic, {0: 5, 1: 5})
    commit(admin, group, topic, {0: 5, 1: 5})
    consumer = Consumer(
        {
            "bootstrap.servers": lab.bootstrap, "group.id": group, "group.protocol": protocol, "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": -1,
        }
    )  # fmt: skip
    cluster = KafkaCluster(lab.bootstrap)
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + 30
        while len(consumer.assignment()) < 2 and time.monotonic() < deadline:
            consumer.poll(0.1)
        while cluster.snapshot(groups=[group]).groups[0].state != "stable" and time.monotonic() < deadline:
            consumer.poll(0.1)
        for future in admin.create_partitions([NewPartitions(topic, 4)]).values():
            future.result(30)
        produce(lab, topic, {2: 7, 3: 3})
        # Before the coordinator of the new protocol, which looks by itself, has told the member.
        seen = cluster.snapshot(groups=[group])
        if protocol == "classic":
            assert {key[2]: offset for key, offset in seen.commits.items()} == {0: 5, 1: 5, 2: None, 3: None}
            assert (seen.ends[topic, 2], seen.ends[topic, 3], seen.lag(group, topic, 2)) == (7, 3, None)
            rows = assigned_samples(held_by(seen.to_groups("c")), seen.commits, "c", seen.taken_at).to_pylist()
            assert {row["partition"]: row["value"] for row in rows} == {0: 1, 1: 1, 2: 0, 3: 0}
        while protocol == "consumer" and len(consumer.assignment()) < 4 and time.monotonic() < deadline:
            consumer.poll(0.1)
        assert protocol == "classic" or {key[2] for key in cluster.snapshot(groups=[group]).commits} == {0, 1, 2, 3}
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_has_never_committed_is_found(lab: Lab, admin: AdminClient, protocol: str) -> None:
    """By a triage of all groups and by a sweep: a consumer that stores nothing. One that has committed is its exporter's part."""
    name = uuid.uuid4().hex[:8]
    group, other, topic = f"mute-{name}", f"known-{name}", f"heard-{name}"
    create_topic(lab.bootstrap, topic, 2)
    produce(lab, topic, {0: 5, 1: 5})
    commit(admin, other, topic, {0: 1})
    consumers = [
        Consumer(
            {
                "bootstrap.servers": lab.bootstrap,
                "group.id": it,
                "group.protocol": protocol,
                "enable.auto.commit": False,
            }
        )
        for it in (group, other)
    ]
    observer = KafkaObserver(lab.cluster())
    try:
        for consumer in consumers:
            consumer.subscribe([topic])
        deadline = time.monotonic() + 30
        names = [group, other]
        while time.monotonic() < deadline:
            for consumer in consumers:
                consumer.poll(0.1)
            views = observer.members(groups=names).to_groups("c")
            if set(held_by(views)) == set(names):
                break
        missing: list[str] = []
        nothing = SampleBatch("c", "x").to_series()  # of an exporter
        tables = observer.of_now(nothing, views, time.time(), missing)
        commits = [row for table in tables for row in table.to_pylist() if row["signal"] == "committed_offset"]
        assert {(row["group"], row["partition"], row["value"], row["flag"]) for row in commits} == {
            (group, 0, None, "sentinel"),
            (group, 1, None, "sentinel"),
        }
        [found] = never_committed(lab.cluster(), names, missing)
        assert (found.group, found.kind, found.members, found.topics) == (group, protocol, 1, (topic,))
        assert "it has members, and no commit" in found.headline
        assert missing == []
    finally:
        for consumer in consumers:
            consumer.close()
