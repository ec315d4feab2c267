"""Rules of the time lag: the right seconds, with the method and the bounds that they deserve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluation.stories import BASELINE_SECONDS, STEP_SECONDS, TIMES, WINDOW, WINDOW_SECONDS, Story, growing
from tests.features.whole import summarise_each
from workbench.features.subscription_features import of_summary
from workbench.judgement_numbers import EXTRAPOLATED_SECONDS
from workbench.samples import concat

pytestmark = pytest.mark.jvm

RATE = 50.0


def by_age(seconds: float, *, exact: bool = False) -> dict[str, Any]:
    """A partition whose commit is so many seconds behind a steady producer."""
    return {"rate": RATE, "lag": RATE * seconds, "time_lag": seconds if exact else None}


CASES: dict[str, dict[str, Any]] = {
    "nothing-waits": {"rate": RATE, "lag": 0.0, "time_lag": None},
    "read-from-the-record": by_age(37.0, exact=True),
    "interpolated": by_age(30.0),
    "interpolated-into-the-baseline": by_age(100.0),
    "beyond-the-samples": by_age(300.0),
    "far-beyond": by_age(5000.0),
    "idle-topic": {"rate": 0.0, "lag": 40.0, "time_lag": None},
    "unknown-commit": {"rate": RATE, "lag": float("nan"), "time_lag": None},
    "reading-too-old": {**by_age(30.0), "time_lag": 3.0},
}


@pytest.fixture(scope="module")
def oldest(spark: Any) -> dict[str, dict[str, Any]]:
    """The time lag of one partition for each case."""
    stories = []
    for name, shape in CASES.items():
        story = Story(group=name, topic=name)
        late = {"keep": TIMES < -20} if name == "reading-too-old" else {}
        time_lag = shape["time_lag"]
        story.partition(0, **{**shape, "time_lag": None})
        if time_lag is not None:
            story.add("time_lag", time_lag, group=name, topic=name, partition=0, **late)
        stories.append(story)
    frame = of_summary(
        summarise_each(spark, concat(s.samples() for s in stories), WINDOW),
        stale_after_seconds=10,
    )
    return {row["group"]: row["partitions"][0] for row in frame.toArrow().to_pylist()}


@pytest.mark.parametrize(
    ("name", "method", "seconds"),
    [
        ("nothing-waits", "exact_record", 0.0),
        ("read-from-the-record", "exact_record", 37.0),
        ("interpolated", "interpolated", 30.0),
        ("interpolated-into-the-baseline", "interpolated", 100.0),
        ("beyond-the-samples", "extrapolated_capped", 300.0),
        ("far-beyond", "extrapolated_capped", BASELINE_SECONDS + WINDOW_SECONDS + EXTRAPOLATED_SECONDS),
        ("idle-topic", "extrapolated_capped", BASELINE_SECONDS + WINDOW_SECONDS),
        ("unknown-commit", "unknown", None),
        ("reading-too-old", "interpolated", 30.0),
    ],
)
def test_the_seconds_and_their_method(
    oldest: dict[str, dict[str, Any]], name: str, method: str, seconds: float | None
) -> None:
    """Exact where the record is known, interpolated within the samples, labelled and capped beyond them (idle: at least)."""
    found = oldest[name]
    assert found["time_lag_method"] == method
    if seconds is None:
        assert found["time_lag_seconds"] is None
    else:
        assert found["time_lag_seconds"] == pytest.approx(seconds, abs=0.5)
        assert found["time_lag_low"] is not None
        assert found["time_lag_low"] <= seconds + 0.5


def test_an_interpolation_is_bounded_by_the_samples_around_it(oldest: dict[str, dict[str, Any]]) -> None:
    """The truth lies between two samples of the log end."""
    found = oldest["interpolated"]
    assert found["time_lag_low"] <= 30.0 <= found["time_lag_high"]
    assert found["time_lag_high"] - found["time_lag_low"] <= STEP_SECONDS + 0.01


def test_varying_traffic_is_followed(spark: Any) -> None:
    """A line through the whole retention is off by a factor of two on varying traffic; the history of the log end is not."""
    rate = 50 * (1 + 0.8 * np.sin(TIMES / 40))
    end = 10_000 + np.concatenate([[0], np.cumsum(rate[1:] * STEP_SECONDS)])
    age = 60.0
    committed = np.interp(TIMES - age, TIMES, end)
    story = Story(group="d", topic="d")
    story.add("log_end_offset", end.tolist(), topic="d", partition=0)
    story.add("committed_offset", committed.tolist(), group="d", topic="d", partition=0)
    story.add("consumer_lag", (end - committed).tolist(), group="d", topic="d", partition=0)
    [row] = of_summary(summarise_each(spark, story.samples(), WINDOW), stale_after_seconds=10).toArrow().to_pylist()
    assert row["time_lag_seconds"] == pytest.approx(age, rel=0.05)


def test_growth_is_measured_in_messages_per_second(spark: Any) -> None:
    """The slope of the sum is the sum of the slopes; arrivals are the growth of the log."""
    story = Story(group="g", topic="g").all_partitions(rate=RATE, lag=growing(7.0, start=5.0))
    [row] = of_summary(summarise_each(spark, story.samples(), WINDOW), stale_after_seconds=10).toArrow().to_pylist()
    assert row["lag_slope"] == pytest.approx(4 * 7.0)
    assert row["arrival_per_second"] == pytest.approx(4 * RATE)
