"""Groups that librdkafka does not list: requests, logins and answers, with a broker that can misbehave (real ones: tests/lab)."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.certificates import certificate
from tests.collect.wire_broker import WireBroker, classic, listing, share_offsets, shares, streams
from workbench.kafka.brokers_that_answer import Brokers
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.connection import KafkaConnection
from workbench.kafka.group_answers import (
    parse_classic,
    parse_list,
    parse_share_offsets,
    parse_shares,
    parse_streams,
    spelled,
)
from workbench.kafka.group_listing import Others
from workbench.kafka.groups import (
    NotListedError,
    first_to_answer,
    groups_of,
    listed_by_librdkafka,
    read_others,
)
from workbench.kafka.patient_reads import AgainError, ClusterReading
from workbench.kafka.wire import Wire, WireAnswer, WireError, addresses, array, text
from workbench.kafka.wire_tls_and_login import NoCounterpartError, scram_proof, security_of
from workbench.queues.snapshot_views import NOT_PERMITTED, GroupView, ShareOffset

LISTED = {
    "plain": ("consumer", "Stable", "Classic"),
    "new": ("consumer", "Reconciling", "Consumer"),
    "manual": ("", "Empty", "Classic"),
    "share": ("share", "Stable", "Share"),
    "app": ("streams", "Reconciling", "Streams"),
    "workers": ("connect", "Stable", "Classic"),
    "schemas": ("sr", "Stable", "Classic"),
}
ANSWERS = {
    16: listing(LISTED),
    77: shares("share", {"a": ("t", (0, 1)), "b": ("t", (0,))}),
    90: share_offsets("share", "t", {0: (10, 3), 1: (-1, -1)}),
    89: streams("app", "s", "in", (0,), (0, 1)),
    15: classic("workers", "connect", ("w1", "w2")),
}


def ask(broker: WireBroker, properties: dict[str, Any] | None = None, seconds: float = 10) -> Others:
    """All that the broker tells."""
    return read_others(broker.address, properties or {}, time.monotonic() + seconds)


def test_every_kind_is_listed_and_the_others_are_described() -> None:
    """Members, assignments, targets, and the share group's lag as the broker counts it."""
    with WireBroker(ANSWERS) as broker:
        found = ask(broker)
    kinds = {name: it.kind for name, it in found.listed.items()}
    assert kinds == {
        "plain": "classic", "new": "consumer", "manual": "classic", "share": "share", "app": "streams",
        "workers": "connect", "schemas": "sr",
    }  # fmt: skip
    assert found.listed["new"].state == "reconciling"
    assert set(found.views) == {"share", "app", "workers", "schemas"}
    share = found.views["share"]
    assert [(it.client_id, it.partitions) for it in share.members] == [("a", (("t", 0), ("t", 1))), ("b", (("t", 0),))]
    assert found.shares == {
        ("share", "t", 0): ShareOffset(start=10, lag=3),
        ("share", "t", 1): ShareOffset(start=None, lag=None),
    }
    [member] = found.views["app"].members
    assert member.partitions == (("app-repartition", 0), ("in", 0))
    assert found.views["app"].reassigning == (("app-repartition", 1), ("in", 1))
    assert [it.client_id for it in found.views["workers"].members] == ["w1", "w2"]
    assert found.incomplete == []
    # Two connections with their versions, brokers, list, four kinds, one lag.
    assert found.requests == len(broker.asked) == 2 + 1 + 1 + 4 + 1


def test_only_what_is_asked_for_is_described() -> None:
    """The list is one request; a description of groups that nobody wants is none."""
    with WireBroker(ANSWERS) as broker:
        found = read_others(broker.address, {}, time.monotonic() + 10, only={"workers"})
    assert set(found.views) == {"workers"}
    assert {key for key, _, _ in broker.asked} == {18, 3, 16, 15}


