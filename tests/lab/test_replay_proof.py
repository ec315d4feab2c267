"""What a broker says of time, of other readers and of deleted records, and what that proves."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.lab.conftest import commit
from tests.lab.replaying import fill, fresh, now_ms, plan_for, topic_with
from tests.waiting import wait_for
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.lab.lab import Lab
from workbench.logs import windows_in_unordered_logs
from workbench.queues.replay_port import ReadLimits
from workbench.queues.systems import counter_of
from workbench.replay.plan_of_given_ranges import make_range_plan
from workbench.replay.planfile import AfterEnd, Resolution
from workbench.replay.replay_request import PlanRequest
from workbench.replay.verify import VerifyVerdict
from workbench.replay.verify_evidence import CheckRequest, check
from workbench.settings import Cluster

pytestmark = pytest.mark.lab
LIMITS = ReadLimits(records=1_000, bytes=1 << 20, seconds=10.0)


def instant(ms: int) -> datetime:
    """Milliseconds as an instant."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def test_a_window_with_late_records_and_a_wrong_clock(lab: Lab, admin: AdminClient) -> None:
    """Kafka's lookup finds the wrong clock's record for both ends; every record of the window is in the plan, and it is not exact."""
    since = now_ms() - 600_000
    inside = [since + n for n in range(20)]
    topic, old = topic_with(lab, {0: [since - 5, since + 3_000_000, *inside, since + 90_000, *inside, since + 95_000]})
    plan = plan_for(lab, topic, old, fresh("new"), instant(since).isoformat(), until=instant(since + 60_000))
    [part] = plan.partitions
    assert (part.target, part.stop, part.resolution) == (2, 43, Resolution.UNORDERED)
    cluster = Cluster(name="mine", bootstrap=lab.bootstrap)
    gateway = KafkaGateway(lab.bootstrap)
    commit(admin, plan.new_group, topic, {0: 43})
    assert check(plan, cluster, gateway, counter_of(cluster), CheckRequest()).verdict is VerifyVerdict.VERIFIED
    fill(lab, topic, {0: [since + 1, since + 2]})
    found = check(plan, cluster, gateway, counter_of(cluster), CheckRequest())
    assert found.verdict is VerifyVerdict.INCOMPLETE
    assert "2 records of the window behind its end, from 44 on" in found.partitions[0].reason


