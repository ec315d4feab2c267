"""Picks: a set of offsets of one partition as text, `0-15 17 20-33`; legible in a plan and compact for a million records."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate


@dataclass(frozen=True)
class Picks:
    """Offsets in order, as ranges: `starts[i]` to `ends[i]`, exclusive."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, offsets: Iterable[int]) -> Picks:
        """Make the ranges of offsets in ascending order."""
        starts: list[int] = []
        ends: list[int] = []
        for offset in offsets:
            if ends and offset == ends[-1]:
                ends[-1] = offset + 1
            else:
                starts.append(offset)
                ends.append(offset + 1)
        return cls(tuple(starts), tuple(ends))

    @classmethod
    def parse(cls, text: str) -> Picks:
        """Read a text.

        Raises:
            ValueError: if it is not such a text, or its ranges overlap, touch or are not in order.
        """
        starts, ends = [], []
        last = -1
        for word in text.split():
            first, dash, to = word.partition("-")
            if not first.isascii() or not first.isdecimal() or (dash and not (to.isascii() and to.isdecimal())):
                raise ValueError(f"{word[:40]!r} is not an offset or a range of offsets")
            start, end = int(first), (int(to) if dash else int(first)) + 1
            if start <= last or end <= start:
                raise ValueError(f"the range {word[:40]!r} is not after the one before it")
            starts.append(start)
            ends.append(end)
            last = end
        return cls(tuple(starts), tuple(ends))

    def __str__(self) -> str:
        return " ".join(
            str(start) if end == start + 1 else f"{start}-{end - 1}"
            for start, end in zip(self.starts, self.ends, strict=True)
        )

    def __iter__(self) -> Iterator[int]:
        for start, end in zip(self.starts, self.ends, strict=True):
            yield from range(start, end)

    def __len__(self) -> int:
        return self._before[-1]

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self.starts, offset) - 1
        return at >= 0 and offset < self.ends[at]

    @cached_property
    def _before(self) -> tuple[int, ...]:
        sizes = (end - start for start, end in zip(self.starts, self.ends, strict=True))
        return tuple(accumulate(sizes, initial=0))

    def below(self, offset: int) -> int:
        """Number of picks below an offset."""
        at = bisect_right(self.starts, offset) - 1
        return 0 if at < 0 else self._before[at] + min(offset, self.ends[at]) - self.starts[at]

    def overlap(self, other: Picks) -> int:
        """Number of common offsets."""
        common = i = j = 0
        while i < len(self.starts) and j < len(other.starts):
            low, high = max(self.starts[i], other.starts[j]), min(self.ends[i], other.ends[j])
            common += max(0, high - low)
            if self.ends[i] <= other.ends[j]:
                i += 1
            else:
                j += 1
        return common

    @classmethod
    def union(cls, several: Iterable[Picks]) -> Picks:
        """All offsets of several picks."""
        starts: list[int] = []
        ends: list[int] = []
        for start, end in sorted(pair for each in several for pair in zip(each.starts, each.ends, strict=True)):
            if ends and start <= ends[-1]:
                ends[-1] = max(end, ends[-1])
            else:
                starts.append(start)
                ends.append(end)
        return cls(tuple(starts), tuple(ends))

    def without(self, offsets: Iterable[int]) -> Picks:
        """All picks but these."""
        pairs: list[tuple[int, int]] = []
        gone = sorted(set(offsets))
        for start, end in zip(self.starts, self.ends, strict=True):
            at = start
            for offset in gone[bisect_left(gone, start) : bisect_left(gone, end)]:
                if offset > at:
                    pairs.append((at, offset))
                at = offset + 1
            if at < end:
                pairs.append((at, end))
        return Picks(tuple(s for s, _ in pairs), tuple(e for _, e in pairs))

    def cut(self, *, below: int) -> Picks:
        """Only the picks below an offset."""
        pairs = [(s, min(e, below)) for s, e in zip(self.starts, self.ends, strict=True) if s < below]
        return Picks(tuple(s for s, _ in pairs), tuple(e for _, e in pairs))


class Walk:
    """Walks through picks beside the records of a partition, and notices picks that have no record."""

    def __init__(self, picks: Picks, position: int) -> None:
        self._picks = picks
        self._at = bisect_right(picks.ends, position)
        self._want = max(position, picks.starts[self._at]) if self._at < len(picks.starts) else None

    def take(self, offset: int, missing: list[int]) -> bool:
        """Whether the record at this offset is picked; picks before it that had no record go to `missing`."""
        want = self._want
        if want is None or offset < want:
            return False
        if offset == want:
            self._next(offset)
            return True
        self.skip_to(offset, missing)
        return self.take(offset, missing) if self._want == offset else False

    def skip_to(self, offset: int, missing: list[int]) -> None:
        """No record will come below this offset."""
        while self._want is not None and self._want < offset:
            missing.append(self._want)
            self._next(self._want)

    def _next(self, offset: int) -> None:
        if offset + 1 < self._picks.ends[self._at]:
            self._want = offset + 1
            return
        self._at += 1
        self._want = self._picks.starts[self._at] if self._at < len(self._picks.starts) else None
