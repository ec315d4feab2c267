"""Three brokers with tiered storage (KIP-405), each behind the JMX agent and a network card of its own; no security.

Remote storage is a folder (Kafka's own LocalTieredStorage). On request a broker's card is narrow (`narrow`): then what one client
reads is missing to the others of that broker alone, although all three share this machine's processor and disk.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from tests.three_brokers.node import THREE_OF_ALL
from workbench.errors import SetupError
from workbench.lab import process
from workbench.lab.kafka_jars import BROKER, JMX_AGENTS, TIERED, Progress, ensure
from workbench.lab.lab import LAB_THRESHOLDS
from workbench.lab.lab_broker import LOGGING, new_cluster_id
from workbench.settings import LAB_CLUSTER, Cluster
from workbench.spark.java import find_java
from workbench.thresholds import Thresholds

BROKERS = 3
_ATTEMPTS = 2
_START_SECONDS = 90.0  # three JVMs at once on a busy machine
_PROPERTIES = (
    """\
process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
listeners=CLIENT://127.0.0.1:{behind},INTERNAL://127.0.0.1:{internal},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal}
listener.security.protocol.map=CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INTERNAL
controller.listener.names=CONTROLLER
log.dirs={folder}/data
# A follower that stands still is out of sync in seconds; in production in 30.
replica.lag.time.max.ms=4000
# Segments go to remote storage as soon as they are full, and leave the disk as soon as they are there.
remote.log.storage.system.enable=true
remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage
remote.log.metadata.manager.listener.name=INTERNAL
rlmm.config.remote.log.metadata.topic.replication.factor=3
rlmm.config.remote.log.metadata.topic.num.partitions=3
remote.log.manager.task.interval.ms=500
rsm.config.dir={remote}
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=500
"""
    + THREE_OF_ALL
)
REMOTE_LIMIT = "remote.log.manager.fetch.max.bytes.per.second"
# Of a topic whose segments leave the disk after some seconds; a segment cannot be smaller in Kafka 4.
TIERED_TOPIC: Mapping[str, str] = {
    "remote.storage.enable": "true",
    "local.retention.ms": "3000",
    "segment.bytes": "1048576",
}


# The agent without rules names every value as its bean does; only the beans that the profile reads, of 12,000 lines 1,000 are left.
JMX_RULES = """\
includeObjectNames:
  - "kafka.server:type=app-info,*"
  - "kafka.server:type=KafkaRequestHandlerPool,*"
  - "kafka.server:type=ReplicaManager,*"
  - "kafka.server:type=ReplicaFetcherManager,*"
  - "kafka.server:type=BrokerTopicMetrics,*"
  - "kafka.server:type=Fetch,*"
  - "kafka.server:type=Produce,*"
  - "kafka.server:type=Request,*"
  - "kafka.server:type=group-coordinator-metrics,*"
  - "kafka.network:type=RequestMetrics,request=Produce,*"
  - "kafka.network:type=RequestMetrics,request=FetchConsumer,*"
  - "kafka.network:type=RequestMetrics,request=FetchFollower,*"
  - "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Metadata,*"
  - "kafka.network:type=RequestChannel,name=RequestQueueSize"
  - "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent"
  - "kafka.controller:type=KafkaController,name=OfflinePartitionsCount"
  - "kafka.log:type=LogFlushStats,*"
  - "kafka.log.remote:type=RemoteStorageThreadPool,*"
