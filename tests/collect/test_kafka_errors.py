"""What librdkafka's errors mean, without a broker (with one: tests/secured)."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from tests.collect.wire_broker import WireBroker
from tests.three_brokers.certificates import Authority, new_authority
from workbench.errors import ConfigError, ExitCode, SourceUnreachableError
from workbench.kafka.brokers_that_answer import Brokers, _by_own_request, _kept, look_at_brokers
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.kafka.librdkafka_errors import ClientErrors, certificate_problem, known_properties
from workbench.kafka.wire import addresses
from workbench.kafka.wire_tls_and_login import security_of
from workbench.lab.process import free_port


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("sasl.pasword", "sasl.password"),
        ("securty.protocol", "security.protocol"),
        ("ssl.ca.locaton", "ssl.ca.location"),
        ("sasl.mechanisme", "sasl.mechanism"),
    ],
)
def test_a_misspelt_property_is_an_error_of_the_settings_with_the_right_name(wrong: str, right: str) -> None:
    """Nothing was asked of any broker, so none is unreachable; the value, which may be a secret, is not told."""
    with pytest.raises(ConfigError, match=f"'{wrong}'") as caught:
        KafkaCluster("127.0.0.1:1", {wrong: "hunter2hunter2"}).snapshot()
    assert repr(right) in (caught.value.hint or "")
    assert "hunter2" not in str(caught.value) + str(caught.value.hint)
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_value_that_the_client_does_not_accept_is_an_error_of_the_settings() -> None:
    """An enumeration, a number out of range, a file that is not there."""
    for properties in (
        {"security.protocol": "TLS"},
        {"socket.timeout.ms": -3},
        {"security.protocol": "ssl", "ssl.ca.location": "/nowhere/ca.pem"},
    ):
        with pytest.raises(ConfigError, match="cannot be used"):
            KafkaCluster("127.0.0.1:1", properties).snapshot()


def test_the_library_itself_tells_its_properties() -> None:
    """No list of ours that could be out of date."""
    known = known_properties()
    assert {"bootstrap.servers", "sasl.password", "sasl.mechanism", "ssl.ca.location", "client.id"} <= set(known)
    assert len(known) > 100


def test_a_refused_login_is_kept_with_its_broker() -> None:
    """Until a broker answers."""
    errors = ClientErrors()
    text = "sasl_ssl://kafka-1:9093/2: SASL authentication error: invalid credentials (after 105ms in state AUTH_REQ)"
    errors(KafkaError(KafkaError._AUTHENTICATION, text))
    errors(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert errors.refusal is not None
    assert errors.refusal.address == "kafka-1:9093"
    assert errors.refusal.words == "SASL authentication error: invalid credentials"
    assert errors.are_all_down
    error = errors.refusal.error("'oncall'", {"sasl.mechanism": "SCRAM-SHA-512"})
    assert "kafka-1:9093 refuses the login of 'oncall' with SCRAM-SHA-512" in error.message
    errors.clear()
    assert errors.refusal is None
    assert not errors.are_all_down


def test_an_error_of_any_form_is_taken() -> None:
    """The texts are a library's, not an interface."""
    errors = ClientErrors()
    for text in ("", "no address at all", "ssl://", "://:/", "ssl://[::1]:9093/bootstrap: SSL handshake failed: x"):
        errors(KafkaError(KafkaError._SSL, text))
        assert errors.refusal is not None
        assert errors.refusal.error("this client", {}).message
        errors.clear()


