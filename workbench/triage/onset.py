"""Onset of an incident, read from the time series."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workbench.features.chart_series import Series, highest, series_of
from workbench.judgement_numbers import LESS
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import State
from workbench.window import Window

if TYPE_CHECKING:
    from workbench.triage.question_types import Sign


def onset(samples: pa.Table, window: Window, row: SubscriptionFeatures) -> datetime | None:
    """Find the onset; None if it is not visible (the incident is older than the data, or no series shows it).

    The stories of the partitions say when the group fell behind. Where they do not (it keeps up, and something else is wrong), the line
    that the verdict's leaf names, or else the time lag above the floor of growth.
    """
    leaf = leaf_of(row.verdict)
    if leaf.state not in (State.LAGGING, State.CANNOT_TELL):
        return None
    began = leaf.began_ago(row)
    if began is not None:
        return window.end - timedelta(seconds=began)
    if row.onset_seconds is not None:
        return window.end + timedelta(seconds=row.onset_seconds)
    if row.without_baseline or leaf.state is State.CANNOT_TELL:
        return None
    series = series_of(samples, window, group=row.group, topic=row.topic)
    line, limit = leaf.onset(series, row) if leaf.onset is not None else _time_lag(series, row)
    if line is None:
        return None
    at = first_steady(line, limit)
    return None if at is None else datetime.fromtimestamp(float(series.times[at]), UTC)


def _time_lag(series: Series, row: SubscriptionFeatures) -> Sign:
    late = highest(series.time_lag, "time lag")
    floor = row.limits.growth_floor_ratio * row.limits.time_lag_objective_seconds
    return (late.values if late is not None else None), floor


def first_steady(values: npt.NDArray[np.float64], limit: float) -> int | None:
    """First bin from which on nearly all measured bins exceed the limit; None if that is the very first bin, or if there is none."""
    measured = np.flatnonzero(~np.isnan(values))
    if not len(measured):
        return None
    over = values[measured] > limit
    share = np.cumsum(over[::-1])[::-1] / np.arange(len(over), 0, -1)
    starts = np.flatnonzero(over & (share >= LESS))
    if not len(starts) or starts[0] == 0:
        return None
    return int(measured[starts[0]])
