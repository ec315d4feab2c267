"""A second implementation of the summary, in Spark alone: the oracle that `features.summary_schema` is held against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.features.summary_schema import (
    BAD_FLAGS,
    BASELINE_PERIODS,
    CUMULATIVE,
    EACH_MEMBERS,
    LABELS,
    MEMBERLESS,
    NOW,
    sql_list,
)
from workbench.judgement_numbers import RECENT
from workbench.spark.parsed_sql_cache import columns
from workbench.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def summarise(samples: DataFrame, window: Window, *, counters: bool = True) -> DataFrame:
    """The rows of `features.summary_of_slots`, of samples that are in Spark already."""
    end, first = window.end.timestamp(), -window.seconds - window.baseline_seconds
    seconds = f"(unix_micros(ts) / 1e6D - {end!r}D)"
    timed = samples.select(
        *columns(
            *LABELS,
            *("signal", "stat", "value", "flag", "source"),
            f"{seconds} AS seconds",
            f"{_period(window, seconds)} AS period",
            # Buckets are for pictures; the tree needs sums and counts, which are exact.
        )
    ).where(*columns(f"stat != 'bucket' AND seconds BETWEEN {first!r}D AND 0"))
    stepped = _with_steps(timed) if counters else timed
    recent = f"seconds > {-window.seconds * RECENT!r}D"
    lows = f"sort_array(collect_list(value) FILTER (WHERE signal = 'consumer_lag' AND {recent}))"
    members = "collect_list(struct(seconds, value)) FILTER (WHERE signal = 'group_members' AND value IS NOT NULL)"
    member = f"CASE WHEN signal NOT IN {sql_list(MEMBERLESS)} THEN member END AS member"
    keys = [f"`{name}`" for name in LABELS if name != "member"]
    each = f"CASE WHEN signal IN {sql_list(EACH_MEMBERS)} THEN member END AS each"
    grouped = stepped.groupBy(*columns(*keys, member, each, "signal", "stat", "period")).agg(
        *columns(
            "count(value) AS samples",
            f"count_if(flag IN {sql_list(BAD_FLAGS)}) AS bad_samples",
            f"min_by(value, {_USABLE}) AS first",
            f"max_by(value, {_USABLE}) AS last",
            "min(value) AS low",
            "max(value) AS high",
            "avg(value) AS mean",
            f"min({_USABLE}) AS first_seconds",
            f"max({_USABLE}) AS last_seconds",
            f"{'sum(step)' if counters else 'cast(NULL AS double)'} AS increase",
            f"{'sum(reset)' if counters else 'cast(NULL AS bigint)'} AS resets",
            "regr_slope(value, seconds) AS slope",
            f"regr_slope(value, seconds) FILTER (WHERE {recent}) AS recent_slope",
            f"coalesce(get({lows}, 1), get({lows}, 0)) AS recent_low",
            f"min(value) FILTER (WHERE {recent}) AS recent_lowest",
            f"array_max(transform(slice(reverse(array_sort({members})), 1, 2), it -> it.value)) AS last_two_high",
            "size(collect_set(value) FILTER (WHERE signal = 'start_time')) AS starts",
            "collect_list(struct(seconds, value)) FILTER (WHERE signal = 'log_end_offset' AND value IS NOT NULL)"
            " AS history",
        )
    )
    return grouped.drop("each")


_USABLE = "CASE WHEN value IS NOT NULL THEN seconds END"


def _period(window: Window, seconds: str) -> str:
    """0 to 3 for the quarters of the baseline, 4 for the window."""
    if window.baseline_seconds <= 0:
        return str(NOW)
    begin, quarter = window.seconds + window.baseline_seconds, window.baseline_seconds / BASELINE_PERIODS
    return (
        f"CASE WHEN {seconds} > {-window.seconds!r}D THEN {NOW}"
        f" ELSE greatest(least(cast(ceil(({seconds} + {begin!r}D) / {quarter!r}D) AS int), {NOW}), 1) - 1 END"
    )


def _with_steps(timed: DataFrame) -> DataFrame:
    cumulative = sql_list(CUMULATIVE)
    counters = _increases(timed.where(*columns(f"signal IN {cumulative} AND value IS NOT NULL")))
    gauges = timed.where(*columns(f"signal NOT IN {cumulative}")).select(
        *columns("*", "cast(NULL AS double) AS step", "cast(NULL AS int) AS reset")
    )
    return gauges.unionByName(counters)


def _increases(counters: DataFrame) -> DataFrame:
    """Add `step`, the growth since the sample before, and `reset`, 1 where it began anew: at 0, so its value is the growth then."""
    labels = ", ".join(f"`{name}`" for name in LABELS)
    before = f"lag(value) OVER (PARTITION BY {labels}, signal, stat, source ORDER BY seconds)"
    return counters.select(*columns("*", f"{before} AS before")).select(
        *columns(
            "* EXCEPT (before)",
            "CASE WHEN value >= before THEN value - before WHEN before IS NOT NULL THEN value END AS step",
            "CASE WHEN value < before THEN 1 ELSE 0 END AS reset",
        )
    )
