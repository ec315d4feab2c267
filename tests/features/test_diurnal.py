"""The time lag on traffic that swings over the day: within 5 %, or honestly labelled.

Known faults of one-line estimates on such traffic (measured on a day of ± 80 %): a line through the whole retention reads 10 minutes
as 2 to 18; a table of 30 minutes extrapolates 6 hours to 3 to 16.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from evaluation.stories import END
from tests.features.whole import summarise_each
from workbench.features.subscription_features import of_summary
from workbench.judgement_numbers import EXTRAPOLATED_SECONDS
from workbench.samples import SampleBatch, concat
from workbench.window import Window

pytestmark = pytest.mark.jvm

DAY, STEP = 86_400.0, 60.0
TRUE_LAGS = (60.0, 600.0, 3600.0, 21_600.0)
HOURS = (0, 4, 8, 12, 16, 20)
LOOK = timedelta(hours=7)  # baseline and window together


def produced(t: np.ndarray) -> np.ndarray:
    """Messages up to an instant: 1,000/s ± 80 % over the day."""
    return 1000.0 * (t - 0.8 * DAY / (2 * np.pi) * (np.cos(2 * np.pi * t / DAY) - 1))


@pytest.fixture(scope="module")
def found(spark: Any) -> dict[tuple[float, int, str], dict[str, Any]]:
    """(true lag, hour, how much history) to the partition's features; one job."""
    tables = []
    window = Window(baseline_start=END - LOOK, start=END - timedelta(minutes=15), end=END)
    for lag in TRUE_LAGS:
        for hour in HOURS:
            for history, seconds in (("long", LOOK.total_seconds()), ("short", 1800.0)):
                name = f"{lag:g}/{hour}/{history}"
                now = 2 * DAY + hour * 3600.0
                at = np.arange(-seconds, 0.1, STEP)
                batch = SampleBatch("c", "test")
                stamps = [round((END.timestamp() + second) * 1e6) for second in at]
                end, commit = produced(now + at), produced(now + at - lag)
                labels = {"group": name, "topic": name, "partition": 0}
                batch.add("log_end_offset", {"topic": name, "partition": 0}, stamps, end)
                recent = at > -900
                batch.add("committed_offset", labels, np.array(stamps)[recent], commit[recent])
                batch.add("consumer_lag", labels, np.array(stamps)[recent], (end - commit)[recent])
                tables.append(batch.to_arrow())
    frame = of_summary(summarise_each(spark, concat(tables), window), stale_after_seconds=90)
    rows = {row["group"]: row["partitions"][0] for row in frame.toArrow().to_pylist()}
    return {
        (float(lag), int(hour), history): part for key, part in rows.items() for lag, hour, history in [key.split("/")]
    }


@pytest.mark.parametrize("lag", TRUE_LAGS)
@pytest.mark.parametrize("hour", HOURS)
def test_within_five_percent_where_the_history_reaches(lag: float, hour: int, found: dict[Any, dict[str, Any]]) -> None:
    """At any hour, from a minute to six hours, and bounded by the two samples around it."""
    part = found[lag, hour, "long"]
    assert part["time_lag_method"] == "interpolated"
    assert part["time_lag_seconds"] == pytest.approx(lag, rel=0.05)
    assert part["time_lag_low"] <= lag + 1e-6 <= part["time_lag_high"] + 1e-3


@pytest.mark.parametrize("lag", TRUE_LAGS)
@pytest.mark.parametrize("hour", HOURS)
def test_labelled_where_it_does_not(lag: float, hour: int, found: dict[Any, dict[str, Any]]) -> None:
    """With half an hour of history a longer lag is extrapolated, capped, and says so: a low bound and no high one."""
    part = found[lag, hour, "short"]
    if lag <= 600:
        assert part["time_lag_method"] == "interpolated"
        assert part["time_lag_seconds"] == pytest.approx(lag, rel=0.05)
        return
    assert part["time_lag_method"] == "extrapolated_capped"
    assert part["time_lag_high"] is None
    assert part["time_lag_low"] <= lag
    assert part["time_lag_seconds"] <= 1800 + EXTRAPOLATED_SECONDS + STEP
