"""Brokers as a unit of their own: what each shows in the window and before it, and which partitions it leads. No judgement yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.signals import SIGNALS, Grain, Kind
from workbench.spark.columns import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from workbench.window import Window

OF_SERVERS = tuple(it.name for it in SIGNALS.values() if it.grain is Grain.SERVER)
_COUNTERS = tuple(it.name for it in SIGNALS.values() if it.grain is Grain.SERVER and it.kind is Kind.COUNTER)
_SERIES = "PARTITION BY cluster, broker, signal, stat, source ORDER BY ts"


def of_servers(samples: DataFrame, window: Window) -> DataFrame:
    """Reduce the brokers' own series.

    Args:
        samples: in `SAMPLES_SCHEMA`.

    Returns:
        One row per (cluster, broker, signal, stat): `now` and `before`, means of the window and of its baseline in the signal's unit
        (of a counter: per second); `last` and `last_ts`; `samples`, how many of them are in the window. What is not known is NULL.
    """
    start, end, first = (f"timestamp '{it.isoformat()}'" for it in (window.start, window.end, window.baseline_start))
    named = ", ".join(f"'{name}'" for name in OF_SERVERS)
    counted = ", ".join(f"'{name}'" for name in _COUNTERS)
    found = samples.where(*columns(f"signal IN ({named}) AND value IS NOT NULL AND ts >= {first} AND ts <= {end}"))
    stepped = found.selectExpr(
        "cluster", "broker", "signal", "stat", "ts", "value",
        f"value - lag(value) OVER ({_SERIES}) AS step",
        f"unix_micros(ts) / 1e6 - lag(unix_micros(ts) / 1e6) OVER ({_SERIES}) AS seconds",
    )  # fmt: skip
    # A counter that fell has begun anew: it counts from there.
    each = stepped.selectExpr(
        "*", f"ts >= {start} AS is_now",
        f"CASE WHEN signal IN ({counted}) THEN if(step < 0, value, step) / seconds ELSE value END AS shown",
    )  # fmt: skip
    return each.groupBy("cluster", "broker", "signal", "stat").agg(
        *columns(
            "avg(shown) FILTER (WHERE is_now) AS now",
            "avg(shown) FILTER (WHERE NOT is_now) AS before",
            "max_by(value, ts) AS last",
            "max(ts) AS last_ts",
            "count(value) FILTER (WHERE is_now) AS samples",
        )
    )


def leaders(samples: DataFrame) -> DataFrame:
    """Which broker led each partition last.

    Returns:
        One row per (cluster, topic, partition): `broker`, its id; NULL if it had no leader.
    """
    found = samples.where(*columns("signal = 'leader'"))
    return found.groupBy("cluster", "topic", "partition").agg(*columns("cast(max_by(value, ts) AS bigint) AS broker"))
