"""Statistics of a topic as the admin's REST API gives them. What it does not tell is None, never 0. Pure.

A backlog is counted in entries; an entry is a batch of one or more messages, so messages are known only if there is no entry.
`unackedMessages` is kept for Shared and Key_Shared only, and counts messages. -1 and, for times, 0 mean "none" or "not asked for".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from workbench.errors import EvidenceError
from workbench.limited_reads import first_problem
from workbench.pulsar.topic_names import WHOLE, TopicName, partition_of

_ACKNOWLEDGE_ONE_BY_ONE = ("Shared", "Key_Shared")
_COMPACTION = "__compaction"  # the broker's own: it reads when a topic is compacted, and nobody is connected in between
_BEYOND = 1 << 63  # Java's largest long; the rest of the program counts in 64 bits


def _known(value: object) -> object:
    return None if isinstance(value, int | float) and not 0 <= value < _BEYOND else value


Known = Annotated[int | None, BeforeValidator(_known)]


class PulsarAnswer(BaseModel):
    """Base of what the admin answers: other fields are allowed, and nothing is converted."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="ignore", frozen=True, strict=True)


class ConsumerStats(PulsarAnswer):
    """A connected consumer."""

    consumerName: str = ""  # noqa: N815 - the admin's names
    address: str = ""
    availablePermits: int | None = None  # noqa: N815 - may be negative
    unackedMessages: Known = None  # noqa: N815


class _Subscription(PulsarAnswer):
    msgBacklog: Known = None  # noqa: N815
    backlogSize: Known = None  # noqa: N815
    earliestMsgPublishTimeInBacklog: Known = None  # noqa: N815
    unackedMessages: Known = None  # noqa: N815
    blockedSubscriptionOnUnackedMsgs: bool | None = None  # noqa: N815
    lastConsumedTimestamp: Known = None  # noqa: N815
    totalMsgExpired: Known = None  # noqa: N815
    type: str | None = None
    isDurable: bool | None = None  # noqa: N815
    consumers: list[ConsumerStats] | None = None
    activeConsumerName: str | None = None  # noqa: N815
    subscriptionProperties: dict[str, Any] | None = None  # noqa: N815


class _Topic(PulsarAnswer):
    subscriptions: dict[str, _Subscription]


class _Metadata(PulsarAnswer):
    partitions: int


class _Partitioned(PulsarAnswer):
    metadata: _Metadata
    partitions: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionPart:
    """A subscription on a topic or on one of its partitions.

    Attributes:
        partition: `WHOLE` if the topic has none.
        kind: exclusive, failover, shared or key_shared; None if nobody has connected since the topic was loaded.
        entries: backlog in entries. messages: the same in messages; None unless it is 0 or was counted.
        size_bytes: storage that the backlog holds.
        oldest_ms: publish time of the oldest entry in the backlog, ms since the epoch.
        unacked_messages: sent to consumers and not acknowledged. blocked: whether their limit stops the dispatch.
        last_consumed_ms: when an entry was sent last, since the topic was loaded.
        expired_messages: that a time-to-live took, since then.
        consumers: None if not told. active: the one that gets the entries (failover).
        properties: that were given to it when it was made.
    """

    topic: TopicName
    partition: int
    subscription: str
    kind: str | None
    entries: int | None
    messages: int | None
    size_bytes: int | None
    oldest_ms: int | None
    unacked_messages: int | None
    blocked: bool | None
    last_consumed_ms: int | None
    expired_messages: int | None
    durable: bool | None
    consumers: tuple[ConsumerStats, ...] | None
    active: str | None
    properties: Mapping[str, Any] | None = None


def age_seconds(part: SubscriptionPart, now: float) -> float | None:
    """Age of the oldest entry that is not acknowledged; 0 without a backlog, None if it is not known."""
    if part.entries == 0:
        return 0.0
    return max(0.0, now - part.oldest_ms / 1000) if part.oldest_ms is not None else None


def parse_topic(document: object, topic: TopicName, *, partition: int = WHOLE) -> list[SubscriptionPart]:
    """Subscriptions of `stats`, of a topic without partitions or of one partition; without that of the broker itself.

    Raises:
        EvidenceError: if it is not such an answer.
    """
    try:
        found = _Topic.model_validate(document)
    except ValidationError as error:
        raise _unread(topic, error) from None
    return [_part(topic, partition, name, it) for name, it in found.subscriptions.items() if name != _COMPACTION]


def parse_partitions(document: object, topic: TopicName, incomplete: list[str]) -> list[SubscriptionPart]:
    """Subscriptions of `partitioned-stats?perPartition=true`, one for each partition.

    Args:
        incomplete: receives what is missing: partitions without an answer, and those whose answer cannot be read.

    Raises:
        EvidenceError: if it is not such an answer.
    """
    try:
        found = _Partitioned.model_validate(document)
    except ValidationError as error:
        raise _unread(topic, error) from None
    parts, seen = [], 0
    for number, content in _numbered(found.partitions, found.metadata.partitions):
        seen += 1
        try:
            parts += parse_topic(content, topic, partition=number)
        except EvidenceError as error:
            incomplete.append(f"partition {number}: {error.message}")
    if seen < found.metadata.partitions:
        incomplete.append(
            f"{found.metadata.partitions - seen} of {found.metadata.partitions} partitions of {topic} were not told."
        )
    return parts


def _numbered(partitions: dict[str, Any], count: int) -> Iterator[tuple[int, Any]]:
    for name, content in partitions.items():
        if 0 <= (number := partition_of(name)) < count:
            yield number, content


def _part(topic: TopicName, partition: int, name: str, it: _Subscription) -> SubscriptionPart:
    one_by_one = it.type in _ACKNOWLEDGE_ONE_BY_ONE
    return SubscriptionPart(
        topic=topic,
        partition=partition,
        subscription=name,
        kind=it.type.lower() if it.type not in (None, "None") else None,
        entries=it.msgBacklog,
        messages=0 if it.msgBacklog == 0 else None,
        size_bytes=it.backlogSize,
        oldest_ms=it.earliestMsgPublishTimeInBacklog or None,
        unacked_messages=it.unackedMessages if one_by_one else None,
        blocked=it.blockedSubscriptionOnUnackedMsgs if one_by_one else None,
        last_consumed_ms=it.lastConsumedTimestamp or None,
        expired_messages=it.totalMsgExpired,
        durable=it.isDurable,
        consumers=tuple(it.consumers) if it.consumers is not None else None,
        active=it.activeConsumerName,
        properties=it.subscriptionProperties,
    )


def unknown_part(topic: TopicName, partition: int, subscription: str) -> SubscriptionPart:
    """Of a partition that was not told."""
    return _part(topic, partition, subscription, _Subscription())


def _unread(topic: TopicName, error: ValidationError) -> EvidenceError:
    return EvidenceError(f"The statistics of {topic} cannot be read: {first_problem(error, whole='the answer')}.")
