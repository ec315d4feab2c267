"""How long records take to a layer, by the counts in the rows' buckets: they add up, unlike percentiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.audit.ledger import effective
from workbench.layers.rows import LATENCY_MS
from workbench.spark.columns import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHARES = (0.5, 0.95, 0.99)
SINCES = ("created", "updated")


def latencies(rows: DataFrame) -> DataFrame:
    """Percentiles of the time from the creation of records, and from the layer before, to each point.

    Args:
        rows: in `frames.DDL`. A row that straddles a restart counts whole: a percentile changes little by that.

    Returns:
        One row per (stream, layer, point, since): since is `created` or `updated`; `records`, number with a known time; `p50_ms`,
        `p95_ms`, `p99_ms`, upper bounds by bucket (NULL: longer than the last one, or no record).
    """
    whole = effective(rows)
    each = [
        whole.selectExpr(
            "stream", "layer", "point", f"'{since}' AS since", f"posexplode({since}_ms) AS (bucket, count)"
        )
        for since in SINCES
    ]
    found = each[0].unionByName(each[1]).groupBy("stream", "layer", "point", "since", "bucket").agg({"count": "sum"})
    counted = found.withColumnRenamed("sum(count)", "count")
    order = "PARTITION BY stream, layer, point, since"
    ranked = counted.selectExpr(
        "*", f"sum(count) OVER ({order} ORDER BY bucket) AS below", f"sum(count) OVER ({order}) AS all"
    )
    bounds = f"array({', '.join(f'{it}L' for it in LATENCY_MS)}, NULL)"
    percentiles = [
        f"element_at({bounds}, min(bucket) FILTER (WHERE below >= {share} * all) + 1) AS p{round(share * 100)}_ms"
        for share in _SHARES
    ]
    return (
        ranked.groupBy("stream", "layer", "point", "since")
        .agg(*columns("max(all) AS records", *percentiles))
        .where("records > 0")
    )
