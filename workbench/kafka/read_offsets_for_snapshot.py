"""Offsets of partitions for a snapshot: in batches, again where a leader moves, and without those whose leader does not answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.kafka.connection import is_over, seconds_left
from workbench.kafka.leaders import leader_of, list_offsets, topics_of
from workbench.kafka.librdkafka_errors import denied_resource, error_words, is_moved
from workbench.kafka.patient_reads import ClusterReading
from workbench.queues.snapshot_views import Partition

BY_TIME = "offset by time"
_BATCH = 1_000  # partitions per call: the client's work is quadratic (measured, docs/decisions)
_MOVES = 3  # a partition's leader that has moved is asked for so often
_MOVED_PAUSE_SECONDS = 0.3
_NO_RECORD = -1  # the broker's answer to a time after the last record
_NOT_ASKED = "not requested: the deadline has passed"


def offsets_of(
    reading: ClusterReading,
    partitions: Sequence[Partition],
    specs: Mapping[str, Any],
    *,
    known: dict[str, Any] | None = None,
    **options: Any,
) -> list[dict[Partition, int]]:
    """Look up offsets, for each of several specifications at the same time; what is missing is noted.

    Args:
        reading: the attempt that this belongs to.
        partitions: of any topics.
        specs: what is asked for, in words, to `OffsetSpec`.
        options: of `AdminClient.list_offsets`.
        known: topics that this client has looked up a moment ago; those that it looks up now are added.

    Raises:
        AgainError: of a first attempt, if a broker does not answer.
        SourceUnreachableError: if the brokers refuse this client.
    """
    found: list[dict[Partition, int]] = [{} for _ in specs]
    topics = known if known is not None else {}
    news = _topics(reading, [part for part in partitions if part[0] not in topics], specs)
    if news is None:
        return found
    topics |= news
    led = _without_silent_leaders(reading, partitions, topics, specs)
    for at in range(0, len(led), _BATCH):
        left = {what: list(led[at : at + _BATCH]) for what in specs}
        for attempt in range(_MOVES + 1):
            left = _ask_once(reading, left, specs, topics, found, is_last=attempt == _MOVES, options=options)
            if not any(left.values()):
                break
            time.sleep(_MOVED_PAUSE_SECONDS)
            news = _topics(reading, sorted({part for parts in left.values() for part in parts}), specs)
            if news is None:
                break
            topics |= news
    return found


def _topics(reading: ClusterReading, partitions: Sequence[Partition], specs: Iterable[str]) -> dict[str, Any] | None:
    """Topics of partitions; None if no broker tells them before the deadline, and that is noted."""
    from confluent_kafka import KafkaException

    names = {topic for topic, _ in partitions}
    error: BaseException | None = None
    while error is None or not is_over(reading.deadline):
        try:
            return topics_of(reading.kafka, names, reading.metadata_seconds)
        except KafkaException as failed:
            reading.begin_again()
            error = failed
    _note(reading, specs, partitions, error_words(error))
    return None


def _note(reading: ClusterReading, specs: Iterable[str], partitions: Iterable[Partition], why: str) -> None:
    what = " and ".join(specs)
    reading.incomplete += [f"{what} of {topic}-{number}: {why}" for topic, number in partitions]


def _without_silent_leaders(
    reading: ClusterReading, partitions: Sequence[Partition], topics: Mapping[str, Any], specs: Iterable[str]
) -> Sequence[Partition]:
    """Leave out, and note, the partitions of silent brokers: the client answers for all partitions of a call at once."""
    if reading.brokers is None or not reading.knows_silent:
        return partitions
    led = []
    for part in partitions:
        leader = leader_of(topics, part)
        if leader in reading.brokers.silent:
            _note(reading, specs, [part], f"its leader, broker {leader}, does not answer")
        else:
            led.append(part)
    return led


def _ask_once(
    reading: ClusterReading,
    wanted: Mapping[str, list[Partition]],
    specs: Mapping[str, Any],
    topics: Mapping[str, Any],
    found: list[dict[Partition, int]],
    *,
    is_last: bool,
    options: Mapping[str, Any],
) -> dict[str, list[Partition]]:
    """Ask once; return the partitions whose leader has moved."""
    from confluent_kafka import KafkaException

    if is_over(reading.deadline):
        for what, parts in wanted.items():
            _note(reading, [what], parts, _NOT_ASKED)
        return {}
    limit = seconds_left(reading.deadline)
    asked = [
        list_offsets(reading.kafka, dict.fromkeys(parts, specs[what]), topics, request_timeout=limit, **options)
        for what, parts in wanted.items()
    ]
    reading.hear()
    moved: dict[str, list[Partition]] = {what: [] for what in wanted}
    for what, futures, offsets in zip(wanted, asked, found, strict=True):
        for part, future in futures.items():
            try:
                offset = reading.wait(future).offset
                if offset < (_NO_RECORD if what == BY_TIME else 0):  # a lost leader has said nothing
                    _note(reading, [what], [part], "no answer from its leader")
                else:
                    offsets[part] = offset
            except (KafkaException, TimeoutError) as error:
                if denied_resource(error) is not None:
                    reading.deny(f"topic {part[0]!r}", topic_right(part[0]))
                elif is_moved(error) and not is_last:
                    moved[what].append(part)
                else:
                    _note(reading, [what], [part], error_words(error))
    return moved


def topic_right(topic: str) -> str:
    """The permission that the offsets of a topic take."""
    return f"DESCRIBE on topic {topic!r}"
