"""librdkafka's own mock cluster: real clients, real groups and rebalances, no broker process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer

PARTITIONS = 4  # the mock's default for a topic that is first written to


class MockCluster:
    """The mock, and a producer on it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})

    def produce(self, count: int, *, topic: str = "t", partitions: int = PARTITIONS, value: bytes = b"v") -> None:
        """Write `count` records into each partition; each has a key of its own."""
        for partition in range(partitions):
            for number in range(count):
                self._producer.produce(topic, value, f"{partition}-{number}".encode(), partition)
        assert self._producer.flush(30) == 0

    def write(self, topic: str, partition: int) -> None:
        """Write one record; `flush` says when it is there."""
        self._producer.produce(topic, b"v", b"k", partition)

    def flush(self) -> None:
        """Wait for what was written."""
        assert self._producer.flush(30) == 0

    def consumer(self, group: str, **properties: Any) -> Consumer:
        """A plain consumer of this cluster."""
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "log_level": 0,
                **properties,
            }
        )


@contextmanager
def mock_cluster() -> Iterator[MockCluster]:
    """A cluster of one mocked broker until the end of the block."""
    host = Consumer({"test.mock.num.brokers": 1, "bootstrap.servers": "x", "group.id": "host", "log_level": 0})
    try:
        brokers = host.list_topics(timeout=10).brokers.values()
        yield MockCluster(",".join(f"{broker.host}:{broker.port}" for broker in brokers))
    finally:
        host.close()
