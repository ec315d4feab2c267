"""Places of messages as the runtime's offsets: one number that rises as the places do, and back."""

from __future__ import annotations

from workbench.pulsar.entry_messages import MessagePlace
from workbench.queues.position import unpacked

_INDEX_BITS, _ENTRY_BITS = 24, 32


def offset_of(place: MessagePlace) -> int:
    """Offset of a message. It may have more than 64 bits; the difference of two means nothing."""
    return place.ledger << _ENTRY_BITS + _INDEX_BITS | place.entry << _INDEX_BITS | place.within


def offset_behind(ledger: int, entry: int) -> int:
    """Offset behind an entry; -1 is before the first one of a ledger."""
    return offset_of(MessagePlace(ledger, entry + 1))


def shown(offset: int) -> str:
    """As people read it: ledger, entry, and the index in the entry."""
    return ":".join(map(str, place_of(offset)))


def place_of(offset: int) -> tuple[int, int, int]:
    """Ledger, entry, and index in the entry."""
    entry = offset >> _INDEX_BITS
    return entry >> _ENTRY_BITS, entry & (1 << _ENTRY_BITS) - 1, offset & (1 << _INDEX_BITS) - 1


def offset_of_packed(position: int) -> int:
    """Offset of a packed position, as audits and lists of letters have them."""
    return offset_of(MessagePlace(*unpacked(position)))


def behind_entry(offset: int) -> int:
    """Offset behind the entry of the message before this one."""
    ledger, entry, index = place_of(offset)
    return offset_behind(ledger, entry) if index else offset