"""


@dataclass(slots=True)
class TieredBroker:
    """One broker: its id, where clients reach it, its metrics page, and its process."""

    number: int
    address: str
    metrics: str
    child: process.Child
    card: process.Child | None


@dataclass(slots=True)
class TieredLab:
    """Three running brokers; `brokers[0]` is broker 1."""

    folder: Path
    brokers: list[TieredBroker] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        """host:port of all brokers, for clients."""
        return ",".join(it.address for it in self.brokers)

    @property
    def remote(self) -> Path:
        """The folder that is remote storage."""
        return self.folder / "remote"

    def cluster(self, **changes: Any) -> Cluster:
        """The lab as a cluster of the settings: the brokers' own pages, and lag from Kafka itself."""
        limits = LAB_THRESHOLDS.model_dump() | {"stale_after_seconds": 15.0}
        fields: dict[str, Any] = {
            "name": LAB_CLUSTER,
            "bootstrap": self.bootstrap,
            "metrics": [it.metrics for it in self.brokers],
            "profiles": ["jmx_kafka_broker"],
            "thresholds": Thresholds(**limits),
        }
        return Cluster(**{**fields, **changes})

    def settings_text(self, objective_seconds: float) -> str:
        """The lab as the cluster `mine` of a settings file."""
        return (
            f'[clusters.mine]\nbootstrap = "{self.bootstrap}"\nprofiles = ["jmx_kafka_broker"]\n'
            f"metrics = {json.dumps([it.metrics for it in self.brokers])}\n"
            f"[clusters.mine.thresholds]\ntime_lag_objective_seconds = {objective_seconds}\n"
        )

    def suspend(self, number: int) -> None:
        """Let a broker hang: it answers nobody, and follows nobody."""
        self.brokers[number - 1].child.suspend()

    def resume(self, number: int) -> None:
        """Let it go on."""
        self.brokers[number - 1].child.resume()

    def limit_remote(self, bytes_per_second: int) -> None:
        """Let every broker read so much from remote storage, from now on."""
        from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        entry = ConfigEntry(REMOTE_LIMIT, str(bytes_per_second), incremental_operation=AlterConfigOpType.SET)
        for it in self.brokers:
            resource = ConfigResource(ResourceType.BROKER, str(it.number), incremental_configs=[entry])
            admin.incremental_alter_configs([resource])[resource].result(timeout=30)

    def stop(self) -> None:
        """End everything. The brokers need not hand over to each other."""
        for it in self.brokers:
            it.child.kill()
            if it.card is not None:
                it.card.kill()
        self.brokers = []

    def __enter__(self) -> TieredLab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_tiered(
    folder: Path,
    *,
    narrow: Mapping[int, float] | None = None,
    remote_bytes_per_second: int | None = None,
    progress: Progress | None = None,
) -> TieredLab:
    """Start the brokers in an empty folder, and wait until each knows all three.

    Args:
        folder: for data, logs and remote storage.
        narrow: broker id to bytes/s that its card can send to clients; default: as much as the machine can.
        remote_bytes_per_second: what a broker reads from remote storage at most (KIP-956): a slow store; default: no limit.
        progress: called for downloads.

    Raises:
        SetupError: if jars cannot be downloaded, or a broker does not start.
    """
    for jars in (BROKER, TIERED, JMX_AGENTS["1.0.1"]):
        ensure(jars, progress=progress)
    process.claimed(folder)
    # Somebody may take a port between our look and the broker's.
    for attempt in Retrying(
        retry=retry_if_exception_type(SetupError), stop=stop_after_attempt(_ATTEMPTS), reraise=True
    ):
        with attempt:
            lab = TieredLab(folder / f"try-{attempt.retry_state.attempt_number}")
            lab.folder.mkdir()
            try:
                _start(lab, narrow or {}, remote_bytes_per_second)
            except BaseException:
                lab.stop()
                raise
            return lab
    raise AssertionError("the last attempt returns or raises")


def _start(lab: TieredLab, narrow: Mapping[int, float], remote_bytes_per_second: int | None) -> None:
    (lab.folder / "log4j2.yaml").write_text(LOGGING, encoding="utf-8")
    (lab.folder / "jmx.yaml").write_text(JMX_RULES, encoding="utf-8")
    agent = next(JMX_AGENTS["1.0.1"].folder.glob("*.jar"))
    classpath = f"{BROKER.classpath}:{TIERED.classpath}"
    ports = list(zip(*[iter(process.free_ports(5 * BROKERS))] * 5, strict=True))
    voters = ",".join(f"{number}@127.0.0.1:{own[3]}" for number, own in enumerate(ports, 1))
    cluster_id = new_cluster_id()
    java: list[str | Path] = [
        find_java().program, "-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={lab.folder / 'log4j2.yaml'}",
    ]  # fmt: skip
    commands: list[list[str | Path]] = []
    for number, (port, behind, internal, controller, metrics) in enumerate(ports, 1):
        own = lab.folder / f"kafka-{number}"
        own.mkdir()
        properties = own / "server.properties"
        properties.write_text(
            _PROPERTIES.format(
                number=number, voters=voters, port=port if number in narrow else behind, behind=behind,
                internal=internal, controller=controller, folder=own, remote=lab.remote,
            )
            + (f"{REMOTE_LIMIT}={remote_bytes_per_second}\n" if remote_bytes_per_second is not None else ""),
            encoding="utf-8",
        )  # fmt: skip
        formatted = subprocess.run(
            [*map(str, java), "-cp", classpath, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)],
            capture_output=True, text=True, timeout=120, check=False, encoding="utf-8", errors="replace",
        )  # fmt: skip
        if formatted.returncode != 0:
            raise SetupError(f"Kafka's storage could not be formatted: {formatted.stderr.strip()[-500:]}")
        options = [f"-javaagent:{agent}=127.0.0.1:{metrics}:{lab.folder / 'jmx.yaml'}", "-cp", classpath]
        commands.append([*java, *options, "kafka.Kafka", properties])
    for number, (command, own_ports) in enumerate(zip(commands, ports, strict=True), 1):
        port, behind, _, _, metrics = own_ports
        own = lab.folder / f"kafka-{number}"
        child = process.start(f"kafka-{number}", command, folder=own)
        card = None
        if number in narrow:
            words = [sys.executable, Path(__file__).with_name("narrow.py"), str(port), str(behind), str(narrow[number])]
            card = process.start(f"card-{number}", words, folder=own)
        address = f"127.0.0.1:{port if number in narrow else behind}"
        lab.brokers.append(TieredBroker(number, address, f"http://127.0.0.1:{metrics}/metrics", child, card))
    for it in lab.brokers:
        ready = partial(_joined, it.address)
        process.wait_until(ready, child=it.child, seconds=_START_SECONDS, what=f"Kafka {it.number}")


def _joined(address: str) -> bool:
    """Whether a broker counts all of them, asked of itself."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    with suppress(KafkaException):  # it cannot be reached yet
        client = AdminClient({"bootstrap.servers": address, "log_level": 0, "socket.timeout.ms": 5_000})
        return len(client.list_topics(timeout=2).brokers) == BROKERS
    time.sleep(0.2)
    return False
