"""Replay: planning ten thousand partitions beside Kafka's own tool, and reading records into Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.bench.harness import Result, median_seconds, result
from tests.lab.conftest import commit
from tests.waiting import wait_for
from workbench.lab.kafka_jars import TOOLS, ensure
from workbench.lab.lab_broker import create_topic, start_broker
from workbench.spark.java import find_java

PARTITIONS, AT_ONCE = 10_000, 5_000  # a controller takes no more than some thousand partitions in one request
RECORDS, RECORD_BYTES, RECORD_PARTITIONS = 1_000_000, 200, 4


@contextmanager
def broker() -> Iterator[tuple[str, Path]]:
    """A broker that compiles as Kafka's own scripts let it: its address, and a folder."""
    with tempfile.TemporaryDirectory() as room:
        one = start_broker(Path(room) / "kafka", for_load=True)
        try:
            yield one.bootstrap, Path(room)
        finally:
            one.stop()


def replay_plan_10k() -> Result:
    """Whole processes: `workbench replay plan`, and the dry run of Kafka's own tool. Apply with re-read is told beside it."""
    ensure(TOOLS)
    with broker() as (bootstrap, room):
        _ten_thousand(bootstrap)
        (room / "w.toml").write_text(f'[clusters.c]\nbootstrap = "{bootstrap}"\n')
        program = Path(sys.executable).with_name("workbench")
        env = {**os.environ, "XDG_STATE_HOME": str(room)}
        plan = room / "plan.json"
        ours_command = [
            program, "replay", "plan", "--cluster", "c", "--from-group", "old", "--new-group", "new", "--topic", "wide",
            "--since", "30m ago", "-o", plan, "--config", room / "w.toml",
        ]  # fmt: skip
        peer_command = [
            str(find_java().program), "-cp", TOOLS.classpath, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            "--bootstrap-server", bootstrap, "--group", "new", "--reset-offsets", "--by-duration", "PT30M", "--topic", "wide",
            "--dry-run", "--timeout", "60000",
        ]  # fmt: skip

        def run(command: list[object]) -> None:
            subprocess.run([str(word) for word in command], capture_output=True, check=True, env=env)

        def plan_anew() -> None:
            plan.unlink(missing_ok=True)  # a plan that is there is not replaced
            run(list(ours_command))

        ours = median_seconds(plan_anew)
        peer = median_seconds(lambda: run(list(peer_command)))
        confirm = json.loads(plan.read_text())["hash"]
        applied = median_seconds(
            lambda: run([program, "replay", "apply", plan, "--confirm", confirm, "--config", room / "w.toml"]), runs=1
        )
    return result(
        "replay_plan_10k",
        f"{PARTITIONS:,} partitions, whole process (apply and re-read: {applied:.1f} s)",
        ours,
        peer=peer,
        peer_name="kafka-consumer-groups --reset-offsets --dry-run",
    )


def _ten_thousand(bootstrap: str) -> None:
    create_topic(bootstrap, "wide", AT_ONCE, seconds=120)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions("wide", PARTITIONS)])["wide"].result(120)

    def led() -> bool:
        parts = admin.list_topics("wide", timeout=30).topics["wide"].partitions
        return len(parts) == PARTITIONS and all(part.leader >= 0 for part in parts.values())

    wait_for(led, 120)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 100, "queue.buffering.max.messages": 200_000, "log_level": 0}
    )
    now = int(time.time() * 1000)
    for number in range(PARTITIONS):
        for minutes in (60, 20, 1):
            producer.produce("wide", b"x" * 100, partition=number, timestamp=now - minutes * 60_000)
        producer.poll(0)
    assert producer.flush(120) == 0
    for at in range(0, PARTITIONS, 2_000):
        commit(admin, "old", "wide", dict.fromkeys(range(at, at + 2_000), 3))


def kafka_records() -> Result:
    """A million records counted by partition: through the data source, and as one would do it by hand (poll, pandas, frame)."""
    from workbench.kafka.kafka_records_source import KafkaRecords
    from workbench.spark.session import for_much_data, session

    with broker() as (bootstrap, _):
        _million(bootstrap)
        spark = session(kept=True)
        for_much_data(spark)
        spark.dataSource.register(KafkaRecords)

        def ours() -> None:
            reader = spark.read.format("kafka_records").option("bootstrap", bootstrap).option("topics", "records")
            frame = reader.option("columns", "partition,offset,timestamp,key,value").load()
            assert sum(row["count"] for row in frame.groupBy("partition").count().collect()) == RECORDS

        def by_hand() -> None:
            import pandas as pd

            consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "by-hand", "enable.auto.commit": False})
            consumer.assign([TopicPartition("records", number, 0) for number in range(RECORD_PARTITIONS)])
            rows = []
            while len(rows) < RECORDS:
                message = consumer.poll(1.0)
                if message is not None and message.error() is None:
                    rows.append(
                        (message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value())
                    )
            consumer.close()
            pandas = pd.DataFrame(rows, columns=["partition", "offset", "timestamp", "key", "value"])
            frame = spark.createDataFrame(pandas)
            assert sum(row["count"] for row in frame.groupBy("partition").count().collect()) == RECORDS

        for _ in range(3):  # the first starts the Python workers; both JVMs compile during the next
            ours()
        mine, theirs = median_seconds(ours, runs=5), median_seconds(by_hand)
    return result(
        "kafka_records",
        f"{RECORDS:,} records of {RECORD_BYTES} B into Spark, counted by partition",
        RECORDS / mine,
        unit="records/s",
        peer=RECORDS / theirs,
        peer_name="poll() loop and createDataFrame(pandas)",
    )


def _million(bootstrap: str) -> None:
    create_topic(bootstrap, "records", RECORD_PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    for number in range(RECORDS):
        while True:
            try:
                producer.produce(
                    "records", b"x" * RECORD_BYTES, b"k%d" % (number % 1000), partition=number % RECORD_PARTITIONS
                )
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0
