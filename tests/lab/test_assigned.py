"""On a real broker: the topic that a group has left, and the ones that its members have."""

from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit, produce
from workbench.kafka.assigned import assigned_samples
from workbench.kafka.cluster import KafkaCluster
from workbench.lab.kafka import create_topic
from workbench.lab.lab import Lab

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
        rows = assigned_samples(seen.to_groups("c"), seen.commits, "c", seen.taken_at).to_pylist()
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
