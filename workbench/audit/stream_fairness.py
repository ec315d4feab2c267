"""Fairness: does a burst of one stream delay another that shares a layer with it?

A window is a *burst* of a stream that has far more records in it than it usually has, if that is a good part of all streams' records.
The others' time to each layer is compared: records created in these windows, and in windows without any burst. It is a correlation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.audit.audit_ledger import counted
from workbench.audit.layer_latency import bucket_floor, latencies
from workbench.judgement_numbers import FAR, FEW_SAMPLES, PART, SEVERAL
from workbench.spark.parsed_sql_cache import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ONE_OF = 100  # a 99th percentile is told by one record of so many
_SURER = {False: 0, None: 1, True: 2}
LEAST_RECORDS = int(SEVERAL) * _ONE_OF


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedStream:
    """A stream whose records took longer while another one had a burst; None: not known, or over the last bucket.

    Attributes:
        burst: the other stream.
        layer, point: the first ones that saw it.
        p99_ms, usual_p99_ms: time from creation, of 99 of 100 records with and without the burst; upper bounds of buckets.
        at_least_ms: lower bound of the one with it.
        is_delayed: whether it surely was longer; None: too few records tell.
    """

    stream: str
    burst: str
    layer: str
    point: str
    records: int
    p99_ms: int | None
    usual_p99_ms: int | None
    at_least_ms: int
    is_delayed: bool | None


def bursts(rows: DataFrame, of_lines: DataFrame | None = None) -> DataFrame:
    """Windows with a burst.

    Args:
        of_lines: as `audit_ledger.lines`, if it is at hand.

    Returns:
        One row per window: `window_ms`, `burst` (the stream; of several the one with most), `records`, `usual` (its median window).
    """
    at_points = counted(rows, of_lines).groupBy("stream", "layer", "point", "window_ms").agg({"low": "sum"})
    each = at_points.groupBy("stream", "window_ms").agg(*columns("max(`sum(low)`) AS records"))
    known = each.selectExpr(
        "*",
        "sum(records) OVER (PARTITION BY window_ms) AS total",
        "median(records) OVER (PARTITION BY stream) AS usual",
        "count(*) OVER (PARTITION BY stream) AS windows",
    )
    found = known.where(
        f"windows > {int(FEW_SAMPLES)} AND records >= {float(FAR)}D * usual AND records - usual >= {float(PART)}D * total"
    )
    most = found.groupBy("window_ms").agg(*columns("max_by(struct(stream, records, usual), records) AS it"))
    return most.selectExpr("window_ms", "it.stream AS burst", "it.records AS records", "it.usual AS usual")


def times_beside_bursts(rows: DataFrame, found: Mapping[int, str], of_lines: DataFrame | None = None) -> DataFrame:
    """Times from creation, of each stream beside each other one's bursts (`burst`), and without any (`burst` NULL).

    A row tells of a burst if one of its windows has it; the stream's own bursts are left out.

    Args:
        rows: in `audit_frames.DDL`.
        of_lines: as `audit_ledger.lines`, if it is at hand.
        found: window_ms to burst, of `bursts`. Collected, because their plan would be optimised again at each place that uses them.
    """
    import pyarrow as pa
    from pyspark.sql import functions as f

    # Arrow's table: Spark would start Python processes to read a list.
    named = pa.array([list(found.items())], pa.map_(pa.int64(), pa.string()))
    all_bursts = rows.sparkSession.createDataFrame(pa.table({"all_bursts": named}))
    beside = rows.crossJoin(f.broadcast(all_bursts)).selectExpr(
        *rows.columns, "array_compact(array_distinct(transform(windows, it -> all_bursts[it.start_ms]))) AS beside"
    )
    mine = beside.where("NOT array_contains(beside, stream) AND size(beside) <= 1")
    told = mine.selectExpr("*", "get(beside, 0) AS burst").drop("beside")
    return latencies(told, "burst", of_lines=of_lines).where("since = 'created'")


def delayed(times: Iterable[Mapping[str, Any]], layers: Sequence[str]) -> list[DelayedStream]:
    """Compare, the most delayed streams first; of each stream and burst the first layer that saw it, or nothing if it was not delayed.

    Args:
        times: of `times_beside_bursts`.
        layers: in their order.
    """
    by_place: dict[tuple[str, str, str], dict[str | None, Mapping[str, Any]]] = {}
    for row in times:
        if row["layer"] in layers:
            by_place.setdefault((row["stream"], row["layer"], row["point"]), {})[row["burst"]] = row
    found: dict[tuple[str, str], DelayedStream] = {}
    for (stream, layer, point), rows in sorted(by_place.items(), key=lambda it: (layers.index(it[0][1]), it[0][2])):
        usual = rows.get(None)
        for name, row in rows.items():
            if name is None:
                continue
            it = _compared(stream, name, layer, point, row, usual)
            before = found.get((stream, name))
            if before is None or _SURER[it.is_delayed] > _SURER[before.is_delayed]:
                found[stream, name] = it
    told = [it for it in found.values() if it.is_delayed is not False]
    return sorted(told, key=lambda it: (not it.is_delayed, -it.at_least_ms, it.stream, it.burst))


def _compared(
    stream: str, burst: str, layer: str, point: str, row: Mapping[str, Any], usual: Mapping[str, Any] | None
) -> DelayedStream:
    at_least = bucket_floor(row["p99_ms"])
    is_delayed: bool | None = None
    if usual is not None and min(row["records"], usual["records"]) >= LEAST_RECORDS:
        # The next bucket may be a little more; one beyond it is surely clearly more.
        is_delayed = usual["p99_ms"] is not None and at_least > usual["p99_ms"]
        if usual["p99_ms"] is None and row["p99_ms"] is None:
            is_delayed = None  # beyond the last bucket with and without
    return DelayedStream(
        stream=stream, burst=burst, layer=layer, point=point, records=row["records"], p99_ms=row["p99_ms"],
        usual_p99_ms=None if usual is None else usual["p99_ms"], at_least_ms=at_least, is_delayed=is_delayed,
    )  # fmt: skip
