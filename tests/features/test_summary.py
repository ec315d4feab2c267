"""Rules of the first step: periods, resets, and values that are none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evaluation.stories import END, TIMES, TS_US, WINDOW, Story
from tests.features.whole import summarise
from workbench.features.summary_schema import NOW
from workbench.samples import SampleBatch
from workbench.window import Window

pytestmark = pytest.mark.jvm


def rows(spark: Any, table: pa.Table, window: Window = WINDOW) -> list[dict[str, Any]]:
    """The summary as dictionaries."""
    return summarise(spark, table, window).toArrow().to_pylist()


def test_samples_fall_into_four_quarters_and_the_window(spark: Any) -> None:
    """Every sample counts once; what lies outside counts nowhere."""
    batch = SampleBatch("c", "p")
    outside = [TS_US[0] - 1_000_000, TS_US[-1] + 1_000_000]
    batch.add("poll_age", {"group": "g", "member": "m"}, [*TS_US, *outside], [1.0] * (len(TS_US) + 2))
    found = rows(spark, batch.to_arrow())
    assert sorted(row["period"] for row in found) == [0, 1, 2, 3, NOW]
    assert sum(row["samples"] for row in found) == len(TS_US)


@pytest.mark.parametrize("resets", [[], [0.5], [0.2, 0.21, 0.9]])
def test_a_counters_growth_survives_restarts(spark: Any, resets: list[float]) -> None:
    """After a reset a counter began at 0, so its value is growth; the increase is that of a naive sum."""
    chance = np.random.default_rng(3)
    steps = chance.integers(0, 9, len(TS_US)).astype(float)
    values, total = [], 0.0
    reset_at = {int(share * len(TS_US)) for share in resets}
    expected = 0.0
    for index, step in enumerate(steps):
        total = step if index in reset_at else total + step
        values.append(total)
        if index and values[index] < values[index - 1]:
            expected += values[index]
        elif index:
            expected += values[index] - values[index - 1]
    batch = SampleBatch("c", "p")
    batch.add("processed", {"group": "g", "topic": "t", "member": "m", "processor": "x"}, TS_US, values, stat="ok")
    assert sum(row["increase"] or 0.0 for row in rows(spark, batch.to_arrow())) == pytest.approx(expected)


def test_values_that_are_none_count_as_bad_and_nothing_else(spark: Any) -> None:
    """NaN, infinity and sentinels: flagged, never averaged, never a maximum."""
    raw = [5.0, float("nan"), float("inf"), -1.0, 7.0]
    batch = SampleBatch("c", "p")
    batch.add("consumer_lag", {"group": "g", "topic": "t", "partition": 0}, TS_US[-5:], raw)
    [row] = rows(spark, batch.to_arrow())
    assert (row["samples"], row["bad_samples"]) == (2, 3)
    assert (row["low"], row["high"], row["mean"], row["last"]) == (5.0, 7.0, 6.0, 7.0)


def test_a_slope_is_per_second(spark: Any) -> None:
    """Least squares over the window."""
    story = Story().add("consumer_lag", (1000 + 3.0 * TIMES).tolist(), group="g", topic="t", partition=0)
    window = next(row for row in rows(spark, story.samples()) if row["period"] == NOW)
    assert window["slope"] == pytest.approx(3.0)


def test_without_a_baseline_everything_is_the_window(spark: Any) -> None:
    """A recording that has just begun can be looked at all the same."""
    window = Window(baseline_start=END - timedelta(seconds=60), start=END - timedelta(seconds=60), end=END)
    story = Story().add("poll_age", 1.0, group="g", member="m")
    assert {row["period"] for row in rows(spark, story.samples(), window)} == {NOW}
