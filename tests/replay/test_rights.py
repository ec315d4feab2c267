"""A right that is missing is told as such: never as a topic that is gone, and never as silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.replay.fakes import now_ms, orders, plan_of
from tests.replay.test_apply import Place
from tests.replay.test_rolling_cutover import Service
from workbench.errors import GuardError, SourceUnreachableError
from workbench.kafka.brokers_that_answer import Brokers
from workbench.kafka.connection import KafkaConnection
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.replay.receipt import ReplayOutcome


def test_planning_a_hidden_topic() -> None:
    """The list of all topics leaves it out; asked for by name, the broker says why. A topic that is not there is another error."""
    gateway = orders()
    gateway.denied.add("orders")
    with pytest.raises(SourceUnreachableError, match="These credentials may not describe the topic 'orders'") as caught:
        plan_of(gateway)
    assert "Grant these credentials" in (caught.value.hint or "")


def test_applying_for_a_topic_that_has_become_hidden(tmp_path: Path) -> None:
    """Refused as a right that is missing; the hint is not to make a new plan."""
    place = Place(tmp_path, orders())
    place.gateway.denied.add("orders")
    receipt = place.apply()
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert "may not describe" in receipt.reasons[0]
    assert "gone" not in " ".join(receipt.reasons)
    assert "Grant these credentials" in receipt.hints[0]


def test_partitions_that_may_not_be_read(tmp_path: Path) -> None:
    """The right went after the topics were listed: no leader is missing, and waiting does not help."""
    gateway = orders()
    gateway.records["payments", 0] = [(0, now_ms()), (1, now_ms())]
    gateway.groups["old"]["payments", 0] = 0
    place = Place(tmp_path, gateway, plan_of(gateway, _both()))
    cluster = gateway.cluster

    def listed(topics: Any = ()) -> Any:
        gateway.denied.clear()
        found = cluster(topics)
        gateway.denied.add("payments")
        return found

    gateway.cluster = listed  # type: ignore[method-assign]
    receipt = place.apply()
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert any("These credentials may not read it" in (part.error or "") for part in receipt.partitions)
    assert "Grant these credentials" in receipt.hints[0]
    with pytest.raises(SourceUnreachableError, match="cannot be read with these credentials: payments-0"):
        plan_of(gateway, _both())


@pytest.mark.parametrize("dry_run", [True, False])
def test_half_of_the_topics_that_may_be_committed(tmp_path: Path, *, dry_run: bool) -> None:
    """A broker refuses a commit topic by topic: what it would refuse is asked for first, so the other half is not written."""
    gateway = orders()
    gateway.records["payments", 0] = [(0, now_ms()), (1, now_ms())]
    gateway.groups["old"]["payments", 0] = 0
    place = Place(tmp_path, gateway, plan_of(gateway, _both()))
    gateway.described.add("payments")
    receipt = place.apply(dry_run=dry_run)
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert receipt.reasons == ["'me' lacks READ on topic 'payments'."]
    assert "Grant these credentials" in receipt.hints[0]
    assert gateway.commits(place.plan.new_group) == {}
    assert not place.journal.path.exists()


def _both() -> Any:
    from tests.replay.fakes import request

    return request(topics=["orders", "payments"])


def test_committing_without_the_right(tmp_path: Path) -> None:
    """The answer names it; the hint is the right, and not to stop consumers."""
    place = Place(tmp_path, orders())
    place.gateway.refuse = dict.fromkeys(
        place.plan.targets, "GROUP_AUTHORIZATION_FAILED: Broker: Group authorization failed"
    )
    receipt = place.apply()
    assert receipt.outcome is ReplayOutcome.FAILED
    assert any("lack the permission to commit" in reason for reason in receipt.reasons)
    assert "Grant these credentials" in receipt.hints[0]


def test_what_members_hold_is_not_abandoned_because_it_is_hidden(tmp_path: Path) -> None:
    """Neither the commits nor the list of topics show it, only the members' assignment: the cutover refuses, and cannot carry it."""
    service = Service(tmp_path)
    service.gateway.records["payments", 0] = [(0, now_ms())]
    service.gateway.groups["old"]["payments", 0] = 0
    service.gateway.denied.add("payments")
    with pytest.raises(GuardError, match="also reads payments-0"):
        service.cutover().run()
    with pytest.raises((GuardError, SourceUnreachableError), match=r"authorization|no commit there"):
        service.cutover(carry_others=True).run()
    assert service.fleet.switches == []


def test_a_refusal_of_the_cluster_is_no_silence() -> None:
    """What the client raises for a group, and what it raises when nobody answers, are two sentences."""
    kafka = KafkaGateway("b:9092")._kafka
    refused = kafka.unreachable(KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))
    assert "refuses: Broker: Group authorization failed" in refused.message
    assert "permission" in (refused.hint or "")
    assert "does not answer" in kafka.unreachable(TimeoutError()).message


def test_topics_are_told_apart_by_what_the_client_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hidden, not there, there with an id, there on brokers without ids; anything else is an error, and not an answer."""
    answers: dict[str, Any] = {
        "hidden": KafkaError.TOPIC_AUTHORIZATION_FAILED,
        "gone": KafkaError.UNKNOWN_TOPIC_OR_PART,
        "there": "AbC",
        "old": "AAAAAAAAAAAAAAAAAAAAAA",
    }
    gateway = KafkaGateway("b:9092")
    gateway._kafka._admin = _Admin(answers)
    assert gateway._described(list(answers)) == ({"there": "AbC"}, {"hidden": "Broker: Topic authorization failed"})
    answers["more"] = KafkaError.LEADER_NOT_AVAILABLE
    with pytest.raises(SourceUnreachableError, match="does not answer"):
        gateway._described(list(answers))


def test_a_topic_is_asked_for_again_if_a_broker_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another broker tells it."""
    answers: dict[str, Any] = {"there": KafkaError._TRANSPORT}
    gateway = KafkaGateway("b:9092")
    gateway._kafka._admin = _Admin(answers)

    def look(_kafka: KafkaConnection) -> Brokers:
        answers["there"] = "AbC"
        return Brokers(answering={}, silent={})

    monkeypatch.setattr(KafkaConnection, "look", look)
    assert gateway._described(["there"]) == ({"there": "AbC"}, {})


class _Admin:
    """An AdminClient that describes topics as it is told."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def poll(self, _seconds: float) -> int:
        """No error."""
        return 0

    def describe_topics(self, topics: Any, **_words: Any) -> dict[str, Any]:
        from concurrent.futures import Future
        from types import SimpleNamespace

        found: dict[str, Any] = {}
        for name in topics.topic_names:
            future: Future[Any] = Future()
            answer = self.answers[name]
            if isinstance(answer, str):
                future.set_result(SimpleNamespace(topic_id=answer))
            else:
                future.set_exception(KafkaException(KafkaError(answer)))
            found[name] = future
        return found
