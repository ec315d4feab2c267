"""A lab like production: three brokers with TLS, SCRAM users, access rights and a quota, and three copies of everything.

Who may do what:
    admin    everything
    oncall   what Workbench's commands need, for every group and topic (the table in docs/lab.md); nothing else
    service  reads and writes every topic, in any group
    reader   lists the groups, and describes groups and topics whose names begin with `team-`; it has a quota
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.three_brokers.access import (
    ADMIN,
    ONCALL,
    READER,
    READER_QUOTA,
    RIGHTS,
    USERS,
    Right,
    admin_client,
    allow,
    forbid,
    set_user_quota,
    wait_until,
)
from tests.three_brokers.certificates import Authority, new_authority
from tests.three_brokers.node import (
    MECHANISM,
    NODE,
    Ports,
    SecuredBroker,
    finish_format,
    format_storage,
    java,
    launch,
    write_configuration,
)
from workbench.errors import SetupError
from workbench.files import write_text
from workbench.lab import process
from workbench.lab.kafka_jars import BROKER, Progress, ensure
from workbench.lab.lab import LAB_THRESHOLDS, LAB_WINDOWS, PROFILES, read_address, remove_folder, wait_for_addresses
from workbench.lab.lab_broker import LOGGING, new_cluster_id
from workbench.lab.prometheus import PrometheusServer, ensure_prometheus, start_prometheus
from workbench.settings import LAB_CLUSTER, Cluster

BROKERS = 3
PASSWORD_VARIABLE = "WORKBENCH_LAB_PASSWORD"
_HEAL_SECONDS = 90.0


@dataclass(slots=True)
class SecuredLab:
    """A running secured cluster of three brokers, with an exporter and a Prometheus if there is one.

    Attributes:
        brokers: in the order of their numbers, so `brokers[0]` is broker 1.
        authority: issues the certificates that clients see.
        passwords: of the users.
    """

    folder: Path
    cluster_id: str
    authority: Authority
    passwords: dict[str, str]
    temporary: bool = False  # whether the folder goes with it
    brokers: list[SecuredBroker] = field(default_factory=list)
    prometheus_url: str | None = None
    _prometheus: PrometheusServer | None = None
    _exporter: process.Child | None = None
    _admin: Any = None

    @property
    def bootstrap(self) -> str:
        """host:port of all brokers, for clients."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def ca(self) -> Path:
        """The authority's certificate."""
        return self.folder / "ca.pem"

    def password_file(self, user: str) -> Path:
        """File with a user's password."""
        return self.folder / "passwords" / user

    def properties(self, user: str = ONCALL, **others: str) -> dict[str, str]:
        """Properties of librdkafka for a user; `others` with _ for dots, such as `ssl_ca_location`."""
        own = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca),
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": self.passwords[user],
        }
        return {**own, **{name.replace("_", "."): value for name, value in others.items()}}

    def java_properties(self, user: str = ADMIN) -> Path:
        """File for `--command-config` of Kafka's own tools."""
        path = self.folder / f"{user}.properties"
        jaas = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}"'
        lines = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{jaas} password="{self.passwords[user]}";',
        }
        write_text(path, "".join(f"{name}={value}\n" for name, value in lines.items()), private=True)
        return path

    def watch_exporter(self) -> None:
        """Have Prometheus scrape the exporter."""
        targets = [
            {"targets": [read_address(self.folder / "exporter" / "address.json")], "labels": {"cluster": LAB_CLUSTER}}
        ]
        write_text(self._exporter_targets, json.dumps(targets))

    def forget_exporter(self) -> None:
        """Have Prometheus stop scraping the exporter, which then leaves the brokers alone."""
        self._exporter_targets.unlink(missing_ok=True)

    @property
    def _exporter_targets(self) -> Path:
        return self.folder / "prometheus" / "targets" / "exporter.json"

    def cluster(self, user: str = ONCALL, **changes: Any) -> Cluster:
        """The lab as a cluster of the settings, seen by a user."""
        fields: dict[str, Any] = {
            "name": LAB_CLUSTER,
            "bootstrap": self.bootstrap,
            "prometheus": self.prometheus_url,
            "profiles": list(PROFILES),
            "kafka": self.properties(user),
            "thresholds": LAB_THRESHOLDS,
            "windows": LAB_WINDOWS,
        }
        return Cluster(**{**fields, **changes})

    def settings(self, user: str = ONCALL, *, name: str = LAB_CLUSTER) -> str:
        """The same as text for workbench.toml; the password comes from the environment."""
        lines = [f"[clusters.{name}]", f'bootstrap = "{self.bootstrap}"']
        if self.prometheus_url is not None:
            lines.append(f'prometheus = "{self.prometheus_url}"')
        lines += [f"profiles = {json.dumps(list(PROFILES))}", "", f"[clusters.{name}.kafka]"]
        shown = self.properties(user) | {"sasl.password": f"${{{PASSWORD_VARIABLE}}}"}
        return "\n".join([*lines, *(f'"{key}" = "{value}"' for key, value in shown.items())]) + "\n"

    def admin(self) -> Any:
        """An AdminClient of `admin`."""
        if self._admin is None:
            self._admin = admin_client(self.bootstrap, self.properties(ADMIN))
        return self._admin

    def create_topic(self, topic: str, partitions: int, *, seconds: float = 30.0) -> None:
        """Create a topic with three copies, and wait until every partition has all of them in sync.

        Raises:
            SetupError: if that takes too long.
        """
        from confluent_kafka.admin import NewTopic

        self.admin().create_topics([NewTopic(topic, partitions, BROKERS)])[topic].result(seconds)
        deadline = time.monotonic() + seconds
        while len(self.replicas(topic)) < partitions or any(
            len(isr) < BROKERS for _, isr in self.replicas(topic).values()
        ):
            if time.monotonic() > deadline:
                raise SetupError(f"The topic {topic!r} is not complete after {seconds:.0f} s.")
            time.sleep(0.1)

    def replicas(self, topic: str) -> dict[int, tuple[int, list[int]]]:
        """Leader and in-sync replicas of each partition."""
        parts = self.admin().list_topics(topic, timeout=10).topics[topic].partitions
        return {number: (part.leader, list(part.isrs)) for number, part in parts.items()}

    def move_leaders(self, topic: str | None = None) -> None:
        """Give every partition (of a topic) back to its first replica, as after a rolling restart."""
        from confluent_kafka import ElectionType, KafkaException, TopicPartition

        parts = [TopicPartition(topic, number) for number in self.replicas(topic)] if topic is not None else None

        def moved() -> bool:
            with suppress(KafkaException):  # the broker that was asked has just been lost
                self.admin().elect_leaders(ElectionType.PREFERRED, parts).result(30)
                return True
            return False

        wait_until(moved, "the leaders have not moved")

    def allow(self, user: str, *rights: Right) -> None:
        """Give rights to a user."""
        allow(self.admin(), user, *rights)

    def forbid(self, user: str, *rights: Right) -> None:
        """Take rights from a user."""
        forbid(self.admin(), user, *rights)

    def expire(self, *brokers: SecuredBroker) -> None:
        """Let brokers show an expired certificate to their clients; restarts them."""
        for broker in brokers:
            broker.show(self.authority.issue("broker", expired=True), is_valid=False)

    def renew(self, *brokers: SecuredBroker) -> None:
        """Undo `expire`."""
        for broker in brokers:
            broker.show(self.authority.issue("broker"))

    def wrong_ca(self) -> Path:
        """Certificate of another authority, which has signed nothing here."""
        path = self.folder / "wrong-ca.pem"
        if not path.exists():
            path.write_text(new_authority("Another authority").pem, encoding="utf-8")
        return path

    def heal(self) -> None:
        """Let every broker run again, and wait until all replicas are in sync.

        Raises:
            SetupError: if that takes too long.
        """
        for broker in self.brokers:
            broker.resume()
        dead = [broker for broker in self.brokers if not broker.alive]
        for broker in dead:
            broker.child = launch(broker.number, broker.command, broker.folder)
        for broker in self.brokers:
            broker.wait()
        wait_until(self._in_sync, "some replicas are not in sync", seconds=_HEAL_SECONDS)

    def _in_sync(self) -> bool:
        topics = self.admin().list_topics(timeout=10).topics.values()
        return all(
            part.leader > 0 and len(part.isrs) == len(part.replicas)
            for topic in topics
            for part in topic.partitions.values()
        )

    def pids(self) -> dict[str, int]:
        """Process ids of what this process runs."""
        found = {f"kafka-{broker.number}": broker.child.pid for broker in self.brokers}
        if self._exporter is not None:
            found["exporter"] = self._exporter.pid
        if self._prometheus is not None:
            found["prometheus"] = self._prometheus.child.pid
        return found

    def failed(self) -> str | None:
        """What has died and must not; two of the three brokers may, on purpose."""
        if not any(broker.alive for broker in self.brokers):
            return "kafka"
        others = [self._exporter, self._prometheus.child if self._prometheus is not None else None]
        return next((child.name for child in others if child is not None and not child.alive), None)

    def stop(self) -> None:
        """End everything. The brokers need not hand over to each other."""
        if self._exporter is not None:
            self._exporter.stop()
        if self._prometheus is not None:
            self._prometheus.stop()
        for broker in self.brokers:
            broker.kill()
        self.brokers, self._exporter, self._prometheus, self._admin = [], None, None, None
        if self.temporary:
            remove_folder(self.folder)

    def __enter__(self) -> SecuredLab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_secured(
    folder: Path, *, with_prometheus: bool = True, temporary: bool = False, progress: Progress | None = None
) -> SecuredLab:
    """Start one in an empty folder.

    Raises:
        SetupError: if Kafka cannot be downloaded, or a broker does not start.
    """
    ensure(BROKER, progress=progress)
    process.claimed(folder)
    secured = SecuredLab(
        folder, new_cluster_id(), new_authority("Lab authority"), {user: secrets.token_urlsafe(18) for user in USERS},
        temporary=temporary,
    )  # fmt: skip
    try:
        _start_brokers(secured)
        for user, rights in RIGHTS.items():
            secured.allow(user, *rights)
        set_user_quota(secured.bootstrap, secured.java_properties(), READER, READER_QUOTA)
        if with_prometheus and ensure_prometheus() is not None:
            secured._prometheus = start_prometheus(folder / "prometheus")
            secured.prometheus_url = secured._prometheus.url
            _start_exporter(secured)
    except BaseException:
        secured.stop()
        raise
    return secured


