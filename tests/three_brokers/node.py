"""One broker of a secured cluster: its configuration, its process, and what can be done to it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import SetupError
from workbench.files import write_text
from workbench.lab import process
from workbench.lab.kafka_jars import BROKER
from workbench.lab.lab_broker import COMPRESSED_TIME
from workbench.spark.java import find_java

START_SECONDS = 90.0  # three JVMs at once on a busy machine; about 8 s on an idle one with two cores
NODE = "node"  # common name of the certificates that brokers and controllers show each other
MECHANISM = "SCRAM-SHA-512"

THREE_OF_ALL = (
    """\
# As in production: three copies, two of which must be in sync.
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
# Leaders move when somebody moves them.
auto.leader.rebalance.enable=false
auto.create.topics.enable=false
# A lab is small: three brokers in about a gigabyte.
num.partitions=3
offsets.topic.num.partitions=9
transaction.state.log.num.partitions=3
share.coordinator.state.topic.num.partitions=3
num.network.threads=2
num.io.threads=4
background.threads=2
log.segment.bytes=67108864
log.cleaner.dedupe.buffer.size=4194304
"""
    + COMPRESSED_TIME
)
# Clients come to SECURE. Brokers and controllers speak among themselves on listeners of their own, with certificates of their own, so
# that an expired certificate or a lost password on SECURE cuts off the clients alone.
_PROPERTIES = (
    """\
process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
listeners=SECURE://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal_port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=SECURE://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal_port}
listener.security.protocol.map=SECURE:SASL_SSL,INTERNAL:SSL,CONTROLLER:SSL
inter.broker.listener.name=INTERNAL
controller.listener.names=CONTROLLER
ssl.keystore.type=PEM
ssl.keystore.location={folder}/internal.pem
ssl.truststore.type=PEM
ssl.truststore.location={ca}
listener.name.internal.ssl.client.auth=required
listener.name.controller.ssl.client.auth=required
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={folder}/secure.pem
listener.name.secure.ssl.client.auth=none
sasl.enabled.mechanisms={mechanism}
listener.name.secure.{lower_mechanism}.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:CN={node}
log.dirs={folder}/data
offsets.retention.check.interval.ms=86400000
"""
    + THREE_OF_ALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of one broker."""

    secure: int
    internal: int
    controller: int


@dataclass(slots=True)
class SecuredBroker:
    """A broker that can be killed, suspended and restarted; its number is its broker id.

    Attributes:
        number: broker id, from 1.
        address: host:port of the listener for clients.
        folder: data, log, configuration and certificates.
        joined: tells whether the cluster counts it among its brokers.
    """

    number: int
    address: str
    folder: Path
    command: list[str | Path]
    child: process.Child
    joined: Callable[[SecuredBroker], bool]
    suspended: bool = False

    @property
    def alive(self) -> bool:
        """Whether its process runs (or is suspended)."""
        return self.child.alive

    def kill(self) -> None:
        """End it at once, as a crash would: its leaders stay its own until the controller misses it (9 s)."""
        self.child.kill()
        self.suspended = False

    def stop(self) -> None:
        """End it in order: it hands its leaders over first."""
        self.resume()
        self.child.stop(seconds=30.0)

    def suspend(self) -> None:
        """Let it hang: its connections stay open, and nothing is answered."""
        self.child.suspend()
        self.suspended = True

    def resume(self) -> None:
        """Let it go on."""
        if self.suspended:
            self.child.resume()
            self.suspended = False

    def restart(self) -> None:
        """Start it again with its data, after `stop` if it runs, and wait until it has joined.

        Raises:
            SetupError: if it does not.
        """
        if self.alive:
            self.stop()
        self.child = launch(self.number, self.command, self.folder)
        self.wait()

    def show(self, certificate: str, *, is_valid: bool = True) -> None:
        """Restart it with another key and certificate (PEM) for its clients.

        Raises:
            SetupError: if it does not come up.
        """
        write_text(self.folder / "secure.pem", certificate, private=True)
        self.stop()
        self.child = launch(self.number, self.command, self.folder)
        if is_valid:
            self.wait()
        else:  # no client gets in to tell whether it has joined
            process.wait_until(
                lambda: _listens(self.address), child=self.child, seconds=START_SECONDS, what=f"Kafka {self.number}"
            )

    def wait(self) -> None:
        """Wait until the cluster counts it among its brokers.

        Raises:
            SetupError: if it ends, or takes too long.
        """
        process.wait_until(
            lambda: self.joined(self), child=self.child, seconds=START_SECONDS, what=f"Kafka {self.number}"
        )


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


def launch(number: int, command: list[str | Path], folder: Path) -> process.Child:
    """Start the process of a broker."""
    return process.start(f"kafka-{number}", command, folder=folder)


def write_configuration(folder: Path, number: int, ports: Ports, *, voters: str, ca: Path) -> Path:
    """Write a broker's server.properties."""
    path = folder / "server.properties"
    path.write_text(
        _PROPERTIES.format(
            number=number, voters=voters, port=ports.secure, internal_port=ports.internal,
            controller_port=ports.controller, folder=folder, ca=ca, node=NODE, mechanism=MECHANISM,
            lower_mechanism=MECHANISM.lower(),
        ),
        encoding="utf-8",
    )  # fmt: skip
    return path


def java(logging: Path) -> list[str | Path]:
    """Command of a JVM for a broker of the lab."""
    return [
        find_java().program, "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={logging}", "-cp", BROKER.classpath,
    ]  # fmt: skip


def format_storage(
    program: list[str | Path], configuration: Path, cluster_id: str, passwords: Mapping[str, str]
) -> subprocess.Popen[str]:
    """Begin to format a broker's storage, with the users in it. Their passwords are in a file, not among the arguments."""
    words = configuration.with_name("format.args")
    lines = ["format", "-t", cluster_id, "-c", str(configuration)]
    for user, password in passwords.items():
        lines += ["--add-scram", f"{MECHANISM}=[name={user},password={password}]"]
    write_text(words, "\n".join(lines), private=True)
    return subprocess.Popen(
        [*map(str, program), "kafka.tools.StorageTool", f"@{words}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


def finish_format(formatting: subprocess.Popen[str]) -> None:
    """Wait for the end of a formatting.

    Raises:
        SetupError: with its words, if it has failed.
    """
    try:
        said, _ = formatting.communicate(timeout=120)
    except BaseException:
        formatting.kill()
        raise
    if formatting.returncode != 0:
        raise SetupError(f"Kafka's storage could not be formatted: {said.strip()[-500:]}")
