"""Which records are missing inside a layer: the positions of rows that do not add up, and then the very records, read once more.

What a layer took in and gave out of the same positions is in rows with the same borders. Where their counts differ, only that interval
is read again. Of its records, `k` are missing, and their hashes add up to a known number: if `k` is one or two, or all of them, that
names them; else what arrived must be at hand (`arrived`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.audit.ledger import Sum64, effective, joined_halves
from workbench.layers.rows import signed
from workbench.spark.columns import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = ("stream", "layer", "topic", "partition", "start", "stop", "incarnation", "sequence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Positions [start, stop) of which `lost` records (negative: too many) did not come out, whose hashes add up to `sum`.

    Attributes:
        sum: modulo 2^64, signed; None: not known.
    """

    topic: str
    partition: int
    start: int
    stop: int
    lost: int
    sum: int | None


def intervals(
    rows: DataFrame, *, stream: str, layer: str, since_ms: int | None = None, until_ms: int | None = None
) -> list[Interval]:
    """The rows of a layer that do not add up, in the order of positions.

    Args:
        rows: in `frames.DDL`.
        since_ms, until_ms: rows with windows that begin in [since, until).
    """
    from pyspark.sql import functions as f

    mine = rows.where((f.col("stream") == f.lit(stream)) & (f.col("layer") == f.lit(layer)))
    kept = effective(mine).where("kept = stop - start AND start < stop AND NOT adds")
    each = kept.selectExpr("point", *_PLACE, "explode_outer(windows) AS it").selectExpr(
        *_PLACE, "point = 'in' AS is_in", "coalesce(it.count, 0L) AS count", "it.sum AS sum", "it.count IS NOT NULL AS has",
        "it.start_ms AS at",
    )  # fmt: skip
    names = []
    for name, mine_is in (("in", "is_in"), ("out", "NOT is_in")):
        halves = Sum64("sum", mine_is).halves
        names += [f"coalesce({halves[0]}, 0L) AS {name}_low", f"coalesce({halves[1]}, 0L) AS {name}_high"]
    found = each.groupBy(*_PLACE).agg(
        *columns(
            "sum(if(is_in, count, -count)) AS lost",
            "bool_or(has AND sum IS NULL) AS unsummed",
            "min(at) AS first_ms",
            "max(at) AS last_ms",
            *names,
        )
    )
    sums = {name: joined_halves(f"{name}_low", f"{name}_high") for name in ("in", "out")}
    odd = found.selectExpr(
        "topic", "partition", "start", "stop", "lost", "first_ms", "last_ms",
        f"if(unsummed, NULL, {sums['in']}) AS in_sum", f"if(unsummed, NULL, {sums['out']}) AS out_sum",
    ).where("lost <> 0 OR in_sum <> out_sum")  # fmt: skip
    if since_ms is not None:
        odd = odd.where(f.col("last_ms") >= f.lit(since_ms))
    if until_ms is not None:
        odd = odd.where(f.col("first_ms") < f.lit(until_ms))
    return [
        Interval(
            topic=row["topic"], partition=row["partition"], start=row["start"], stop=row["stop"], lost=row["lost"],
            sum=None if row["in_sum"] is None else signed(row["in_sum"] - row["out_sum"]),
        )
        for row in odd.orderBy("topic", "partition", "start").collect()
    ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedInterval:
    """What an interval has lost: `offsets`, or, if nobody can tell which, None and the number of those that it may be."""

    interval: Interval
    offsets: Sequence[int] | None
    candidates: int


def name_missing(
    interval: Interval, records: Iterable[Mapping[str, Any]], arrived: frozenset[int] | None
) -> NamedInterval:
    """Name the very records.

    Args:
        records: of the interval: `offset`, and `hash` of its id (None: it has none).
        arrived: hashes of ids that came out; None: not at hand.
    """
    found = [(int(it["offset"]), it["hash"]) for it in records]
    hashes: dict[int, list[int]] = {}
    for offset, hashed in found:
        if hashed is not None:
            hashes.setdefault(hashed, []).append(offset)
    offsets: list[int] | None = None
    if interval.lost == len(found):
        offsets = [offset for offset, _ in found]
    elif arrived is not None and all(hashed is not None for _, hashed in found):
        offsets = [offset for offset, hashed in found if hashed not in arrived]
        if len(offsets) < interval.lost:  # beside them something may have been doubled, but fewer cannot be
            offsets = None
    elif interval.sum is not None and interval.lost == 1:
        offsets = _only(hashes.get(interval.sum, []))
    elif interval.sum is not None and interval.lost == 2:
        offsets = _pair(found, hashes, interval.sum)
    return NamedInterval(interval=interval, offsets=offsets, candidates=len(found))


def _only(some: list[int]) -> list[int] | None:
    return some if len(some) == 1 else None


def _pair(found: Sequence[tuple[int, int | None]], hashes: Mapping[int, list[int]], total: int) -> list[int] | None:
    pairs = {
        (offset, other)
        for offset, hashed in found
        if hashed is not None
        for other in hashes.get(signed(total - hashed), ())
        if other > offset
    }
    return list(pairs.pop()) if len(pairs) == 1 else None
