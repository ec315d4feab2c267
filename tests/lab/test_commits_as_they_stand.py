"""Commits on real brokers: their metadata byte by byte, and those that an authorizer hides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.lab.conftest import commit
from tests.lab.own_broker import own_broker
from tests.lab.replaying import fresh, kept, now_ms, plan_for, topic_with
from tests.waiting import wait_for
from workbench.kafka import lacking_rights
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.lab.kafka_jars import BROKER, ensure
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.plans.journal import Journal
from workbench.queues.replay_port import ABSENT, KeptCommit
from workbench.replay.apply import ApplyOptions, apply_plan
from workbench.replay.guard import ReplayLimits
from workbench.replay.receipt import ReplayOutcome, read_rollback, rollback_path
from workbench.replay.remove_group import remove_group
from workbench.replay.rollback_of_apply import roll_back

pytestmark = pytest.mark.lab

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=SASL_PLAINTEXT://127.0.0.1:{sasl},INSIDE://127.0.0.1:{inside},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INSIDE
controller.listener.names=CONTROLLER
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
log.dirs={folder}/data
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
offsets.retention.check.interval.ms=1000
"""
ALICE = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "alice",
}


@pytest.fixture(scope="module")
def hiding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Addresses of a broker: for everything, and for somebody who may see the topic `seen` and all groups."""
    ensure(BROKER)
    folder = tmp_path_factory.mktemp("hiding")
    with own_broker(folder, _PROPERTIES, ("controller", "sasl", "inside")) as (admin, addresses):
        for made in admin.create_topics([NewTopic(name, 1, 1) for name in ("seen", "secret")]).values():
            made.result(30)
        rights = [
            AclBinding(
                kind, name, ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.ALL, AclPermissionType.ALLOW
            )
            for kind, name in ((ResourceType.TOPIC, "seen"), (ResourceType.GROUP, "*"))
        ]
        for granted in admin.create_acls(rights).values():
            granted.result(30)
        yield addresses["inside"], addresses["sasl"]


def test_a_group_keeps_the_commits_that_are_hidden(hiding: tuple[str, str]) -> None:
    """Who sees one topic removes a group: the commit on the other one stays. A group without one goes by itself."""
    inside, outside = hiding
    admin, everything, alice = (
        AdminClient({"bootstrap.servers": inside}),
        KafkaGateway(inside),
        KafkaGateway(outside, ALICE),
    )
    commit(admin, "both", "seen", {0: 0})
    commit(admin, "both", "secret", {0: 0})
    commit(admin, "one", "seen", {0: 0})
    wait_for(lambda: "secret" not in alice.cluster().topics and alice.commits("one"))
    assert alice.commits("both") == {("seen", 0): 0}
    assert alice.may_hide()
    for group in ("both", "one"):
        assert remove_group(alice, group, alice.commits(group)) == {}
    wait_for(lambda: everything.group("one").state in (ABSENT, "dead"))
    assert everything.commits("both") == {("secret", 0): 0}


def test_brokers_that_hide_nothing_say_so(lab: Lab) -> None:
    """Then a group is deleted in one request."""
    assert not KafkaGateway(lab.bootstrap).may_hide()


def test_metadata_comes_back_byte_by_byte(lab: Lab, tmp_path: Path) -> None:
    """Without the zero byte that the client library sends; also what is not ASCII, and as many as a broker takes."""
    now = now_ms()
    topic, old = topic_with(lab, {number: [now - 1000 * (20 - n) for n in range(20)] for number in range(120)})
    gateway, group = KafkaGateway(lab.bootstrap), fresh("framework")
    before = {
        (topic, number): KeptCommit(3, "AgAAAYÿ\0".encode() if number % 2 else b"x" * 4096) for number in range(119)
    }
    before[topic, 119] = KeptCommit(5)
    assert gateway.restore(group, before) == {}
    assert gateway.kept_commits(group) == before
    plan = plan_for(lab, topic, old, group, "10s ago")
    path, journal = kept(tmp_path, plan), Journal(path=tmp_path / "journal.jsonl")
    options = ApplyOptions(limits=ReplayLimits(allow_existing=True), quiet_seconds=0.0)
    assert apply_plan(plan, path, gateway, journal, options).outcome is ReplayOutcome.DONE
    assert not any(it.metadata for it in gateway.kept_commits(group).values())
    assert not roll_back(read_rollback(rollback_path(path)), gateway, journal, quiet_seconds=0.0).failed
    assert gateway.kept_commits(group) == before


def test_what_a_broker_refuses_is_told_for_its_partition(lab: Lab) -> None:
    """A partition that is not there, and more metadata than the broker takes; the others are written."""
    topic, _ = topic_with(lab, {0: [now_ms()], 1: [now_ms()]})
    gateway, group = KafkaGateway(lab.bootstrap), fresh("framework")
    wanted = {(topic, 0): KeptCommit(1, b"a"), (topic, 1): KeptCommit(1, b"b" * 5000), (topic, 7): KeptCommit(1, b"c")}
    failed = gateway.restore(group, wanted)
    assert failed == {(topic, 1): "its metadata is too long", (topic, 7): "there is no such topic or partition"}
    assert gateway.kept_commits(group) == {(topic, 0): KeptCommit(1, b"a")}


def test_without_an_authorizer_no_transaction_is_looked_for(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has never had one makes the topic of their states for whom it is asked of: a plan makes nothing."""
    asked: list[object] = []
    monkeypatch.setattr(lacking_rights, "denied_transactions", lambda *words: asked.append(words) or [])
    gateway, topic = KafkaGateway(lab.bootstrap), fresh("letters")
    create_topic(lab.bootstrap, topic, 1)
    assert gateway.lacking(fresh("group"), {topic: "READ"}, ["workbench-redrive-*"]) == ()
    assert asked == []
    monkeypatch.setattr(lacking_rights, "may_hide", lambda *_: True)
    assert gateway.lacking(fresh("group"), {topic: "READ"}, ["workbench-redrive-*"]) == ()
    assert len(asked) == 1
