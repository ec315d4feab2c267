"""librdkafka is only asked for offsets of partitions whose leader it has just been told."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from workbench.errors import SourceUnreachableError
from workbench.kafka import read_offsets_for_snapshot as kafka_offsets
from workbench.kafka.brokers_that_answer import Brokers
from workbench.kafka.connection import KafkaConnection
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.kafka.leaders import topics_of
from workbench.kafka.patient_reads import AgainError, ClusterReading
from workbench.kafka.read_offsets_for_snapshot import offsets_of

DENIED, UNKNOWN = KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART


class Client:
    """An admin client of a cluster: topic to the leaders of its partitions, or to an error. Lists hide what may not be described."""

    def __init__(self, topics: Mapping[str, list[int] | int]) -> None:
        self.topics = dict(topics)
        self.listed: list[str | None] = []
        self.asked: list[set[tuple[str, int]]] = []
        self.failures = 0  # so many requests for metadata have no answer
        self.moves: dict[tuple[str, int], int] = {}  # so often the leader has moved

    def poll(self, _seconds: float) -> int:
        """No error."""
        return 0

    def list_topics(self, topic: str | None = None, *, timeout: float) -> Any:
        self.listed.append(topic)
        assert timeout > 0
        if self.failures > 0:
            self.failures -= 1
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        names = [topic] if topic is not None else [name for name, of in self.topics.items() if isinstance(of, list)]
        return SimpleNamespace(topics={name: self._topic(name) for name in names})

    def _topic(self, name: str) -> Any:
        of = self.topics.get(name, UNKNOWN)
        if isinstance(of, int):
            return SimpleNamespace(error=KafkaError(of), partitions={})
        return SimpleNamespace(error=None, partitions={at: SimpleNamespace(leader=it) for at, it in enumerate(of)})

    def list_offsets(self, wanted: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        assert wanted
        self.asked.append({(part.topic, part.partition) for part in wanted})
        return {part: self._offset(part) for part in wanted}

    def _offset(self, part: TopicPartition) -> Future[Any]:
        answer: Future[Any] = Future()
        of = self.topics[part.topic]
        assert isinstance(of, list) and of[part.partition] >= 0, "this can end the process"
        if self.moves.get((part.topic, part.partition), 0):
            self.moves[part.topic, part.partition] -= 1
            answer.set_exception(KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)))
        else:
            answer.set_result(SimpleNamespace(offset=7, timestamp=-1))
        return answer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses."""
    monkeypatch.setattr(kafka_offsets, "_MOVED_PAUSE_SECONDS", 0.0)


def reading_of(client: Client, *, brokers: Brokers | None = None, seconds: float = 5.0) -> ClusterReading:
    """An attempt with this client."""
    return ClusterReading(KafkaConnection("b:1", _admin=client), time.monotonic() + seconds, brokers)


def ends(reading: ClusterReading, *partitions: tuple[str, int]) -> dict[tuple[str, int], int]:
    """Log ends."""
    [found] = offsets_of(reading, partitions, {"latest offset": OffsetSpec.latest()})
    return found


def test_what_has_no_leader_is_named_and_not_asked_for() -> None:
    """A topic that is gone, a partition that is not there, one without a leader: each with its reason, and quickly."""
    client = Client({"t": [1, -1]})
    reading = reading_of(client)
    assert ends(reading, ("t", 0), ("t", 1), ("t", 2), ("gone", 0)) == {("t", 0): 7}
    assert client.asked == [{("t", 0)}]
    assert sorted(reading.incomplete) == [
        "latest offset of gone-0: Broker: Unknown topic or partition",
        "latest offset of t-1: Broker: Leader not available",
        "latest offset of t-2: Broker: Unknown topic or partition",
    ]


def test_a_leader_that_is_elected_meanwhile_is_asked() -> None:
    """As is a partition whose leader has moved: metadata first, each time."""
    client = Client({"t": [-1, 1]})
    client.moves["t", 1] = 2
    reading = reading_of(client)
    real = client.list_topics

    def elected(topic: str | None = None, *, timeout: float) -> Any:
        found = real(topic, timeout=timeout)
        client.topics["t"] = [2, 1]
        return found

    client.list_topics = elected  # type: ignore[method-assign]
    assert ends(reading, ("t", 0), ("t", 1)) == {("t", 0): 7, ("t", 1): 7}
    assert reading.incomplete == []
    assert client.listed == ["t"] * 3


