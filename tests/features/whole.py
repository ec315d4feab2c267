"""The summary of one window for all: `condense` and `slots`, as a sweep puts them together."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from workbench.features.condense import COLUMNS, condense
from workbench.features.slots import of_slots
from workbench.features.summary import BASELINE_PERIODS, CUMULATIVE
from workbench.samples import SERIES_ORDER
from workbench.spark.session import frame_of
from workbench.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def summarise(spark: SparkSession, samples: pa.Table, window: Window) -> DataFrame:
    """Reduce samples to one row per series and period: column by column in numpy (`condense`), and put together in Spark (`slots`).

    That is the way of a fleet, too. Reducing the samples in Spark took 1.4 times as long for one incident (2 cores, warm).

    Args:
        spark: the session to work in.
        samples: `workbench.samples.SAMPLES_SCHEMA`, in any order.
        window: baseline and window; samples outside are left out.

    Returns:
        One row per (labels, signal, stat, period) with: `samples`, `bad_samples` (unusable ones), `first`, `last`, `low`, `high`,
        `mean` (signal's unit), `first_seconds`, `last_seconds` (time relative to the window's end, so ≤ 0), `increase` (counters:
        growth within the period, resets taken care of), `resets` (counters: how often they restarted), `slope` (gauges: unit per
        second, least squares), `recent_slope` (the same over the last third of the window), and of single signals: `recent_low`
        (the lag's second lowest value in the last third: one odd sample does not count; `recent_lowest` is the lowest),
        `moved_seconds`, `longest_gap` (of commits: the last change, and the longest time between two changes, in seconds),
        `last_two_high` (of the members, the higher of the last two samples), `starts` (the different start times), `history` (of log
        ends: the samples themselves).

    Raises:
        SetupError: if they are too many for a Spark Connect server.
    """
    edges = _edges(window)
    ordered = samples.select(list(COLUMNS)).sort_by([(name, "ascending") for name in (*SERIES_ORDER, "ts")])
    rows = condense(ordered, [_micros(at) for at in edges])
    frame = frame_of(spark, rows)
    if rows.num_rows <= _ONE_TASK_ROWS:
        frame = frame.coalesce(1)
    counters = bool(pc.any(pc.is_in(rows["signal"], pa.array(CUMULATIVE))).as_py())
    return of_slots(frame, edges[1:], counters=counters)


# Up to so many rows all of it is one task: what is in one place needs no shuffle, and each costs more than it saves (an incident of
# one group: a third off the time that the job takes).
_ONE_TASK_ROWS = 10_000
_MICROSECOND = timedelta(microseconds=1)


def _edges(window: Window) -> list[datetime]:
    """Bounds of the baseline's quarters and of the window; each begins after its first bound, and the baseline with it."""
    if window.baseline_start == window.start:  # no baseline: quarters that no sample is in
        before = [window.start - _MICROSECOND * number for number in range(BASELINE_PERIODS + 1, 0, -1)]
        return [*before, window.end]
    quarter = (window.start - window.baseline_start) / BASELINE_PERIODS
    inner = [window.baseline_start + quarter * number for number in range(1, BASELINE_PERIODS)]
    return [window.baseline_start - _MICROSECOND, *inner, window.start, window.end]


def _micros(at: datetime) -> int:
    return round(at.timestamp() * 1e6)
