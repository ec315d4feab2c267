"""One real Kafka broker (KRaft, broker and controller in one JVM) on free loopback ports."""

from __future__ import annotations

import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from workbench.errors import SetupError
from workbench.lab import process
from workbench.lab.kafka_jars import BROKER, TOOLS, JarSet, ensure
from workbench.spark.java import find_java

START_SECONDS = 60.0  # about 2 s when the machine is idle
_ATTEMPTS = 3

COMPRESSED_TIME = """\
# A lab compresses time: no waiting for more members, and a crash is noticed in seconds.
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.min.heartbeat.interval.ms=500
group.consumer.session.timeout.ms=6000
group.consumer.heartbeat.interval.ms=1000
"""
_PROPERTIES = (
    """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
# PROXIED is reached through the lab's proxy alone, whose address it advertises.
listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{behind_port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{proxy_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={folder}/data
num.partitions=1
# One broker, so one copy of everything; few internal partitions make the start quick.
offsets.topic.num.partitions=8
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=2
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
auto.create.topics.enable=false
log.segment.bytes=67108864
log.retention.check.interval.ms=5000
# Groups without members and offsets are taken away by the clock otherwise, ten minutes after the start.
offsets.retention.check.interval.ms=86400000
"""
    + COMPRESSED_TIME
)

LOGGING = """\
Configuration:
  status: error
  Appenders:
    Console:
      name: out
      PatternLayout: {pattern: "%d %p %m (%c)%n"}
  Loggers:
    Root:
      level: WARN
      AppenderRef: {ref: out}
    Logger:
      - {name: org.apache.kafka.coordinator.group, level: INFO}
      - {name: kafka.server.KafkaRaftServer, level: INFO}
"""


@dataclass(slots=True)
class Broker:
    """A running broker; `behind_port` is where the proxy reaches it, `proxy_port` where clients reach the proxy."""

    bootstrap: str
    cluster_id: str
    child: process.Child
    command: list[str | Path]
    folder: Path
    behind_port: int
    proxy_port: int

    def restart(self, *, pause_seconds: float = 0.0) -> None:
        """End it and start it again on the same port with the same data, after a pause.

        Raises:
            SetupError: if it does not come up again.
        """
        self.stop()
        time.sleep(pause_seconds)
        self.child = process.start("kafka", self.command, folder=self.folder)
        port = int(self.bootstrap.rpartition(":")[2])
        process.wait_until(lambda: _answers(port), child=self.child, seconds=START_SECONDS, what="Kafka")

    def stop(self) -> None:
        """End it; its data stay in its folder."""
        self.child.stop(seconds=20.0)


def start_broker(folder: Path, *, for_load: bool = False, jars: JarSet = BROKER) -> Broker:
    """Start a broker in an empty folder and wait until it answers.

    Args:
        folder: where its data and logs go; made if missing.
        for_load: run it on the JVM's usual compilers, as Kafka's own scripts do. A lab's broker has the quick one alone: it starts
            sooner and is slower under load (20,000 groups took 17 s to be read from it, 9 s from the other; 2 cores).
        jars: another release of Kafka.

    Raises:
        SetupError: if the jars cannot be downloaded or the broker does not start.
    """
    ensure(jars)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.yaml").write_text(LOGGING, encoding="utf-8")
    cluster_id = new_cluster_id()
    # Somebody may take a port between our look and the broker's.
    for attempt in Retrying(
        retry=retry_if_exception_type(SetupError), stop=stop_after_attempt(_ATTEMPTS), reraise=True
    ):
        with attempt:
            folder_of_try = folder / f"try-{attempt.retry_state.attempt_number}"
            return _start(folder_of_try, cluster_id, folder / "log4j2.yaml", for_load, jars)
    raise AssertionError("the last attempt returns or raises")


def new_cluster_id() -> str:
    """A random id in Kafka's form: 22 characters of URL-safe base64."""
    while True:
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not cluster_id.startswith("-"):  # its own tools would take it for an option
            return cluster_id


def _start(folder: Path, cluster_id: str, logging: Path, for_load: bool, jars: JarSet) -> Broker:
    folder.mkdir(parents=True)
    port, controller_port, behind_port, proxy_port = process.free_ports(4)
    properties = folder / "server.properties"
    properties.write_text(
        _PROPERTIES.format(
            port=port, controller_port=controller_port, behind_port=behind_port, proxy_port=proxy_port, folder=folder
        ),
        encoding="utf-8",
    )
    java: list[str | Path] = [
        find_java().program,
        "-Xms256m",
        "-Xmx512m",
        "-XX:+UseSerialGC",
        *(() if for_load else ("-XX:TieredStopAtLevel=1",)),
    ]
    java += [f"-Dlog4j2.configurationFile={logging}", "-cp", jars.classpath]
    formatted = subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", properties],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        encoding="utf-8",
        errors="replace",
    )
    if formatted.returncode != 0:
        raise SetupError(f"Kafka's storage could not be formatted: {formatted.stderr.strip()[-500:]}")
    command = [*java, "kafka.Kafka", properties]
    child = process.start("kafka", command, folder=folder)
    try:
        process.wait_until(lambda: _answers(port), child=child, seconds=START_SECONDS, what="Kafka")
    except BaseException:
        child.kill()
        raise
    return Broker(f"127.0.0.1:{port}", cluster_id, child, command, folder, behind_port, proxy_port)


def _answers(port: int) -> bool:
    from confluent_kafka import KafkaException

    admin = _admin(f"127.0.0.1:{port}")
    try:
        return bool(admin.list_topics(timeout=1).brokers)
    except KafkaException:
        return False


