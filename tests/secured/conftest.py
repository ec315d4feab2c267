"""One lab for all of these tests; a test that breaks it leaves it whole."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition

from tests.lab.conftest import commit_many, workbench
from tests.three_brokers.access import ADMIN, ONCALL, SERVICE
from tests.three_brokers.secured import PASSWORD_VARIABLE, SecuredLab, start_secured
from tests.waiting import wait_for
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.groups import own_security
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.kafka.offset_fetch import FIND, parse_coordinators
from workbench.kafka.wire import WireError, addresses, array, text
from workbench.kafka.wire_tls_and_login import logged_in


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredLab]:
    """Three brokers with an exporter, and a Prometheus, which looks at that only for tests with `scraped`."""
    with start_secured(tmp_path_factory.mktemp("secured") / "secured") as running:
        running.forget_exporter()
        yield running


@pytest.fixture
def scraped(secured: SecuredLab) -> Iterator[None]:
    """Prometheus scrapes the exporter meanwhile."""
    secured.watch_exporter()
    yield
    secured.forget_exporter()


@pytest.fixture
def whole(secured: SecuredLab) -> Iterator[SecuredLab]:
    """The lab, with all brokers in sync before the test and after it."""
    secured.heal()
    yield secured
    secured.heal()


def fresh(name: str) -> str:
    """A name that no other test uses."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True)
class Filled:
    """A topic with records, and the commits of groups in it: group to partition to offset."""

    topic: str
    records: int
    commits: Mapping[str, Mapping[int, int]]


def fill(
    secured: SecuredLab, topic: str, partitions: int, records: int, *, times: Callable[[int], int] | None = None
) -> None:
    """A topic with so many records in each partition, written by the application's user."""
    secured.create_topic(topic, partitions)
    producer = Producer(
        {
            **secured.properties(SERVICE),
            "bootstrap.servers": secured.bootstrap,
            "linger.ms": 5,
            "enable.idempotence": True,
        }
    )
    for partition in range(partitions):
        for number in range(records):
            stamp = {"timestamp": times(number)} if times is not None else {}
            producer.produce(topic, b"v", str(number).encode(), partition=partition, **stamp)
        producer.poll(0)
    assert producer.flush(60) == 0


def filled(secured: SecuredLab, *groups: str, partitions: int = 6, records: int = 30) -> Filled:
    """A topic, and groups without members that have committed somewhere in it."""
    topic = fresh("team-orders")
    fill(secured, topic, partitions, records)
    commits = {
        group: {part: (3 * part + at) % records for part in range(partitions)} for at, group in enumerate(groups)
    }
    if commits:
        commit_many(secured.admin(), commits, topic)
    return Filled(topic, records, commits)


def committed(secured: SecuredLab, group: str) -> dict[tuple[str, int], int]:
    """What a group has committed."""
    return KafkaGateway(secured.bootstrap, secured.properties(ADMIN)).commits(group)


def source(secured: SecuredLab, user: str = ONCALL, *, seconds: float = 30.0, **properties: str) -> KafkaCluster:
    """The product's own view of the lab."""
    return KafkaCluster(secured.bootstrap, secured.properties(user, **properties), deadline_seconds=seconds)


def settings_for(secured: SecuredLab, folder: Path, user: str = ONCALL, *, more: str = "", **kafka: str) -> Path:
    """Settings with the lab as the cluster "mine"."""
    text = secured.settings(user, name="mine")
    lines = [*text.splitlines(), *(f'"{name.replace("_", ".")}" = "{value}"' for name, value in kafka.items())]
    lines += ["[windows]", 'length = "20s"', 'baseline = "20s"']
    lines += ["[thresholds]", "stale_after_seconds = 10", "time_lag_objective_seconds = 5", more]
    path = folder / f"{user}.toml"
    path.write_text("\n".join(lines))
    return path


def run(
    secured: SecuredLab,
    settings: Path,
    *words: str,
    user: str = ONCALL,
    password: str | None = None,
    timeout: float = 240,
) -> subprocess.CompletedProcess[str]:
    """A command of Workbench by a user of the lab."""
    secret = secured.passwords[user] if password is None else password
    return workbench(*words, "--config", str(settings), env={PASSWORD_VARIABLE: secret}, timeout=timeout)


def took(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the seconds that it took."""
    began = time.monotonic()
    found = work()
    return found, time.monotonic() - began


def leader_of(secured: SecuredLab, topic: str, partition: int) -> int:
    """Broker id of a partition's leader."""
    return secured.replicas(topic)[partition][0]


def coordinators_of(secured: SecuredLab, groups: Collection[str]) -> dict[str, int]:
    """Group to the broker id of its coordinator, as soon as all brokers that answer agree: after an election some are late."""
    security, found = own_security(secured.properties(ADMIN)), dict[str, int]()

    def known() -> bool:
        answers: list[dict[str, int]] = []
        for address in addresses(secured.bootstrap):
            with suppress(OSError, WireError), logged_in(address, security, time.monotonic() + 5, silence=1) as wire:
                version, answer = wire.ask(FIND, lambda _version: b"\x00" + array(map(text, groups)))
                told = parse_coordinators(answer, [*groups], version)
                answers.append({name: place.number for name, (code, place) in told.items() if code == 0})
        if not answers or len(answers[0]) != len(groups) or any(it != answers[0] for it in answers):
            return False
        found.update(answers[0])
        return True

    wait_for(known)
    return found


def coordinator_of(secured: SecuredLab, group: str) -> int:
    """The same of one group."""
    return coordinators_of(secured, [group])[group]


def commit(secured: SecuredLab, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit offsets for a group without members."""
    parts = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]

    def done() -> bool:
        with suppress(KafkaException):  # brokers that have just come back
            asked = secured.admin().alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, parts)])
            return all(part.error is None for part in asked[group].result(30).topic_partitions)
        return False

    wait_for(done)


def document(shown: subprocess.CompletedProcess[str]) -> Any:
    """JSON of a command."""
    return json.loads(shown.stdout)
