"""Where to split a bundle between its hot topics, so that the largest side is as small as it can be. Pure.

A bundle is a range of hashes [low, high); a topic belongs to the bundle of its hash. Pulsar's usual algorithms cut the range in equal
parts, or the topics in equal numbers, and neither knows the load: two hot topics that lie close together stay together. Pulsar can also
split at positions that it is given (`specified_positions_divide`, PIP-143); this module finds them.
"""

from __future__ import annotations

import math
import re
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise

from workbench.errors import EvidenceError, UsageError
from workbench.humanize import printable

FULL = 0xFFFFFFFF  # the last bundle ends here, and this one hash belongs to it
MOST_PIECES = 64  # more cuts than anybody makes at once; each costs a pass over the topics
_BUNDLE = re.compile(r"0x([0-9a-f]{1,8})_0x([0-9a-f]{1,8})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class Bundle:
    """A range of hashes, from `low` up to `high`, which belongs to the next one."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Bundle:
        """Read `0x00000000_0x40000000`.

        Raises:
            UsageError: if it is no bundle.
        """
        found = _BUNDLE.fullmatch(text.strip())
        low, high = (int(it, 16) for it in found.groups()) if found else (0, 0)
        if low >= high:
            raise UsageError(f"{text!r} is not a bundle.", hint="A bundle looks like 0x00000000_0x40000000.")
        return cls(low, high)

    def holds(self, position: int) -> bool:
        """Whether a hash belongs to it."""
        return self.low <= position < self.high or position == self.high == FULL

    def __str__(self) -> str:
        return f"{hexed(self.low)}_{hexed(self.high)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLoad:
    """A topic of the bundle.

    Attributes:
        position: its hash.
        load: what is to be spread, such as bytes or messages per second; None if it is not known.
    """

    topic: str
    position: int
    load: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A bundle after the split: its topics and their load together."""

    bundle: Bundle
    topics: tuple[str, ...]
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """One way to split: the cuts, and the sides that they make."""

    cuts: tuple[int, ...]
    sides: tuple[Side, ...]

    @property
    def largest(self) -> float:
        """Load of the largest side."""
        return max(side.load for side in self.sides)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """The best division beside what Pulsar's own algorithms would do.

    Attributes:
        total: load of the bundle.
        least: load of the heaviest single hash, which no split can divide.
        by_range, by_count: `range_equally_divide` and `topic_count_equally_divide`, into as many pieces.
    """

    bundle: Bundle
    total: float
    least: float
    best: Division
    by_range: Division
    by_count: Division


def hexed(position: int) -> str:
    """A hash as Pulsar writes it."""
    return f"0x{position:08x}"


def hash_of(topic: str) -> int:
    """Hash of a topic with its full name, `persistent://tenant/namespace/topic`: CRC-32 of its UTF-8, as brokers compute it."""
    return zlib.crc32(topic.encode(errors="surrogatepass"))


def plan_split(bundle: Bundle, topics: Sequence[TopicLoad], *, pieces: int = 2) -> SplitPlan:
    """Find the cuts that make the largest side as small as possible; of equally good cuts, the roundest numbers.

    Args:
        topics: all topics of the bundle that carry load.
        pieces: bundles that one becomes; fewer if there are fewer hashes.

    Raises:
        UsageError: if a topic is not in the bundle, or there is nothing to divide.
        EvidenceError: if the load of a topic is not known, or none has any: the best cut could be anywhere.
    """
    if not 2 <= pieces <= MOST_PIECES:
        raise UsageError(f"A split makes 2 to {MOST_PIECES} pieces, not {pieces}.")
    _check(bundle, topics)
    ordered = sorted(topics, key=lambda it: (it.position, it.topic))
    positions = [min(it.position, bundle.high - 1) for it in ordered]  # no bundle begins at the last hash of all
    hashes = sorted(set(positions))
    if len(hashes) < 2:
        raise UsageError(
            f"The bundle {bundle} has only one hash with topics, which no split can divide.",
            hint="Give the topic more partitions: each has a hash of its own.",
        )
    by_hash = [
        math.fsum(it.load or 0.0 for it in ordered[bisect_left(positions, at) : bisect_right(positions, at)])
        for at in hashes
    ]
    pieces = min(pieces, len(hashes))

    def divided(cuts: Sequence[int]) -> Division:
        kept = sorted({cut for cut in cuts if bundle.low < cut < bundle.high})
        sides = []
        for low, high in pairwise([bundle.low, *kept, bundle.high]):
            own = [it for it in ordered if Bundle(low, high).holds(it.position)]
            load = math.fsum(it.load or 0.0 for it in own)
            sides.append(Side(bundle=Bundle(low, high), topics=tuple(it.topic for it in own), load=load))
        return Division(cuts=tuple(kept), sides=tuple(sides))

    return SplitPlan(
        bundle=bundle,
        total=math.fsum(by_hash),
        least=max(by_hash),
        best=divided(_best(hashes, by_hash, pieces)),
        by_range=divided([bundle.low + (bundle.high - bundle.low) * it // pieces for it in range(1, pieces)]),
        by_count=divided(_by_count(positions, pieces)),
    )


def _check(bundle: Bundle, topics: Sequence[TopicLoad]) -> None:
    for it in topics:
        if not bundle.holds(it.position):
            raise UsageError(
                f"The topic {printable(it.topic)!r} has the hash {hexed(it.position)}, outside of {bundle}."
            )
        if it.load is not None and not (math.isfinite(it.load) and it.load >= 0):
            raise UsageError(f"The load of the topic {printable(it.topic)!r} is {it.load}, which is no load.")
    if not math.isfinite(sum(it.load or 0.0 for it in topics)):
        raise UsageError("The loads of these topics are too large to be added.")
    unknown = [it.topic for it in topics if it.load is None]
    if unknown:
        raise EvidenceError(
            f"Cannot tell where to split: the load of {len(unknown)} of {len(topics)} topics is not known, such as "
            f"{printable(unknown[0])!r}.",
            hint="Give every topic a load; 0 for one that has none.",
        )
    if topics and not any(it.load for it in topics):
        raise EvidenceError("Cannot tell where to split: no topic of the bundle carries any load.")


def _best(hashes: Sequence[int], loads: Sequence[float], pieces: int) -> list[int]:
    """Cuts with the smallest largest side.

    The smallest possible side comes from dynamic programming over "the first i hashes in k pieces". Each cut then has a range of places
    that keep within it: as late as the side before it allows, as early as the sides after it allow.
    """
    sums = [0.0, *accumulate(loads)]
    count = len(loads)

    def load(start: int, end: int) -> float:
        return sums[end] - sums[start]

    def first(places: range, holds: Callable[[int], bool]) -> int:
        return places.start + bisect_left(places, True, key=holds)

    least = list(sums)  # of the first i hashes, in one piece
    for _ in range(1, pieces):
        before, least = least, least[:2]
        for end in range(2, count + 1):
            # With a later cut, the pieces before it can only grow, and the one after it only shrink: the best is where they cross.
            cross = first(range(1, end), partial(lambda before, end, cut: before[cut] >= load(cut, end), before, end))
            least.append(min(max(before[cut], load(cut, end)) for cut in (cross - 1, cross) if 0 < cut < end))
    limit = least[-1]

    earliest, end = [], count
    for _ in range(1, pieces):
        end = first(range(end), partial(lambda end, cut: load(cut, end) <= limit, end))
        earliest.append(end)
    cuts, start = [], 0
    for later, early in zip(range(pieces - 1, 0, -1), reversed(earliest), strict=True):
        room = range(start + 1, count - later + 1)  # each later piece has one hash at least
        late = first(room, partial(lambda start, cut: load(start, cut) > limit, start)) - 1
        position = _roundest(hashes[max(early, start + 1) - 1] + 1, hashes[late])
        cuts.append(position)
        start = bisect_left(hashes, position)
    return cuts


def _roundest(low: int, high: int) -> int:
    """The number from `low` to `high` with the most zeros at its end: what a person can read and compare."""
    for zeros in range(32, -1, -1):
        found = (high >> zeros) << zeros
        if found >= low:
            return found
    return high


def _by_count(positions: Sequence[int], pieces: int) -> list[int]:
    """As Pulsar does it: half way between the topics on both sides of the middle."""
    cuts = []
    for number in range(1, pieces):
        at = len(positions) * number // pieces
        before, after = positions[max(0, at - 1)], positions[at]
        cuts.append(before + (after - before) // 2)
    return cuts
