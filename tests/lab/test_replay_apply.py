"""Applying on a real broker: live members, one that joins in between, partial failures, kill -9, and the way back."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit, workbench
from tests.lab.replaying import fresh, kept, now_ms, plan_for, replay, topic_with, wait_for_members
from tests.waiting import wait_for
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.lab.lab import Lab
from workbench.plans.journal import Journal
from workbench.queues.replay_port import ABSENT
from workbench.replay.apply import ApplyOptions, apply_plan
from workbench.replay.guard import ReplayLimits
from workbench.replay.planfile import Plan
from workbench.replay.receipt import ReplayOutcome, read_rollback, rollback_path
from workbench.replay.rollback_of_apply import roll_back

pytestmark = pytest.mark.lab


@pytest.fixture
def planned(lab: Lab, tmp_path: Path) -> tuple[Plan, Path]:
    """A plan for four partitions of a hundred records each, from the middle on."""
    now = now_ms()
    topic, old = topic_with(lab, {number: [now - 1000 * (100 - n) for n in range(100)] for number in range(4)})
    plan = plan_for(lab, topic, old, fresh("new"), "50s ago")
    return plan, kept(tmp_path, plan)


def commits(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    """What a group has committed."""
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
    return {(part.topic, part.partition): part.offset for part in answer.topic_partitions}


@contextmanager
def member(lab: Lab, group: str, topic: str) -> Iterator[Consumer]:
    """Somebody in the group, who commits nothing."""
    consumer = Consumer(
        {
            "bootstrap.servers": lab.bootstrap, "group.id": group, "client.id": "somebody",
            "enable.auto.commit": False, "session.timeout.ms": 6000,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    try:
        wait_for(lambda: consumer.poll(0.2) or consumer.assignment())
        yield consumer
    finally:
        consumer.close()


def test_the_command_from_plan_to_the_way_back(
    lab: Lab, admin: AdminClient, planned: tuple[Plan, Path], settings_file: Path
) -> None:
    """Refused without a confirmation, done with it, seen in the log, undone by the rollback; the old group never changes."""
    plan, path = planned
    before = commits(admin, plan.from_group)
    assert replay("apply", str(path), settings=settings_file).returncode == 2
    wrong = replay("apply", str(path), "--confirm", "00000000", settings=settings_file)
    assert wrong.returncode == 6
    assert commits(admin, plan.new_group) == {}
    shown = replay("apply", str(path), "--confirm", plan.short_hash, "--json", settings=settings_file)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["outcome"] == "done"
    assert commits(admin, plan.new_group) == plan.targets
    lines = workbench("replay", "log", "--plan", plan.short_hash, "--json")
    assert [(entry["phase"], entry["outcome"]) for entry in json.loads(lines.stdout)] == [
        ("begin", None),
        ("end", "done"),
    ]
    rollback = read_rollback(rollback_path(path))
    back = replay("rollback", str(rollback_path(path)), "--confirm", rollback.short_hash, settings=settings_file)
    assert back.returncode == 0, back.stderr
    assert KafkaGateway(lab.bootstrap).group(plan.new_group).state in (ABSENT, "dead")
    assert commits(admin, plan.from_group) == before


def test_a_live_member_makes_every_partition_fail(
    lab: Lab, planned: tuple[Plan, Path], settings_file: Path, admin: AdminClient
) -> None:
    """Exit code 6, each partition named with who is there, nothing committed."""
    plan, path = planned
    with member(lab, plan.new_group, plan.topics[0]):
        wait_for_members(admin, plan.new_group, 1)
        shown = replay("apply", str(path), "--confirm", plan.short_hash, settings=settings_file)
        as_json = replay("apply", str(path), "--confirm", plan.short_hash, "--json", settings=settings_file)
    assert shown.returncode == as_json.returncode == 6
    assert "Traceback" not in shown.stderr
    for number in range(4):
        assert re.search(rf"{plan.topics[0]}-{number}: .*somebody", shown.stderr)
    document = json.loads(as_json.stdout)
    assert document["outcome"] == "refused"
    assert all("somebody" in part["error"] for part in document["partitions"])
    assert commits(admin, plan.new_group) == {}
    assert not rollback_path(path).exists()


def test_a_member_that_joins_between_guard_and_write(
    lab: Lab, planned: tuple[Plan, Path], tmp_path: Path, admin: AdminClient
) -> None:
    """The guards see nobody; the broker's per-partition errors do. Reported as failed, never as done; afterwards it can be finished."""
    plan, path = planned
    journal = Journal(path=tmp_path / "journal.jsonl")
    late = None

    def join(_seconds: float) -> None:
        nonlocal late
        late = member(lab, plan.new_group, plan.topics[0])
        late.__enter__()

    receipt = apply_plan(plan, path, KafkaGateway(lab.bootstrap), journal, ApplyOptions(quiet_seconds=1.0), sleep=join)
    assert late is not None
    assert receipt.outcome is ReplayOutcome.FAILED
    assert [part.status.value for part in receipt.partitions] == ["failed"] * 4
    assert all("UNKNOWN_MEMBER_ID" in (part.error or "") for part in receipt.partitions)
    assert journal.read()[0][-1].outcome == "failed"
    late.__exit__(None, None, None)
    again = apply_plan(plan, path, KafkaGateway(lab.bootstrap), journal, ApplyOptions(quiet_seconds=0.0))
    assert again.outcome is ReplayOutcome.DONE
    assert commits(admin, plan.new_group) == plan.targets


