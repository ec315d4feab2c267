"""What is known of a subscription on one partition: the numbers that the rules compare, and their names. None is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from workbench.queues.dispatching_queues import DispatchedConsumer, DispatchedPart
from workbench.triage.facts.unknown_numbers import plus, ratio
from workbench.triage.pulsar.what_servers_tell import Servers

Made = TypeVar("Made")

# What a rule compares: its name in words, and its unit (as `humanize.quantity` takes it).
FACTS: dict[str, tuple[str, str]] = {
    "entries": ("entries waiting", "entries"),
    "ready_entries": ("of these not delayed", "entries"),
    "delayed_entries": ("delayed", "entries"),
    "counters_back": ("counters that went back", "counters"),
    "age_seconds": ("age of the first entry that is not acknowledged", "s"),
    "oldest_seconds": ("age of the oldest entry", "s"),
    "acked_seconds": ("last acknowledgement", "s ago"),
    "acked_per_second": ("acknowledged", "entries/s"),
    "arrived_per_second": ("arriving", "entries/s"),
    "drain_seconds": ("drained at this pace in", "s"),
    "ready_seconds": ("what is not delayed is acknowledged at this pace in", "s"),
    "consumers": ("consumers connected", "consumers"),
    "connected_seconds": ("longest connection of a consumer", "s"),
    "expired_messages": ("expired between the looks", "messages"),
    "expired_ever": ("expired since the topic was loaded", "messages"),
    "ttl_seconds": ("time to live", "s"),
    "ttl_share": ("of the time to live reached", "of it"),
    "quota_bytes": ("backlog quota that deletes", "bytes"),
    "quota_seconds": ("backlog quota by age that deletes", "s"),
    "quota_share": ("of a quota that deletes reached", "of it"),
    "backlog_bytes": ("backlog of this subscription", "bytes"),
    "one_by_one": ("a type that acknowledges one by one", "yes is 1"),
    "blocked": ("subscription blocked on unacknowledged messages", "yes is 1"),
    "readers": ("consumers that get entries", "consumers"),
    "blocked_readers": ("of these blocked on unacknowledged messages", "consumers"),
    "key_shared": ("type Key_Shared", "yes is 1"),
    "blocking_hashes": ("hashes that keep entries back", "hashes"),
    "hash_blocks": ("entries kept back for them between the looks", "times"),
    "joined_behind": ("consumers that wait for the mark-delete position", "consumers"),
    "ack_ranges": ("acknowledged ranges beyond the mark-delete position", "ranges"),
    "mark_delete_moved": ("mark-delete position moved", "yes is 1"),
    "mark_delete_seconds": ("the mark-delete position stands", "s"),
    "held_share": ("of what was sent since then not acknowledged", "of it"),
    "throttled_events": ("kept back by a dispatch rate limit between the looks", "times"),
    "limit_per_second": ("dispatch rate limit", "messages/s"),
    "limit_bytes_per_second": ("dispatch rate limit", "bytes/s"),
    "sent_per_second": ("sent", "messages/s"),
    "sent_messages": ("sent between the looks", "messages"),
    "resent_share": ("of what is sent was sent before", "of it"),
    "redelivered_per_second": ("redelivered, by the broker's average", "messages/s"),
    "least_permits": ("permits of the freest consumer, at the worse look", "permits"),
    "sure_permits": ("permits of any consumer, whatever its keys, at the worse look", "permits"),
    "most_permits": ("permits of the freest consumer, at the better look", "permits"),
    "full_readers": ("consumers without permits at a look", "consumers"),
    "replay_entries": ("entries that were read and are kept back", "entries"),
    "waiting_entries": ("entries that wait to be sent", "entries"),
    "read_moved": ("read position moved", "yes is 1"),
    "reads": ("reads under way", "yes is 1"),
    "missed_again_share": ("of what was sent sent again and read from bookies, at least", "of it"),
    "missed_at_most": ("of what was sent sent again and read from bookies, at most", "of it"),
    "bad_reports": ("reported loads of brokers that are no finite numbers", "loads"),
    "unload_times": ("times that bundles were unloaded for balance within half an hour", "times"),
    "ack_share": ("of the writes to bookies acknowledgements", "of it"),
    "write_seconds": ("mean time of its broker's writes to bookies", "s"),
    "quarantines": ("quarantines of bookies within half an hour", "times"),
    "busiest_share": ("written to the busiest bookie, of the mean of all", "of it"),
}  # fmt: skip


def _of(made: Callable[..., Made], *numbers: float | None) -> Made | None:
    """What is made of numbers; None if one of them is not known."""
    return None if None in numbers else made(*numbers)


@dataclass(frozen=True, slots=True)
class Known:
    """Numbers of one partition.

    Attributes:
        part: after two looks.
        objective_seconds: older than this is late.
        servers: what brokers and bookies tell of the whole cluster.
    """

    part: DispatchedPart
    objective_seconds: float
    servers: Servers = field(default_factory=Servers)

    def fact(self, name: str) -> float | None:
        """A number by its name in `FACTS`; true is 1, false is 0."""
        of = next(it for it in (self, self.part, self.servers) if hasattr(type(it), name))
        return _of(float, getattr(of, name))

    @property
    def reading(self) -> tuple[DispatchedConsumer, ...] | None:
        """Consumers that get entries: all, or the active one of a failover."""
        consumers = self.part.consumers
        if consumers is None or any(it.gets_entries is None for it in consumers):
            return None
        return tuple(it for it in consumers if it.gets_entries)

    @property
    def consumers(self) -> int | None:
        """Connected now."""
        return None if self.part.consumers is None else len(self.part.consumers)

    @property
    def readers(self) -> int | None:
        """Number of `reading`."""
        return None if self.reading is None else len(self.reading)

    @property
    def one_by_one(self) -> bool | None:
        """Whether messages are acknowledged one by one, so that the broker keeps and limits what is not."""
        return None if self.part.kind is None else self.part.kind in ("shared", "key_shared")

    @property
    def key_shared(self) -> bool | None:
        """Whether the broker holds keys to consumers."""
        return None if self.part.kind is None else self.part.kind == "key_shared"

    @property
    def ready_entries(self) -> int | None:
        """Entries that no producer has asked to delay."""
        return _of(lambda all_of, delayed: max(0, all_of - delayed), self.part.entries, self.part.delayed_entries)

    @property
    def age_seconds(self) -> float | None:
        """Age of the first entry that is not acknowledged.

        Not known where it may be a delayed one, or where its producer's clock is ahead by more than what counts as late.
        """
        age = self.part.oldest_seconds
        if self.part.delayed_entries != 0 or age is None or age < -self.objective_seconds:
            return None
        return max(0.0, age)

    @property
    def ttl_share(self) -> float | None:
        """By the oldest entry; 0 without any, or without a time to live."""
        return self._share(self.part.oldest_seconds, self.part.ttl_seconds)

    @property
    def quota_share(self) -> float | None:
        """Of the quota that is nearer; 0 without any, or without an entry."""
        it = self.part
        return _of(max, self._share(it.backlog_bytes, it.quota_bytes), self._share(it.oldest_seconds, it.quota_seconds))

    @property
    def acked_per_second(self) -> float | None:
        """Entries that left the backlog."""
        return self._per_second(self.part.acked_entries)

    @property
    def arrived_per_second(self) -> float | None:
        """Entries that producers wrote."""
        return self._per_second(self.part.arrived_entries)

    @property
    def sent_per_second(self) -> float | None:
        """Messages, with those that were sent again."""
        return self._per_second(self.part.sent_messages)

    @property
    def drain_seconds(self) -> float | None:
        """Until the backlog is gone; None if it does not shrink."""
        acked, arrived, ready = self.acked_per_second, self.arrived_per_second, self.ready_entries
        if acked is None or arrived is None or ready is None or acked <= arrived:
            return None
        return ready / (acked - arrived)

    @property
    def ready_seconds(self) -> float | None:
        """Until what is not delayed now is acknowledged; None if nothing is acknowledged."""
        return ratio(self.ready_entries, self.acked_per_second)

    @property
    def connected_seconds(self) -> float | None:
        """Of the reader that has been there longest."""
        return max(
            (it.connected_seconds for it in self.reading or () if it.connected_seconds is not None), default=None
        )

    @property
    def blocked_readers(self) -> int | None:
        """Readers that get nothing because of what they have not acknowledged."""
        told = [it.blocked for it in self.reading or ()]
        return sum(it is True for it in told) if told and None not in told else None

    @property
    def mark_delete_moved(self) -> bool | None:
        """Between the looks; not known where a delayed entry, which nobody can acknowledge yet, may hold it."""
        return self.part.mark_delete_moved or (self.part.mark_delete_moved if self.part.delayed_entries == 0 else None)

    @property
    def mark_delete_seconds(self) -> float | None:
        """Since the mark-delete position moved; if not since the topic was loaded, for as long as a consumer is connected."""
        if self.part.mark_delete_moved:
            return 0.0
        known = self.part.mark_delete_seconds
        return known if known is not None else self.connected_seconds

    @property
    def held_share(self) -> float | None:
        """Of the entries from the first that is not acknowledged up to the last that was read: those sent and not acknowledged."""
        it = self.part
        if not it.span_entries or self.ready_entries is None or it.unread_entries is None:
            return None
        return min(1.0, max(0, self.ready_entries - it.unread_entries) / it.span_entries)

    @property
    def waiting_entries(self) -> float | None:
        """Entries that were not read yet, and of those read the ones that the broker has kept."""
        return plus(self.part.unread_entries, self.part.replay_entries)

    @property
    def resent_share(self) -> float | None:
        """Of the messages sent between the looks."""
        return _of(
            lambda again, sent: min(1.0, again / sent), self.part.resent_messages, self.part.sent_messages or None
        )

    @property
    def missed_again_share(self) -> float | None:
        """Of the entries sent: what was sent again and what was read from bookies are together so much more than all of them.

        What the topic's other subscriptions were sent may be all of it what the cache missed.
        """
        others = self._per_second(self.part.others_sent_entries)
        return _of(
            lambda missed, sent, resent, others: max(0.0, min(1.0, (missed - others) / sent) + resent - 1),
            *self._sent_again,
            others,
        )

    @property
    def missed_at_most(self) -> float | None:
        """Of the entries sent: neither more than was sent again, nor than the topic's cache missed."""
        return _of(lambda missed, sent, resent: min(1.0, missed / sent, resent), *self._sent_again)

    @property
    def _sent_again(self) -> tuple[float | None, float | None, float | None]:
        """Misses of the topic's cache, entries sent (None: none), and the share that was sent again."""
        sent = self._per_second(self.part.sent_entries) or None
        return self.servers.misses.get(self.place), sent, self.resent_share

    @property
    def place(self) -> str:
        """The topic, or its partition, as brokers name it."""
        return self.part.topic + ("" if self.part.partition < 0 else f"-partition-{self.part.partition}")

    @property
    def write_seconds(self) -> float | None:
        """Of the broker that has the topic."""
        return self.servers.write_seconds.get(self.servers.broker_of.get(self.place, ""))

    @property
    def least_permits(self) -> int | None:
        """At the look at which they were fewer."""
        return _of(min, *self._permits())

    @property
    def most_permits(self) -> int | None:
        """At the look at which they were more."""
        return _of(max, *self._permits())

    @property
    def sure_permits(self) -> int | None:
        """At the look at which they were fewer; of Key_Shared those of the fullest reader, whose keys it may have."""
        told = self._rooms()
        return None if told is None else min(min(it) if self.key_shared else max(it) for it in told)

    @property
    def full(self) -> tuple[DispatchedConsumer, ...]:
        """Readers without permits at a look: one that waits for the broker has them all the time."""
        return tuple(it for it in self.reading or () if any(told is not None and told <= 0 for told in self._room(it)))

    @property
    def full_readers(self) -> int | None:
        """Number of `full`; None unless each reader told its permits twice."""
        return None if self._rooms() is None else len(self.full)

    def _permits(self) -> tuple[int | None, int | None]:
        """Of the freest reader, at both looks."""
        told = self._rooms()
        return (None, None) if told is None else (max(told[0]), max(told[1]))

    def _rooms(self) -> tuple[list[int], list[int]] | None:
        """What each reader takes, at both looks; None unless each told it twice."""
        found = [self._room(it) for it in self.reading or ()]
        now, before = [it for it, _ in found if it is not None], [it for _, it in found if it is not None]
        return (now, before) if found and len(now) == len(before) == len(found) else None

    def _room(self, it: DispatchedConsumer) -> tuple[int | None, int | None]:
        """What a reader takes now and took before: nothing of its permits while it or the subscription is blocked."""
        flags = (it.blocked, self.part.blocked)
        if self.one_by_one and True in flags:
            return 0, 0
        if self.one_by_one is False or (self.one_by_one is True and None not in flags):
            return it.permits, it.permits_before
        now, before = (told if told is not None and told <= 0 else None for told in (it.permits, it.permits_before))
        return now, before

    def _share(self, used: float | None, limit: int | None) -> float | None:
        """Of a limit that deletes entries; 0 is none."""
        if limit == 0 or self.part.entries == 0:
            return 0.0
        return ratio(used, limit)

    def _per_second(self, number: float | None) -> float | None:
        return ratio(number, self.part.look_seconds)
