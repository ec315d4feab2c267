"""Positions in a log: ordered and opaque. Kafka's are offsets; other queues have several numbers, such as ledger:entry."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

_TEXT = re.compile(r"\d{1,19}(:\d{1,19}){0,3}", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place between two records: positions of one partition can be compared, and nothing else can be done with them."""

    numbers: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `123` or `4:17`.

        Raises:
            ValueError: if it is none.
        """
        if not _TEXT.fullmatch(text):
            raise ValueError(f"{text[:60]!r} is not a position")
        return cls(tuple(int(word) for word in text.split(":")))

    @property
    def offset(self) -> int:
        """Offset of Kafka.

        Raises:
            ValueError: if it is a position of another queue.
        """
        if len(self.numbers) != 1:
            raise ValueError(f"the position {self} is not an offset")
        return self.numbers[0]

    def __str__(self) -> str:
        return ":".join(map(str, self.numbers))


_ENTRY_BITS, _INDEX_BITS, _LEDGER_BITS = 20, 10, 32  # 62 in all: such numbers go into columns of 64


def packed(numbers: tuple[int, int, int]) -> int | None:
    """Ledger, entry and index within it as one number that rises as they do; None if they are too large: an entry of more than
    1,024 messages, a ledger of more than a million entries.
    """
    ledger, entry, index = numbers
    fits = 0 <= ledger < 1 << _LEDGER_BITS and 0 <= entry < 1 << _ENTRY_BITS and 0 <= index < 1 << _INDEX_BITS
    return (ledger << _ENTRY_BITS | entry) << _INDEX_BITS | index if fits else None


def unpacked(number: int) -> tuple[int, int, int]:
    """Ledger, entry and index of `packed`."""
    entry = number >> _INDEX_BITS
    return entry >> _ENTRY_BITS, entry & (1 << _ENTRY_BITS) - 1, number & (1 << _INDEX_BITS) - 1


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges [start, end) in order, without empty ones; those that overlap or touch become one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(pair for pair in ranges if pair[0] < pair[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def joined(ranges: Sequence[tuple[int, int]], *, most: int) -> list[tuple[int, int]]:
    """Ranges as of `merged`, at most so many: those with the fewest offsets between them become one."""
    found = merged(ranges)
    gaps = sorted(range(1, len(found)), key=lambda at: found[at][0] - found[at - 1][1], reverse=True)
    cuts = sorted(gaps[: max(0, most - 1)])
    edges = [0, *cuts, len(found)]
    return [(found[low][0], found[high - 1][1]) for low, high in itertools.pairwise(edges) if low < high]
