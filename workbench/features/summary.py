"""The first step: every series is boiled down to one row per period.

The window is one period ("now"), the baseline four (its quarters). A baseline value is the lower median over the quarters, so an
incident that has eaten up to half of the baseline does not become the norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from workbench.signals import SIGNALS, Grain, Kind
from workbench.spark.columns import columns
from workbench.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BASELINE_PERIODS = 4
NOW = BASELINE_PERIODS  # periods 0 to 3 are the baseline, 4 is the window
RECENT_SHARE = 1 / 3  # of the window: long enough for several samples, short enough to see a turn

SAMPLES_STRUCT = T.StructType(
    [
        T.StructField("ts", T.TimestampType(), False),
        T.StructField("signal", T.StringType(), False),
        T.StructField("cluster", T.StringType(), False),
        T.StructField("group", T.StringType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("member", T.StringType()),
        T.StructField("broker", T.StringType()),
        T.StructField("processor", T.StringType()),
        T.StructField("queue", T.StringType()),
        T.StructField("stat", T.StringType(), False),
        T.StructField("le", T.DoubleType()),
        T.StructField("value", T.DoubleType()),
        T.StructField("flag", T.StringType()),
        T.StructField("source", T.StringType(), False),
    ]
)

LABELS = ("cluster", "group", "topic", "partition", "member", "broker", "processor", "queue")
CUMULATIVE = tuple(signal.name for signal in SIGNALS.values() if signal.kind is not Kind.GAUGE)
# Signals of a partition or a processor are the same thing whichever member reports them (a partition moves between members).
MEMBERLESS = tuple(
    signal.name
    for signal in SIGNALS.values()
    if signal.grain in (Grain.PARTITION, Grain.GROUP_PARTITION, Grain.PROCESSOR, Grain.TOPIC)
)
BAD_FLAGS = ("nan", "inf", "sentinel", "stale")


def summarise(samples: DataFrame, window: Window, *, counters: bool = True) -> DataFrame:
    """Boil samples down.

    Args:
        samples: in `SAMPLES_STRUCT`.
        window: baseline and window; samples outside are left out.
        counters: whether there may be any; a lag exporter has none, and a quarter of the plan is saved.

    Returns:
        One row per (labels, signal, stat, period) with: `samples`, `bad_samples` (unusable ones), `first`, `last`, `low`, `high`,
        `mean` (signal's unit), `first_seconds`, `last_seconds` (time relative to the window's end, so ≤ 0), `increase` (counters:
        growth within the period, resets taken care of), `resets` (counters: how often they began anew), `slope` (gauges: unit per
        second, least squares), `recent_slope` (the same over the last third of the window), and of single signals: `recent_low`
        (the lag's second lowest value in the last third: one odd sample does not count; `recent_lowest` is the lowest),
        `last_two_high` (of the members, the higher of the last two samples), `starts` (the different start times), `history` (of log
        ends: the samples themselves).
    """
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
    recent = f"seconds > {-window.seconds * RECENT_SHARE!r}D"
    lows = f"sort_array(collect_list(value) FILTER (WHERE signal = 'consumer_lag' AND {recent}))"
    members = "collect_list(struct(seconds, value)) FILTER (WHERE signal = 'group_members' AND value IS NOT NULL)"
    member = f"CASE WHEN signal NOT IN {sql_list(MEMBERLESS)} THEN member END AS member"
    keys = [f"`{name}`" for name in LABELS if name != "member"]
    return stepped.groupBy(*columns(*keys, member, "signal", "stat", "period")).agg(
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


_USABLE = "CASE WHEN value IS NOT NULL THEN seconds END"


def sql_list(names: Sequence[str]) -> str:
    """Names as SQL's list of strings."""
    return "(" + ", ".join(f"'{name}'" for name in names) + ")"


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


def of(
    aggregate: str,
    column: str,
    signal: str,
    *,
    stat: str | None = None,
    period: int | None = NOW,
    baseline: bool = False,
) -> str:
    """SQL for an aggregate over one signal: in the window, in one quarter of the baseline, in all of the baseline, or in all.

    `of("max", "last", "consumer_lag")` → `max(last) FILTER (WHERE signal = 'consumer_lag' AND period = 4)`.
    """
    conditions = [f"signal = '{signal}'"]
    if stat is not None:
        conditions.append(f"stat = '{stat}'")
    if baseline:
        conditions.append(f"period < {NOW}")
    elif period is not None:
        conditions.append(f"period = {period}")
    return f"{aggregate}({column}) FILTER (WHERE {' AND '.join(conditions)})"


def ratio(numerator: str, denominator: str) -> str:
    """SQL for a quotient; null where the denominator is 0.

    Not Spark's `nullif`: inside of a plan that is joined with itself its columns are not renamed with the others (pyspark 4.3.0).
    """
    return f"CASE WHEN ({denominator}) != 0 THEN ({numerator}) / ({denominator}) END"


def lower_median(array: str) -> str:
    """SQL for the lower median of an array without its nulls; null if there is nothing."""
    present = f"array_compact({array})"
    return f"get(sort_array({present}), cast((size({present}) + 1) div 2 - 1 AS int))"