def test_brokers_before_types_have_classic_groups_only() -> None:
    """ListGroups 4 has no type; 3 no state either."""
    body = listing({"g": ("consumer", "Empty", "")})[: -1 - 1 - 1] + b"\0\0"
    with WireBroker({**ANSWERS, 16: body}) as broker:
        broker.versions[16] = (0, 4)
        found = ask(broker)
    assert [(it.kind, it.state) for it in found.listed.values()] == [("classic", "empty")]


def test_a_request_that_a_broker_lacks_is_named() -> None:
    """The group is listed all the same, with what the list told."""
    with WireBroker(ANSWERS) as broker:
        del broker.versions[77]
        found = ask(broker)
    assert found.views["share"].state == "stable"
    assert any("ShareGroupDescribe" in text for text in found.incomplete)
    with WireBroker(ANSWERS) as broker:  # Kafka 4.1: offsets without lag
        broker.versions[90] = (0, 0)
        without = share_offsets("share", "t", {0: (10, 3)})
        broker.answers = {**ANSWERS, 90: without.replace((3).to_bytes(8), b"")}
        assert ask(broker).shares["share", "t", 0] == ShareOffset(start=10, lag=None)


def test_a_refusal_of_one_group_does_not_hide_it() -> None:
    """A missing right is told, and the group is there."""
    with WireBroker({**ANSWERS, 77: shares("share", {}, code=30), 90: share_offsets("share", "t", {}, code=30)}) as it:
        found = ask(it)
    assert found.views["share"].protocol == "share"
    assert found.views["share"].state == NOT_PERMITTED
    assert found.views["share"].member_count is None
    assert set(found.denied) == {"share"}
    assert found.incomplete == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_it_logs_in_with_the_properties_of_the_other_client(mechanism: str) -> None:
    """A name with the characters that SCRAM escapes; a wrong password is a failed login and tells no secret."""
    properties = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.username": "a=b,c",
        "sasl.password": "pencil sharpener",
    }  # fmt: skip
    with WireBroker(ANSWERS, users={"a=b,c": "pencil sharpener"}) as broker:
        assert len(ask(broker, properties).listed) == len(LISTED)
        with pytest.raises(NotListedError, match="login failed") as caught:
            ask(broker, {**properties, "sasl.password": "eraser sharpener"})
        assert "sharpener" not in str(caught.value)
        assert "sharpener" not in repr(security_of(properties))
        broker.lies = True
        for lie in (True, "v=\xff\xfe", "", "e=other-error") if mechanism != "PLAIN" else ():
            broker.lies = lie
            with pytest.raises(NotListedError, match="proof is wrong"):
                ask(broker, properties)
        for name in ("sasl.username", "sasl.password"):
            with pytest.raises(NotListedError, match="not UTF-8") as caught:
                ask(broker, {**properties, name: "sharpener\udcff"})
            assert "sharpener" not in str(caught.value)


