"""A line for each stream, or for each of its edges: what a whole ledger says of a period."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.audit.window_verdicts import WindowState
from workbench.spark.parsed_sql_cache import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from workbench.audit.window_verdicts import StreamShape

_OVER = "state IN ('final', 'amended')"
_TOLD = f"{_OVER} AND arrival <> 'unknown'"
_SUMS = (
    "count(*) AS windows",
    f"coalesce(sum(lost_low) FILTER (WHERE {_TOLD}), 0L) AS lost",
    f"coalesce(sum(doubled_low) FILTER (WHERE {_TOLD}), 0L) AS doubled",
    "count_if(arrival = 'loss+dup') AS others",
    f"sum(lost_high - if({_TOLD}, lost_low, 0L)) AS missing_at_most",
    f"count_if(NOT ({_OVER})) AS open_windows",
)


def by_stream(edges: DataFrame) -> DataFrame:
    """Sum up windows and edges.

    Returns:
        One row per stream: `windows`, `lost` and `doubled` (records, at least, of final windows), `others` (windows with as many
        records and not the same), `missing_at_most` (records that may be missing beside them), `open_windows` (number), `edge` (where
        most is wrong; NULL: nowhere).
    """
    sums = edges.groupBy("stream", "edge").agg(*columns(*_SUMS))
    names = ("windows", "lost", "doubled", "others", "missing_at_most", "open_windows")
    return sums.groupBy("stream").agg(
        *columns(
            *(f"sum({name}) AS {name}" for name in names),
            "max_by(edge, lost + doubled + others) FILTER (WHERE lost + doubled + others > 0) AS edge",
        )
    )


def by_edge(edges: DataFrame, shape: StreamShape, *, now_ms: int) -> DataFrame:
    """Sum up the windows of each edge.

    Args:
        now_ms: windows whose lateness is over by then are *overdue* unless they are final: a layer has not told for long.

    Returns:
        One row per (stream, edge): the columns of `by_stream`; `sent` (records of final windows that can be told); the number of
        windows in each state; `unknown`, final ones that cannot be told; `late`, records that are missing so far in those that are
        overdue; `overdue_since_ms`, when the first of these should have been final (NULL: none is overdue).
    """
    due = f"window_ms + {shape.window_ms + shape.lateness_ms}L"
    overdue = f"NOT ({_OVER}) AND {due} < {now_ms}L"
    return edges.groupBy("stream", "edge").agg(
        *columns(
            *_SUMS,
            f"coalesce(sum(from_low) FILTER (WHERE {_TOLD}), 0L) AS sent",
            *(f"count_if(state = '{it}') AS {it}" for it in WindowState),
            f"count_if({_OVER} AND arrival = 'unknown') AS unknown",
            f"coalesce(sum(lost_low) FILTER (WHERE {overdue}), 0L) AS late",
            f"min({due}) FILTER (WHERE {overdue}) AS overdue_since_ms",
        )
    )