def test_one_list_for_many_topics_and_names_for_what_it_hides() -> None:
    """A topic that may not be described is not one that is not there."""
    client = Client({**{f"t{at}": [1] for at in range(5)}, "hidden": DENIED})
    reading = reading_of(client)
    found = ends(reading, *((f"t{at}", 0) for at in range(5)), ("hidden", 0))
    assert len(found) == 5
    assert client.listed == [None, "hidden"]
    assert reading.is_denied("DESCRIBE on topic 'hidden'")
    assert reading.kafka.requests == 3


def test_a_broker_that_hangs_begins_a_second_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which goes on with others; at the deadline the rest is named."""
    client = Client({"t": [1, 2]})
    brokers = Brokers(answering={1: "b:1"}, silent={2: "broker 2 (b:2) does not answer"})
    monkeypatch.setattr(KafkaConnection, "look", lambda _kafka: brokers)
    client.failures = 1
    with pytest.raises(AgainError):
        ends(reading_of(client), ("t", 0))
    client.failures = 1
    reading = reading_of(client, brokers=brokers)
    assert ends(reading, ("t", 0), ("t", 1)) == {("t", 0): 7}
    assert reading.incomplete[1:] == ["latest offset of t-1: its leader, broker 2, does not answer"]
    client.failures = 1_000_000
    late = reading_of(client, brokers=brokers, seconds=0.05)
    assert ends(late, ("t", 0)) == {}
    assert late.incomplete[1:] == ["latest offset of t-0: Local: Timed out"]


def test_a_replay_asks_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log view has the offsets of what has a leader, and the reasons of the rest."""
    client = Client({"t": [1, -1], "hidden": DENIED})
    monkeypatch.setattr(KafkaConnection, "look", lambda _kafka: Brokers(answering={}, silent={}))
    monkeypatch.setattr("workbench.kafka.offset_lookup._RETRY_PAUSE_SECONDS", 0.0)
    gateway = KafkaGateway("b:1")
    gateway._kafka._admin = client
    client.failures = 1
    view = gateway.logs([("t", 0), ("t", 1), ("hidden", 0)], instants_ms=[1])
    assert (view.starts, view.ends) == ({("t", 0): 7}, {("t", 0): 7})
    assert view.errors["t", 1] == "Broker: Leader not available"
    assert view.denied == {("hidden", 0)}
    client.failures = 2
    with pytest.raises(SourceUnreachableError, match="does not answer"):
        gateway.logs([("t", 0)])


def test_looking_a_topic_up_does_not_make_it() -> None:
    """By default an admin client asks the broker to make the topics that it looks up by name: a deleted topic would come back."""
    kafka = KafkaConnection("b:1", {"test.mock.num.brokers": 1})
    assert topics_of(kafka, {"deleted"}, 5.0)["deleted"].error.code() == UNKNOWN
    assert "deleted" not in topics_of(kafka, {"a", "b", "c", "d"}, 5.0)
    plain = AdminClient({"bootstrap.servers": "b:1", "test.mock.num.brokers": 1, "log_level": 0})
    plain.list_topics("deleted", timeout=5)
    time.sleep(0.2)
    assert "deleted" in plain.list_topics(timeout=5).topics  # so the property is needed


def test_what_is_known_is_not_looked_up_again() -> None:
    """By the many requests of one search; a leader that has moved is."""
    client, known = Client({"t": [1], "u": [1]}), dict[str, Any]()
    reading = reading_of(client)
    for _ in range(3):
        [found] = offsets_of(reading, [("t", 0)], {"latest offset": OffsetSpec.latest()}, known=known)
        assert found == {("t", 0): 7}
    assert client.listed == ["t"]
    client.moves["t", 0] = 1
    offsets_of(reading, [("t", 0), ("u", 0)], {"latest offset": OffsetSpec.latest()}, known=known)
    assert client.listed == ["t", "u", "t"]
    assert reading.incomplete == []