@pytest.mark.parametrize("tls", [False, True])
def test_a_broker_whose_name_is_none_is_named(tls: bool, tmp_path: Path) -> None:
    """An empty label, one that is too long, a dot in front: the others' answers are there all the same."""
    names = [("kafka..internal", 9092), (f"{'a' * 70}.example", 9092), (".example", 9092), ("x\0y", 9092)]
    properties: dict[str, str] = {}
    server_tls = None
    if tls:
        certificate(tmp_path, "server")
        server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server_tls.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
        properties = {"security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "server.pem")}
    with WireBroker(ANSWERS, tls=server_tls) as broker:
        others = [(2 + number, host, port) for number, (host, port) in enumerate(names)]
        broker.brokers = [(1, "127.0.0.1", broker.port), *others]
        found = ask(broker, properties)
    assert len(found.listed) == len(LISTED)
    for number, host, _ in others:
        assert any(f"broker {number} " in it and host in it for it in found.incomplete), (number, found.incomplete)


def test_a_login_that_the_broker_lacks_is_named() -> None:
    """With what it offers instead."""
    tokens = {
        "security.protocol": "sasl_plaintext", "sasl.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc",
    }  # fmt: skip
    with WireBroker(ANSWERS, users={"a": "b"}) as broker, pytest.raises(NotListedError, match="SCRAM-SHA-256"):
        ask(broker, tokens)


def test_the_example_of_rfc_7677() -> None:
    """The proof and the server's proof, to the letter."""
    nonce = "rOprNGfwEbeRWgbNEkqO"
    said = f"r={nonce}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    last, server = scram_proof(f"n=user,r={nonce}", said, "pencil", "sha256", nonce=nonce)
    assert last.endswith(",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert server == "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    "said",
    [
        "",
        "r=other,s=QQ==,i=1",
        "r=mine+,s=Q,i=1",
        "r=mine+,s=QQ==,i=x",
        "r=mine+,s=QQ==,i=0",
        "r=mine+,s=QQ==,i=9999999",
        "r=mine+,s=QQ==,i=1",
        "r=mine+,s=QQ==,i=4095",
        "r=mine+,s=QQ==,i=" + "9" * 5000,
    ],
)
def test_a_server_that_does_not_speak_scram_is_refused(said: str) -> None:
    """Another nonce, a broken salt, no rounds, too few to protect the password, rounds without end."""
    with pytest.raises(WireError, match="login failed"):
        scram_proof("n=u,r=mine", said, "p", "sha256", nonce="mine")


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"security.protocol": "sasl_ssl"}, "GSSAPI"),
        ({"ssl.keystore.location": "/k.p12", "security.protocol": "ssl"}, "ssl.keystore.location"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.method"),
    ],
)
def test_a_property_without_a_counterpart_is_named(properties: dict[str, str], named: str) -> None:
    """It is never left out silently."""
    with pytest.raises(NoCounterpartError, match=named):
        security_of(properties)


def test_tls_is_verified_and_the_client_shows_its_certificate(tmp_path: Path) -> None:
    """By location or in the settings themselves; a broker of another authority is refused, and one that wants a certificate."""
    authority = certificate(tmp_path, "ca")
    certificate(tmp_path, "other")
    certificate(tmp_path, "broker", authority=authority)
    certificate(tmp_path, "me", authority=authority)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.pem"))
    context.load_cert_chain(tmp_path / "broker.pem", tmp_path / "broker.key")
    context.verify_mode = ssl.CERT_REQUIRED
    mine = {
        "security.protocol": "ssl",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "me.pem"),
        "ssl.key.location": str(tmp_path / "me.key"),
    }
    inline = {
        "security.protocol": "ssl",
        **{
            f"ssl.{name}.pem": (tmp_path / file).read_text()
            for name, file in (("ca", "ca.pem"), ("certificate", "me.pem"), ("key", "me.key"))
        },
    }
    with WireBroker(ANSWERS, tls=context) as broker:
        assert len(ask(broker, mine).listed) == len(ask(broker, inline).listed) == len(LISTED)
        with pytest.raises(NotListedError, match="certificate verify failed"):
            ask(broker, {**mine, "ssl.ca.location": str(tmp_path / "other.pem")})
        assert ask(broker, {**mine, "ssl.ca.location": "", "enable.ssl.certificate.verification": False}).listed
        without = {name: value for name, value in mine.items() if "certificate" not in name and "key" not in name}
        with pytest.raises(NotListedError):
            ask(broker, without)
    with pytest.raises(NotListedError, match="certificate or key"):
        read_others("127.0.0.1:1", {**mine, "ssl.key.location": str(tmp_path / "none")}, time.monotonic() + 1)


