"""What a redrive asks Kafka beyond the replay's gateway: an answer that lacks a part is not taken for the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.collect.test_kafka_offset_fetch import serving
from tests.redrive.making import LETTERS, TOPIC, plan_from
from workbench.errors import SourceUnreachableError
from workbench.kafka.group_listing import Others
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.kafka.redrive.letter_queue import KafkaLetterQueue
from workbench.kafka.redrive.transactional_letter_producer import KafkaSink
from workbench.redrive.commit_marks import PlanProgress
from workbench.redrive.redrive_cluster import RedriveCluster
from workbench.redrive.redrive_ledger import Ledger
from workbench.redrive.redrive_ports import LettersRefusedError


def test_a_broker_that_does_not_list_its_groups_hides_no_plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The plan of another machine may be among them; its letters would be produced twice."""
    gateway = KafkaGateway("127.0.0.1:9", {})
    kafka = RedriveCluster(KafkaLetterQueue(gateway))
    told = Others(consumers={"payments"}, incomplete=["broker 2 does not answer"])
    monkeypatch.setattr(gateway, "_kafka", _Listing(told))
    with pytest.raises(SourceUnreachableError, match="The groups cannot be listed: broker 2 does not answer"):
        kafka.handled(TOPIC, None, "c", Ledger(tmp_path))
    assert kafka.readers([TOPIC]) is None
    told.incomplete.clear()
    assert kafka.handled(TOPIC, None, "c", Ledger(tmp_path)) == ({}, {})


class _Listing:
    """A cluster that lists groups."""

    def __init__(self, told: Others) -> None:
        self.told = told

    def others(self, *, only: Any) -> Others:
        assert only == ()
        return self.told


def test_only_records_are_refused() -> None:
    """An error of that kind about the position leaves no letter out, and is not tried for ever."""
    sink = KafkaSink("127.0.0.1:9", {}, plan_from(LETTERS))
    error = KafkaException(KafkaError(KafkaError._INVALID_ARG))
    assert isinstance(sink._refused("add its position to the transaction", error), SourceUnreachableError)
    assert isinstance(sink._refused("produce", error), LettersRefusedError)
    sink._failed = (KafkaError(KafkaError.INVALID_RECORD), "orders")
    assert isinstance(sink._refused("commit", error), LettersRefusedError)


def test_a_claim_that_kafka_does_not_show_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It acknowledges the transaction before it shows the positions of a new group; nothing can begin without them."""
    sink = KafkaSink("127.0.0.1:9", {}, plan_from(LETTERS), timeout_seconds=0.2)
    shown = [PlanProgress(), PlanProgress(), PlanProgress(), PlanProgress(positions={0: 0})]
    monkeypatch.setattr(confluent_kafka, "Producer", _Claiming)
    monkeypatch.setattr(sink, "_add_positions", lambda *_: None)
    monkeypatch.setattr(sink, "progress", lambda: shown.pop(0) if len(shown) > 1 else shown[0])
    assert sink.claim({0: 0}, None, {}, lambda: None).positions == {0: 0}
    shown[:] = [PlanProgress()]
    with pytest.raises(SourceUnreachableError, match="does not show the position of the plan"):
        sink.claim({0: 0}, None, {}, lambda: None)


@pytest.mark.parametrize(("open_seconds", "answers"), [(30.0, 3), (0.0, 1000)])
def test_a_transaction_that_a_kill_has_left_open_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, open_seconds: float, answers: int
) -> None:
    """The broker ends it after its own timeout, which is longer than the wait for an answer. What it waits for is told in words."""
    monkeypatch.setattr("workbench.kafka.redrive.committed_progress.OPEN_SECONDS", open_seconds)
    plan = plan_from(LETTERS)
    unstable = [88] * answers
    with serving(lambda names: {name: unstable.pop() if unstable else {(TOPIC, 0): 7} for name in names}) as broker:
        sink = KafkaSink(broker.address, {}, plan, timeout_seconds=0.3)
        if open_seconds:
            assert sink.progress().positions == {0: 7}
        else:
            with pytest.raises(SourceUnreachableError, match="an open transaction is about to change its commits"):
                sink.progress()


class _Claiming:
    """A producer whose transactions succeed."""

    def __init__(self, _properties: Any) -> None: ...

    def init_transactions(self, _seconds: float) -> None: ...

    def begin_transaction(self) -> None: ...

    def commit_transaction(self, _seconds: float) -> None: ...
