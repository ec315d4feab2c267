"""What a redrive asks Kafka beyond the gateway: limits, groups of plans, permissions, and how long positions last."""

from __future__ import annotations

import time
from collections.abc import Sequence

from workbench.errors import WorkbenchError
from workbench.kafka.groups import NotListedError
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.kafka.offset_fetch import FetchLimits, read_commits
from workbench.kafka.quotas import quotas_of
from workbench.kafka.redrive.letter_reader import KafkaLetters
from workbench.kafka.redrive.transactional_letter_producer import KafkaSink
from workbench.queues.group_kinds import is_redrive_plan
from workbench.queues.replay_port import Quotas
from workbench.queues.snapshot_views import Partition
from workbench.redrive.groups_reading_targets import Readers
from workbench.redrive.planfile import RedrivePlan
from workbench.redrive.redrive_cluster import RedriveCluster

_DEFAULT_MAX_BYTES = 1_048_588  # of Kafka's max.message.bytes
_BATCH_OVERHEAD_BYTES = 2_000  # of a batch around its records
_TIMEOUT_SECONDS = 30.0
_READERS_SECONDS = 20.0  # for the commits of all groups


class KafkaLetterQueue:
    """See `LetterQueue`; the gateway reads, and only a sink writes."""

    promise: str | None = (
        "Consumers with isolation.level=read_uncommitted also see records of transactions that a kill has aborted."
    )

    def __init__(self, gateway: KafkaGateway) -> None:
        from workbench.kafka.admin_client import TextAdminClient

        self.gateway = gateway
        self._properties = {"log_level": 0, **gateway.properties, "bootstrap.servers": gateway.bootstrap}
        self._admin = TextAdminClient(self._properties)
        self._limits: dict[str, int] = {}

    def letters(self, topic: str) -> KafkaLetters:
        """Reader of a topic."""
        return KafkaLetters(self.gateway.bootstrap, self.gateway.properties, topic)

    def limit_of(self, topic: str) -> int:
        """Largest record of a topic in bytes; Kafka's default without the permission to ask."""
        value = self._config("TOPIC", topic, "max.message.bytes")
        return int(value) if value is not None else _DEFAULT_MAX_BYTES

    def position_kept_seconds(self, plan: RedrivePlan) -> float | None:  # noqa: ARG002 - the port's
        """See `LetterQueue`: as that of every group without members."""
        brokers = self._admin.list_topics(timeout=_TIMEOUT_SECONDS).brokers
        value = self._config("BROKER", str(next(iter(brokers))), "offsets.retention.minutes") if brokers else None
        return 60.0 * int(value) if value is not None else None

    def _config(self, kind: str, name: str, setting: str) -> str | None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource

        resource = ConfigResource(getattr(ConfigResource.Type, kind), name)
        try:
            entries = self._admin.describe_configs([resource], request_timeout=_TIMEOUT_SECONDS)[resource]
            found = entries.result(_TIMEOUT_SECONDS).get(setting)
        except (KafkaException, TimeoutError):
            return None
        return found.value if found is not None else None

    def readers(self, topics: Sequence[str]) -> Readers | None:
        """Committed offsets on some topics, by group, without those of redrive plans; None if it cannot be told."""
        end = time.monotonic() + _READERS_SECONDS
        limits = FetchLimits.until(end, silence_seconds=_TIMEOUT_SECONDS / 10)
        try:
            names = [name for name in self.gateway.groups() if not is_redrive_plan(name)]
            found = read_commits(self.gateway.bootstrap, self.gateway.properties, names, limits)
        except (NotListedError, WorkbenchError):
            return None  # the plan says so; nothing else depends on it
        if found.denied or found.missing or found.errors:
            return None
        readers: dict[str, dict[Partition, int]] = {}
        for (group, topic, number), at in found.offsets.items():
            if topic in topics and at is not None:
                readers.setdefault(group, {})[topic, number] = at
        return readers

    def lacking(self, topic: str, targets: Sequence[str], name: str) -> tuple[str, ...]:
        """See `LetterQueue`."""
        return self.gateway.lacking(name, {topic: "READ", **dict.fromkeys(targets, "WRITE")}, [name])

    def untold(self) -> str | None:
        """See `LetterQueue`."""
        if not self.gateway.may_hide():
            return None
        return "Unknown: whether these credentials may write with the transactional id. It is seen before a record is produced."

    def groups(self) -> list[str]:
        """See `LetterQueue`."""
        return self.gateway.groups()

    def quotas(self) -> Quotas | None:
        """See `LetterQueue`."""
        return quotas_of(self.gateway.bootstrap, self.gateway.properties)

    def sink(self, plan: RedrivePlan) -> KafkaSink:
        """See `LetterQueue`."""
        # A batch must fit into the smallest target, or letters that fit would be refused together.
        least = min((self._limit(it.topic) for it in plan.targets), default=_DEFAULT_MAX_BYTES)
        bootstrap, properties = self.gateway.bootstrap, self.gateway.properties
        return KafkaSink(bootstrap, properties, plan, batch_bytes=least - _BATCH_OVERHEAD_BYTES)

    def positions(self, plan: RedrivePlan) -> KafkaSink:
        """See `LetterQueue`."""
        return KafkaSink(self.gateway.bootstrap, self.gateway.properties, plan)

    def _limit(self, topic: str) -> int:
        if topic not in self._limits:
            self._limits[topic] = self.limit_of(topic)
        return self._limits[topic]


def cluster_of(gateway: KafkaGateway) -> RedriveCluster:
    """Redrives on a connected cluster."""
    return RedriveCluster(KafkaLetterQueue(gateway))