@pytest.mark.jvm
def test_what_lies_between_ranges_is_read(lab: Lab, admin: AdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning could not read all of it; a group has committed the last range. By the timestamps, and with all records."""
    hour, now = 3_600_000, now_ms()
    hours = [10] * 5 + [7] * 7 + [4] * 3 + [1] * 3
    topic, old = topic_with(lab, {0: [now - (10 if at == 7 else ago) * hour for at, ago in enumerate(hours)]})
    windows = [(instant(now - early * hour), instant(now - late * hour)) for early, late in ((11, 9), (5, 3))]
    gateway, cluster = KafkaGateway(lab.bootstrap), Cluster(name="mine", bootstrap=lab.bootstrap)
    asked = PlanRequest(
        cluster="mine", from_group=old, new_group=fresh("new"), topics=[topic], since=windows[0][0], until=windows[1][1],
        requested_since="11h ago", after_end=AfterEnd.END,
    )  # fmt: skip
    with monkeypatch.context() as limited:
        limited.setattr(windows_in_unordered_logs, "TAIL_LIMITS", ReadLimits(records=1, bytes=1 << 20, seconds=10.0))
        plan = make_range_plan(asked, gateway, ranges={}, windows=windows)
    assert plan.partitions[0].spans == [(0, 5), (12, 15)]
    for committed, verdict in ((15, VerifyVerdict.INCOMPLETE), (18, VerifyVerdict.VERIFIED)):
        commit(admin, plan.new_group, topic, {0: committed})
        for records in (False, True):
            found = check(plan, cluster, gateway, counter_of(cluster), CheckRequest(records=records))
            assert found.verdict is verdict
            assert ("1 record of the window behind its end, from 7 on" in str(found)) == (committed == 15)


def test_times_are_read_within_limits_and_up_to_what_is_there(lab: Lab, admin: AdminClient) -> None:
    """Aborted records and markers by isolation; a topic with the broker's times; deleted offsets are not read, and said so."""
    now = now_ms()
    topic, _ = topic_with(lab, {0: [now + n for n in range(300)], 1: []})
    gateway, key = KafkaGateway(lab.bootstrap), (topic, 0)
    read = gateway.times({key: (100, 200), (topic, 1): (0, 5)}, LIMITS)
    assert list(read[key].records) == [(at, now + at) for at in range(100, 200)]
    assert (read[key].through, read[key].by_broker, read[topic, 1].through) == (200, False, 0)
    few = gateway.times({key: (0, 300)}, ReadLimits(records=10, bytes=1 << 20, seconds=10.0))[key]
    assert (len(few.records), few.through) == (10, 10)
    producer = Producer({"bootstrap.servers": lab.bootstrap, "transactional.id": fresh("tx")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"v", b"k", partition=1)
    producer.flush(30)
    producer.abort_transaction(30)
    other = (topic, 1)
    wait_for(lambda: gateway.logs([other], stable=True).stable_ends[other] == 2)
    for committed, number in ((True, 0), (False, 1)):
        found = gateway.times({other: (0, 2)}, LIMITS, committed=committed)[other]
        assert (len(found.records), found.through) == (number, 2)
    appended = fresh("appended")
    config = {"message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(appended, 1, 1, config=config)])[appended].result(30)
    fill(lab, appended, {0: [5, 4, 3]})
    assert gateway.settings([appended, topic])[appended].appends_time is True
    assert gateway.times({(appended, 0): (0, 3)}, LIMITS)[appended, 0].by_broker
    admin.delete_records([TopicPartition(topic, 0, 50)])[TopicPartition(topic, 0, 50)].result(30)
    gone = gateway.times({key: (10, 60)}, LIMITS)[key]
    assert (gone.through, bool(gone.why)) == (10, True)


def test_notes_and_other_readers_are_told(lab: Lab, admin: AdminClient) -> None:
    """The text of a commit without a C string's zero byte; groups with commits on the topic, whether or not they have members."""
    topic, old = topic_with(lab, {0: [now_ms()]})
    noting = fresh("noting")
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": noting, "enable.auto.commit": False})
    offsets = [TopicPartition(topic, 0, 1, metadata="skipped=0-0")]
    consumer.commit(offsets=offsets, asynchronous=False)
    gateway = KafkaGateway(lab.bootstrap)
    assert gateway.notes(noting) == {(topic, 0): "skipped=0-0"}
    assert gateway.notes(old) == gateway.notes(fresh("nobody")) == {}
    found = gateway.audience([topic])
    assert found.unknown is None
    assert set(found.groups) == {noting, old}
    plan = plan_for(lab, topic, old, fresh("new"), "1h ago")
    assert any(f"1 other group reads these topics: {noting} (" in text for text in plan.warnings)
    consumer.close()


@pytest.mark.jvm
def test_deleted_records_are_proven_by_a_log_of_processed_records_only(
    lab: Lab, admin: AdminClient, tmp_path: Path
) -> None:
    """The commit is at the end, and retention has come into the window: the log must have every deleted offset, too."""
    topic, old = topic_with(lab, {0: [now_ms() - 1_000 + n for n in range(10)]})
    plan = plan_for(lab, topic, old, fresh("new"), "1h ago")
    cluster, gateway = Cluster(name="mine", bootstrap=lab.bootstrap), KafkaGateway(lab.bootstrap)
    commit(admin, plan.new_group, topic, {0: 10})
    admin.delete_records([TopicPartition(topic, 0, 4)])[TopicPartition(topic, 0, 4)].result(30)

    def verdict(offsets: list[int] | None) -> VerifyVerdict:
        log = tmp_path / "processed.jsonl"
        lines = [json.dumps({"topic": topic, "partition": 0, "offset": offset}) for offset in offsets or []]
        log.write_text("\n".join(lines), encoding="utf-8")
        asked = CheckRequest() if offsets is None else CheckRequest(processed=log)
        return check(plan, cluster, gateway, counter_of(cluster), asked).verdict

    assert verdict(None) is VerifyVerdict.CANNOT_TELL
    assert verdict(list(range(10))) is VerifyVerdict.VERIFIED
    assert verdict([0, 1, *range(4, 10)]) is VerifyVerdict.CANNOT_TELL
    assert verdict(list(range(9))) is VerifyVerdict.INCOMPLETE