@contextmanager
def server(pem: str, folder: Path) -> Iterator[str]:
    """A TLS server that does nothing after the handshake."""
    path = folder / "server.pem"
    path.write_text(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        done = threading.Event()

        def serve() -> None:
            while not done.is_set():
                with suppress(OSError):
                    plain, _ = listening.accept()
                    with plain, context.wrap_socket(plain, server_side=True) as secured:
                        secured.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        done.set()


@pytest.fixture(scope="module")
def authority() -> Authority:
    """Signs certificates."""
    return new_authority("Test authority")


def test_why_a_certificate_is_not_accepted(authority: Authority, tmp_path: Path) -> None:
    """Expired, or of another authority; none of that where it is accepted."""
    ours, theirs = tmp_path / "ours.pem", tmp_path / "theirs.pem"
    ours.write_text(authority.pem)
    theirs.write_text(new_authority("Another authority").pem)
    with server(authority.issue("broker"), tmp_path) as address:
        assert certificate_problem(address, {"ssl.ca.location": str(ours)}) is None
        assert "self-signed certificate in certificate chain" in (
            certificate_problem(address, {"ssl.ca.location": str(theirs)}) or ""
        )
        assert certificate_problem(address, {"ssl.ca.pem": authority.pem}) is None
    with server(authority.issue("broker", expired=True), tmp_path) as address:
        assert certificate_problem(address, {"ssl.ca.location": str(ours)}) == "certificate has expired"
    assert certificate_problem("127.0.0.1:1", {"ssl.ca.location": str(ours)}) is None
    assert certificate_problem("no port", {}) is None


@pytest.mark.parametrize("is_expired", [False, True])
def test_a_certificate_that_is_not_accepted_is_named_within_seconds(
    authority: Authority, tmp_path: Path, is_expired: bool
) -> None:
    """The client itself would go on trying until the deadline."""
    ca = tmp_path / "ca.pem"
    ca.write_text(authority.pem if is_expired else new_authority("Another authority").pem)
    with server(authority.issue("broker", expired=is_expired), tmp_path) as address:
        cluster = KafkaCluster(address, {"security.protocol": "ssl", "ssl.ca.location": str(ca)})
        began = time.monotonic()
        with pytest.raises(SourceUnreachableError, match="expired" if is_expired else "self-signed") as caught:
            cluster.snapshot()
    assert time.monotonic() - began < 3
    assert address in caught.value.message
    assert ("new certificate" if is_expired else "ssl.ca.location") in (caught.value.hint or "")


def test_a_cluster_that_refuses_connections_is_not_waited_for_until_the_deadline() -> None:
    """Nobody listens, at none of the addresses."""
    cluster = KafkaCluster(f"127.0.0.1:{free_port()}", deadline_seconds=60)
    began = time.monotonic()
    with pytest.raises(SourceUnreachableError, match="refused"):
        cluster.snapshot()
    assert time.monotonic() - began < 10


def test_each_broker_is_asked_for_itself(authority: Authority, tmp_path: Path) -> None:
    """By our own request: one answers; one is dead, one hangs, one refuses the login; no client of librdkafka is left behind."""
    user = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "a",
        "sasl.password": "b",
    }
    with (
        WireBroker(users={"a": "b"}) as good,
        WireBroker(users={"a": "c"}) as strict,
        WireBroker(hangs=True) as hanging,
    ):
        dead = free_port()
        good.brokers = [
            (it, "127.0.0.1", port) for it, port in enumerate((good.port, strict.port, hanging.port, dead), 1)
        ]
        found = look_at_brokers(f"127.0.0.1:{dead},{good.address}", user, "'a'")
    assert found.answering == {1: good.address}
    assert found.silent == {
        2: f"broker 2 ({strict.address}): Kafka's broker {strict.address} refuses the login of 'a' with PLAIN: "
        "the login failed: Authentication failed",
        3: f"broker 3 ({hanging.address}) does not answer",
        4: f"broker 4 (127.0.0.1:{dead}) does not answer: Connection refused",
    }
    theirs = tmp_path / "theirs.pem"
    theirs.write_text(new_authority("Another authority").pem)
    with server(authority.issue("broker"), tmp_path) as address, WireBroker(users={"a": "b"}) as good:
        good.brokers = [(1, "127.0.0.1", good.port), (2, *addresses(address)[0])]
        tls = {"security.protocol": "ssl", "ssl.ca.location": str(theirs)}
        assert _by_own_request(address, security_of(tls)).refusal is not None
        assert look_at_brokers("127.0.0.1:1", tls, "'a'") == Brokers(answering={}, silent={})


def test_settings_that_our_requests_lack_leave_it_to_librdkafka() -> None:
    """Such as providers of OpenSSL; a client with a request under way is kept."""
    before = len(_kept)
    assert look_at_brokers(f"127.0.0.1:{free_port()}", {"ssl.providers": "default"}, "'a'") == Brokers(
        answering={}, silent={}
    )
    assert len(_kept) == before + 1


@pytest.mark.parametrize(
    ("bootstrap", "said", "hint"),
    [
        ("127.0.0.1:1", "Connection refused", "Nothing listens there"),
        ("no-such-host.invalid:9092", "Failed to resolve", "does not know the name"),
    ],
)
def test_a_closed_port_is_told_from_a_name_that_nobody_knows(bootstrap: str, said: str, hint: str) -> None:
    """By the client's words about its connection, not by "Local: Timed out"; nobody is sent to the security settings."""
    for ask in (KafkaCluster.snapshot, KafkaCluster.cluster_id):
        with pytest.raises(SourceUnreachableError) as caught:
            ask(KafkaCluster(bootstrap, deadline_seconds=2.0))
        assert said in caught.value.message
        assert "Local:" not in caught.value.message
        assert hint in (caught.value.hint or "")


def test_words_of_a_connection_are_forgotten_when_they_are_old() -> None:
    """A later failure has another cause."""
    errors = ClientErrors()
    errors(KafkaError(KafkaError._TRANSPORT, "plaintext://b:9092/1: Connect failed: Connection refused"))
    assert errors.recent(60.0) == "b:9092: Connect failed: Connection refused"
    assert errors.recent(-1.0) == ""


@pytest.mark.parametrize("has_answer", [False, True])
def test_only_a_cluster_that_has_answered_is_waited_for(has_answer: bool) -> None:
    """A replay outlives a restart; where nothing listens at all, nobody waits half a minute to be told so."""
    gateway = KafkaGateway(f"127.0.0.1:{free_port()}", deadline_seconds=8.0)
    if has_answer:
        gateway._kafka._errors.clear()
    began = time.monotonic()
    with pytest.raises(SourceUnreachableError, match="Connection refused"):
        gateway.cluster()
    assert (time.monotonic() - began >= 7.9) == has_answer
