"""Which offsets of a topic are read for a span of times."""

from __future__ import annotations

import pytest

from tests.replay.fakes import FakeGateway
from workbench.api.audit_records import whole_topic
from workbench.queues.gateway import TopicSettings
from workbench.settings import Cluster

PART = ("orders", 0)


@pytest.mark.parametrize(("by_broker", "stop"), [(False, 6), (True, 3)])
def test_only_a_log_in_order_is_read_up_to_the_first_later_record(
    monkeypatch: pytest.MonkeyPatch, *, by_broker: bool, stop: int
) -> None:
    """Where producers set the times, records of the span may lie anywhere up to the last stable offset."""
    gateway = FakeGateway(records={PART: [(at, 100 * at) for at in range(8)]}, stable={PART: 6})
    if by_broker:
        gateway.topic_settings["orders"] = TopicSettings(appends_time=True)
        gateway.by_broker_from = 0
    monkeypatch.setattr("workbench.queues.systems.gateway_of", lambda _: gateway)
    cluster = Cluster(name="prod", bootstrap="b:9092")
    assert whole_topic(cluster, "orders", since_ms=150, until_ms=300) == {PART: (2, stop)}
