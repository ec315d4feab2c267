"""One look at a topic: `stats` and `internalStats` of the admin's REST API, by subscription. What it does not tell is None. Pure.

Positions are `ledger:entry`. `numberOfEntriesSinceFirstNotAckedMessage` counts from the mark-delete position to the read position, both
included, so it is one more than what lies between them (measured on 4.0.7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, ValidationError

from workbench.limited_reads import first_problem
from workbench.pulsar.topic_names import WHOLE, TopicName, cursor_name, part_name, partition_of
from workbench.pulsar.topic_stats import Known, PulsarAnswer

_POSITION = re.compile(r"(-?\d{1,19}):(-?\d{1,19})", re.ASCII)
_THROTTLED = tuple(
    f"dispatchThrottled{what}EventsBy{whose}Limit" for what in ("Msg", "Bytes") for whose in ("Subscription", "Topic", "Broker")
)  # fmt: skip
_MOST_LEDGERS = 100_000
_T = TypeVar("_T", bound=PulsarAnswer)


def _instant(value: object) -> object:
    """Seconds since the epoch of `2026-11-26T07:29:35.412186191Z`; None if it is none."""
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value))
        return at.timestamp() if at.tzinfo is not None else None
    except (ValueError, OverflowError, OSError):
        return None


def _rate(value: object) -> object:
    """A rate that is one: not NaN, not infinite, not negative."""
    return float(value) if isinstance(value, int | float) and 0 <= value < float("inf") else None


class DrainingHash(PulsarAnswer):
    """A hash of keys that moved to another consumer."""

    hash: int
    unackMsgs: Known = None  # noqa: N815 - the admin's names
    blockedAttempts: Known = None  # noqa: N815


class LookedConsumer(PulsarAnswer):
    """A connected consumer."""

    consumerName: str = ""  # noqa: N815
    address: str = ""
    availablePermits: int | None = None  # noqa: N815 - may be negative
    unackedMessages: Known = None  # noqa: N815
    blockedConsumerOnUnackedMsgs: bool | None = None  # noqa: N815
    avgMessagesPerEntry: Known = None  # noqa: N815
    connectedSince: Annotated[float | None, BeforeValidator(_instant)] = None  # noqa: N815
    drainingHashes: list[DrainingHash] | None = None  # noqa: N815
    drainingHashesCount: Known = None  # noqa: N815


class _Subscription(PulsarAnswer):
    msgBacklog: Known = None  # noqa: N815
    backlogSize: Known = None  # noqa: N815
    msgDelayed: Known = None  # noqa: N815
    msgInReplay: Known = None  # noqa: N815
    earliestMsgPublishTimeInBacklog: Known = None  # noqa: N815
    unackedMessages: Known = None  # noqa: N815
    blockedSubscriptionOnUnackedMsgs: bool | None = None  # noqa: N815
    msgOutCounter: Known = None  # noqa: N815
    msgRateRedeliver: Annotated[float | None, BeforeValidator(_rate)] = None  # noqa: N815
    totalMsgExpired: Known = None  # noqa: N815
    lastAckedTimestamp: Known = None  # noqa: N815
    lastMarkDeleteAdvancedTimestamp: Known = None  # noqa: N815
    consumersAfterMarkDeletePosition: dict[str, Any] | None = None  # noqa: N815
    type: str | None = None
    consumers: list[LookedConsumer] | None = None
    activeConsumerName: str | None = None  # noqa: N815
    throttled: int | None = None


class _Topic(PulsarAnswer):
    subscriptions: dict[str, dict[str, Any]]
    backlogQuotaLimitSize: int | None = None  # noqa: N815 - -1: none
    backlogQuotaLimitTime: int | None = None  # noqa: N815
    ongoingTxnCount: Known = None  # noqa: N815


class _Cursor(PulsarAnswer):
    markDeletePosition: str | None = None  # noqa: N815
    readPosition: str | None = None  # noqa: N815
    messagesConsumedCounter: Known = None  # noqa: N815
    numberOfEntriesSinceFirstNotAckedMessage: Known = None  # noqa: N815
    totalNonContiguousDeletedMessagesRange: Known = None  # noqa: N815
    waitingReadOp: bool | None = None  # noqa: N815
    pendingReadOps: Known = None  # noqa: N815
    subscriptionHavePendingRead: bool | None = None  # noqa: N815
    subscriptionHavePendingReplayRead: bool | None = None  # noqa: N815


class _Ledger(PulsarAnswer):
    ledgerId: int  # noqa: N815
    entries: Known = None


class _Internal(PulsarAnswer):
    entriesAddedCounter: Known = None  # noqa: N815
    lastConfirmedEntry: str | None = None  # noqa: N815
    ledgers: list[_Ledger] = Field(default=[], max_length=_MOST_LEDGERS)
    cursors: dict[str, _Cursor] = Field(default={})


class _Parts(PulsarAnswer):
    partitions: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLook:
    """A subscription on a topic or one of its partitions at one moment; names as in `queues.dispatching_queues.DispatchedPart`.

    Attributes:
        at: seconds since the epoch.
        arrived, acked, sent, expired, throttled: counters since the topic was loaded.
        read: entries before the read position, counted from the first ledger that there is.
    """

    at: float
    kind: str | None
    entries: int | None
    delayed: int | None
    replay: int | None
    oldest_ms: int | None
    unacked: int | None
    blocked: bool | None
    sent: int | None
    redelivered_per_second: float | None
    expired: int | None
    acked_ms: int | None
    mark_delete_ms: int | None
    throttled: int | None
    joined_behind: int | None
    consumers: tuple[LookedConsumer, ...] | None
    active: str | None
    backlog_bytes: int | None
    quota_bytes: int | None
    quota_seconds: int | None
    arrived: int | None = None
    acked: int | None = None
    mark_delete: str | None = None
    read_position: str | None = None
    unread: int | None = None
    span: int | None = None
    ack_ranges: int | None = None
    reads: bool | None = None


def looks_of(
    stats: object, internal: object, topic: TopicName, *, partitioned: bool, at: float, lacking: list[str]
) -> dict[tuple[int, str], SubscriptionLook]:
    """Subscriptions by partition and name.

    Args:
        internal: None if it was not told.
        partitioned: whether both are of a topic with partitions (`partitioned-stats`, `partitioned-internalStats`).
        at: seconds since the epoch.
        lacking: receives what cannot be read, in words: of a partition, or positions. The rest is read.
    """
    told = {WHOLE: (stats, internal)}
    if partitioned:
        contents, inner = (_read(_Parts, it, topic, lacking) if it is not None else None for it in (stats, internal))
        told = {
            partition_of(name): (content, inner.partitions.get(name) if inner is not None else None)
            for name, content in (contents.partitions.items() if contents is not None else ())
            if partition_of(name) != WHOLE
        }
    found: dict[tuple[int, str], SubscriptionLook] = {}
    for partition, (outer, positions) in told.items():
        name = part_name(topic, partition)
        if (read := _read(_Topic, outer, name, lacking)) is not None:
            ledgers = _read(_Internal, positions, name, lacking) if positions is not None else None
            found |= dict(_looks(read, ledgers, name, partition, at, lacking))
    return found


def _read(kind: type[_T], told: object, topic: TopicName, lacking: list[str]) -> _T | None:
    """None, and why, if it cannot be read."""
    try:
        return kind.model_validate(told)
    except ValidationError as error:
        reason = first_problem(error, whole="the answer")
        lacking.append(f"The statistics of {topic} cannot be read: {reason}.")
        return None


def _looks(
    topic: _Topic, ledgers: _Internal | None, named: TopicName, partition: int, at: float, lacking: list[str]
) -> Iterator[tuple[tuple[int, str], SubscriptionLook]]:
    cursors = ledgers.cursors if ledgers is not None else {}
    for name, told in topic.subscriptions.items():
        # The cursor of a reader, which is not durable, has its plain name.
        it = _read(_Subscription, {**told, "throttled": _throttled(told)}, named, lacking)
        if it is not None:
            yield (partition, name), _look(topic, it, ledgers, cursors.get(cursor_name(name)) or cursors.get(name), at)


def _look(
    topic: _Topic, it: _Subscription, ledgers: _Internal | None, cursor: _Cursor | None, at: float
) -> SubscriptionLook:
    one_by_one = it.type in ("Shared", "Key_Shared")
    # A delay holds for types that acknowledge one by one; to others an entry is sent at once.
    delayed = it.msgDelayed if one_by_one else 0
    since = cursor.numberOfEntriesSinceFirstNotAckedMessage if cursor is not None else None
    unread = _between(cursor.readPosition, ledgers) if cursor is not None and ledgers is not None else None
    return SubscriptionLook(
        at=at,
        kind=it.type.lower() if it.type not in (None, "None") else None,
        entries=it.msgBacklog,
        delayed=delayed,
        replay=it.msgInReplay if one_by_one else 0,
        oldest_ms=it.earliestMsgPublishTimeInBacklog or None,
        unacked=it.unackedMessages if one_by_one else None,
        blocked=it.blockedSubscriptionOnUnackedMsgs if one_by_one else None,
        sent=it.msgOutCounter,
        redelivered_per_second=it.msgRateRedeliver,
        expired=it.totalMsgExpired,
        acked_ms=it.lastAckedTimestamp or None,
        mark_delete_ms=it.lastMarkDeleteAdvancedTimestamp or None,
        throttled=it.throttled,
        joined_behind=len(it.consumersAfterMarkDeletePosition)
        if it.consumersAfterMarkDeletePosition is not None
        else None,
        consumers=tuple(it.consumers) if it.consumers is not None else None,
        active=it.activeConsumerName or None,
        backlog_bytes=it.backlogSize,
        quota_bytes=_none_is_zero(topic.backlogQuotaLimitSize),
        quota_seconds=_none_is_zero(topic.backlogQuotaLimitTime),
        arrived=ledgers.entriesAddedCounter if ledgers is not None else None,
        acked=cursor.messagesConsumedCounter if cursor is not None else None,
        mark_delete=_printed(cursor.markDeletePosition) if cursor is not None else None,
        read_position=_printed(cursor.readPosition) if cursor is not None else None,
        unread=unread,
        span=max(0, since - 1) if since is not None else None,
        ack_ranges=cursor.totalNonContiguousDeletedMessagesRange if cursor is not None else None,
        reads=_reads(cursor, unread, topic.ongoingTxnCount) if cursor is not None else None,
    )


def _throttled(told: Mapping[str, Any]) -> int | None:
    """Events of all limits together; None if a broker does not count one of them."""
    found = [told.get(name) for name in _THROTTLED]
    numbers = [it for it in found if isinstance(it, int) and it >= 0]
    return sum(numbers) if len(numbers) == len(_THROTTLED) else None


def _none_is_zero(limit: int | None) -> int | None:
    return None if limit is None else max(0, limit)


def _reads(it: _Cursor, unread: int | None, transactions: int | None) -> bool | None:
    """Whether entries are asked for, or awaited where there are none.

    A cursor that waits for new entries although some are there has missed them, and waits for good (apache/pulsar issue 26164); but an
    open transaction lets it wait before them, too.
    """
    told = (it.waitingReadOp, it.subscriptionHavePendingRead, it.subscriptionHavePendingReplayRead)
    pending = it.pendingReadOps
    if pending is not None and pending > 0:
        return True
    if True in told:
        return not (pending == transactions == 0 and unread is not None and unread > 0)
    return None if None in told or pending is None else False


def position_of(text: str | None) -> tuple[int, int] | None:
    """Ledger and entry; None if it is no position."""
    found = _POSITION.fullmatch(text or "")
    return (int(found[1]), int(found[2])) if found else None


def _printed(text: str | None) -> str | None:
    return text if position_of(text) is not None else None


def _between(read: str | None, topic: _Internal) -> int | None:
    """Entries from the read position to the last one; the ledger that is written to has its length in that position alone."""
    at, last = position_of(read), position_of(topic.lastConfirmedEntry)
    if at is None or last is None:
        return None
    if at[0] >= last[0]:
        return max(0, last[1] - at[1] + 1) if at[0] == last[0] else 0
    lengths = {it.ledgerId: it.entries for it in topic.ledgers}
    parts = [lengths[it] for it in lengths if at[0] < it < last[0]]
    first = lengths.get(at[0])
    if first is None or None in parts:
        return None
    return max(0, first - at[1]) + sum(it for it in parts if it is not None) + last[1] + 1
