"""Snapshots of many groups on a real broker: equal to Kafka's tool, few requests, ranked by lag or by time, and in time."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit_many, kafka_describe_all, workbench
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.unread_ages import RUNGS, ages
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic

pytestmark = pytest.mark.lab
GROUPS, PARTITIONS, RECORDS = 100, 6, 20
AGES = (7200, 600, 60)  # seconds: when the records of each third were produced


@pytest.fixture(scope="module")
def many(lab: Lab) -> tuple[str, dict[str, dict[int, int]]]:
    """A topic with records of three ages, and groups that have committed somewhere."""
    name = f"many-{uuid.uuid4().hex[:8]}"
    create_topic(lab.bootstrap, name, PARTITIONS)
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 5})
    now = time.time()
    for partition in range(PARTITIONS):
        for age in AGES:
            for _ in range(RECORDS):
                producer.produce(name, b"x", partition=partition, timestamp=round((now - age) * 1000))
    assert producer.flush(30) == 0
    commits = {
        f"{name}-{number:03}": {part: min(60, number // 2 + part) for part in range(PARTITIONS)}
        for number in range(GROUPS)
    }
    commit_many(AdminClient({"bootstrap.servers": lab.bootstrap}), commits, name)
    return name, commits


def test_it_is_what_kafkas_own_tool_prints(lab: Lab, many: tuple[str, dict[str, dict[int, int]]]) -> None:
    """Number by number, of every group and partition."""
    topic, commits = many
    snapshot = KafkaCluster(lab.bootstrap).snapshot(groups=sorted(commits))
    ours = {key: (value, snapshot.ends[key[1:]], snapshot.lag(*key)) for key, value in snapshot.commits.items()}
    theirs = {key: value for key, value in kafka_describe_all(lab.bootstrap).items() if key[1] == topic}
    assert ours == theirs
    assert len(ours) == GROUPS * PARTITIONS


def test_requests_are_of_the_order_of_groups_and_brokers(lab: Lab, many: tuple[str, Any]) -> None:
    """By the client's own count of what went over the wire; none of them is for one partition."""
    seen: dict[str, dict[str, Any]] = {}

    def count(text: str) -> None:
        seen.update(json.loads(text)["brokers"])

    cluster = KafkaCluster(lab.bootstrap, {"statistics.interval.ms": 50, "stats_cb": count})
    snapshot = cluster.snapshot(groups=sorted(many[1]))
    assert snapshot.incomplete == ()
    assert cluster.requests <= 2 * (GROUPS // 100) + 15
    for _ in range(20):  # some more reports
        cluster.connect().poll(0.1)

    def total(kind: str) -> int:
        return sum(broker.get("req", {}).get(kind, 0) for broker in seen.values())

    sent = sum(broker["tx"] for broker in seen.values())
    named = sum(sum(broker.get("req", {}).values()) for broker in seen.values())
    # One broker leads all: one request for the ends and one for the beginnings, each perhaps once more where an answer is late.
    assert 2 <= total("ListOffsets") <= 4
    assert total("DescribeGroups") + total("ConsumerGroupDescribe") <= 2 * GROUPS
    assert total("FindCoordinator") <= 3 * GROUPS
    assert sent - named <= 10, "an admin client's statistics do not name a request for commits: those are our own"


def test_ages_are_closed_in_without_reading_a_record(lab: Lab, many: tuple[str, dict[str, dict[int, int]]]) -> None:
    """The age of the first uncommitted record lies between its bounds, which are no more than √2 apart."""
    topic, commits = many
    cluster = KafkaCluster(lab.bootstrap)
    snapshot = cluster.snapshot(groups=sorted(commits))
    asked, holes = cluster.requests, []
    found = ages(cluster, snapshot, holes)
    assert holes == []
    most = 6 * len(AGES) + 4  # the topic, and what is asked once more of old and young ones
    assert cluster.requests - asked <= most, "six halvings, whatever the number of groups"
    for group, offsets in commits.items():
        for part, offset in offsets.items():
            age = found[group, topic, part]
            if offset >= RECORDS * len(AGES):
                assert (age.low, age.high) == (0.0, 0.0)
                continue
            assert age.high is not None
            passed = snapshot.taken_at - time.time() + 120  # since the records were made, at most
            assert age.low <= AGES[offset // RECORDS] + passed
            assert age.high >= AGES[offset // RECORDS]
            assert age.high == pytest.approx(2**0.5 * age.low)
    assert max(RUNGS) > 30 * 86400


def test_the_command_ranks_by_lag_and_by_time(
    lab: Lab, many: tuple[str, dict[str, dict[int, int]]], settings_file: Path
) -> None:
    """The furthest behind first; a table for people, JSON for programs."""
    topic, commits = many
    for sort in ("lag", "time_lag"):
        options = ["--cluster", "mine", "--config", str(settings_file), "--top", "5", "--sort", sort]
        for group in commits:
            options += ["--group", group]
        shown = workbench("snapshot", *options, "--json")
        assert shown.returncode == 0, shown.stderr
        document = json.loads(shown.stdout)
        rows = document["subscriptions"]
        assert document["group_count"] == GROUPS
        assert len(rows) == 5
        assert rows[0]["group"] == f"{topic}-000"
        assert rows[0]["lag_messages"] == sum(60 - offset for offset in commits[rows[0]["group"]].values())
        assert ("time_lag_low" in rows[0]) == (sort == "time_lag")
    assert 3000 < rows[0]["time_lag_low"] <= 7300 <= rows[0]["time_lag_high"] * 1.1
    table = workbench("snapshot", *options)
    assert table.returncode == 0, table.stderr
    assert f"{topic}-000 ← {topic}" in table.stdout


def test_a_deadline_is_kept_and_what_was_not_read_is_named(lab: Lab, many: tuple[str, Any]) -> None:
    """Group by group; nothing is waited for after the time is up, and nothing is made up."""
    cluster = KafkaCluster(lab.bootstrap)
    cluster.snapshot(groups=sorted(many[1])[:1])  # connects
    cluster.deadline_seconds = 0.02
    began = time.monotonic()
    snapshot = cluster.snapshot(groups=sorted(many[1]))
    assert time.monotonic() - began < 15
    named = {name for name in many[1] if any(repr(name) in text for text in snapshot.incomplete)}
    read = {group for group, _, _ in snapshot.commits}
    assert named
    assert named | read == set(many[1])
