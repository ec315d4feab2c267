"""Port to queues whose brokers send entries to consumers, and keep an acknowledgement of each: what they tell of a subscription.

Everything comes from two looks, some seconds apart: numbers are those of the second one, and what happened between them comes from
counters. None is what the broker does not tell, and never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import Protocol

from workbench.settings import Cluster

_READER = "workbench.{}.subscription_looks"  # of a queue's room
_TOOLS = "workbench.{}.admin_tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchedConsumer:
    """A connected consumer.

    Attributes:
        permits: messages that it still takes; may be negative. permits_before: the same at the first look.
        unacked: messages that it was sent and has not acknowledged; None for types that do not keep the number.
        blocked: whether the broker sends it nothing because of these.
        connected_seconds: since it has connected.
        blocking_hashes: of keys that moved to another consumer, and wait for its acknowledgements.
        gets_entries: False for one in reserve of a failover; None if it is not told which of several is.
    """

    name: str
    permits: int | None
    permits_before: int | None
    unacked: int | None
    blocked: bool | None
    connected_seconds: float | None
    blocking_hashes: int | None
    gets_entries: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchedPart:
    """A subscription on a topic, or on one of its partitions.

    Attributes:
        topic: without its partition. partition: -1 if it has none.
        kind: of `queues.group_kinds.SUBSCRIPTIONS`.
        look_seconds: between the two looks; None if there was no second one.
        counters_back: whether a counter is less than before: the broker has loaded the topic anew between the looks.
        entries: that are not acknowledged. delayed_entries: of these, to be sent later on their producers' wish.
        replay_entries: of these, read and not sent: sent once before, or kept back.
        unread_entries: of these, not read from storage yet. span_entries: from the first one that is not acknowledged up to those.
        oldest_seconds: age of the first entry that is not acknowledged, by its producer's clock; negative if that is ahead of ours.
        arrived_entries, acked_entries: between the looks; what expires counts as acknowledged.
        sent_messages, resent_messages: between the looks; resent: these had been sent before.
        sent_entries, others_sent_entries: entries of these, by the mean batch of the consumers; and those of the topic's other
            subscriptions.
        redelivered_per_second: the broker's own average of its last interval, a minute by default: it has no counter.
        expired_messages, expired_ever: between the looks; since the topic was loaded.
        unacked_messages, unacked_limit, consumer_unacked_limit: sent and not acknowledged, and from when on nothing is sent.
        blocked: whether that limit keeps the whole subscription back.
        mark_delete, read_position: all before the first is acknowledged; the second is read next.
        mark_delete_moved, read_moved: between the looks.
        mark_delete_seconds, acked_seconds: since it moved the last time; since anything was acknowledged. None: not since the topic was
            loaded.
        ack_ranges: ranges of entries beyond the mark-delete position that are acknowledged.
        reads: whether the broker waits for an answer of the storage, or for a next entry.
        hash_blocks: times that an entry was kept back for a hash between the looks. blocking_hashes: hashes that keep entries back.
        joined_behind: consumers that wait for the mark-delete position (brokers before 4.0).
        ttl_seconds: unread entries are dropped at this age; 0: never.
        quota_bytes, quota_seconds: of the topic's backlog, at which the oldest entries are dropped; 0: nothing drops them.
        backlog_bytes: storage that its backlog holds. retention_minutes: of what is acknowledged; -1: for ever.
        limit_per_second, limit_bytes_per_second: dispatch rate limits of topic and subscription, the lower one; 0: none.
        throttled_events: times that a limit kept entries back between the looks.
    """

    topic: str
    partition: int
    subscription: str
    kind: str | None = None
    look_seconds: float | None = None
    counters_back: bool = False
    entries: int | None = None
    delayed_entries: int | None = None
    replay_entries: int | None = None
    unread_entries: int | None = None
    span_entries: int | None = None
    oldest_seconds: float | None = None
    arrived_entries: int | None = None
    acked_entries: int | None = None
    sent_messages: int | None = None
    resent_messages: float | None = None
    sent_entries: float | None = None
    others_sent_entries: float | None = None
    redelivered_per_second: float | None = None
    expired_messages: int | None = None
    expired_ever: int | None = None
    unacked_messages: int | None = None
    unacked_limit: int | None = None
    consumer_unacked_limit: int | None = None
    blocked: bool | None = None
    consumers: tuple[DispatchedConsumer, ...] | None = None
    mark_delete: str | None = None
    read_position: str | None = None
    mark_delete_moved: bool | None = None
    read_moved: bool | None = None
    mark_delete_seconds: float | None = None
    acked_seconds: float | None = None
    ack_ranges: int | None = None
    reads: bool | None = None
    hash_blocks: int | None = None
    blocking_hashes: int | None = None
    joined_behind: int | None = None
    ttl_seconds: int | None = None
    quota_bytes: int | None = None
    quota_seconds: int | None = None
    backlog_bytes: int | None = None
    retention_minutes: int | None = None
    limit_per_second: float | None = None
    limit_bytes_per_second: float | None = None
    throttled_events: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchReading:
    """Subscriptions of a cluster, by group: `billing@shop/orders/paid`.

    Attributes:
        started_at, ended_at: of the looks.
        incomplete: what could not be read, a sentence each.
        brokers: how many there are; None if it is not told.
        answers: what the cluster said, if it was recorded.
    """

    groups: dict[str, tuple[DispatchedPart, ...]]
    started_at: datetime
    ended_at: datetime
    incomplete: tuple[str, ...] = ()
    brokers: int | None = None
    answers: bytes | None = None


class DispatchTools(Protocol):
    """Commands of the queue's own tools; names are words of a shell. They are shown, and nobody here runs them."""

    def topic_stats(self, topic: str, partition: int) -> str:
        """Consumers of a topic's subscriptions: permits, unacknowledged messages, clocks."""

    def internal_stats(self, topic: str, partition: int) -> str:
        """Positions of a topic's subscriptions, with the entries that are acknowledged one by one."""

    def show_entry(self, topic: str, partition: int, position: str) -> str:
        """One entry with its properties and its payload."""

    def peek(self, topic: str, partition: int, subscription: str) -> str:
        """The first entries that are not acknowledged."""

    def unload(self, topic: str, partition: int) -> str:
        """Close a topic, and load it anew: its clients connect again, and get again what they have not acknowledged."""

    def drop_subscription(self, topic: str, subscription: str) -> str:
        """Delete a subscription with its backlog."""

    def unacked_limit(self, topic: str, most: int) -> str:
        """Let the consumers of each subscription have so many messages that are not acknowledged."""

    def show_limit(self, topic: str) -> str:
        """The dispatch rate limit of the subscriptions of a topic."""

    def set_limit(self, topic: str, per_second: int) -> str:
        """Let each subscription get so many messages a second."""

    def set_ttl(self, topic: str, seconds: int) -> str:
        """Drop what is not acknowledged at this age, and not before."""

    def show_quota(self, topic: str) -> str:
        """The backlog quotas of a topic."""

    def show_load(self) -> str:
        """The load that a broker reports, with the bundles that it got and lost."""

    def set_balance(self, *, on: bool) -> str:
        """Let brokers move topics for balance, or not."""

    def show_persistence(self, topic: str) -> str:
        """How often positions of a topic's subscriptions may be written to storage."""

    def set_persistence(self, topic: str) -> str:
        """Let the position of each subscription be written once in 100 seconds."""

    def show_bookies(self) -> str:
        """The servers that store entries."""