def _admin(bootstrap: str) -> Any:
    from confluent_kafka.admin import AdminClient

    # log_level 0: a broker that is not up yet is no news.
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 10_000})


def create_topic(
    bootstrap: str,
    topic: str,
    partitions: int,
    *,
    settings: Mapping[str, str] | None = None,
    replicas: int = 1,
    seconds: float = 30.0,
) -> None:
    """Create a topic, with settings of its own, and wait until every partition has a leader.

    Raises:
        SetupError: if the broker refuses or no leader appears in time.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic

    admin = _admin(bootstrap)
    try:
        admin.create_topics([NewTopic(topic, partitions, replicas, config=dict(settings or {}))])[topic].result(
            timeout=seconds
        )
    except KafkaException as error:
        raise SetupError(f"The topic {topic!r} could not be created: {error.args[0].str()}") from error
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        meta = admin.list_topics(topic, timeout=5).topics[topic]
        if len(meta.partitions) == partitions and all(part.leader >= 0 for part in meta.partitions.values()):
            return
        time.sleep(0.1)
    raise SetupError(f"The topic {topic!r} has partitions without a leader after {seconds:.0f} s.")


def add_partitions(bootstrap: str, topic: str, total: int, *, seconds: float = 30.0) -> None:
    """Let a topic have `total` partitions.

    Raises:
        SetupError: if the broker refuses.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewPartitions

    admin = _admin(bootstrap)  # held: with it goes the answer
    try:
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(timeout=seconds)
    except KafkaException as error:
        raise SetupError(f"The topic {topic!r} could not get {total} partitions: {error.args[0].str()}") from error


def set_retention(bootstrap: str, topic: str, milliseconds: int, *, seconds: float = 30.0) -> None:
    """Set how long a topic keeps its records.

    Raises:
        SetupError: if the broker refuses.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry("retention.ms", str(milliseconds), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = _admin(bootstrap)
    try:
        admin.incremental_alter_configs([resource])[resource].result(timeout=seconds)
    except KafkaException as error:
        raise SetupError(f"The retention of {topic!r} could not be changed: {error.args[0].str()}") from error


def move_commits(bootstrap: str, group: str, topic: str, offsets: Mapping[int, int], *, seconds: float = 30.0) -> None:
    """Commit offsets for a group without members; waits until the last one has left.

    Raises:
        SetupError: if the coordinator refuses.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    admin = _admin(bootstrap)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, *item) for item in offsets.items()])
    _when_empty(
        group,
        lambda: [
            part.error
            for part in admin.alter_consumer_group_offsets([wanted])[group].result(timeout=seconds).topic_partitions
            if part.error is not None
        ],
        KafkaException,
        seconds,
    )


def delete_records(bootstrap: str, topic: str, starts: Mapping[int, int], *, seconds: float = 30.0) -> None:
    """Delete what is before an offset of each partition, as retention does.

    Raises:
        SetupError: if the broker refuses.
    """
    from confluent_kafka import KafkaException, TopicPartition

    admin = _admin(bootstrap)  # held: with it goes the answer
    wanted = [TopicPartition(topic, *item) for item in starts.items()]
    try:
        for answer in admin.delete_records(wanted, operation_timeout=seconds).values():
            answer.result(timeout=seconds)
    except KafkaException as error:
        raise SetupError(f"Records of {topic!r} could not be deleted: {error.args[0].str()}") from error


def delete_group(bootstrap: str, group: str, *, seconds: float = 30.0) -> None:
    """Delete a group without members, and so its commits; waits until the last one has left.

    Raises:
        SetupError: if the coordinator refuses.
    """
    from confluent_kafka import KafkaException

    admin = _admin(bootstrap)

    def delete() -> list[Any]:
        admin.delete_consumer_groups([group])[group].result(timeout=seconds)
        return []

    _when_empty(group, delete, KafkaException, seconds)


def _when_empty(group: str, change: Callable[[], list[Any]], refusal: type[Exception], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            errors = change()
        except refusal as error:
            errors = [error]
        if not errors:
            return
        if time.monotonic() > deadline:
            raise SetupError(f"The commits of {group!r} could not be changed: {errors[0]}")
        time.sleep(0.3)


def abort_transaction(bootstrap: str, topic: str, partition: int, start_offset: int) -> None:
    """Abort the transaction that begins at an offset, with Kafka's own tool: confluent-kafka has no call for it.

    Raises:
        SetupError: if it fails.
    """
    ensure(TOOLS)
    words = ["abort", "--topic", topic, "--partition", str(partition), "--start-offset", str(start_offset)]
    program = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap)
    _run_tool(TOOLS, [*program, *words], f"The transaction in {topic}-{partition} could not be aborted")


def set_quota(bootstrap: str, client_id: str, bytes_per_second: int | None) -> None:
    """Set or lift (None) what a client may fetch, with Kafka's own tool: confluent-kafka has no call for quotas.

    Raises:
        SetupError: if it fails.
    """
    change = (
        ["--add-config", f"consumer_byte_rate={bytes_per_second}"]
        if bytes_per_second is not None
        else ["--delete-config", "consumer_byte_rate"]
    )
    program = ("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--alter")
    words = [*change, "--entity-type", "clients", "--entity-name", client_id]
    _run_tool(BROKER, [*program, *words], f"The quota of {client_id!r} could not be changed")


def _run_tool(jars: JarSet, words: Sequence[str], trouble: str) -> None:
    java = (find_java().program, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF", "-cp", jars.classpath)
    done = subprocess.run(
        [*java, *words], capture_output=True, text=True, timeout=60, check=False, encoding="utf-8", errors="replace"
    )
    if done.returncode != 0:
        raise SetupError(f"{trouble}: {(done.stderr or done.stdout).strip()[-300:]}")
