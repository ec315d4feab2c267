"""Subscriptions of a cluster, one row each over all partitions; the oldest backlog first, and those that nobody reads.

A number over several partitions is known only if it is known of each: a sum without one of them would be too small.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from workbench.pulsar.admin import PulsarAdmin
from workbench.pulsar.subscription_survey import counted, survey
from workbench.pulsar.topic_names import TopicName
from workbench.pulsar.topic_stats import SubscriptionPart, age_seconds
from workbench.settings import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarSubscription:
    """A subscription on a topic.

    Attributes:
        kind: exclusive, failover, shared or key_shared; None if nobody has connected since the topic was loaded.
        partitions: that were read; 1 for a topic without partitions.
        backlog_entries, backlog_messages, backlog_bytes: None if not known. Messages are known without a backlog, or if counted.
        oldest_seconds: age of the oldest entry in the backlog.
        unacked_messages: sent and not acknowledged; of Shared and Key_Shared only.
        blocked: whether their limit stops the dispatch on a partition.
        consumers: connected now.
        is_dead: whether it is durable, holds a backlog, and nobody is connected to any partition; None if not known.
    """

    topic: str
    subscription: str
    kind: str | None
    partitions: int
    backlog_entries: int | None
    backlog_messages: int | None
    backlog_bytes: int | None
    oldest_seconds: float | None
    unacked_messages: int | None
    blocked: bool | None
    consumers: int | None
    is_dead: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionList:
    """Rows, the time of reading (seconds since the epoch), and what could not be read, in words."""

    rows: tuple[PulsarSubscription, ...]
    taken_at: float
    incomplete: tuple[str, ...]


def read_subscriptions(
    cluster: Cluster,
    *,
    seconds: float | None = None,
    dead: bool = False,
    top: int | None = None,
    count_messages: bool = False,
) -> SubscriptionList:
    """Read all subscriptions of a Pulsar, the oldest backlog first.

    Args:
        seconds: total time limit; None: the cluster's `timeout_seconds`.
        dead: only those that hold a backlog with nobody connected. One of which that is not known is said to be incomplete.
        top: only the first so many.
        count_messages: count the messages in the backlogs of these, which brokers read from storage.

    Raises:
        UsageError: if it is no Pulsar, or has no `admin_url`. SourceUnreachableError: if its topics cannot be listed.
    """
    admin = PulsarAdmin(cluster, seconds=seconds)
    found = survey(admin, namespaces=cluster.pulsar.namespaces, with_ages=True)
    now, incomplete, parts = time.time(), list(found.incomplete), list(found.parts)
    rows = subscriptions_of(parts, now=now, partial=found.partial)
    if dead:
        unsure = [row for row in rows if row.is_dead is None]
        incomplete += [f"Whether {row.subscription} on {row.topic} is dead cannot be told." for row in unsure]
        rows = [row for row in rows if row.is_dead]
    rows = rows[:top]
    if count_messages:
        shown = {(row.topic, row.subscription) for row in rows}
        parts = counted(admin, [it for it in parts if (str(it.topic), it.subscription) in shown], incomplete)
        rows = subscriptions_of(parts, now=now, partial=found.partial)
    return SubscriptionList(rows=tuple(rows), taken_at=now, incomplete=tuple(incomplete))


def subscriptions_of(
    parts: Iterable[SubscriptionPart], *, now: float, partial: Collection[TopicName] = ()
) -> list[PulsarSubscription]:
    """One row for each subscription; the oldest backlog first, and then the largest. What is not known may be the worst.

    Args:
        now: seconds since the epoch.
        partial: topics with partitions that were not told.
    """
    by_name: dict[tuple[TopicName, str], list[SubscriptionPart]] = defaultdict(list)
    for part in parts:
        by_name[part.topic, part.subscription].append(part)
    found = [_row(mine, now, whole=topic not in partial) for (topic, _), mine in by_name.items()]
    return sorted(found, key=_order)


def _order(row: PulsarSubscription) -> tuple[float, float, str, str]:
    age, entries = row.oldest_seconds, row.backlog_entries
    return (
        -(age if age is not None else float("inf")),
        -(entries if entries is not None else float("inf")),
        row.topic,
        row.subscription,
    )


def _row(parts: Sequence[SubscriptionPart], now: float, *, whole: bool) -> PulsarSubscription:
    consumers = [part.consumers for part in parts]
    known = [it for it in consumers if it is not None]
    names = {(it.consumerName, it.address) for some in known for it in some}
    all_told = whole and len(known) == len(consumers)
    entries = _sum([part.entries for part in parts], whole)
    ages = [age_seconds(part, now) for part in parts]
    holds = any(part.entries for part in parts) or (None if entries is None else False)
    kinds = {part.kind for part in parts if part.kind is not None}
    blocked = [part.blocked for part in parts]
    return PulsarSubscription(
        topic=str(parts[0].topic),
        subscription=parts[0].subscription,
        kind=kinds.pop() if len(kinds) == 1 else None,
        partitions=len(parts),
        backlog_entries=entries,
        backlog_messages=_sum([part.messages for part in parts], whole),
        backlog_bytes=_sum([part.size_bytes for part in parts], whole),
        oldest_seconds=max((it for it in ages if it is not None), default=None) if whole and None not in ages else None,
        unacked_messages=_sum([part.unacked_messages for part in parts], whole),
        blocked=True if True in blocked else None if None in blocked or not whole else False,
        consumers=len(names) if all_told else None,
        is_dead=_all([parts[0].durable, holds, not names if all_told or names else None]),
    )


def _sum(numbers: Sequence[int | None], whole: bool) -> int | None:
    known = [it for it in numbers if it is not None]
    return sum(known) if whole and len(known) == len(numbers) else None


def _all(answers: Sequence[bool | None]) -> bool | None:
    """Of three values: one "no" decides, and without it one "not known"."""
    return False if False in answers else None if None in answers else True
