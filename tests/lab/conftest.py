"""Helpers on a real broker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.waiting import wait_for
from workbench.lab.kafka_jars import TOOLS, ensure
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import Broker
from workbench.spark.java import find_java


@pytest.fixture(scope="session")
def admin(lab: Lab) -> AdminClient:
    """An admin client of the lab's broker."""
    return AdminClient({"bootstrap.servers": lab.bootstrap})


def produce(lab: Lab | Broker, topic: str, counts: dict[int, int]) -> None:
    """So many records into each partition."""
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 5})
    for partition, count in counts.items():
        for number in range(count):
            producer.produce(topic, str(number).encode(), partition=partition)
            producer.poll(0)
    assert producer.flush(30) == 0


def commit(admin: AdminClient, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit offsets for a group that nobody is a member of."""
    parts = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]

    def committed() -> bool:  # a broker that has never had a group first makes the topic for their offsets
        answer = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, parts)])[group].result(30)
        return all(part.error is None for part in answer.topic_partitions)

    wait_for(committed)


def commit_many(admin: AdminClient, commits: dict[str, dict[int, int]], topic: str, *, at_once: int = 100) -> None:
    """The same for any number of groups (group to partition to offset), with some hundred in flight."""
    names = list(commits)
    commit(admin, names[0], topic, commits[names[0]])  # waits for the broker's own topic
    waiting: list[tuple[str, Any]] = []
    refused: list[str] = []

    def take(name: str, answer: Any) -> None:
        if any(part.error is not None for part in answer.result(60).topic_partitions):
            refused.append(name)

    for name in names[1:]:
        parts = [TopicPartition(topic, partition, offset) for partition, offset in commits[name].items()]
        waiting.append((name, admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, parts)])[name]))
        if len(waiting) >= at_once:
            take(*waiting.pop(0))
    for name, answer in waiting:
        take(name, answer)
    for name in refused:  # by another broker of several, which was still loading its part of that topic
        commit(admin, name, topic, commits[name])


def consumer_groups(bootstrap: str, *words: str, seconds: float = 120) -> list[list[str]]:
    """What Kafka's own `kafka-consumer-groups` prints: the words of each line."""
    ensure(TOOLS)
    shown = subprocess.run(
        [
            find_java().program, "-cp", TOOLS.classpath, "-Dlog4j2.level=ERROR",
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", bootstrap, *words,
        ],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=True,
    ).stdout  # fmt: skip
    return [line.split() for line in shown.splitlines()]


Described = tuple[int | None, int, int | None]


def described(lines: list[list[str]]) -> dict[tuple[str, str, int], Described]:
    """(group, topic, partition) to (committed, log end, lag), from the lines of `kafka-consumer-groups --describe`."""
    rows = {}
    for words in lines:
        if len(words) >= 6 and words[2].isdigit():
            numbers = [None if word == "-" else int(word) for word in words[3:6]]
            rows[words[0], words[1], int(words[2])] = (numbers[0], int(words[4]), numbers[2])
    return rows


def kafka_describe_all(bootstrap: str) -> dict[tuple[str, str, int], Described]:
    """(group, topic, partition) to (committed, log end, lag) of all groups, by Kafka's own tool; "-" is None."""
    return described(consumer_groups(bootstrap, "--describe", "--all-groups", "--timeout", "120000", seconds=300))


def kafka_describe(lab: Lab, group: str) -> dict[tuple[str, int], Described]:
    """The same of one group: (topic, partition) to (committed, log end, lag)."""
    rows = described(consumer_groups(lab.bootstrap, "--describe", "--group", group, seconds=60))
    return {(topic, partition): row for (owner, topic, partition), row in rows.items() if owner == group}


def workbench(*words: str, env: dict[str, str] | None = None, timeout: float = 180) -> subprocess.CompletedProcess[str]:
    """Run the installed command."""
    import os

    program = Path(sys.executable).with_name("workbench")
    return subprocess.run(
        [program, *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **(env or {})},
    )


@pytest.fixture
def settings_file(lab: Lab, tmp_path: Path) -> Iterator[Path]:
    """Settings with the session's lab as the cluster "mine"."""
    lines = ["[clusters.mine]", f'bootstrap = "{lab.bootstrap}"', "timeout_seconds = 10"]
    if lab.prometheus_url:
        lines.append(f'prometheus = "{lab.prometheus_url}"')
    lines += ["[windows]", 'length = "20s"', 'baseline = "20s"']
    lines += ["[thresholds]", "stale_after_seconds = 10", "time_lag_objective_seconds = 5"]
    path = tmp_path / "settings.toml"
    path.write_text("\n".join(lines))
    yield path
