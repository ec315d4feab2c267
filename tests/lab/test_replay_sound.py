"""What only a broker has: topic ids, open transactions, and members with assignments."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.lab.conftest import commit
from tests.lab.replaying import fill, fresh, kept, now_ms, plan_for, topic_with
from tests.lab.test_replay_apply import commits, member
from tests.waiting import wait_for
from workbench.errors import GuardError
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.plans.journal import Journal
from workbench.queues.systems import counter_of
from workbench.replay.apply import ApplyOptions, apply_plan
from workbench.replay.guard import ReplayLimits
from workbench.replay.receipt import ReplayOutcome
from workbench.replay.retire import retire
from workbench.replay.unplanned_partitions import check_or_carry
from workbench.replay.verify import VerifyVerdict
from workbench.replay.verify_evidence import CheckRequest, check
from workbench.settings import Cluster

pytestmark = pytest.mark.lab


def test_a_topic_that_is_made_anew_with_the_same_records_is_refused(
    lab: Lab, admin: AdminClient, tmp_path: Path
) -> None:
    """Offsets, ends and timestamps are as they were; its id is not. The topics that were asked for have ids, a missing one has none."""
    times = {number: [now_ms() - 60_000 + n for n in range(20)] for number in range(2)}
    topic, old = topic_with(lab, times)
    gateway = KafkaGateway(lab.bootstrap)
    plan = plan_for(lab, topic, old, fresh("new"), "1h ago")
    assert set(plan.topic_ids) == {topic}
    admin.delete_topics([topic])[topic].result(30)
    wait_for(lambda: topic not in admin.list_topics(timeout=10).topics)
    view = gateway.cluster([topic])
    assert (topic in view.topics, view.denied) == (False, {})
    create_topic(lab.bootstrap, topic, 2)
    fill(lab, topic, times)
    gateway = KafkaGateway(lab.bootstrap)  # the former client remembers for a while that there was no topic
    receipt = apply_plan(
        plan, kept(tmp_path, plan), gateway, Journal(path=tmp_path / "j"), ApplyOptions(quiet_seconds=0.0)
    )
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert "recreated" in receipt.reasons[0]
    assert commits(admin, plan.new_group) == {}


def test_a_group_is_kept_while_an_added_partition_may_have_records_of_the_window(
    lab: Lab, admin: AdminClient, tmp_path: Path
) -> None:
    """Nobody planned where it begins there. Once all of that partition's records are from after the window, nothing is left."""
    now = now_ms()
    topic, old = topic_with(lab, {0: [now - 60_000 + at for at in range(5)]})
    until_ms = now + 3_000
    times = {"until": datetime.fromtimestamp(until_ms / 1000, UTC), "requested_until": "soon"}
    plan = plan_for(lab, topic, old, fresh("new"), "5m ago", **times)
    commit(admin, plan.new_group, topic, {0: 5})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    wait_for(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 2)
    wait_for(lambda: now_ms() > until_ms, 10)
    fill(lab, topic, {0: [until_ms + 10], 1: [until_ms - 1_000]})

    def once(*, allow_unproven: bool = False) -> None:
        retire(
            plan, kept(tmp_path, plan), KafkaGateway(lab.bootstrap), Journal(path=tmp_path / "j"), stays=False,
            now_ms=now_ms(), allow_unproven=allow_unproven,
        )  # fmt: skip

    with pytest.raises(
        GuardError, match=f"{topic}-1 was added since the plan was made, and has 1 record of the window"
    ):
        once()
    assert commits(admin, plan.new_group) != {}
    once(allow_unproven=True)
    assert commits(admin, plan.new_group) == {}


