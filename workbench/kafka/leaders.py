"""Leaders of partitions, looked up before offsets are asked for.

librdkafka (2.16) can end the process with a segmentation fault if `list_offsets` does not know a leader: the calling thread registers
for metadata, and goes on with a state that librdkafka's main thread frees as soon as they arrive. So it is only asked for partitions
whose leader it has just been told.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any

from workbench.kafka.connection import KafkaConnection
from workbench.kafka.group_answers import ask_brokers
from workbench.kafka.groups import NotListedError, own_security
from workbench.kafka.wire import Address, WireError, addresses
from workbench.kafka.wire_tls_and_login import logged_in
from workbench.queues.snapshot_views import Partition

_NAMED = 3  # so few topics are asked for by name; one list of all costs less than many requests


def topics_of(kafka: KafkaConnection, names: Collection[str], seconds: float) -> dict[str, Any]:
    """Metadata of topics (confluent-kafka's `TopicMetadata`), which the client then knows too.

    Args:
        kafka: whose client looks them up.
        names: of topics. One that the list of all topics does not have is asked for by name, for the reason.
        seconds: for each request.

    Raises:
        KafkaException: if no broker answers in time.
    """
    admin = kafka.connect()
    found: dict[str, Any] = {}
    if len(names) > _NAMED:
        kafka.requests += 1
        found = dict(admin.list_topics(timeout=seconds).topics)
    for name in sorted(set(names) - found.keys()):
        kafka.requests += 1
        found |= admin.list_topics(name, timeout=seconds).topics
    return found


def leader_of(topics: Mapping[str, Any], partition: Partition) -> int | None:
    """Broker that leads a partition; None if there is none."""
    topic = topics.get(partition[0])
    found = topic.partitions.get(partition[1]) if topic is not None else None
    return found.leader if found is not None and found.leader >= 0 else None


def list_offsets(
    kafka: KafkaConnection, wanted: Mapping[Partition, Any], topics: Mapping[str, Any], **options: Any
) -> dict[Partition, Future[Any]]:
    """Ask for the offsets of partitions; for those that have no leader, the answer is the reason.

    Args:
        kafka: whose client asks.
        wanted: partition to `OffsetSpec`.
        topics: of `topics_of`, immediately before.
        options: of `AdminClient.list_offsets`.

    Raises:
        SourceUnreachableError: if the client refuses the request.
    """
    from confluent_kafka import TopicPartition

    answers = {part: _refused(topics, part) for part in wanted if leader_of(topics, part) is None}
    asked = {TopicPartition(*part): spec for part, spec in wanted.items() if part not in answers}
    if asked:
        admin = kafka.connect()
        sent = kafka.ask(lambda: admin.list_offsets(asked, **options))
        answers |= {(part.topic, part.partition): answer for part, answer in sent.items()}
    return answers


def _refused(topics: Mapping[str, Any], partition: Partition) -> Future[Any]:
    from confluent_kafka import KafkaError, KafkaException

    topic = topics.get(partition[0])
    error = topic.error if topic is not None else None
    if error is None:
        is_there = topic is not None and partition[1] in topic.partitions
        error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE if is_there else KafkaError.UNKNOWN_TOPIC_OR_PART)
    answer: Future[Any] = Future()
    answer.set_exception(KafkaException(error))
    return answer


def places_of(
    bootstrap: str, properties: Mapping[str, Any], deadline: float, *, silence: float
) -> Mapping[int, Address]:
    """Host and port of every broker, as the first one tells that answers; none if nobody does.

    Args:
        bootstrap, properties: as for librdkafka.
        deadline: monotonic; silence: seconds for one answer.
    """
    for address in addresses(bootstrap):
        try:
            with logged_in(address, own_security(properties), deadline, silence=silence) as wire:
                return ask_brokers(wire).brokers
        except (OSError, WireError, NotListedError):
            continue
    return {}