def test_a_partial_failure_is_partial(lab: Lab, tmp_path: Path, admin: AdminClient) -> None:
    """One of two topics goes between guard and write: its partitions fail, the other's are committed, and the whole is partial."""
    now = now_ms()
    topic, old = topic_with(lab, {0: [now], 1: [now]})
    doomed, _ = topic_with(lab, {0: [now], 1: [now]}, group=old)
    plan = plan_for(lab, topic, old, fresh("new"), "1m ago", topics=[topic, doomed])
    path = kept(tmp_path, plan)

    def delete(_seconds: float) -> None:
        admin.delete_topics([doomed])[doomed].result(30)
        wait_for(lambda: doomed not in admin.list_topics(timeout=10).topics)

    receipt = apply_plan(
        plan,
        path,
        KafkaGateway(lab.bootstrap),
        Journal(path=tmp_path / "j"),
        ApplyOptions(quiet_seconds=1.0),
        sleep=delete,
    )
    assert receipt.outcome is ReplayOutcome.PARTIAL
    failed = {part.topic for part in receipt.partitions if part.status.value == "failed"}
    assert failed == {doomed}
    assert receipt.counts() == {"committed": 2, "failed": 2}
    assert all("UNKNOWN_TOPIC_OR_PART" in (part.error or "") for part in receipt.partitions if part.topic == doomed)


def test_a_hidden_consumer_is_noticed_by_its_commits(
    lab: Lab, planned: tuple[Plan, Path], tmp_path: Path, admin: AdminClient
) -> None:
    """It uses assign(), so the group looks empty; its commits move within the quiet period."""
    plan, path = planned
    topic = plan.topics[0]
    commit(admin, plan.new_group, topic, {0: 1})
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": plan.new_group, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 1)])

    def commits_on(_seconds: float) -> None:
        consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)

    from workbench.replay.guard import ReplayLimits

    options = ApplyOptions(limits=ReplayLimits(allow_existing=True), quiet_seconds=1.0)
    receipt = apply_plan(
        plan, path, KafkaGateway(lab.bootstrap), Journal(path=tmp_path / "j"), options, sleep=commits_on
    )
    consumer.close()
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert any("moved from 1 to 2" in reason for reason in receipt.reasons)


def test_a_rollback_brings_earlier_commits_back(
    lab: Lab, planned: tuple[Plan, Path], tmp_path: Path, admin: AdminClient
) -> None:
    """A group with commits on two of four partitions: the other two are without one again."""
    from workbench.replay.guard import ReplayLimits

    plan, path = planned
    before = {(plan.topics[0], 0): 3, (plan.topics[0], 2): 4}
    commit(admin, plan.new_group, plan.topics[0], {0: 3, 2: 4})
    journal, gateway = Journal(path=tmp_path / "j"), KafkaGateway(lab.bootstrap)
    options = ApplyOptions(limits=ReplayLimits(allow_existing=True), quiet_seconds=0.0)
    assert apply_plan(plan, path, gateway, journal, options).outcome is ReplayOutcome.DONE
    assert commits(admin, plan.new_group) == plan.targets
    found = roll_back(read_rollback(rollback_path(path)), gateway, journal)
    assert not found.failed
    assert commits(admin, plan.new_group) == before