def test_one_broker_that_is_gone_or_hangs_does_not_hide_the_others() -> None:
    """It is named, and the answer does not wait for it for long."""
    with WireBroker(hangs=True) as hanging, WireBroker(ANSWERS) as broker:
        broker.brokers = [(1, "127.0.0.1", broker.port), (2, "127.0.0.1", hanging.port), (3, "127.0.0.1", 1)]
        began = time.monotonic()
        found = ask(broker, seconds=30)
    assert time.monotonic() - began < 6
    assert len(found.listed) == len(LISTED)
    assert sorted(text.partition(" (")[0] for text in found.incomplete) == ["groups at broker 2", "groups at broker 3"]


def test_the_next_server_is_asked_if_the_first_does_not_answer() -> None:
    """And is not asked again."""
    with WireBroker(ANSWERS) as broker:
        found = read_others(f"127.0.0.1:1,{broker.address}", {}, time.monotonic() + 10)
    assert len(found.listed) == len(LISTED)
    with pytest.raises(NotListedError, match=r"127\.0\.0\.1:1"):
        read_others("127.0.0.1:1", {}, time.monotonic() + 10)


def test_a_port_that_speaks_something_else_is_an_error() -> None:
    """An alert of TLS, or a web server's answer, is not a length."""

    class Claimed(bytes):
        def __len__(self) -> int:
            return 300_000_000

    with WireBroker() as broker:
        broker._answer = lambda *_: Claimed(b"HTTP")  # type: ignore[method-assign]
        with pytest.raises(NotListedError, match="protocol"):
            ask(broker)


def test_addresses() -> None:
    """As librdkafka reads them."""
    assert addresses("a:1, b ,[::1]:9,SASL_SSL://c:2,::1,") == [
        ("a", 1), ("b", 9092), ("::1", 9), ("c", 2), ("::1", 9092),
    ]  # fmt: skip


def test_states_are_spelled_as_ours() -> None:
    """Kafka's list has them in its own spelling."""
    assert [spelled(it) for it in ("PreparingRebalance", "Stable", "NotReady", "")] == [
        "preparing_rebalance", "stable", "not_ready", "unknown",
    ]  # fmt: skip


@pytest.mark.parametrize("key", [16, 77, 90, 89, 15])
def test_an_answer_that_was_cut_or_changed_is_refused_or_read(key: int) -> None:
    """At every byte: never another error, and never a wait."""
    whole = ANSWERS[key]
    reading = {
        16: lambda it: parse_list(it, 5, 1),
        77: lambda it: parse_shares(it, 1, "share"),
        90: lambda it: parse_share_offsets(it, 1),
        89: lambda it: parse_streams(it, 1, "streams"),
        15: lambda it: parse_classic(it, 1, "connect"),
    }[key]
    reading(WireAnswer(whole))
    for at in range(len(whole) - 1):
        with pytest.raises(WireError):
            reading(WireAnswer(whole[:at]))
        for byte in (0x00, 0x7F, 0xFF):
            try:
                reading(WireAnswer(whole[:at] + bytes([byte]) + whole[at + 1 :]))
            except WireError:
                continue


def test_lengths_of_more_than_a_byte() -> None:
    """A name of 200 characters, an array of 300 items."""
    assert WireAnswer(text("x" * 200)).text() == "x" * 200
    answer = WireAnswer(array(text(str(it)) for it in range(300)))
    assert answer.array(answer.text) == [str(it) for it in range(300)]


class OldAdmin:
    """librdkafka's list of all groups: a share group is a dead group of no protocol."""

    def poll(self, _seconds: float) -> int:
        """No error."""
        return 0

    def list_topics(self, topic: str, **_: Any) -> Any:
        """The topic of the groups' commits: this client may not see it."""
        return SimpleNamespace(topics={topic: SimpleNamespace(error=KafkaError(29), partitions={})})

    def list_groups(self, timeout: float) -> list[Any]:
        """Consumer groups among them."""
        from types import SimpleNamespace as Thing

        broker = Thing(id=4)
        worker = Thing(id="w-id", client_id="w", client_host="/h")
        return [
            Thing(id="plain", state="Stable", protocol_type="consumer", members=[], broker=broker),
            Thing(id="share", state="Dead", protocol_type="", members=[], broker=broker),
            Thing(id="workers", state="Stable", protocol_type="connect", members=[worker], broker=broker),
        ]


