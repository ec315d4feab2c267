"""A topic that one broker does not know: deleted only if no other one knows it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from workbench.errors import SourceUnreachableError
from workbench.kafka import kafka_gateway
from workbench.kafka.brokers_that_answer import Brokers
from workbench.kafka.kafka_gateway import KafkaGateway


@pytest.mark.parametrize("knows", [{}, {"orders": "b2:9092"}])
def test_a_topic_that_another_broker_knows_is_not_deleted(
    monkeypatch: pytest.MonkeyPatch, knows: dict[str, str]
) -> None:
    """A broker that has just started told `apply` and `verify` that a topic was gone; only what is missing is asked for elsewhere."""
    asked: list[Any] = []

    def elsewhere(addresses: Any, _properties: Any, topics: Any) -> dict[str, str]:
        asked.append((list(addresses), list(topics)))
        return knows

    there = SimpleNamespace(error=None, partitions={0: SimpleNamespace(leader=1, isrs=[1], replicas=[1])})
    metadata = SimpleNamespace(cluster_id="x", brokers={}, topics={"seen": there})
    monkeypatch.setattr(kafka_gateway, "known_elsewhere", elsewhere)
    monkeypatch.setattr(KafkaGateway, "_described", lambda _self, _topics: ({}, {"hidden": "not authorized"}))
    gateway = KafkaGateway("b1:9092")
    gateway._kafka = SimpleNamespace(  # type: ignore[assignment]
        metadata=lambda: metadata,
        look=lambda: Brokers(answering={1: "b1:9092", 2: "b2:9092"}, silent={}),
        client_properties={},
    )
    assert set(gateway.cluster(["seen", "hidden"]).topics) == {"seen"} and asked == []
    if knows:
        with pytest.raises(SourceUnreachableError, match="b2:9092 knows the topic 'orders', and another one does not"):
            gateway.cluster(["seen", "orders"])
    else:
        assert set(gateway.cluster(["seen", "orders"]).topics) == {"seen"}
    assert asked == [(["b1:9092", "b2:9092"], ["orders"])]
