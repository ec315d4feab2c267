"""First step: reduce each series to one row per period.

The window is one period ("now"), the baseline four (its quarters). A baseline value is the lower median over the quarters, so an
incident that covers up to half of the baseline does not become the norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from workbench.samples import SERIES_ORDER
from workbench.signals import SIGNALS, Grain, Kind
from workbench.spark.session import frame_of
from workbench.window import Window

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BASELINE_PERIODS = 4
NOW = BASELINE_PERIODS  # periods 0 to 3 are the baseline, 4 is the window
RECENT_SHARE = 1 / 3  # of the window: long enough for several samples, short enough to see a change of trend

LABELS = ("cluster", "group", "topic", "partition", "member", "broker", "processor", "queue")
CUMULATIVE = tuple(signal.name for signal in SIGNALS.values() if signal.kind is not Kind.GAUGE)
# Signals of a partition or a processor are one series whichever member reports them (a partition moves between members).
MEMBERLESS = tuple(
    signal.name
    for signal in SIGNALS.values()
    if signal.grain in (Grain.PARTITION, Grain.GROUP_PARTITION, Grain.PROCESSOR, Grain.TOPIC)
)
BAD_FLAGS = ("nan", "inf", "sentinel", "stale")


def summarise(spark: SparkSession, samples: pa.Table, window: Window) -> DataFrame:
    """Reduce samples to one row per series and period: column by column in numpy (`condense`), and put together in Spark (`slots`).

    A sweep of a fleet does the same. Reducing the samples in Spark took 1.4 times as long for one incident (2 cores, warm).

    Args:
        spark: the session to work in.
        samples: `workbench.samples.SAMPLES_SCHEMA`, in any order.
        window: baseline and window; samples outside are left out.

    Returns:
        One row per (labels, signal, stat, period) with: `samples`, `bad_samples` (unusable ones), `first`, `last`, `low`, `high`,
        `mean` (signal's unit), `first_seconds`, `last_seconds` (time relative to the window's end, so ≤ 0), `increase` (counters:
        growth within the period, with resets handled), `resets` (counters: how often they restarted), `slope` (gauges: unit per
        second, least squares), `recent_slope` (the same over the last third of the window), and of single signals: `recent_low`
        (the lag's second lowest value in the last third, which ignores a single outlier; `recent_lowest` is the lowest),
        `last_two_high` (of the members, the higher of the last two samples), `starts` (the different start times), `history` (of log
        ends: the samples themselves).

    Raises:
        SetupError: if there are too many samples for a Spark Connect server.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from workbench.features.condense import COLUMNS, condense
    from workbench.features.slots import of_slots

    edges = _edges(window)
    ordered = samples.select(list(COLUMNS)).sort_by([(name, "ascending") for name in (*SERIES_ORDER, "ts")])
    rows = condense(ordered, [_micros(at) for at in edges])
    frame = frame_of(spark, rows)
    if rows.num_rows <= _ONE_TASK_ROWS:
        frame = frame.coalesce(1)
    counters = bool(pc.any(pc.is_in(rows["signal"], pa.array(CUMULATIVE))).as_py())
    return of_slots(frame, edges[1:], counters=counters)


# Up to this number of rows, use one task: it needs no shuffle, and a shuffle costs more than it saves (for an incident of one
# group, the job takes a third less time).
_ONE_TASK_ROWS = 10_000
_MICROSECOND = timedelta(microseconds=1)


def _edges(window: Window) -> list[datetime]:
    """Bounds of the baseline's quarters and of the window; each begins after its first bound, and the baseline with it."""
    if window.baseline_start == window.start:  # no baseline: quarters without samples
        before = [window.start - _MICROSECOND * number for number in range(BASELINE_PERIODS + 1, 0, -1)]
        return [*before, window.end]
    quarter = (window.start - window.baseline_start) / BASELINE_PERIODS
    inner = [window.baseline_start + quarter * number for number in range(1, BASELINE_PERIODS)]
    return [window.baseline_start - _MICROSECOND, *inner, window.start, window.end]


def _micros(at: datetime) -> int:
    return round(at.timestamp() * 1e6)


def sql_list(names: Sequence[str]) -> str:
    """Names as an SQL list of strings."""
    return "(" + ", ".join(f"'{name}'" for name in names) + ")"


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

    Not Spark's `nullif`: in a self-join, its columns are not renamed like others (pyspark 4.3.0).
    """
    return f"CASE WHEN ({denominator}) != 0 THEN ({numerator}) / ({denominator}) END"


def lower_median(array: str) -> str:
    """SQL for the lower median of an array without its nulls; null for an empty one."""
    present = f"array_compact({array})"
    return f"get(sort_array({present}), cast((size({present}) + 1) div 2 - 1 AS int))"
