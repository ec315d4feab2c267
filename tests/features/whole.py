"""Summaries: of one window for all, as a sweep puts them together, and of each subscription, as a triage does."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from evaluation.stories import THRESHOLDS
from workbench.features.condense import COLUMNS, condense
from workbench.features.condense_by_subscription import condense_each, summary_of
from workbench.features.summary_of_slots import of_slots
from workbench.features.summary_schema import BASELINE_PERIODS
from workbench.samples import SERIES_ORDER
from workbench.spark.session import frame_of
from workbench.window import Window

_MICROSECOND = timedelta(microseconds=1)


def summarise(spark: Any, samples: pa.Table, window: Window) -> Any:
    """One row for each series and period; samples outside of the window are left out."""
    edges = _edges(window)
    ordered = samples.select(list(COLUMNS)).sort_by([(name, "ascending") for name in (*SERIES_ORDER, "ts")])
    rows = condense(ordered, [round(at.timestamp() * 1e6) for at in edges])
    return of_slots(frame_of(spark, rows), edges[1:])


def summarise_each(spark: Any, samples: pa.Table, window: Window) -> Any:
    """The same, each subscription by its own onset."""
    rows = condense_each(samples, window, lambda _: THRESHOLDS)
    return summary_of(frame_of(spark, rows), few=True, counters=True)


def _edges(window: Window) -> list[datetime]:
    """Bounds of the baseline's quarters and of the window; each begins after its first bound, and the baseline with it."""
    if window.baseline_start == window.start:  # no baseline: quarters that no sample is in
        before = [window.start - _MICROSECOND * number for number in range(BASELINE_PERIODS + 1, 0, -1)]
        return [*before, window.end]
    quarter = (window.start - window.baseline_start) / BASELINE_PERIODS
    inner = [window.baseline_start + quarter * number for number in range(1, BASELINE_PERIODS)]
    return [window.baseline_start - _MICROSECOND, *inner, window.start, window.end]