def _start_brokers(secured: SecuredLab) -> None:
    from confluent_kafka import KafkaException

    folder = secured.folder
    (folder / "passwords").mkdir(mode=0o700)
    for user, password in secured.passwords.items():
        write_text(secured.password_file(user), f"{password}\n", private=True)
    secured.ca.write_text(secured.authority.pem, encoding="utf-8")
    internal = new_authority("Lab authority of the brokers")
    (folder / "internal-ca.pem").write_text(internal.pem, encoding="utf-8")
    (folder / "log4j2.yaml").write_text(LOGGING, encoding="utf-8")
    numbers = process.free_ports(3 * BROKERS)
    ports = [Ports(secure=a, internal=b, controller=c) for a, b, c in zip(*[iter(numbers)] * 3, strict=True)]
    voters = ",".join(f"{number}@127.0.0.1:{port.controller}" for number, port in enumerate(ports, 1))
    program = java(folder / "log4j2.yaml")
    configurations = []
    for number, port in enumerate(ports, 1):
        own = folder / f"kafka-{number}"
        own.mkdir()
        write_text(own / "secure.pem", secured.authority.issue("broker"), private=True)
        write_text(own / "internal.pem", internal.issue(NODE), private=True)
        configurations.append(write_configuration(own, number, port, voters=voters, ca=folder / "internal-ca.pem"))
    formatting = [format_storage(program, path, secured.cluster_id, secured.passwords) for path in configurations]
    for each in formatting:
        finish_format(each)
    for path in configurations:
        path.with_name("format.args").unlink()

    def joined(broker: SecuredBroker) -> bool:
        # Asked of itself: others count a killed broker among them until its session ends.
        with suppress(KafkaException):  # it cannot be reached yet
            client = admin_client(broker.address, secured.properties(ADMIN))
            return broker.number in client.list_topics(timeout=2).brokers
        return False

    for number, (port, path) in enumerate(zip(ports, configurations, strict=True), 1):
        command: list[str | Path] = [*program, "kafka.Kafka", path]
        child = launch(number, command, path.parent)
        secured.brokers.append(SecuredBroker(number, f"127.0.0.1:{port.secure}", path.parent, command, child, joined))
    for broker in secured.brokers:
        broker.wait()


def _start_exporter(secured: SecuredLab) -> None:
    folder = secured.folder / "exporter"
    (folder / "faults").mkdir(parents=True)
    address, properties = folder / "address.json", folder / "properties.json"
    write_text(properties, json.dumps(secured.properties(ADMIN)), private=True)
    words = [sys.executable, "-m", "workbench.lab.exporter", secured.bootstrap, str(address), str(properties)]
    secured._exporter = process.start("exporter", words, folder=folder)
    wait_for_addresses([(secured._exporter, address)])
    secured.watch_exporter()
