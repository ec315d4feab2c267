"""One live group of each kind on a real broker: classic, consumer, share, streams, Connect.

Each ends in a still state in which some messages are left, so that two tools that look one after the other see the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.waiting import wait_for
from workbench.lab import process
from workbench.lab.kafka_jars import CONNECT, STREAMS, ensure
from workbench.lab.lab_broker import create_topic
from workbench.spark.java import find_java

PARTITIONS = 3
RECORDS = 60  # of each partition
READ = 40  # of them, by each group and partition (about: in batches)

_APP = """\
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;

public class App {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        p.put("group.protocol", "streams");
        p.put("commit.interval.ms", "200");
        p.put("auto.offset.reset", "earliest");
        p.put("max.poll.records", "10");
        p.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[2], Consumed.with(Serdes.ByteArray(), Serdes.String()))
            .foreach((key, value) -> {
                try {
                    if (value.startsWith("late")) Thread.sleep(600000);
                } catch (InterruptedException stopped) {
                    Thread.currentThread().interrupt();
                }
            });
        KafkaStreams app = new KafkaStreams(builder.build(), p);
        app.start();
        Thread.currentThread().join();
    }
}
"""

_WORKER = """\
bootstrap.servers={bootstrap}
group.id={group}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.topic={group}-offsets
config.storage.topic={group}-configs
status.storage.topic={group}-status
offset.storage.replication.factor=1
config.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=1
status.storage.partitions=1
listeners=http://127.0.0.1:{port}
"""


@dataclass(slots=True)
class Five:
    """The groups by kind, and the topic that all but Connect's read."""

    bootstrap: str
    topic: str
    groups: dict[str, str]


@contextmanager
def five_kinds(bootstrap: str, folder: Path, name: str) -> Iterator[Five]:
    """Start a group of each kind, and wait until each is stable and has read what it will read."""
    topic = f"kinds-{name}"
    groups = {kind: f"{kind}-{name}" for kind in ("classic", "consumer", "share", "streams", "connect")}
    create_topic(bootstrap, topic, PARTITIONS)
    folder.mkdir(parents=True, exist_ok=True)
    produce(bootstrap, topic, READ)
    with ExitStack() as stack:
        java = [find_java().program, "-Xmx256m", "-XX:TieredStopAtLevel=1"]
        stack.callback(_app(bootstrap, groups["streams"], topic, folder, java).stop)
        stack.callback(_worker(bootstrap, groups["connect"], folder, java).stop)
        for kind in ("classic", "consumer"):
            stack.callback(_consumer(bootstrap, groups[kind], topic, kind).close)
        stack.callback(_share(bootstrap, groups["share"], topic))
        wait_for(lambda: _streams_committed(bootstrap, groups["streams"], topic), 90)
        produce(bootstrap, topic, RECORDS - READ, "late")  # the application hangs at the first of these
        yield Five(bootstrap, topic, groups)


def produce(bootstrap: str, topic: str, count: int, value: str = "record") -> None:
    """So many records into each partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(PARTITIONS * count):
        producer.produce(topic, f"{value} {number}".encode(), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def _consumer(bootstrap: str, group: str, topic: str, protocol: str) -> Consumer:
    """A member that has committed its position, and reads no more; librdkafka's threads keep it in the group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "client.id": f"{group}-client",
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    read = 0

    def all_read() -> bool:
        nonlocal read
        read += sum(message.error() is None for message in consumer.consume(500, 0.5))
        return read >= PARTITIONS * READ

    wait_for(all_read, 60)
    consumer.commit(asynchronous=False)
    return consumer


def _share(bootstrap: str, group: str, topic: str) -> Any:
    """A member that has acknowledged all but the first record of each partition: what is done lies behind the start."""
    from confluent_kafka import AcknowledgeType, ShareConsumer

    _config(bootstrap, group, "share.auto.offset.reset", "earliest")
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "client.id": f"{group}-client",
            "share.acknowledgement.mode": "explicit",
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    seen: set[tuple[str, int]] = set()

    def all_read() -> bool:
        for message in consumer.poll(0.5):
            if message.error() is not None:
                continue
            first = message.offset() == 0
            consumer.acknowledge(message, AcknowledgeType.RELEASE if first else AcknowledgeType.ACCEPT)
            seen.add((message.partition(), message.offset()))
        consumer.commit_sync(10)
        return len(seen) >= PARTITIONS * READ

    wait_for(all_read, 60)
    return consumer.close


def _app(bootstrap: str, group: str, topic: str, folder: Path, java: list[Any]) -> process.Child:
    """A Kafka Streams application of one file."""
    ensure(STREAMS)
    source = folder / "App.java"
    source.write_text(_APP, encoding="utf-8")
    command = [*java, "-cp", STREAMS.classpath, source, bootstrap, group, topic, folder / "state"]
    return process.start("streams", command, folder=folder)


def _worker(bootstrap: str, group: str, folder: Path, java: list[Any]) -> process.Child:
    """A worker of Kafka Connect in distributed mode, without connectors."""
    ensure(CONNECT)
    [port] = process.free_ports(1)
    properties = folder / "worker.properties"
    properties.write_text(_WORKER.format(bootstrap=bootstrap, group=group, port=port), encoding="utf-8")
    command = [*java, "-cp", CONNECT.classpath, "org.apache.kafka.connect.cli.ConnectDistributed", properties]
    worker = process.start("connect", command, folder=folder)
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def joined() -> bool:
        try:
            return any(it.members for it in admin.list_groups(group, timeout=5))
        except KafkaException:  # the coordinator makes its topic
            return False

    wait_for(joined, 90)
    return worker


def _streams_committed(bootstrap: str, group: str, topic: str) -> bool:
    from confluent_kafka import ConsumerGroupTopicPartitions

    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(10)
    except Exception:  # the group does not exist yet
        return False
    return sum(part.offset for part in found.topic_partitions if part.topic == topic) >= PARTITIONS * READ


def _config(bootstrap: str, group: str, name: str, value: str) -> None:
    """A setting of a group."""
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": bootstrap})  # held: with it goes the answer
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(30)
