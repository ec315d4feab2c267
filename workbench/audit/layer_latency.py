"""How long records take to a layer, by the counts in the rows' buckets: they add up, unlike percentiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.audit.audit_ledger import effective
from workbench.layers.rows import LATENCY_MS
from workbench.spark.parsed_sql_cache import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHARES = (0.5, 0.95, 0.99)
SINCES = ("created", "updated")


def bucket_floor(upper_ms: int | None) -> int:
    """Lower bound of the bucket with this upper one (None: the last bucket), ms."""
    return LATENCY_MS[-1] if upper_ms is None else max((it for it in LATENCY_MS if it < upper_ms), default=0)


def latencies(rows: DataFrame, *also: str, of_lines: DataFrame | None = None) -> DataFrame:
    """Percentiles of the time from the creation of records, and from the layer before, to each point.

    Args:
        also: columns of the rows beside those of `audit_frames.DDL`, to tell rows apart by.
        of_lines: as `audit_ledger.lines`, of these rows and others, if it is at hand.
        rows: in `audit_frames.DDL`. A row that straddles a restart counts whole: a percentile changes little by that.

    Returns:
        One row per (stream, layer, point, since) and `also`: since is `created` or `updated`; `records`, number with a known time;
        `p50_ms`, `p95_ms`, `p99_ms`, upper bounds by bucket (NULL: longer than the last one, or no record).
    """
    whole, names = effective(rows, of_lines), ("stream", "layer", "point", *also, "since")
    # One pass for both: the plan of `whole` is large.
    both = ", ".join(f"'{since}', {since}_ms" for since in SINCES)
    each = whole.selectExpr(*names[:-1], f"stack({len(SINCES)}, {both}) AS (since, counts)")
    found = (
        each.selectExpr(*names, "posexplode(counts) AS (bucket, count)").groupBy(*names, "bucket").agg({"count": "sum"})
    )
    counted = found.withColumnRenamed("sum(count)", "count")
    order = f"PARTITION BY {', '.join(names)}"
    ranked = counted.selectExpr(
        "*", f"sum(count) OVER ({order} ORDER BY bucket) AS below", f"sum(count) OVER ({order}) AS all"
    )
    bounds = f"array({', '.join(f'{it}L' for it in LATENCY_MS)}, NULL)"
    percentiles = [
        f"element_at({bounds}, min(bucket) FILTER (WHERE below >= {share} * all) + 1) AS p{round(share * 100)}_ms"
        for share in _SHARES
    ]
    return ranked.groupBy(*names).agg(*columns("max(all) AS records", *percentiles)).where("records > 0")
