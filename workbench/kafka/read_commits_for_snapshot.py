"""Commits of groups for a snapshot: by our own requests, or by librdkafka where the settings have something that ours lack."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from workbench.background import in_background
from workbench.kafka.connection import is_over, seconds_left
from workbench.kafka.groups import NotListedError
from workbench.kafka.librdkafka_errors import denied_resource, error_words
from workbench.kafka.offset_fetch import Commits, FetchLimits, read_commits
from workbench.kafka.patient_reads import ClusterReading

_MOVED_SECONDS = 10.0  # longest wait for a coordinator that moves or loads its groups, as for their description
IN_FLIGHT = 64  # concurrent group requests; the broker's request queue holds 500 by default
_NOT_ASKED = "not requested: the deadline has passed"


def commits_of(reading: ClusterReading, groups: Sequence[str]) -> Commits:
    """Commits of some groups, as far as their coordinators answer.

    Raises:
        AgainError: of a first attempt, if a coordinator does not answer.
        SourceUnreachableError: if the brokers refuse this client.
    """
    if not groups:
        return Commits()
    try:
        return _by_own_requests(reading, groups)
    except NotListedError:
        return _by_librdkafka(reading, groups)


def _by_own_requests(reading: ClusterReading, groups: Sequence[str]) -> Commits:
    kafka, now = reading.kafka, time.monotonic()
    limits = FetchLimits(
        deadline=reading.own_deadline,
        moved_until=min(reading.own_deadline, now + _MOVED_SECONDS),
        lost_until=now,
        silence_seconds=reading.silence_seconds,
    )
    silent = set(reading.brokers.silent) if reading.brokers is not None else set[int]()
    servers, properties = kafka.own_servers, kafka.properties
    asked = in_background(lambda: read_commits(servers, properties, groups, limits, silent=silent, heard=reading.hear))
    try:
        found = reading.wait_for_own(asked)
    except TimeoutError as error:
        return Commits(missing=dict.fromkeys(groups, str(error)))
    kafka.requests += found.requests
    if found.lost:
        reading.begin_again()
    return found


def _by_librdkafka(reading: ClusterReading, groups: Sequence[str]) -> Commits:
    """One request per group."""
    from confluent_kafka import ConsumerGroupTopicPartitions as Ask
    from confluent_kafka import KafkaException

    found = Commits()
    waiting: list[tuple[str, Future[Any]]] = []

    def collect(keep: int) -> None:
        while len(waiting) > keep:
            name, future = waiting.pop(0)
            try:
                parts = reading.wait(future).topic_partitions
            except (KafkaException, TimeoutError) as error:
                if denied_resource(error) is not None:
                    found.denied.append(name)
                else:
                    found.missing[name] = error_words(error)
                continue
            for part in parts:
                if part.error is not None:
                    found.errors[name, part.topic, part.partition] = error_words(part.error)
                else:
                    found.offsets[name, part.topic, part.partition] = part.offset if part.offset >= 0 else None

    for name in groups:
        if is_over(reading.deadline):
            found.missing[name] = _NOT_ASKED
        elif not name:  # Kafka allows this name (the oldest clients use it), but librdkafka does not accept it
            found.missing[name] = "the client cannot request them"
        else:
            request = reading.ask(
                lambda admin, name=name: admin.list_consumer_group_offsets(  # type: ignore[misc]
                    [Ask(name)], request_timeout=seconds_left(reading.deadline)
                )
            )
            waiting.append((name, request[name]))
            collect(IN_FLIGHT)
    collect(0)
    return found
