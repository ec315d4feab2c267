"""What the thread that watches logs and topic ids does with answers of brokers that are down, old, or behind."""

from __future__ import annotations

import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.runtime.helpers import until
from workbench.commit_note import parse_note
from workbench.kafka.runtime import log_ends as offsets
from workbench.kafka.runtime.log_ends import LogEnds
from workbench.runtime.event import TopicPartition
from workbench.runtime.runtime_queue import Remade

NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # as str() of the client's Uuid tells it


class Broker:
    """Says what the test wants it to say; one list of ids or errors for all clients."""

    def __init__(self) -> None:
        self.id: str | BaseException = "one"
        self.leader: int | None = 1
        self.wanted: list[Any] = []
        self.asked = 0
        self.clients = 0
        self.refusal: KafkaError | None = None  # of the topic

    def client(self, _properties: dict[str, Any], **_: Any) -> Any:
        self.clients += 1
        return SimpleNamespace(
            describe_topics=self.describe, list_offsets=self.list_offsets, describe_cluster=self.describe_cluster
        )

    def describe_cluster(self, **_: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(cluster_id="c"))
        return answer

    def describe(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        self.asked += 1
        if isinstance(self.id, BaseException):
            raise self.id
        answer: Future[Any] = Future()
        if self.refusal is not None:
            answer.set_exception(KafkaException(self.refusal))
            return {"t": answer}
        answer.set_result(SimpleNamespace(topic_id=self.id, partitions=[SimpleNamespace(id=0, leader=self.leader)]))
        return {"t": answer}

    def list_offsets(self, wanted: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        self.wanted += wanted
        answers: dict[Any, Future[Any]] = {part: Future() for part in wanted}
        for answer in answers.values():
            answer.set_result(SimpleNamespace(offset=7))
        return answers


class Watch:
    """The thread on such a broker, until the end of the block."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broker = Broker()
        monkeypatch.setattr(offsets, "AdminClient", self.broker.client)
        monkeypatch.setattr(offsets, "TopicCollection", lambda names: names)
        self.assigned: list[TopicPartition] = [("t", 0)]
        self.remade: list[Remade] = []
        self.log_ends = LogEnds({}, partitions=lambda: self.assigned, period_seconds=0.01, on_remade=self.remade.append)

    def __enter__(self) -> Watch:
        self.log_ends.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.log_ends.stop()

    def say(self, topic_id: str | BaseException) -> None:
        """Answer so from now on, until it was asked a few times."""
        self.broker.id = topic_id
        asked = self.broker.asked
        until(lambda: self.broker.asked > asked + 2)

    @property
    def id(self) -> str | None:
        known = self.log_ends.ids.get("t")
        return known[0].removeprefix("c:") if known is not None else None


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """On an assignment of one partition."""
    return Watch(monkeypatch)


def test_a_topic_that_was_made_anew_is_told_once(watch: Watch) -> None:
    """With where its log begins."""
    with watch:
        until(lambda: watch.id == "one")
        watch.say("two")
        watch.say("two")
    assert [(remade.topic, remade.topic_id, remade.starts) for remade in watch.remade] == [
        ("t", "c:two", {("t", 0): 7})
    ]


@pytest.mark.parametrize(
    "error",
    [KafkaException(KafkaError(KafkaError._TRANSPORT)), RuntimeError("no thread"), TimeoutError()],
    ids=["kafka", "other", "timeout"],
)
def test_nothing_that_goes_wrong_ends_the_watch(watch: Watch, error: BaseException) -> None:
    """Without it a topic that is made anew would be read on in silence."""
    with watch:
        until(lambda: watch.id == "one")
        watch.say(error)
        watch.broker.id = "two"
        until(lambda: watch.remade)


@pytest.mark.parametrize(
    ("code", "is_replaced"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError._TIMED_OUT, True),
    ],
    ids=["not_there", "not_allowed", "no_answer"],
)
def test_only_a_client_without_an_answer_is_replaced(watch: Watch, code: int, is_replaced: bool) -> None:
    """It may have no brokers left. One that is refused has some: a new one each time would be a new connection and login."""
    watch.broker.refusal = KafkaError(code)
    with watch:
        until(lambda: watch.broker.asked > 5)
    assert (watch.broker.clients > 1) is is_replaced


def test_a_broker_without_topic_ids_tells_none(watch: Watch) -> None:
    """It answers with zeros; an upgrade to one that has them is no new topic. Nor does a commit's note of zeros say anything."""
    with watch:
        watch.say(NO_ID)
        assert watch.id is None
        watch.say("one")
        watch.say(NO_ID)  # in the middle of a rolling upgrade
        watch.say("one")
    assert watch.remade == []
    assert parse_note(f"topic-id={NO_ID}").topic_id is None
    assert parse_note("topic-id=").topic_id is None
    assert parse_note("topic-id=one").topic_id == "one"


def test_a_broker_that_is_behind_makes_no_topic_anew(watch: Watch) -> None:
    """An id that was another's before is never that of a newer topic."""
    with watch:
        until(lambda: watch.id == "one")
        watch.say("two")
        watch.say("one")
        assert watch.id == "two"
        watch.say("two")
    assert [remade.topic_id for remade in watch.remade] == ["c:two"]


def test_the_id_of_a_topic_that_is_not_assigned_is_forgotten(watch: Watch) -> None:
    """It may be made anew meanwhile: its next owner is right about it, and an old id here would send that back to the start."""
    with watch:
        until(lambda: watch.id == "one")
        watch.assigned = []
        until(lambda: watch.id is None)
        watch.broker.id = "two"
        watch.assigned = [("t", 0)]
        until(lambda: watch.id == "two")
    assert watch.remade == []


def test_what_is_asked_for_soon_does_not_wait_for_the_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a change that is found so is told, too."""
    watch = Watch(monkeypatch)
    watch.log_ends._period = 3600
    with watch:
        until(lambda: watch.id == "one")
        watch.broker.id = "two"
        asked_at = time.monotonic()
        assert watch.log_ends.ask_soon("t")
        until(lambda: (watch.log_ends.known("t") or ("", 0.0))[1] > asked_at)
        until(lambda: [remade.topic_id for remade in watch.remade] == ["c:two"])


def test_only_partitions_with_a_leader_are_asked_for(watch: Watch) -> None:
    """A client that does not know a leader can end the process; without one there is no offset, and no old one either."""
    watch.assigned = [("t", 0), ("t", 1)]  # there is no partition 1
    with watch:
        until(lambda: watch.log_ends.ends == {("t", 0): 7})
        assert {(part.topic, part.partition) for part in watch.broker.wanted} == {("t", 0)}
        watch.broker.leader = None
        until(lambda: watch.log_ends.ends == {})
        watch.broker.leader = 2
        until(lambda: watch.log_ends.ends == {("t", 0): 7})
