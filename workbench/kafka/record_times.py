"""Timestamps and sizes of records, read from Kafka by assignment within limits; nothing is committed, and no group is joined."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.kafka.connection import KafkaConnection
from workbench.kafka.librdkafka_errors import error_words
from workbench.queues.replay_port import ReadLimits, ReadTimes
from workbench.queues.snapshot_views import Partition

_BATCH = 1_000
_CONSUME_SECONDS = 0.1
_SAMPLED_PARTITIONS = 32
_SAMPLED_PER_TOPIC = 8
_SAMPLED_RECORDS = 2_000
_SAMPLE_SECONDS = 5.0  # including the connection; ends early with enough records or at the log end
_LOG_APPEND_TIME = 2  # type of a timestamp that the broker has set


@dataclass(slots=True)
class _Reading:
    """What was read of one partition."""

    through: int
    stop: int
    by_broker: bool = True
    why: str | None = None
    records: list[tuple[int, int]] = field(default_factory=list)


def read_times(
    kafka: KafkaConnection,
    properties: Mapping[str, Any],
    spans: Mapping[Partition, tuple[int, int]],
    limits: ReadLimits,
    committed: bool,
) -> dict[Partition, ReadTimes]:
    """Read the timestamps of offset ranges; see `Gateway.times`. A partition that cannot be read is read through to its start only.

    Args:
        properties: of a consumer that only uses assign().

    Raises:
        SourceUnreachableError: if the client cannot read at all.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    found = {key: _Reading(through=start, stop=max(start, stop)) for key, (start, stop) in spans.items()}
    left = {key for key, it in found.items() if it.through < it.stop}
    if left:
        own = {
            **properties,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 2,  # by default the client sleeps for a second whenever its queue was full
        }
        consumer = Consumer(own)
        try:
            consumer.assign([TopicPartition(*key, found[key].through) for key in sorted(left)])
            _read(consumer, found, left, limits)
        except KafkaException as error:
            raise kafka.unreachable(error) from None
        finally:
            consumer.close()
    return {
        key: ReadTimes(records=it.records, through=min(it.through, it.stop), by_broker=it.by_broker, why=it.why)
        for key, it in found.items()
    }


def _read(consumer: Any, found: Mapping[Partition, _Reading], left: set[Partition], limits: ReadLimits) -> None:
    from confluent_kafka import KafkaError, TopicPartition

    records, size, deadline = limits.records, limits.bytes, time.monotonic() + limits.seconds
    while left and records > 0 and size > 0 and time.monotonic() < deadline:
        # Each has one at least, so the sum matters only for the last of them: for ten thousand it took a quarter of the reading.
        open_offsets = len(left) if len(left) >= _BATCH else sum(found[key].stop - found[key].through for key in left)
        over: list[TopicPartition] = []
        for message in consumer.consume(min(_BATCH, records, open_offsets), _CONSUME_SECONDS):
            key, error = (message.topic(), message.partition()), message.error()
            if key not in left:
                continue
            reading = found[key]
            if error is not None:
                if (
                    error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
                ):  # nobody joins it: reading takes the topic's right alone
                    continue
                if error.code() == KafkaError._PARTITION_EOF:
                    reading.through = max(reading.through, message.offset())
                else:
                    reading.why = error_words(error)
                left.discard(key)
                continue
            offset = message.offset()
            if offset < reading.stop:
                kind, timestamp = message.timestamp()
                reading.records.append((offset, timestamp))
                reading.by_broker &= kind == _LOG_APPEND_TIME
                records -= 1
                size -= len(message.value() or b"") + len(message.key() or b"")
            reading.through = offset + 1
            if reading.through >= reading.stop:
                left.discard(key)
                over.append(TopicPartition(*key))
        if over and left:
            consumer.pause(over)


def sample_bytes(
    kafka: KafkaConnection, properties: Mapping[str, Any], starts: Mapping[Partition, int]
) -> dict[str, float]:
    """Mean bytes of key and value of records sampled from these offsets on, by topic; see `Gateway.record_bytes`.

    Raises:
        SourceUnreachableError: if the client cannot read at all.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    chosen: dict[str, list[TopicPartition]] = {}
    for (topic, number), offset in starts.items():
        mine = chosen.setdefault(topic, [])
        if len(mine) < _SAMPLED_PER_TOPIC and sum(map(len, chosen.values())) < _SAMPLED_PARTITIONS:
            mine.append(TopicPartition(topic, number, offset))
    assigned = [part for parts in chosen.values() for part in parts]
    if not assigned:
        return {}
    consumer = Consumer(dict(properties))
    sizes: dict[str, tuple[int, int]] = {}
    ended: set[Partition] = set()
    deadline = time.monotonic() + _SAMPLE_SECONDS
    try:
        consumer.assign(assigned)
        seen = 0
        while seen < _SAMPLED_RECORDS and len(ended) < len(assigned) and time.monotonic() < deadline:
            message: Any  # a consumed record has topic, partition and offset; the client's types do not say so
            for message in consumer.consume(200, 0.1):
                if message.error() is not None:
                    ended.add((message.topic(), message.partition()))
                    continue
                size, number = sizes.get(message.topic(), (0, 0))
                sizes[message.topic()] = (
                    size + len(message.value() or b"") + len(message.key() or b""),
                    number + 1,
                )
                seen += 1
    except KafkaException as error:
        raise kafka.unreachable(error) from None
    finally:
        consumer.close()
    return {topic: size / number for topic, (size, number) in sizes.items()}
