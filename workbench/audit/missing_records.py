"""Which records are missing inside a layer: the positions of rows that do not add up, and then the very records, read once more.

What a layer took in and gave out of the same positions is in rows with the same borders. Where their counts or sums differ, only that
interval is read again. The hashes of what is missing, less those of what came out once too often, add up to a known number: where these
are few, that names them; else what arrived must be at hand (`arrived`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement
from math import comb
from typing import TYPE_CHECKING, Any

from workbench.audit.audit_ledger import Sum64, effective, joined_halves
from workbench.layers.rows import signed
from workbench.spark.parsed_sql_cache import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_TRIED = 200_000  # sums of one half; or as many as there are records, so that one or two are always found
_PLACE = ("stream", "layer", "topic", "partition", "start", "stop", "incarnation", "sequence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Positions [start, stop) of which `lost` of `taken` records (negative: too many) did not come out, whose hashes add up to `sum`.

    Attributes:
        is_told: whether there are rows of both sides, and they count whole; else it cannot be told what is missing.
        sum: modulo 2^64, signed; None: not known.
    """

    topic: str
    partition: int
    start: int
    stop: int
    taken: int
    lost: int
    sum: int | None
    is_told: bool = True


def intervals(
    rows: DataFrame,
    of_lines: DataFrame | None = None,
    *,
    stream: str,
    layer: str,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> list[Interval]:
    """The rows of a layer that do not add up, in the order of positions.

    Args:
        rows: in `audit_frames.DDL`.
        of_lines: as `audit_ledger.lines`, if it is at hand.
        since_ms, until_ms: rows with windows that begin in [since, until).
    """
    from pyspark.sql import functions as f

    mine = rows.where((f.col("stream") == f.lit(stream)) & (f.col("layer") == f.lit(layer)))
    kept = effective(mine, of_lines).where("start < stop AND adds = ''")
    cut = "kept < stop - start AS straddles"
    each = kept.selectExpr("point", cut, *_PLACE, "explode_outer(windows) AS it").selectExpr(
        *_PLACE, "straddles", "point = 'in' AS is_in", "point = 'out' AS is_out", "coalesce(it.count, 0L) AS count", "it.sum AS sum",
        "it.count IS NOT NULL AS has",

        "it.start_ms AS at",
    )  # fmt: skip
    names = []
    for name, mine_is in (("in", "is_in"), ("out", "NOT is_in")):
        halves = Sum64("sum", mine_is).halves
        names += [f"coalesce({halves[0]}, 0L) AS {name}_low", f"coalesce({halves[1]}, 0L) AS {name}_high"]
    found = each.groupBy(*_PLACE).agg(
        *columns(
            "sum(if(is_in, count, 0L)) AS taken",
            "sum(if(is_in, count, -count)) AS lost",
            "bool_or(has AND sum IS NULL) AS unsummed",
            "min(at) AS first_ms",
            "max(at) AS last_ms",
            "bool_or(is_in) AND bool_or(is_out) AND NOT bool_or(straddles) AS is_told",
            *names,
        )
    )
    sums = {name: joined_halves(f"{name}_low", f"{name}_high") for name in ("in", "out")}
    odd = found.selectExpr(
        "topic", "partition", "start", "stop", "taken", "lost", "first_ms", "last_ms", "is_told",
        f"if(unsummed, NULL, {sums['in']}) AS in_sum", f"if(unsummed, NULL, {sums['out']}) AS out_sum",
    ).where("lost <> 0 OR in_sum <> out_sum OR NOT is_told")  # fmt: skip
    if since_ms is not None:
        odd = odd.where(f.col("last_ms") >= f.lit(since_ms))
    if until_ms is not None:
        odd = odd.where(f.col("first_ms") < f.lit(until_ms))
    return [
        Interval(
            topic=row["topic"], partition=row["partition"], start=row["start"], stop=row["stop"], taken=row["taken"],
            lost=row["lost"], is_told=row["is_told"], sum=None if row["in_sum"] is None else signed(row["in_sum"] - row["out_sum"]),
        )
        for row in odd.orderBy("topic", "partition", "start").collect()
    ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedInterval:
    """What an interval has lost: `offsets` (none: what is too many, is all that is odd), or, if nobody can tell which, None and the
    number of those that it may be. `topic_id`: "cluster:topic" ids of the topic where they were read, if they are known."""

    interval: Interval
    offsets: Sequence[int] | None
    candidates: int
    topic_id: str | None = None

    @property
    def unnamed(self) -> int:
        """How many are missing, at least, of which nobody can tell which they are."""
        if self.offsets is not None:
            return 0
        # As many came out as went in, and not the same ones.
        is_exchanged = self.interval.is_told and self.interval.lost == 0
        return 1 if is_exchanged else max(0, self.interval.lost)


def repaired(rows: DataFrame, of_lines: DataFrame, *, stream: str, layer: str) -> list[Interval]:
    """Positions that repairs have given out since; `lost` is how many of them they have not. Arguments as of `intervals`."""
    from pyspark.sql import functions as f

    mine = rows.where(
        (f.col("stream") == f.lit(stream)) & (f.col("layer") == f.lit(layer)) & (f.col("adds") != f.lit(""))
    )
    found = effective(mine, of_lines).where("point = 'out' AND start < stop").selectExpr(
        "topic", "partition", "start", "stop", "stop - start AS taken",
        "stop - start - aggregate(windows, 0L, (sum, it) -> sum + it.count) AS lost",
    )  # fmt: skip
    return [
        Interval(
            topic=row["topic"], partition=row["partition"], start=row["start"], stop=row["stop"], taken=row["taken"],
            lost=row["lost"], sum=None,
        )
        for row in found.collect()
    ]  # fmt: skip


def without_repaired(found: Iterable[NamedInterval], repairs: Sequence[Interval]) -> list[NamedInterval]:
    """What is still missing after repairs. Where a repair has not given out all that it read, it cannot be told."""
    left = []
    for it in found:
        mine = [one for one in repairs if (one.topic, one.partition) == (it.interval.topic, it.interval.partition)]
        offsets = it.offsets
        if offsets is not None:
            beside = [one for one in mine if any(one.start <= offset < one.stop for offset in offsets)]
            offsets = [offset for offset in offsets if not any(one.start <= offset < one.stop for one in beside)]
            if any(one.lost for one in beside):
                offsets = None
            elif not offsets:
                continue
        left.append(replace(it, offsets=offsets))
    return left


def name_missing(
    interval: Interval, records: Iterable[Mapping[str, Any]], arrived: Mapping[int, int] | None
) -> NamedInterval:
    """Name the very records, if the numbers and sums of the rows prove that it is these.

    Args:
        records: of the interval: `offset`, and `hash` of its id (None: it has none).
        arrived: hashes of ids that came out, and how often; None: not at hand.
    """
    found = [(int(it["offset"]), it["hash"]) for it in records]
    hashed = [(offset, value) for offset, value in found if value is not None]
    offsets: list[int] | None = None
    if not interval.is_told:
        pass
    elif arrived is not None and len(hashed) == len(found):
        gone = [it for it in hashed if not arrived.get(it[1])]
        offsets = [offset for offset, _ in gone] if _is_proven(interval, hashed, gone, arrived) else None
    elif interval.lost == interval.taken == len(found):  # nothing came out; fewer are there if a topic is compacted
        # As many others may stand there by now, if the topic was recreated.
        is_same = interval.sum is None or signed(sum(value for _, value in hashed)) == interval.sum
        offsets = [offset for offset, _ in found] if is_same else None
    elif interval.sum is not None:
        offsets = _by_sum(interval.lost, interval.sum, hashed)
    return NamedInterval(interval=interval, offsets=offsets, candidates=len(found))


def _is_proven(
    interval: Interval,
    hashed: Sequence[tuple[int, int]],
    gone: Sequence[tuple[int, int]],
    arrived: Mapping[int, int],
) -> bool:
    """Whether these, and some others that came out once too often, make up the interval's number and sum."""
    more = len(gone) - interval.lost
    if interval.sum is None or more < 0:
        return more == 0
    stand = Counter(value for _, value in hashed)
    others = [(0, value) for value in stand if arrived.get(value)]
    # Those that arrived more often than they stand here are the likely ones; a store that keeps an id once shows none.
    likely = [it for it in others if arrived[it[1]] > stand[it[1]]]
    rest = interval.sum - sum(value for _, value in gone)
    return any(_explained(rest, (), some, 0, more) for some in (likely, others))


def _by_sum(lost: int, total: int, hashed: Sequence[tuple[int, int]]) -> list[int] | None:
    """The smallest set that is missing, beside what came out once too often, of which the hashes make up the sum; None: nobody knows.

    Another set with the same sum of 64 bits would be chance: the next larger ones need not be asked.
    """
    for gone in range(max(0, lost), len(hashed) + 1):
        found = _explained(total, hashed, hashed, gone, gone - lost)
        if found is None:
            return None
        if found:
            return sorted(found.pop()) if len(found) == 1 else None
    return None


def _explained(
    total: int, gone: Sequence[tuple[int, int]], more: Sequence[tuple[int, int]], missing: int, doubled: int
) -> set[frozenset[int]] | None:
    """Each set of `missing` offsets whose hashes, less those of `doubled` others, add up to `total`; None: too many to try.

    Met in the middle: the sums of one half are looked up among those of the other.
    """
    first, second = (missing + 1) // 2, missing // 2
    above, below = doubled // 2, (doubled + 1) // 2
    most = max(_MOST_TRIED, len(more))
    if max(_ways(gone, more, first, above), _ways(gone, more, second, below)) > most:
        return None
    halves: dict[int, list[frozenset[int]]] = {}
    for value, offsets in _sums(gone, more, second, below):
        halves.setdefault(signed(value), []).append(offsets)
    return {
        offsets | other
        for value, offsets in _sums(gone, more, first, above)
        for other in halves.get(signed(total - value), ())
        if not offsets & other
    }


def _ways(gone: Sequence[Any], more: Sequence[Any], missing: int, doubled: int) -> int:
    return comb(len(gone), missing) * (comb(len(more) + doubled - 1, doubled) if doubled else 1)


def _sums(
    gone: Sequence[tuple[int, int]], more: Sequence[tuple[int, int]], missing: int, doubled: int
) -> Iterator[tuple[int, frozenset[int]]]:
    extras = [sum(value for _, value in some) for some in combinations_with_replacement(more, doubled)]
    for lacking in combinations(gone, missing):
        total, offsets = sum(value for _, value in lacking), frozenset(offset for offset, _ in lacking)
        for extra in extras:
            yield total - extra, offsets