def test_without_our_own_requests_the_groups_are_still_named() -> None:
    """What librdkafka cannot tell apart is told as such, with the reason; nothing is left out."""
    found = listed_by_librdkafka(OldAdmin(), {"plain"}, "no Kerberos here", 1.0)
    assert {name: (it.protocol, it.state, len(it.members)) for name, it in found.views.items()} == {
        "share": ("share or streams", "unknown", 0),
        "workers": ("connect", "stable", 1),
    }
    assert found.incomplete == ["group 'share': a share or Streams group, which cannot be described: no Kerberos here"]


def test_a_cluster_without_our_own_requests_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kerberos has no counterpart here; the other client has it."""

    class Admin(OldAdmin):
        def list_consumer_groups(self, **_: Any) -> Any:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    cluster = KafkaCluster("127.0.0.1:1", {"security.protocol": "SASL_SSL"}, _admin=Admin())
    monkeypatch.setattr(KafkaCluster, "_list_groups", lambda *_: {"plain"})
    assert set(cluster.others().views) == {"share", "workers"}


def test_the_brokers_list_completes_what_the_other_client_does_not_tell() -> None:
    """A state without a name in librdkafka, and the kind of a group that may not be described."""
    with WireBroker(ANSWERS) as broker:
        found = ask(broker)
    reading = ClusterReading(KafkaCluster("b"), time.monotonic() + 1)
    new = GroupView(group="new", state="unknown", protocol="consumer", coordinator=1, members=())
    hidden = GroupView(group="plain", state=NOT_PERMITTED, protocol="unknown", coordinator=None, members=())
    views = {view.group: (view.protocol, view.state) for view in found.added_to([new, hidden], reading)}
    assert views["new"] == ("consumer", "reconciling")
    assert views["plain"] == ("classic", NOT_PERMITTED)
    assert views["share"] == ("share", "stable")


def test_a_list_without_what_may_not_be_described_says_so() -> None:
    """Brokers leave it out without a word; the answer about the brokers tells whether the client may describe the cluster."""
    user = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "a",
        "sasl.password": "b",
    }
    with WireBroker(ANSWERS, users={"a": "b"}) as broker:
        assert ask(broker, user).lists_all
        broker.operations = 1 << 3
        assert not ask(broker, user).lists_all
    with WireBroker(ANSWERS, operations=0) as broker:  # nobody has said who we are
        assert ask(broker).lists_all


def test_consumer_groups_are_told_from_the_others() -> None:
    """By their kind: librdkafka describes them."""
    with WireBroker(ANSWERS) as broker:
        assert ask(broker).consumers == {"plain", "new", "manual"}


def test_a_server_that_hangs_costs_a_second_at_first() -> None:
    """The next one may answer at once; if none does, they are asked again with all of the time."""
    asked: list[tuple[tuple[str, int], float]] = []

    def one(address: tuple[str, int], limit: float) -> str:
        asked.append((address, limit))
        if address[1] == 1:
            raise TimeoutError
        if address[1] == 2:
            raise ConnectionRefusedError("refused")
        if address[1] == 3 and limit < 5:
            raise TimeoutError
        return "told"

    failed: dict[tuple[str, int], str] = {}
    assert first_to_answer([("h", 1), ("h", 2), ("h", 4)], 9.0, one, failed) == "told"
    assert asked == [(("h", 1), 1.0), (("h", 2), 1.0), (("h", 4), 1.0)]
    assert failed == {("h", 1): "no answer in time", ("h", 2): "refused"}
    asked.clear()
    assert first_to_answer([("h", 1), ("h", 2), ("h", 3)], 9.0, one, {}) == "told"
    assert asked[3:] == [(("h", 1), 9.0), (("h", 3), 9.0)]
    assert first_to_answer([("h", 2)], 9.0, one, {}) is None


def test_a_lost_broker_begins_the_first_attempt_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the second one tells what is missing."""
    with WireBroker() as dead:
        pass
    brokers = Brokers(answering={}, silent={2: "broker 2 does not answer"})
    monkeypatch.setattr(KafkaConnection, "look", lambda _: brokers)
    with WireBroker(ANSWERS) as broker:
        broker.brokers = [(1, "127.0.0.1", broker.port), (2, "127.0.0.1", dead.port)]
        kafka = KafkaConnection(broker.address, _admin=SimpleNamespace(poll=lambda _: 0))
        with pytest.raises(AgainError):
            groups_of(ClusterReading(kafka, time.monotonic() + 5), None, set)
        found = groups_of(ClusterReading(kafka, time.monotonic() + 5, brokers), None, set)
    assert found.consumers == {"plain", "new", "manual"}
    assert found.incomplete == [f"groups at broker 2 (127.0.0.1:{dead.port}): it does not answer"]
    assert kafka.own_servers == f"127.0.0.1:{broker.port},127.0.0.1:{broker.port}"
    kafka.server = ("::1", 9092)
    assert kafka.own_servers.startswith("[::1]:9092,")


