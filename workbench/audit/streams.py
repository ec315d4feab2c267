"""A line for each stream: what a whole ledger says of a period."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.spark.columns import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def by_stream(edges: DataFrame) -> DataFrame:
    """Sum up windows and edges.

    Returns:
        One row per stream: `windows`, `lost` and `doubled` (records, at least, of final windows), `missing_at_most` (records that may
        be missing beside them), `open_windows` (number), `edge` (where most is lost or doubled; NULL: nowhere).
    """
    over = "state IN ('final', 'amended')"
    told = f"{over} AND arrival <> 'unknown'"
    sums = edges.groupBy("stream", "edge").agg(
        *columns(
            "count(*) AS windows",
            f"coalesce(sum(lost_low) FILTER (WHERE {told}), 0L) AS lost",
            "sum(doubled_low) AS doubled",
            f"sum(lost_high - if({told}, lost_low, 0L)) AS at_most",
            f"count_if(NOT ({over})) AS open_windows",
        )
    )
    return sums.groupBy("stream").agg(
        *columns(
            "sum(windows) AS windows",
            "sum(lost) AS lost",
            "sum(doubled) AS doubled",
            "sum(at_most) AS missing_at_most",
            "sum(open_windows) AS open_windows",
            "max_by(edge, lost + doubled) FILTER (WHERE lost + doubled > 0) AS edge",
        )
    )
