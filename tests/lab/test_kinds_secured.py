"""Our own requests on a real broker with TLS and SASL: the logins and certificates that companies have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from tests.certificates import certificate
from tests.lab.conftest import commit
from tests.lab.own_broker import own_broker
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.groups import NotListedError, read_others
from workbench.lab.kafka_jars import BROKER, ensure

pytestmark = [pytest.mark.lab, pytest.mark.slow]

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=SASL_SSL://127.0.0.1:{sasl},SSL://127.0.0.1:{ssl},INSIDE://127.0.0.1:{inside},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=SASL_SSL:SASL_SSL,SSL:SSL,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INSIDE
controller.listener.names=CONTROLLER
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{password}";
ssl.keystore.type=PEM
ssl.keystore.location={folder}/store.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.ssl.ssl.client.auth=required
log.dirs={folder}/data
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
"""
PASSWORD = "pencil sharpener"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with certificates, and the addresses of the listeners of a broker; a group has committed."""
    ensure(BROKER)
    folder = tmp_path_factory.mktemp("secured")
    authority = certificate(folder, "ca")
    certificate(folder, "broker", authority=authority)
    certificate(folder, "me", authority=authority)
    certificate(folder, "other")
    (folder / "store.pem").write_text((folder / "broker.key").read_text() + (folder / "broker.pem").read_text())
    scram = [
        word
        for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for word in ("--add-scram", f"{name}=[name=alice,password={PASSWORD}]")
    ]
    names = ("controller", "sasl", "ssl", "inside")
    with own_broker(folder, _PROPERTIES, names, more=scram, values={"password": PASSWORD}) as (admin, addresses):
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
        commit(admin, "payments", "t", {0: 0})
        yield folder, addresses


def sasl(folder: Path, mechanism: str, **changes: str) -> dict[str, Any]:
    """Settings of a login."""
    return {
        "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.username": "alice",
        "sasl.password": PASSWORD, "ssl.ca.location": str(folder / "ca.pem"),
    } | {name.replace("_", "."): value for name, value in changes.items()}  # fmt: skip


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_each_login_lists_the_groups(secured: tuple[Path, dict[str, str]], mechanism: str) -> None:
    """Both clients with the same settings; nothing is incomplete."""
    folder, addresses = secured
    found = KafkaCluster(addresses["sasl"], sasl(folder, mechanism)).snapshot()
    assert [(it.group, it.protocol) for it in found.groups] == [("payments", "classic")]
    assert found.incomplete == ()
    listed = read_others(addresses["sasl"], sasl(folder, mechanism), time.monotonic() + 10).listed
    assert listed["payments"].kind == "classic"


def test_a_client_certificate_lists_the_groups(secured: tuple[Path, dict[str, str]]) -> None:
    """Mutual TLS; without the certificate the broker ends the connection."""
    folder, addresses = secured
    mine = {
        "security.protocol": "SSL", "ssl.ca.location": str(folder / "ca.pem"),
        "ssl.certificate.location": str(folder / "me.pem"), "ssl.key.location": str(folder / "me.key"),
    }  # fmt: skip
    assert "payments" in read_others(addresses["ssl"], mine, time.monotonic() + 10).listed
    with pytest.raises(NotListedError):
        read_others(
            addresses["ssl"],
            {"security.protocol": "SSL", "ssl.ca.location": str(folder / "ca.pem")},
            time.monotonic() + 10,
        )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sasl_password": "wrong"}, "login failed"),
        ({"ssl_ca_location": "other.pem"}, "certificate verify failed"),
    ],
)
def test_a_wrong_password_and_a_wrong_authority_are_told_at_once(
    secured: tuple[Path, dict[str, str]], changes: dict[str, str], words: str
) -> None:
    """Within three seconds, and without the password."""
    folder, addresses = secured
    settings = sasl(folder, "SCRAM-SHA-512", **changes)
    if "ssl_ca_location" in changes:
        settings["ssl.ca.location"] = str(folder / changes["ssl_ca_location"])
    began = time.monotonic()
    with pytest.raises(NotListedError, match=words) as caught:
        read_others(addresses["sasl"], settings, time.monotonic() + 10)
    assert time.monotonic() - began < 3
    assert PASSWORD not in str(caught.value)