@pytest.mark.parametrize(
    ("brokers", "seconds", "expected"),
    [
        (None, 30.0, 3.0),  # the first attempt
        (Brokers(answering={}, silent={}), 30.0, 29.7),  # all answer: the cluster is slow
        (Brokers(answering={}, silent={2: "gone"}), 30.0, 2.0),
        (None, 1.0, 0.7),
    ],
)
def test_how_long_a_broker_may_say_nothing(brokers: Brokers | None, seconds: float, expected: float) -> None:
    """It depends on what is known of the others."""
    reading = ClusterReading(KafkaConnection("b"), time.monotonic() + seconds, brokers)
    assert reading.silence_seconds == pytest.approx(expected, abs=0.1)


def _int32(number: int) -> bytes:
    return struct.pack(">i", number)


def test_what_is_built_of_an_answer_has_a_budget() -> None:
    """Not only what is received: a Streams task has each of its numbers in each topic that its part of the topology reads."""

    def answer(topics: int, numbers: int) -> bytes:
        empty = array([])
        read = array([text("0") + array([text("t")] * topics) + empty * 3 + b"\0"])
        task = array([text("0") + array([_int32(1)] * numbers) + b"\0"]) + empty * 2 + b"\0"
        about = text("m") + _int32(0) + b"\0\0" + text("c") + text("h") + _int32(0) + text("p") + b"\xff" + empty * 3
        about += task + empty * 3 + b"\0" + b"\0\0"
        group = b"\0\0\0" + text("g") + text("Stable") + _int32(0) * 2 + b"\1" + _int32(1) + read + b"\0"
        return _int32(0) + array([group + array([about]) + _int32(0) + b"\0"])

    [(_, _, found)] = parse_streams(WireAnswer(answer(200, 64)), 1, "streams")
    assert len(found.members[0].partitions) == 200 * 64
    with pytest.raises(WireError, match="more items"):
        parse_streams(WireAnswer(answer(1000, 1000)), 1, "streams")


@pytest.mark.parametrize("host", ["kafka..internal", "a" * 70 + ".example", ".example"])
def test_a_host_that_no_name_service_knows_is_an_error_of_the_wire(host: str) -> None:
    """A broker may advertise any text."""
    with pytest.raises(WireError, match="name"), Wire((host, 9092), None, time.monotonic() + 5):
        pass


def test_an_answer_before_the_login_is_small() -> None:
    """Whoever listens there has proved nothing yet."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(_int32(1 << 20) + _int32(0))

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(WireError, match="1,048,576 bytes"), Wire(server.getsockname(), None, time.monotonic() + 5):
            pass
        thread.join()
