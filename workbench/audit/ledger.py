"""The ledger: what each layer has taken in and given out, by stream and window of event time. A pure function of the set of rows.

1. A row that was delivered twice is one (incarnation and sequence).
2. *Overlay.* Of one partition, a later incarnation begins where the last commit was, and handles all from there on. So rows of earlier
   ones count up to the first position of any later one. A row that straddles it has been read again in part: how many of its records
   lie before, nobody knows, unless each of its positions is a record of one window. Its counts are *bounds* then, never a guess.
3. A position range that no row covers, between rows that do, is unknown: a row is missing, not necessarily its records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.spark.columns import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LINE = "stream, layer, point, topic, partition"
LOW_32 = "4294967295L"


def effective(rows: DataFrame) -> DataFrame:
    """Rows once each, cut by later incarnations.

    Args:
        rows: in `rows.DDL`.

    Returns:
        The rows with `cut` (first position of any later incarnation; NULL: none), `kept_stop` (positions [start, kept_stop) still
        count), `straddles`, `gap` (positions before it that no row covers), and `told_before_ms` (its writer, before).
    """
    once = rows.dropDuplicates(["stream", "layer", "point", "topic", "partition", "incarnation", "sequence"])
    begun = once.groupBy("stream", "layer", "point", "topic", "partition", "incarnation").agg({"start": "min"})
    begun = begun.withColumnRenamed("min(start)", "begins")
    later = begun.selectExpr(
        "stream", "layer", "point", "topic", "partition", "incarnation",
        f"min(begins) OVER (PARTITION BY {_LINE} ORDER BY incarnation DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS cut",
    )  # fmt: skip
    keys = ["stream", "layer", "point", "topic", "partition", "incarnation"]
    cut = once.join(later, keys).selectExpr("*", "least(stop, coalesce(cut, stop)) AS kept_stop")
    kept = cut.where("kept_stop > start OR (start = stop AND (cut IS NULL OR start <= cut))")
    order = f"PARTITION BY {_LINE} ORDER BY start, stop ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    before = f"PARTITION BY {_LINE} ORDER BY emitted_ms, incarnation, sequence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    return kept.selectExpr(
        "*", "kept_stop < stop AS straddles", f"greatest(0L, start - max(kept_stop) OVER ({order})) AS gap",
        f"max(emitted_ms) OVER ({before}) AS told_before_ms",
    )  # fmt: skip


def counts(rows: DataFrame) -> DataFrame:
    """Count the records of each window, at each point.

    Args:
        rows: in `rows.DDL`.

    Returns:
        One row per (stream, window_ms, layer, point): `low` and `high`, bounds of the number of records, equal where it is exact;
        `bytes` and `sum`, NULL where it is not; `told_before_ms`, the latest of its rows.
    """
    whole = effective(rows)
    each = whole.selectExpr("*", "explode(windows) AS it").selectExpr(
        "stream", "layer", "point", "it.start_ms AS window_ms", "told_before_ms", "straddles",
        # Each position is a record of this one window: then the part before the cut is known.
        "straddles AND size(windows) = 1 AND it.count = stop - start AS is_dense", "kept_stop - start AS kept",
        "stop - kept_stop AS gone", "it.count AS count", "it.bytes AS bytes", "it.sum AS sum",
    )  # fmt: skip
    bounded = each.selectExpr(
        "stream", "layer", "point", "window_ms", "told_before_ms", "straddles", "bytes", "sum",
        "CASE WHEN NOT straddles THEN count WHEN is_dense THEN kept ELSE greatest(0L, count - gone) END AS low",
        "CASE WHEN NOT straddles THEN count WHEN is_dense THEN kept ELSE least(count, kept) END AS high",
    )  # fmt: skip
    found = bounded.groupBy("stream", "window_ms", "layer", "point").agg(
        *columns(
            "sum(low) AS low",
            "sum(high) AS high",
            "CASE WHEN bool_or(straddles) THEN NULL ELSE sum(bytes) END AS bytes",
            # By halves; see `sum_of`.
            f"CASE WHEN bool_or(straddles) THEN NULL ELSE sum(sum & {LOW_32}) END AS low_sum",
            "CASE WHEN bool_or(straddles) THEN NULL ELSE sum(shiftrightunsigned(sum, 32)) END AS high_sum",
            "max(told_before_ms) AS told_before_ms",
        )
    )
    return found.selectExpr(
        "stream", "window_ms", "layer", "point", "low", "high", "bytes", "told_before_ms",
        f"{sum_of('low_sum', 'high_sum')} AS sum",
    )  # fmt: skip


def watermarks(rows: DataFrame) -> DataFrame:
    """Up to when each point of a stream has told of itself, and what is missing.

    Returns:
        One row per (stream, layer, point): `told_ms`, the earliest of its partitions' last rows (heartbeats too), and `gap`, positions
        that no row covers.
    """
    last = (
        effective(rows)
        .groupBy("stream", "layer", "point", "topic", "partition")
        .agg(*columns("max(emitted_ms) AS emitted_ms", "sum(gap) AS gap"))
    )
    return last.groupBy("stream", "layer", "point").agg(*columns("min(emitted_ms) AS told_ms", "sum(gap) AS gap"))


def sum_of(low: str, high: str) -> str:
    """SQL of a sum modulo 2^64 from the sums of its halves (32 bits each): a sum of 64-bit numbers would overflow."""
    return f"shiftleft(({high} + shiftrightunsigned({low}, 32)) & {LOW_32}, 32) | ({low} & {LOW_32})"
