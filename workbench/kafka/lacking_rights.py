"""Permissions that the brokers say these credentials lack, asked for before anything is changed.

Half of a change is worse than none: a broker refuses a commit topic by topic, and a transaction only once it has begun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.connection import COORDINATOR_SECONDS, seconds_left
from workbench.kafka.groups import NotListedError
from workbench.kafka.offset_fetch import FetchLimits, denied_transactions
from workbench.kafka.topic_settings import may_hide
from workbench.kafka.wire import SILENCE_SECONDS


def lacking_rights(
    kafka: KafkaCluster, group: str, topics: Mapping[str, str], transactions: Sequence[str], deadline: float
) -> tuple[str, ...]:
    """READ on a group, there or not, an operation on each topic, and WRITE on transactional ids. What is not told is not named.

    No request tells what a client may do with a transactional id. One that it may not even look for, it may not write either.

    Args:
        topics: topic to operation, such as WRITE.
        deadline: monotonic.
    """
    from confluent_kafka import TopicCollection

    words: dict[str, Any] = {"include_authorized_operations": True}
    admin = kafka.connect()
    asked: list[tuple[str, str, Future[Any]]] = []
    found = kafka.ask(lambda: admin.describe_consumer_groups([group], request_timeout=COORDINATOR_SECONDS, **words))
    asked.append(("READ", f"group {group!r}", found[group]))
    if topics:
        limit = seconds_left(deadline)
        of_topics = kafka.ask(
            lambda: admin.describe_topics(TopicCollection(list(topics)), request_timeout=limit, **words)
        )
        asked += [(topics[name], f"topic {name!r}", future) for name, future in of_topics.items()]
    # Without an authorizer nothing lacks, and whom one looks for there, the broker makes a topic for if it has never had a transaction.
    denied = _denied(kafka, transactions, deadline) if transactions and may_hide(kafka, deadline) else []
    return (
        *(f"{kafka.principal} lacks WRITE on transactional id {name!r}." for name in denied),
        *_lacking(kafka, asked, deadline),
    )


def _lacking(kafka: KafkaCluster, asked: list[tuple[str, str, Future[Any]]], deadline: float) -> tuple[str, ...]:
    return tuple(
        f"{kafka.principal} lacks {operation} on {what}."
        for operation, what, future in asked
        if (may := _operations(kafka, future, deadline)) and operation not in may
    )


def _denied(kafka: KafkaCluster, transactions: Sequence[str], deadline: float) -> list[str]:
    try:
        limits = FetchLimits.until(deadline, silence_seconds=SILENCE_SECONDS)
        return denied_transactions(kafka.own_servers, kafka.properties, transactions, limits)
    except NotListedError:
        return []


def _operations(kafka: KafkaCluster, future: Future[Any], deadline: float) -> frozenset[str]:
    """Names of what these credentials may do; none if it is not told: the other checks say why."""
    from confluent_kafka import KafkaException

    try:
        return frozenset(it.name for it in kafka.wait(future, deadline).authorized_operations or ())
    except (KafkaException, TimeoutError):
        return frozenset()
