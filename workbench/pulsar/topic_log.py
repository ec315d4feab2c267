"""The log of a topic, or of one partition: which entries are kept, and how many lie between two positions.

Positions are those of Pulsar, `ledger:entry`. An entry is a batch of one or more messages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from workbench.errors import EvidenceError
from workbench.limited_reads import first_problem
from workbench.pulsar.admin import NotThereError, PulsarAdmin
from workbench.pulsar.topic_names import WHOLE, TopicName, part_name, subscription_of
from workbench.pulsar.topic_stats import PulsarAnswer
from workbench.queues.position import Position


class _Ledger(PulsarAnswer):
    ledgerId: int  # noqa: N815 - the admin's names
    entries: int
    size: int = 0


class _Cursor(PulsarAnswer):
    markDeletePosition: str  # noqa: N815
    readPosition: str  # noqa: N815
    individuallyDeletedMessages: str = "[]"  # noqa: N815


class _CompactedLedger(PulsarAnswer):
    ledgerId: int = -1  # noqa: N815 - -1: the topic was never compacted


class _Internal(PulsarAnswer):
    currentLedgerEntries: int  # noqa: N815
    currentLedgerSize: int = 0  # noqa: N815
    lastConfirmedEntry: str  # noqa: N815
    ledgers: list[_Ledger]
    compactedLedger: _CompactedLedger = _CompactedLedger()  # noqa: N815
    cursors: dict[str, _Cursor]


class _MessageId(PulsarAnswer):
    ledgerId: int  # noqa: N815
    entryId: int  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarCursor:
    """Of a subscription: up to `acknowledged` everything is, and others behind it if it `has_holes`; `read` is sent next."""

    acknowledged: Position
    read: Position
    has_holes: bool = False

    def has_acknowledged(self, position: Position) -> bool:
        """Whether it has acknowledged the entry at this position, or any behind it."""
        return self.has_holes or self.acknowledged >= position


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarLog:
    """What a broker keeps of a partition.

    Attributes:
        ledgers: number of a ledger to its entries, the oldest first.
        stop: position after the last entry.
        cursors: by subscription.
        sizes: number of a ledger to its bytes.
        is_compacted: whether the broker has a compacted copy beside it.
    """

    ledgers: Mapping[int, int]
    stop: Position
    cursors: Mapping[str, PulsarCursor]
    sizes: Mapping[int, int] = field(default_factory=dict)
    is_compacted: bool = False

    @property
    def first(self) -> Position:
        """Position of the oldest entry that is kept; `stop` if there is none."""
        return next((Position((ledger, 0)) for ledger, entries in self.ledgers.items() if entries), self.stop)

    def entries_between(self, start: Position, stop: Position) -> int:
        """How many entries are kept in [start, stop)."""
        return sum(
            max(0, _up_to(stop, ledger, entries) - _up_to(start, ledger, entries))
            for ledger, entries in self.ledgers.items()
        )

    def back(self, entries: int) -> Position:
        """Position of the entry that is so many before the end; `first` if there are fewer."""
        for ledger, held in reversed(list(self.ledgers.items())):
            if held >= entries:
                return max(self.first, Position((ledger, held - entries)))
            entries -= held
        return self.first

    def bytes_from(self, start: Position) -> int:
        """About how many bytes the entries from a position on have: of its own ledger, as many as of its entries."""
        return sum(
            size
            * (self.ledgers.get(ledger, 0) - _up_to(start, ledger, self.ledgers.get(ledger, 0)))
            // max(1, self.ledgers.get(ledger, 0))
            for ledger, size in self.sizes.items()
        )

    def begins_at(self, subscription: str, position: Position) -> bool:
        """Whether a subscription would get the entry at this position next, and has acknowledged nothing from there on."""
        cursor = self.cursors.get(subscription)
        if cursor is None or cursor.has_acknowledged(position):
            return False
        return self.entries_after(cursor.acknowledged, position) == 0

    def entries_after(self, position: Position, stop: Position) -> int:
        """How many entries are kept after this one and before `stop`."""
        ledger, entry = position.numbers
        return self.entries_between(Position((ledger, entry + 1)), stop)


def _up_to(position: Position, ledger: int, entries: int) -> int:
    """How many entries of this ledger lie before a position."""
    at, entry = position.numbers
    return 0 if at < ledger else entries if at > ledger else min(entries, max(0, entry))


def place(text: str) -> Position:
    """Read `ledger:entry`; -1 is the place before the first entry of a ledger.

    Raises:
        ValueError: if it is none.
    """
    ledger, entry = (int(word) for word in text.split(":"))
    return Position((ledger, entry))


def partitions_of(admin: PulsarAdmin, topic: TopicName) -> list[int]:
    """Numbers of its partitions; `WHOLE` alone if it has none.

    Raises:
        NotThereError: if there is no such topic. SourceUnreachableError: if the admin does not answer.
    """
    found = admin.get(f"{topic.path}/partitions")
    count = found.get("partitions") if isinstance(found, dict) else None
    if not isinstance(count, int):
        raise EvidenceError(f"The number of partitions of {topic} cannot be read.")
    if count == 0:
        admin.get(f"{topic.path}/internalStats")  # a topic that does not exist has no partitions, too
    return list(range(count)) or [WHOLE]


def read_log(admin: PulsarAdmin, topic: TopicName, partition: int) -> PulsarLog:
    """Read what is kept of a partition, and where its subscriptions are.

    Raises:
        NotThereError: if there is none. SourceUnreachableError: if the admin does not answer. EvidenceError: if nobody can read it.
    """
    name = part_name(topic, partition)
    try:
        found = _Internal.model_validate(admin.get(f"{name.path}/internalStats"))
        last = place(found.lastConfirmedEntry)
        cursors = {
            subscription_of(cursor): PulsarCursor(
                acknowledged=place(it.markDeletePosition),
                read=place(it.readPosition),
                has_holes=it.individuallyDeletedMessages not in ("", "[]"),
            )
            for cursor, it in found.cursors.items()
        }
    except ValidationError as error:
        problem = first_problem(error, whole="the answer")
        raise EvidenceError(f"The positions of {name} cannot be read: {problem}.") from None
    except ValueError:
        raise EvidenceError(f"The positions of {name} cannot be read: one is no ledger:entry.") from None
    ledgers = {it.ledgerId: it.entries for it in found.ledgers}
    sizes = {it.ledgerId: it.size for it in found.ledgers}
    if ledgers:
        open_one = next(reversed(ledgers))
        ledgers[open_one] = max(ledgers[open_one], found.currentLedgerEntries)  # listed as 0 until it is closed
        sizes[open_one] = max(sizes[open_one], found.currentLedgerSize)
    if last.numbers[0] in ledgers:  # told after the number of entries, while producers write
        ledgers[last.numbers[0]] = max(ledgers[last.numbers[0]], last.numbers[1] + 1)
    stop = Position((last.numbers[0], last.numbers[1] + 1))
    return PulsarLog(
        ledgers=ledgers,
        stop=stop,
        cursors=cursors,
        sizes=sizes,
        is_compacted=found.compactedLedger.ledgerId >= 0,
    )


def position_at(admin: PulsarAdmin, topic: TopicName, partition: int, log: PulsarLog, at_ms: int) -> Position:
    """Position of the first entry that was published then or later; after the last entry if there is none.

    Of a compacted topic a broker (4.0.7) tells the first one that compaction has left, and before it there may be others.

    Raises:
        SourceUnreachableError: if the admin does not answer. EvidenceError: if nobody can read it.
    """
    name = part_name(topic, partition)
    if log.is_compacted:
        return _searched(admin, topic, partition, log, at_ms)
    try:
        found = _MessageId.model_validate(admin.get(f"{name.path}/messageid/{at_ms}"))
    except ValidationError as error:
        problem = first_problem(error, whole="the answer")
        raise EvidenceError(f"The position of {name} at a time cannot be read: {problem}.") from None
    return Position((found.ledgerId, max(0, found.entryId)))


def _searched(admin: PulsarAdmin, topic: TopicName, partition: int, log: PulsarLog, at_ms: int) -> Position:
    """The same by the entries themselves, as a broker does it: as if publish times only rise."""
    kept = log.entries_between(log.first, log.stop)

    def is_before(back: int) -> bool:
        at = log.back(back)
        if (told := published_ms(admin, topic, partition, at)) is None:
            raise EvidenceError(f"When the entry {at} of {part_name(topic, partition)} was published is not told.")
        return told < at_ms

    before = bisect_left(range(kept), True, key=lambda number: not is_before(kept - number))
    return log.back(kept - before) if before < kept else log.stop


def published_ms(admin: PulsarAdmin, topic: TopicName, partition: int, position: Position) -> int | None:
    """Publish time of an entry, ms since the epoch; None if it is not told."""
    ledger, entry = position.numbers
    try:
        told: Any = admin.headers(f"{part_name(topic, partition).path}/ledger/{ledger}/entry/{entry}")
    except NotThereError:
        return None
    try:
        return round(datetime.fromisoformat(told.get("X-Pulsar-publish-time", "")).timestamp() * 1000)
    except ValueError:
        return None