@pytest.mark.jvm
def test_records_before_the_target_that_were_processed_are_counted(
    lab: Lab, admin: AdminClient, tmp_path: Path
) -> None:
    """A log of what was processed says more than the commits: the replay has begun too early."""
    now = now_ms()
    topic, old = topic_with(lab, {0: [now - 120_000 + n for n in range(3)] + [now - 30_000 + n for n in range(4)]})
    plan = plan_for(lab, topic, old, fresh("new"), "1m ago")
    [part] = plan.partitions
    assert (part.target, part.stop) == (3, 7)
    cluster = Cluster(name="mine", bootstrap=lab.bootstrap)
    commit(admin, plan.new_group, topic, {0: 7})
    for first, verdict in ((3, VerifyVerdict.VERIFIED), (1, VerifyVerdict.INCOMPLETE)):
        log = tmp_path / f"processed-{first}.jsonl"
        lines = [json.dumps({"topic": topic, "partition": 0, "offset": offset}) for offset in range(first, 7)]
        log.write_text("\n".join(lines), encoding="utf-8")
        found = check(
            plan, cluster, KafkaGateway(lab.bootstrap), counter_of(cluster), CheckRequest(records=True, processed=log)
        )
        assert found.verdict is verdict
        assert ("2 records before the target" in str(found)) == (first == 1)


def test_an_open_transaction_cannot_be_verified_until_it_ends(lab: Lab, admin: AdminClient) -> None:
    """It begins before the target: cannot tell while it is open, incomplete or verified by the commit afterwards."""
    now = now_ms()
    topic, old = topic_with(lab, {0: [now - 120_000 + n for n in range(3)]})
    producer = Producer({"bootstrap.servers": lab.bootstrap, "transactional.id": fresh("tx")})
    producer.init_transactions(30)
    producer.begin_transaction()
    for timestamp in (now - 110_000, now - 30_000, now - 20_000):
        producer.produce(topic, b"v", b"k", partition=0, timestamp=timestamp)
    producer.flush(30)
    plan = plan_for(lab, topic, old, fresh("new"), "1m ago")
    [part] = plan.partitions
    assert (part.target, part.stop) == (4, 6)
    assert any("transaction is open" in text for text in plan.warnings)
    cluster = Cluster(name="mine", bootstrap=lab.bootstrap)
    gateway, counter = KafkaGateway(lab.bootstrap), counter_of(cluster)

    def verdict(committed: int) -> VerifyVerdict:
        commit(admin, plan.new_group, topic, {0: committed})
        return check(plan, cluster, gateway, counter, CheckRequest()).verdict

    assert verdict(6) is VerifyVerdict.CANNOT_TELL
    assert verdict(4) is VerifyVerdict.CANNOT_TELL
    producer.commit_transaction(30)
    # The coordinator answers before its markers are in the log.
    wait_for(lambda: gateway.logs([part.key], stable=True).stable_ends[part.key] > part.stop)
    assert verdict(5) is VerifyVerdict.INCOMPLETE
    assert verdict(6) is VerifyVerdict.VERIFIED


def test_what_the_old_group_reads_beyond_the_plan_is_carried_over(lab: Lab, admin: AdminClient, tmp_path: Path) -> None:
    """By its commits, and by what a member holds of an empty topic that was never committed: there the end is the place to begin."""
    now = now_ms()
    topic, old = topic_with(lab, {0: [now]})
    more, _ = topic_with(lab, {0: [now] * 5, 1: [now] * 5}, group=old)
    commit(admin, old, more, {0: 2, 1: 3})
    empty = fresh("empty")
    create_topic(lab.bootstrap, empty, 1)
    gateway, journal = KafkaGateway(lab.bootstrap), Journal(path=tmp_path / "j")
    with member(lab, old, empty):
        plan = plan_for(lab, topic, old, fresh("new"), "1m ago")
        assert any(f"{empty}-0" in text and f"{more}-1" in text for text in plan.warnings)
        apply_plan(plan, kept(tmp_path, plan), gateway, journal, ApplyOptions(quiet_seconds=0.0))
        found = check_or_carry(
            plan, gateway, journal, ReplayLimits(), cluster=gateway.cluster(plan.topics), old=gateway.commits(old),
            new=gateway.commits(plan.new_group), carry=True,
        )  # fmt: skip
    assert found == {(more, 0): 2, (more, 1): 3, (empty, 0): 0}
    assert commits(admin, plan.new_group) == {**plan.targets, **found}
    assert [entry.action for entry in journal.read()[0]] == ["apply"] * 2 + ["carry"] * 2