def read_dispatched(
    cluster: Cluster,
    *,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    apart_seconds: float,
    pause: Callable[[float], None],
    records: bool = False,
) -> DispatchReading:
    """Look twice at the subscriptions of a cluster; those without a backlog once. Reads only.

    Args:
        groups: `billing@tenant/namespace/topic`, or `billing` for every subscription of that name; empty: all.
        topics: only on these, as `tenant/namespace/topic`.
        apart_seconds: between the two looks.
        pause: waits so many seconds.
        records: whether the reading has the answers.

    Raises:
        UsageError: if the settings have no address of its admin. SourceUnreachableError: if it does not answer.
        UnknownGroupError: if there is no such group or topic.
    """
    reader = import_module(_READER.format(cluster.system))
    found: DispatchReading = (reader.record if records else reader.read)(
        cluster, groups=groups, topics=topics, apart_seconds=apart_seconds, pause=pause
    )
    return found


def read_dispatched_again(
    cluster: Cluster, answers: bytes, *, groups: Sequence[str] = (), topics: Sequence[str] = ()
) -> DispatchReading:
    """The reading of which these are the answers. Asks nobody.

    Raises:
        DamagedCaptureError: if they cannot be read. UnknownGroupError: if they have no such group or topic.
    """
    found: DispatchReading = import_module(_READER.format(cluster.system)).read_again(
        cluster, answers, groups=groups, topics=topics
    )
    return found


def dispatch_tools_of(system: str) -> DispatchTools:
    """Commands for a queue of this kind."""
    found: DispatchTools = import_module(_TOOLS.format(system)).dispatch_tools()
    return found
