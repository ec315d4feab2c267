"""A replay and its way back on a broker of Kafka 2.8, whose requests are for one group each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit
from tests.lab.replaying import fresh, kept, now_ms, plan_for
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.lab.kafka_jars import OLDEST_BROKER
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic, start_broker
from workbench.plans.journal import Journal
from workbench.queues.replay_port import KeptCommit
from workbench.replay.apply import ApplyOptions, apply_plan
from workbench.replay.guard import ReplayLimits
from workbench.replay.receipt import ReplayOutcome, read_rollback, rollback_path
from workbench.replay.rollback_of_apply import roll_back

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """What has the address of such a broker."""
    broker = start_broker(tmp_path / "kafka", jars=OLDEST_BROKER)
    yield cast(Lab, broker)
    broker.stop()


def test_a_replay_and_its_way_back(lab: Lab, tmp_path: Path) -> None:
    """Commits come back with their metadata, those of the plan go, and others who read the topic are known."""
    topic, old = fresh("replay"), fresh("old")
    create_topic(lab.bootstrap, topic, 3)
    # Its preview of KRaft has no producer ids, which `topic_with` takes.
    producer = Producer({"bootstrap.servers": lab.bootstrap, "max.in.flight.requests.per.connection": 1})
    for number in range(27):
        producer.produce(topic, b"v", partition=number % 3, timestamp=now_ms() - 60_000 * (9 - number // 3))
    assert producer.flush(30) == 0
    commit(AdminClient({"bootstrap.servers": lab.bootstrap}), old, topic, {0: 0, 1: 0, 2: 0})
    gateway, journal, new = KafkaGateway(lab.bootstrap), Journal(path=tmp_path / "journal.jsonl"), fresh("new")
    before = {(topic, 0): KeptCommit(7, "ÿ kept".encode())}
    assert gateway.restore(new, before) == {}
    plan = plan_for(lab, topic, old, new, "5m ago")
    path = kept(tmp_path, plan)
    options = ApplyOptions(quiet_seconds=0.0, limits=ReplayLimits(allow_existing=True))
    assert apply_plan(plan, path, gateway, journal, options).outcome is ReplayOutcome.DONE
    assert gateway.commits(new) == plan.targets
    assert gateway.audience({topic}).unknown is None
    assert set(gateway.audience({topic}).groups) == {old, new}
    found = roll_back(read_rollback(rollback_path(path)), gateway, journal, quiet_seconds=0.0)
    assert (found.deleted, found.failed) == (False, {})
    assert gateway.kept_commits(new) == before
