"""What a redrive asks Kafka beyond the replay's gateway: limits, groups of plans, permissions, and how long positions last."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.collect.kafka_groups import NotListedError
from workbench.collect.kafka_kinds import is_redrive_plan
from workbench.collect.kafka_offset_fetch import Limits, read_commits
from workbench.collect.kafka_quotas import quotas_of
from workbench.errors import WorkbenchError
from workbench.redrive.apply import Redrive
from workbench.redrive.audience import Readers, audience_words
from workbench.redrive.ending import end_plan
from workbench.redrive.gateway import Sink
from workbench.redrive.guard import RedriveLimits, RedriveNow
from workbench.redrive.http_sink import HttpSink
from workbench.redrive.kafka_letters import KafkaLetters
from workbench.redrive.kafka_sink import KafkaSink
from workbench.redrive.ledger import Ledger
from workbench.redrive.marks import PlanState, Progress
from workbench.redrive.planfile import RedrivePlan, To
from workbench.replay.gateway import Partition
from workbench.replay.journal import Journal
from workbench.replay.kafka_gateway import KafkaGateway

_DEFAULT_MAX_BYTES = 1_048_588  # of Kafka's max.message.bytes
_BATCH_OVERHEAD_BYTES = 2_000  # of a batch around its records
_TIMEOUT_SECONDS = 30.0
_READERS_SECONDS = 20.0  # for the commits of all groups


class RedriveKafka:
    """A cluster for redrives; the gateway reads, and only a sink writes."""

    def __init__(self, gateway: KafkaGateway) -> None:
        from confluent_kafka.admin import AdminClient

        self.gateway = gateway
        self._properties = {"log_level": 0, **gateway.properties, "bootstrap.servers": gateway.bootstrap}
        self._admin = AdminClient(self._properties)
        self._limits: dict[str, int] = {}

    def letters(self, topic: str) -> KafkaLetters:
        """Reader of a topic."""
        return KafkaLetters(self.gateway.bootstrap, self.gateway.properties, topic)

    def limit_of(self, topic: str) -> int:
        """Largest record of a topic in bytes; Kafka's default without the permission to ask."""
        value = self._config("TOPIC", topic, "max.message.bytes")
        return int(value) if value is not None else _DEFAULT_MAX_BYTES

    def offsets_retention_seconds(self) -> float | None:
        """How long Kafka keeps the position of a group without members; None if it may not be asked."""
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
        limits = Limits(deadline=end, moved_until=end, lost_until=end, silence_seconds=_TIMEOUT_SECONDS / 10)
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

    def commits(self, group: str) -> Mapping[Partition, int]:
        """Committed offsets of a group."""
        return self.gateway.commits(group)

    def lacking(self, plan: RedrivePlan) -> tuple[str, ...]:
        """Permissions that the brokers say these credentials lack, asked for each topic."""
        from confluent_kafka import KafkaException, TopicCollection
        from confluent_kafka.admin import AclOperation

        needs = {plan.topic: AclOperation.READ, **{it.topic: AclOperation.WRITE for it in plan.targets}}
        try:
            futures = self._admin.describe_topics(
                TopicCollection(list(needs)), include_authorized_operations=True, request_timeout=_TIMEOUT_SECONDS
            )
            found = {name: future.result(_TIMEOUT_SECONDS) for name, future in futures.items()}
        except (KafkaException, TimeoutError):
            return ()  # the check of the topics says why
        return tuple(
            f"These credentials lack {needs[name].name} on the topic {name!r}."
            for name, topic in found.items()
            if topic.authorized_operations and needs[name] not in topic.authorized_operations
        )

    def handled(
        self, plan_topic: str, topic_id: str | None, cluster_id: str, ledger: Ledger, *, but: str | None = None
    ) -> Any:
        """Letters that other plans have handled; see `Ledger.handled`."""
        return ledger.handled(
            plan_topic, topic_id, cluster_id, self.commits, self.gateway.groups(), but=but, progress=self.progress
        )

    def progress(self, plan: RedrivePlan) -> Progress:
        """What Kafka says about a plan."""
        return KafkaSink(self.gateway.bootstrap, self.gateway.properties, plan).progress()

    def now(self, plan: RedrivePlan, ledger: Ledger) -> RedriveNow:
        """Current state of the cluster for the safety checks."""
        cluster = self.gateway.cluster([plan.topic, *(it.topic for it in plan.targets)])
        keys = [(plan.topic, part.partition) for part in plan.partitions]
        there = plan.topic in cluster.topics
        progress = self.progress(plan)
        others = self.handled(plan.topic, plan.topic_id, plan.cluster_id, ledger, but=plan.hash) if there else {}
        return RedriveNow(
            cluster=cluster,
            logs=self.gateway.logs(keys if there else []),
            settings=self.gateway.settings([plan.topic]) if there else {},
            positions=progress.positions,
            ordered=progress.ordered,
            state=progress.state,
            refused=progress.refused,
            handled=others,
            now_ms=time.time() * 1000,
            offsets_retention_seconds=self.offsets_retention_seconds(),
            was_started=ledger.was_started(plan) and ledger.ended(plan) is None,
            lacking=self.lacking(plan),
            audience=tuple(audience_words(plan, self.readers([it.topic for it in plan.targets])))
            if plan.targets
            else (),
            quotas=quotas_of(self.gateway.bootstrap, self.gateway.properties),
        )

    def sink(self, plan: RedrivePlan) -> Sink:
        """A sink for the plan's destination."""
        if plan.destination.kind is To.HTTP:
            return HttpSink(self.gateway.bootstrap, self.gateway.properties, plan)
        # A batch must fit into the smallest target, or letters that fit would be refused together.
        least = min((self._limit(it.topic) for it in plan.targets), default=_DEFAULT_MAX_BYTES)
        return KafkaSink(
            self.gateway.bootstrap, self.gateway.properties, plan, batch_bytes=least - _BATCH_OVERHEAD_BYTES
        )

    def _limit(self, topic: str) -> int:
        if topic not in self._limits:
            self._limits[topic] = self.limit_of(topic)
        return self._limits[topic]

    def end(self, plan: RedrivePlan, state: PlanState, ledger: Ledger) -> Progress:
        """End a plan that is not done: discarded before it has begun, or given up after. Whoever applies it is fenced.

        Returns:
            What the plan has produced.

        Raises:
            GuardError: if it has not begun, or has; if it is done; or if another plan has claimed its letters.
        """
        sink = KafkaSink(self.gateway.bootstrap, self.gateway.properties, plan)
        try:
            sink.begin()
            return end_plan(plan, state, sink, lambda: self.now(plan, ledger), was_started=ledger.was_started(plan))
        finally:
            sink.close()

    def redrive(self, plan: RedrivePlan, journal: Journal, ledger: Ledger, limits: RedriveLimits) -> Redrive:
        """A run of a plan on this cluster."""
        return Redrive(
            plan=plan,
            letters=self.letters(plan.topic),
            make_sink=lambda: self.sink(plan),
            look=lambda: self.now(plan, ledger),
            journal=journal,
            ledger=ledger,
            limits=limits,
        )
