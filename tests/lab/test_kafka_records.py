"""Reading records into Spark from a real broker: all of them, once, without a trace."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cli.running import run_here
from tests.lab.conftest import commit
from tests.lab.replaying import fill, footprint, fresh, kept, now_ms, plan_for, topic_with
from workbench.errors import EvidenceError, SourceUnreachableError
from workbench.kafka.kafka_records_source import KafkaRecords
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.logs.record_counts import counts_by, run
from workbench.queues.replay_port import Ranges
from workbench.queues.systems import system_of
from workbench.settings import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.jvm]


@pytest.fixture(scope="module")
def mixed(lab: Lab) -> tuple[str, dict[tuple[int, int], tuple[bytes | None, bytes | None, str | None, int]]]:
    """Records of every kind, and what they are: (partition, offset) to key, value, type, time."""
    topic = fresh("mixed")
    create_topic(lab.bootstrap, topic, 4)
    # A broker that has never had a group makes the topic for their offsets when the first client asks for a coordinator.
    commit(AdminClient({"bootstrap.servers": lab.bootstrap}), fresh("any"), topic, {0: 0})
    producer = Producer(
        {"bootstrap.servers": lab.bootstrap, "linger.ms": 20, "enable.idempotence": True}
    )  # keeps the order
    truth: dict[tuple[int, int], tuple[bytes | None, bytes | None, str | None, int]] = {}
    at = [0, 0, 0, 0]
    base = now_ms() - 100_000
    for number in range(20_000):
        partition = 0 if number % 2 else number % 3  # partition 3 stays empty
        key = None if number % 7 == 0 else b"k%d" % (number % 50)
        value = None if number % 11 == 0 else b"v" * (number % 30)
        kind = None if number % 5 == 0 else f"type-{number % 3}"
        headers = [("event_type", kind.encode())] if kind else None
        producer.produce(topic, value, key, partition=partition, timestamp=base + number, headers=headers)
        truth[partition, at[partition]] = (key, value, kind, base + number)
        at[partition] += 1
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    return topic, truth


def frame(spark: Any, lab: Lab, **options: str) -> Any:
    """A frame of the data source."""
    spark.dataSource.register(KafkaRecords)
    return spark.read.format("kafka_records").options(bootstrap=lab.bootstrap, **options).load()


@pytest.mark.parametrize("per_task", ["250000", "1000"])
def test_every_record_once_with_all_it_has(lab: Lab, spark: Any, mixed: Any, per_task: str) -> None:
    """Keys, values, types, times and offsets, however the ranges are cut; and no group, no commit, no join."""
    topic, truth = mixed
    before = footprint(lab)
    columns = "partition,offset,timestamp,key,value,event_type"
    rows = frame(spark, lab, topics=topic, columns=columns, records_per_task=per_task).selectExpr(
        "partition", "offset", "unix_millis(timestamp) as ms", "key", "value", "event_type"
    )
    found = {}
    for row in rows.collect():
        assert (row["partition"], row["offset"]) not in found
        key, value = (None if item is None else bytes(item) for item in (row["key"], row["value"]))
        found[row["partition"], row["offset"]] = (key, value, row["event_type"], row["ms"])
    assert found == truth
    assert footprint(lab) == before


def _read(spark: Any, lab: Lab, ranges: Ranges, columns: list[str]) -> Any:
    cluster = Cluster(name="lab", bootstrap=lab.bootstrap)
    return system_of(cluster).read_records(spark, cluster, ranges, columns)


def test_a_window_in_time(lab: Lab, spark: Any, mixed: Any) -> None:
    """From the first record at or after the one instant to the first at or after the other."""
    topic, truth = mixed
    times = sorted(time for *_, time in truth.values())
    since, until = times[5_000], times[15_000]
    counted = frame(spark, lab, topics=topic, columns="offset", since_ms=str(since), until_ms=str(until)).count()
    assert counted == sum(since <= time < until for *_, time in truth.values())


def test_ranges_are_fixed_when_they_are_planned(lab: Lab, spark: Any) -> None:
    """What is produced while it reads is not read: a task tried again must see the same."""
    topic, _ = topic_with(lab, {0: [now_ms()] * 2_000})
    stop = threading.Event()

    def produce() -> None:
        while not stop.is_set():
            fill(lab, topic, {0: [now_ms()] * 500})

    reader = frame(spark, lab, topics=topic, columns="offset")
    from workbench.kafka.kafka_records_source import KafkaRecordsReader

    options = {"bootstrap": lab.bootstrap, "topics": topic, "columns": "offset"}
    source = KafkaRecordsReader(options)
    [task] = source.partitions()
    thread = threading.Thread(target=produce)
    thread.start()
    try:
        looks = [sum(batch.num_rows for batch in source.read(task)) for _ in range(3)]
    finally:
        stop.set()
        thread.join()
    assert looks == [2_000] * 3
    assert reader.count() > 2_000


def test_the_end_of_a_transaction_is_not_waited_for(lab: Lab, spark: Any) -> None:
    """Commit markers take offsets and hold no record; aborted records are not there; an open transaction is not read."""
    topic = fresh("tx")
    create_topic(lab.bootstrap, topic, 1)
    producer = Producer({"bootstrap.servers": lab.bootstrap, "transactional.id": fresh("tx")})
    producer.init_transactions(30)
    for number, ending in enumerate(["commit", "abort", "commit"]):
        producer.begin_transaction()
        for _ in range(10):
            producer.produce(topic, b"%d" % number, partition=0)
        producer.commit_transaction(30) if ending == "commit" else producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    began = time.monotonic()
    rows = frame(spark, lab, topics=topic, columns="value").collect()
    took = time.monotonic() - began
    producer.abort_transaction(30)
    assert sorted(bytes(row["value"]) for row in rows) == [b"0"] * 10 + [b"2"] * 10
    assert took < 25, "it waited for an offset that never comes"


def test_deleted_records_are_an_error_not_a_jump(lab: Lab, spark: Any) -> None:
    """Retention took the beginning of the range: the reader says so instead of counting less."""
    topic, _ = topic_with(lab, {0: [now_ms()] * 100})
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    for answer in admin.delete_records([TopicPartition(topic, 0, 50)]).values():
        answer.result(30)
    with pytest.raises(EvidenceError, match="first records are deleted"):
        run(_read(spark, lab, {(topic, 0): (10, 100)}, ["offset"]))


def test_a_silent_broker_is_told(spark: Any) -> None:
    """It does not hang."""
    options = {
        "bootstrap": "127.0.0.1:9",
        "ranges": json.dumps([["t", 0, 0, 10]]),
        "timeout_seconds": "2",
        "columns": "offset",
    }
    spark.dataSource.register(KafkaRecords)
    with pytest.raises(SourceUnreachableError):
        run(spark.read.format("kafka_records").options(**options).load())


def test_counts_of_what_would_be_replayed(
    lab: Lab, spark: Any, mixed: Any, settings_file: Path, tmp_path: Path
) -> None:
    """By type, key, minute and partition; the command prints the same as the library."""
    topic, truth = mixed
    old = fresh("old")
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    commit(admin, old, topic, {0: 0})
    plan = plan_for(lab, topic, old, fresh("new"), "1h ago")
    path = kept(tmp_path, plan)
    by = [word for kind in ("type", "partition", "minute", "key") for word in ("--by", kind)]
    words = ("replay", "inspect", str(path), *by, "--json", "--config", str(settings_file))
    shown = run_here(*words, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    types = {row["name"]: row["records"] for row in document["type"]}
    kinds = [kind or "(none)" for _, _, kind, _ in truth.values()]
    assert types == {kind: kinds.count(kind) for kind in set(kinds)}
    assert {row["name"]: row["records"] for row in document["partition"]} == {
        f"{topic}-{number}": sum(partition == number for partition, _ in truth) for number in range(3)
    }
    assert sum(row["records"] for row in document["minute"]) == len(truth)
    assert len(document["key"]) == 20
    ranges = {part.key: (part.target or 0, part.stop) for part in plan.partitions}
    frame = _read(spark, lab, ranges, ["topic", "partition", "event_type", "value_bytes"])
    again = counts_by(frame, "type", most=10)
    assert {row["name"]: row["records"] for row in again} == types
    assert sum(row["bytes"] for row in again) == sum(len(value or b"") for _, value, _, _ in truth.values())
