"""Kafka gateway with confluent-kafka: few requests for any number of partitions, and every per-partition error is checked."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import SourceUnreachableError
from workbench.kafka.change_commits import delete_commits, write_with_metadata
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.connection import (
    COORDINATOR_SECONDS,
    DEADLINE_SECONDS,
    is_over,
    seconds_left,
)
from workbench.kafka.lacking_rights import lacking_rights
from workbench.kafka.leader_offsets import EARLIEST, LATEST, OffsetQuestion
from workbench.kafka.librdkafka_errors import (
    denied_resource,
    error_words,
    group_right,
    is_absent,
    is_denied,
    is_loading,
    is_lost,
    is_other_kind,
)
from workbench.kafka.local_log_starts import local_starts
from workbench.kafka.offset_lookup import Lookup, told_by_leaders, topics_for
from workbench.kafka.quotas import all_limits, read_bytes_per_second
from workbench.kafka.record_times import read_times, sample_bytes
from workbench.kafka.replay_group_commits import kept_commits_of_group
from workbench.kafka.topic_readers import audience_of
from workbench.kafka.topic_settings import may_hide, settings_of
from workbench.kafka.topics_elsewhere import known_elsewhere
from workbench.kafka.wire import c_text
from workbench.queues.replay_port import (
    ABSENT,
    Audience,
    ClusterView,
    FirstRecord,
    KeptCommit,
    LogView,
    ReadLimits,
    ReadTimes,
    TopicSettings,
    TopicView,
    offsets_of,
)
from workbench.queues.snapshot_views import GroupView, Partition, group_view

# A coordinator writes the offsets of one request as one batch, which must fit into the `message.max.bytes` of its topic (1 MiB by
# default); half of that leaves a margin for this estimate.
_COMMIT_BATCH = 2_000
_COMMIT_BATCH_BYTES = 500_000
_COMMIT_RECORD_BYTES = 70  # of one offset, without the names of group and topic
_QUOTA_SECONDS = 3.0
_CLIENT_ID = (
    "workbench-replay"  # a separate client id, so that quotas and broker logs can distinguish it from the service
)
_RETRY_PAUSE_SECONDS = 0.3
_UNSUPPORTED = ("UNSUPPORTED_VERSION", "_UNSUPPORTED_FEATURE")
_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # all zeros: from brokers before 2.8


@dataclass(slots=True)
class KafkaGateway:
    """Gateway to a real cluster. Joins no group; writes only in `commit`, `restore`, `delete_commits`, `delete_group`.

    Args:
        bootstrap: host:port of some brokers.
        properties: further librdkafka properties (security).
        deadline_seconds: for each call.
    """

    bootstrap: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    deadline_seconds: float = DEADLINE_SECONDS
    _kafka: KafkaCluster = field(init=False)

    def __post_init__(self) -> None:
        self._kafka = KafkaCluster(
            self.bootstrap,
            {"client.id": _CLIENT_ID, **self.properties},
            deadline_seconds=self.deadline_seconds,
            is_patient=True,
        )

    @property
    def requests(self) -> int:
        """Number of client calls so far; each is one request to every leader or coordinator involved."""
        return self._kafka.requests

    def _deadline(self) -> float:
        return time.monotonic() + self.deadline_seconds

    # Reading

    def cluster(self, topics: Iterable[str] = ()) -> ClusterView:
        """See `Gateway.cluster`. A list of all topics omits those without permission; only a request by name reports them.

        Raises:
            SourceUnreachableError: also if brokers disagree whether a requested topic exists.
        """
        wanted, found = list(dict.fromkeys(topics)), self._kafka.metadata()
        ids, denied = self._described(wanted)
        views = {
            name: TopicView(
                topic=name,
                topic_id=ids.get(name),
                leaders={number: part.leader for number, part in topic.partitions.items()},
                under_replicated=tuple(
                    number for number, part in topic.partitions.items() if len(part.isrs) < len(part.replicas)
                ),
            )
            for name, topic in found.topics.items()
            if topic.error is None
        }
        if absent := [name for name in wanted if name not in views and name not in denied]:
            self._check_absent(absent)
        brokers = {number: f"{broker.host}:{broker.port}" for number, broker in found.brokers.items()}
        return ClusterView(cluster_id=str(found.cluster_id), brokers=brokers, topics=views, denied=denied)

    def _check_absent(self, topics: Sequence[str]) -> None:
        """A topic is not there if no broker knows it: one that has just started may not."""
        if known := known_elsewhere(self._kafka.look().answering.values(), self._kafka.client_properties, topics):
            name, address = next(iter(known.items()))
            raise SourceUnreachableError(
                f"Kafka's broker {address} knows the topic {name!r}, and another one does not: it has just started, or is cut off; or "
                "the topic is being made or deleted.",
                hint="Try again in a moment.",
            )

    def _described(self, topics: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Topic ids, and the errors of topics without permission; a missing topic is in neither."""
        from confluent_kafka import KafkaException, TopicCollection

        if not topics:
            return {}, {}
        admin, deadline = self._kafka.connect(), self._deadline()
        futures = self._kafka.ask(
            lambda: admin.describe_topics(TopicCollection(list(topics)), request_timeout=seconds_left(deadline))
        )
        ids, denied = {}, {}
        for name, future in futures.items():
            try:
                found = str(self._topic(name, future, deadline).topic_id or _NO_TOPIC_ID)
            except (KafkaException, TimeoutError) as error:
                code = getattr(error.args[0], "name", str)() if error.args else ""
                if is_denied(error):
                    denied[name] = error_words(error)
                elif code not in ("UNKNOWN_TOPIC_OR_PART", *_UNSUPPORTED):
                    raise self._kafka.unreachable(error) from None
            else:
                if found != _NO_TOPIC_ID:
                    ids[name] = found
        return ids, denied

    def _topic(self, name: str, future: Future[Any], deadline: float) -> Any:
        """The answer about a topic; another broker is asked if one is lost just now."""
        from confluent_kafka import KafkaException, TopicCollection

        limit = min(deadline, time.monotonic() + 2 * self._kafka.quiet_seconds)
        try:
            return self._kafka.wait(future, limit)
        except (KafkaException, TimeoutError) as error:
            if is_over(deadline) or not (isinstance(error, TimeoutError) or is_lost(error)):
                raise
        self._kafka.reconnect(self._kafka.look())
        return self._kafka.answer(
            lambda admin, seconds: admin.describe_topics(TopicCollection([name]), request_timeout=seconds)[name],
            deadline,
        )

    def settings(self, topics: Iterable[str]) -> dict[str, TopicSettings]:
        """See `Gateway.settings`. Without permission they are "not known", and the safety checks report it."""
        return settings_of(self._kafka, topics, self._deadline())

    def logs(
        self, partitions: Sequence[Partition], *, instants_ms: Sequence[int] = (), stable: bool = False
    ) -> LogView:
        """See `Gateway.logs`. Two rounds of concurrent requests."""
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import OffsetSpec

        if not partitions:
            return LogView(starts={}, ends={}, found={instant: {} for instant in instants_ms})
        deadline = self._deadline()
        topics = topics_for(self._kafka, partitions, deadline)

        # In the order of below: it holds for each partition.
        questions = [OffsetQuestion(LATEST), OffsetQuestion(EARLIEST)]
        questions += [OffsetQuestion(LATEST, settled=True)] if stable else []
        questions += [OffsetQuestion(instant) for instant in dict.fromkeys(instants_ms)]
        known = iter(told_by_leaders(self._kafka, partitions, topics, questions, deadline))

        def ask(spec: Any, isolation: Any = IsolationLevel.READ_UNCOMMITTED, *, is_time: bool = False) -> Lookup:
            lookup = Lookup(self._kafka, spec, isolation, deadline, is_time=is_time, known=next(known))
            lookup.send(partitions, topics)
            return lookup

        # Log ends before timestamps: a record produced in between is then after the end that a plan may use as its target, and is
        # replayed. In the other order it would be lost.
        ending, starting = ask(OffsetSpec.latest()), ask(OffsetSpec.earliest())
        settled = ask(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED) if stable else None
        starts, ends, stable_ends = starting.gather(), ending.gather(), settled.gather() if settled is not None else {}
        lookups = {
            instant: ask(OffsetSpec.for_timestamp(instant), is_time=True) for instant in dict.fromkeys(instants_ms)
        }
        found = {instant: lookup.gather() for instant, lookup in lookups.items()}
        return LogView(
            starts={part: info.offset for part, info in starts.items()},
            ends={part: info.offset for part, info in ends.items()},
            stable_ends={part: info.offset for part, info in stable_ends.items()},
            found={
                instant: {
                    part: FirstRecord(offset=info.offset, timestamp_ms=info.timestamp)
                    if info.offset >= 0
                    else FirstRecord()
                    for part, info in answers.items()
                }
                for instant, answers in found.items()
            },
            errors={
                part: words
                for lookup in (starting, ending, settled, *lookups.values())
                if lookup is not None
                for part, words in lookup.errors.items()
            },
            denied=frozenset().union(*(lookup.denied for lookup in (starting, ending, *lookups.values()))),
        )

    def group(self, name: str) -> GroupView:
        """See `Gateway.group`. Brokers before 4.0 call an unknown group dead; later ones return an error (KIP-1043).

        The client describes a share or Streams group as a dead classic group, and refuses Connect's; so whatever is dead or
        unknown is looked for among the groups of the other kinds.
        """
        from confluent_kafka import KafkaException

        deadline = self._deadline()
        while True:
            try:
                view = group_view(
                    name,
                    self._kafka.answer(
                        lambda admin, _seconds: admin.describe_consumer_groups(
                            [name], request_timeout=COORDINATOR_SECONDS
                        )[name],
                        deadline,
                    ),
                )
                return view if view.state not in ("dead", "unknown") else self._of_other_kind(name) or view
            except (KafkaException, TimeoutError) as error:
                if is_absent(error) or is_other_kind(error):
                    absent = GroupView(group=name, state=ABSENT, protocol="unknown", coordinator=None, members=())
                    return self._of_other_kind(name) or absent
                if not is_loading(error) or is_over(deadline):
                    raise self._kafka.unreachable(error, needs=_describing(error, name)) from None
                time.sleep(_RETRY_PAUSE_SECONDS)

    def _of_other_kind(self, name: str) -> GroupView | None:
        """A share, Streams or Connect group of this name; None if there is none.

        Raises:
            SourceUnreachableError: if this cannot be told.
        """
        found = self._kafka.others(only={name})
        if name not in found.views and found.incomplete:
            raise SourceUnreachableError(
                f"It cannot be told whether {name!r} is a share, Streams or Connect group: {found.incomplete[0]}.",
                hint="Try again once every broker answers.",
            )
        return found.views.get(name)

    def groups(self) -> list[str]:
        """Names of all consumer groups that these credentials may see, with and without members.

        Raises:
            SourceUnreachableError: if a broker does not tell all of its groups: one that is missing would look like none.
        """
        found = self._kafka.others(only=())
        if found.incomplete:
            raise SourceUnreachableError(
                f"The groups cannot be listed: {found.incomplete[0].rstrip('.')}.",
                hint="Try again once every broker answers.",
            )
        return sorted(found.consumers)

    def commits(self, group: str) -> dict[Partition, int]:
        """See `Gateway.commits`. Also while coordinators move or brokers are lost, until the deadline."""
        return offsets_of(self.kept_commits(group))

    def kept_commits(self, group: str) -> dict[Partition, KeptCommit]:
        """See `Gateway.kept_commits`."""
        return kept_commits_of_group(self._kafka, group, self._deadline())

    def may_hide(self) -> bool:
        """See `Gateway.may_hide`: brokers without an authorizer say that they have none, whatever they are asked of it."""
        return may_hide(self._kafka, self._deadline())

    def lacking(self, group: str, topics: Mapping[str, str], transactions: Sequence[str] = ()) -> tuple[str, ...]:
        """See `Gateway.lacking`."""
        return lacking_rights(self._kafka, group, topics, transactions, self._deadline())

    def times(
        self, spans: Mapping[Partition, tuple[int, int]], limits: ReadLimits, *, committed: bool = False
    ) -> dict[Partition, ReadTimes]:
        """See `Gateway.times`. Reads by assignment and never commits."""
        return read_times(self._kafka, reading_properties(self.bootstrap, self.properties), spans, limits, committed)

    def notes(self, group: str) -> dict[Partition, str]:
        """See `Gateway.notes`."""
        return {key: words for key, it in self.kept_commits(group).items() if (words := c_text(it.metadata))}

    def audience(self, topics: Collection[str]) -> Audience:
        """See `Gateway.audience`. A connection of its own: a broker that hangs here must not hold the replay up."""
        return audience_of(self.bootstrap, {"client.id": _CLIENT_ID, **self.properties}, topics)

    def record_bytes(self, starts: Mapping[Partition, int]) -> dict[str, float]:
        """See `Gateway.record_bytes`. Reads by assignment and never commits; bounded in partitions, records and time."""
        return sample_bytes(self._kafka, reading_properties(self.bootstrap, self.properties), starts)

    def read_quota(self, clients: Collection[str]) -> float | None:
        """See `Gateway.read_quota`."""
        limits = all_limits(self.bootstrap, self.properties, seconds=_QUOTA_SECONDS)
        return read_bytes_per_second(limits, clients) if limits and clients else None

    def local_starts(self, leaders: Mapping[Partition, int]) -> dict[Partition, int]:
        """See `Gateway.local_starts`."""
        return local_starts(self.bootstrap, self.properties, leaders)

    # Writing

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> dict[Partition, str]:
        """See `Gateway.commit`. The call may succeed although every partition has failed, so each error is checked."""
        from confluent_kafka import ConsumerGroupTopicPartitions as Ask
        from confluent_kafka import KafkaException, TopicPartition

        admin = self._kafka.connect()
        failed: dict[Partition, str] = {}
        for batch in _batches(group, offsets):
            wanted = [TopicPartition(*part, offsets[part]) for part in batch]
            # A coordinator that moves, or has just created its topic, rejects the request and writes nothing.
            for attempt in (1, 2, 3):
                deadline = self._deadline()
                try:
                    sent = self._kafka.ask(
                        lambda wanted=wanted, deadline=deadline: admin.alter_consumer_group_offsets(  # type: ignore[misc]
                            [Ask(group, wanted)], request_timeout=seconds_left(deadline)
                        )
                    )[group]
                    answer = self._kafka.wait(sent, deadline)
                except (KafkaException, TimeoutError, SourceUnreachableError) as error:
                    if is_loading(error) and attempt < 3:
                        time.sleep(_RETRY_PAUSE_SECONDS * attempt)
                        continue
                    # It is unknown whether it was written; the caller reads the offsets back and decides.
                    failed |= dict.fromkeys(batch, self._commit_words(error, group))
                    break
                errors = {(p.topic, p.partition): p.error for p in answer.topic_partitions if p.error is not None}
                if errors and attempt < 3 and all(is_loading(error) for error in errors.values()):
                    time.sleep(_RETRY_PAUSE_SECONDS * attempt)
                    continue
                answered = {(p.topic, p.partition) for p in answer.topic_partitions}
                failed |= {part: self._commit_words(error, group, part[0]) for part, error in errors.items()}
                failed |= dict.fromkeys(set(batch) - answered, "the broker gave no result for it")
                break
        return failed

    def _commit_words(self, error: Any, group: str, topic: str = "") -> str:
        """Error text of a commit with the error's name, and the permission that is lacking."""
        resource = denied_resource(error)
        needs = f"READ on {resource} {(topic if resource == 'topic' else group)!r}" if resource else None
        return _named(error) + (f" ({self._kafka.principal} lacks {needs})" if needs else "")

    def restore(self, group: str, commits: Mapping[Partition, KeptCommit]) -> dict[Partition, str]:
        """See `Gateway.restore`."""
        plain = {key: it.offset for key, it in commits.items() if not it.metadata}
        rest = {key: it for key, it in commits.items() if it.metadata}
        return (self.commit(group, plain) if plain else {}) | (
            write_with_metadata(self._kafka, group, rest, self._deadline()) if rest else {}
        )

    def delete_commits(self, group: str, partitions: Collection[Partition]) -> dict[Partition, str]:
        """See `Gateway.delete_commits`."""
        return delete_commits(self._kafka, group, partitions, self._deadline())

    def delete_group(self, name: str) -> str | None:
        """See `Gateway.delete_group`."""
        from confluent_kafka import KafkaException

        admin, deadline = self._kafka.connect(), self._deadline()
        future = self._kafka.ask(lambda: admin.delete_consumer_groups([name], request_timeout=seconds_left(deadline)))[
            name
        ]
        try:
            self._kafka.wait(future, deadline)
        except (KafkaException, TimeoutError) as error:
            lacking = f" ({self._kafka.principal} lacks DELETE on group {name!r})" if is_denied(error) else ""
            return error_words(error) + lacking
        return None


def reading_properties(bootstrap: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties of a consumer that only uses assign(): no other client has its group id, and it never commits."""
    return {
        "client.id": _CLIENT_ID,
        "log_level": 0,
        **properties,
        "bootstrap.servers": bootstrap,
        "group.id": f"workbench-reader-{uuid.uuid4().hex}",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
    }


def _batches(group: str, offsets: Mapping[Partition, int]) -> Iterator[list[Partition]]:
    batch: list[Partition] = []
    size = 0
    for part in offsets:
        cost = len(group.encode()) + len(part[0].encode()) + _COMMIT_RECORD_BYTES
        if len(batch) == _COMMIT_BATCH or (batch and size + cost > _COMMIT_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += cost
    if batch:
        yield batch


def _named(error: Any) -> str:
    inner = error.args[0] if isinstance(error, BaseException) and error.args else error
    name = getattr(inner, "name", None)
    return f"{name()}: {error_words(error)}" if name is not None else error_words(error)


def _describing(error: BaseException, group: str) -> str:
    """Permission that describing a group takes."""
    return group_right(group) if denied_resource(error) == "group" else "DESCRIBE on a topic of it"