_KILLED = """
import os, signal, sys
from pathlib import Path
from workbench.replay import apply, receipt
from workbench.replay.apply import ApplyOptions, apply_plan
from workbench.plans.journal import Journal
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.replay.planfile import read_plan

bootstrap, path, journal, point = sys.argv[1:]
def die(*_args, **_kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

class Killed(KafkaGateway):
    def commit(self, group, offsets):
        if point == "before the write":
            die()
        if point == "half of the write":
            half = dict(list(offsets.items())[: len(offsets) // 2])
            super().commit(group, half)
            die()
        answer = super().commit(group, offsets)
        if point == "after the write":
            die()
        return answer

if point == "before the receipt":
    original = apply.write_file
    apply.write_file = die
if point == "before the rollback file":
    apply.write_rollback = die
apply_plan(read_plan(Path(path)), Path(path), Killed(bootstrap), Journal(path=Path(journal)), ApplyOptions(quiet_seconds=0.0))
"""


@pytest.mark.parametrize(
    "point",
    ["before the rollback file", "before the write", "half of the write", "after the write", "before the receipt"],
)
def test_killed_anywhere_it_is_run_again(
    lab: Lab, planned: tuple[Plan, Path], tmp_path: Path, admin: AdminClient, point: str
) -> None:
    """kill -9; the second run ends with the plan's offsets, and the rollback file still knows the beginning."""
    plan, path = planned
    journal = tmp_path / "journal.jsonl"
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, lab.bootstrap, str(path), str(journal), point],
        timeout=60,
        check=False,
        env=os.environ,
    )
    assert killed.returncode == -signal.SIGKILL
    assert rollback_path(path).exists() == (point != "before the rollback file")
    receipt = apply_plan(
        plan, path, KafkaGateway(lab.bootstrap), Journal(path=journal), ApplyOptions(quiet_seconds=0.0)
    )
    assert receipt.outcome is ReplayOutcome.DONE
    assert commits(admin, plan.new_group) == plan.targets
    assert read_rollback(rollback_path(path)).before == []
    roll_back(read_rollback(rollback_path(path)), KafkaGateway(lab.bootstrap), Journal(path=journal), quiet_seconds=0.0)
    assert commits(admin, plan.new_group) == {}


def test_the_way_back_of_a_group_that_was_there(
    lab: Lab, planned: tuple[Plan, Path], tmp_path: Path, admin: AdminClient
) -> None:
    """Only the plan's own commits are taken away, for which confluent-kafka has no call; of a group with members none are."""
    plan, path = planned
    topic, gateway, journal = plan.topics[0], KafkaGateway(lab.bootstrap), Journal(path=tmp_path / "journal.jsonl")
    commit(admin, plan.new_group, topic, {0: 7})
    options = ApplyOptions(quiet_seconds=0.0, limits=ReplayLimits(allow_existing=True))
    assert apply_plan(plan, path, gateway, journal, options).outcome is ReplayOutcome.DONE
    with member(lab, plan.new_group, topic):
        assert gateway.delete_commits(plan.new_group, [(topic, 1)]) == {
            (topic, 1): "members of the group read the topic"
        }
    wait_for(lambda: not gateway.group(plan.new_group).members)
    found = roll_back(read_rollback(rollback_path(path)), gateway, journal, quiet_seconds=0.0)
    assert (found.deleted, found.failed, commits(admin, plan.new_group)) == (False, {}, {(topic, 0): 7})
    assert gateway.group(plan.new_group).state == "empty"
    assert gateway.delete_commits(plan.new_group, [(topic, 9)]) == {(topic, 9): "there is no such topic or partition"}
    assert gateway.delete_commits(fresh("nobody"), [(topic, 0)]) == {(topic, 0): "the group does not exist any more"}


def test_another_cluster_is_refused(lab: Lab, planned: tuple[Plan, Path], tmp_path: Path, settings_file: Path) -> None:
    """The plan's own hash fits, but it is not this cluster's."""
    plan, _ = planned
    other = plan.model_copy(update={"cluster_id": "another-cluster-id"}).sealed()
    path = tmp_path / "other.json"
    from workbench.plans.strict_document import write_file

    write_file(path, other.document())
    for words in (
        ["apply", str(path), "--confirm", other.short_hash],
        ["follow", str(path), "--once"],
        ["verify", str(path)],
    ):
        shown = replay(*words, settings=settings_file)
        assert shown.returncode == 6, (words, shown.stderr)
        assert "another-cluster-id" in shown.stderr
