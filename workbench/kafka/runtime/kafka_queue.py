"""Kafka behind the runtime's port."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from workbench.kafka.audit_rows import KafkaRows
from workbench.kafka.runtime.dead_letters import DeadLetters, make_producer
from workbench.kafka.runtime.kafka_source import KafkaSource
from workbench.kafka.runtime.log_ends import LogEnds
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.event import TopicPartition as Partition
from workbench.runtime.ranges_to_process import Ranges, RangeTable
from workbench.runtime.runtime_queue import Remade
from workbench.runtime.source import ReadCommits, RecordSource

_log = logging.getLogger(__name__)

_ASK_SECONDS = 10.0
_OF_EVERY_CLIENT = (
    "security.",
    "sasl.",
    "ssl.",
    "socket.",
    "broker.",
    "metadata.",
    "client.dns",
    "enable.ssl",
)


class KafkaQueue:
    """See `RuntimeQueue`."""

    counts_records = True

    def shown(self, offset: int) -> int:
        """See `RuntimeQueue`."""
        return offset

    def source(self, config: RuntimeConfig, member: str) -> KafkaSource:
        """See `RuntimeQueue`."""
        return KafkaSource(config, member=member)

    def log_watch(
        self,
        config: RuntimeConfig,
        *,
        partitions: Callable[[], Iterable[Partition]],
        period_seconds: float,
        on_remade: Callable[[Remade], None],
        enabled: bool,
    ) -> LogEnds:
        """See `RuntimeQueue`."""
        return LogEnds(
            {**_connection(config), "client.id": f"{config.client_id}-log-ends"},
            partitions=partitions,
            period_seconds=period_seconds,
            topics=[topic for topic in config.topics if not topic.startswith("^")],
            on_remade=on_remade,
            enabled=enabled,
        )

    def letters(
        self, config: RuntimeConfig, topic: str, *, clock: Callable[[], float], make_producer: Any = make_producer
    ) -> DeadLetters:
        """See `RuntimeQueue`."""
        return DeadLetters(topic, _connection(config), make_producer=make_producer, clock=clock)

    def rows(self, config: RuntimeConfig, topic: str) -> KafkaRows:
        """See `RuntimeQueue`."""
        return KafkaRows(topic, _connection(config))

    def row_places(self, source: RecordSource) -> None:
        """See `RuntimeQueue`."""

    def ranges(self, table: RangeTable) -> Ranges:
        """See `RuntimeQueue`."""
        return Ranges(table)

    def commits(self, config: RuntimeConfig) -> ReadCommits:
        """See `RuntimeQueue`: by a consumer that joins nothing; an AdminClient ends the process if the coordinator has moved."""
        kept: list[Consumer] = []

        def read(partitions: Iterable[Partition]) -> Mapping[Partition, tuple[int, str | None]]:
            if not kept:
                own = {"group.id": config.group, "enable.auto.commit": False}
                kept.append(Consumer({**_connection(config), **own}, logger=_log))
            try:
                answer = kept[0].committed([TopicPartition(*part) for part in partitions], timeout=_ASK_SECONDS)
            except KafkaException:
                kept.clear()  # it may never find a broker again: see `clients_without_brokers`
                raise
            return {(it.topic, it.partition): (it.offset, it.metadata) for it in answer if it.error is None}

        return read


def _connection(config: RuntimeConfig) -> dict[str, Any]:
    """The consumers' properties that every client accepts: security, sockets and the like."""
    chosen = {name: value for name, value in config.kafka.items() if name.startswith(_OF_EVERY_CLIENT)}
    return {**chosen, "bootstrap.servers": config.bootstrap}


QUEUE = KafkaQueue()
