"""One reading of a cluster: when it goes on, when it begins again, and with which client."""

from __future__ import annotations

import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.kafka.brokers_that_answer import Brokers
from workbench.kafka.connection import KafkaConnection
from workbench.kafka.patient_reads import AgainError, ClusterReading, read

ALL = Brokers(answering={1: "a:1", 2: "b:2"}, silent={})
ONE_SILENT = Brokers(answering={1: "a:1"}, silent={2: "broker 2 does not answer"})


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> KafkaConnection:
    """A connection whose clients know nothing; half a second without an answer is quiet."""
    monkeypatch.setattr("workbench.kafka.connection._retired", [])
    found = KafkaConnection("a:1,b:2", deadline_seconds=10)

    def connect(self: KafkaConnection) -> Any:
        self._admin = self._admin or SimpleNamespace(poll=lambda _: 0)
        return self._admin

    monkeypatch.setattr(KafkaConnection, "connect", connect)
    return found


def seen(monkeypatch: pytest.MonkeyPatch, brokers: Brokers) -> list[float]:
    """Let the looks at the brokers find these; the times of the looks."""
    looks: list[float] = []

    def look(_kafka: KafkaConnection) -> Brokers:
        looks.append(time.monotonic())
        return brokers

    monkeypatch.setattr(KafkaConnection, "look", look)
    return looks


def test_a_silent_broker_begins_again_without_it(kafka: KafkaConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new client knows the others only; what it does not answer soon is missing."""
    seen(monkeypatch, ONE_SILENT)
    tried: list[Any] = []

    def work(reading: ClusterReading) -> str:
        tried.append((kafka.connect(), kafka.servers))
        if reading.knows_silent:
            with pytest.raises(TimeoutError, match="does not answer"):
                reading.wait(Future[str]())
            return "told"
        return reading.wait(Future[str]())

    assert read(kafka, work) == "told"
    (first, before), (second, after) = tried
    assert first is not second
    assert (before, after) == ("a:1,b:2", "a:1")


def test_a_stuck_request_begins_again_once_with_a_new_client(
    kafka: KafkaConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All brokers answer, and the request does not: librdkafka may wait for one that was lost."""
    looks = seen(monkeypatch, ALL)
    tried: list[Any] = []

    def work(reading: ClusterReading) -> str:
        tried.append(kafka.connect())
        answer: Future[str] = Future()
        if len(tried) == 2:
            answer.set_result("told")
        return reading.wait(answer)

    began = time.monotonic()
    assert read(kafka, work) == "told"
    assert len(looks) == 2
    assert time.monotonic() - began < 3
    assert tried[0] is not tried[1]
    assert kafka.servers == "a:1,b:2"


def test_a_slow_cluster_is_waited_for(kafka: KafkaConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second attempt knows that all brokers answer."""
    seen(monkeypatch, ALL)
    answer: Future[str] = Future()
    began = time.monotonic()

    def late() -> float:
        if time.monotonic() - began > 3 and not answer.done():
            answer.set_result("told")
        return 0

    kafka.connect().poll = lambda _: late()
    assert ClusterReading(kafka, began + 10, ALL).wait(answer) == "told"


def test_an_answer_to_a_part_is_an_answer(kafka: KafkaConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own requests are many, and one future: no broker is looked at while they go on."""
    looks = seen(monkeypatch, ONE_SILENT)
    answer: Future[str] = Future()
    reading = ClusterReading(kafka, time.monotonic() + 10)
    heard = 0

    def hear() -> int:
        nonlocal heard
        heard += 1
        reading.hear()
        if heard == 15:
            answer.set_result("told")
        return 0

    kafka.connect().poll = lambda _: hear()
    assert reading.wait(answer) == "told"
    assert looks == []


def test_near_the_deadline_there_is_no_other_attempt(kafka: KafkaConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is told."""
    seen(monkeypatch, ONE_SILENT)
    reading = ClusterReading(kafka, time.monotonic() + 1.2)
    reading.begin_again()
    with pytest.raises(TimeoutError):
        reading.wait(Future[str]())
    with pytest.raises(AgainError):
        ClusterReading(kafka, time.monotonic() + 5).begin_again()
