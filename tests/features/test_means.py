"""Process times that a client tells as a mean and a count, as Kafka Streams and the sinks of Connect do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, WINDOW, Story, growing, lagging, steps
from tests.triage.judging import rows_of
from workbench.features.chart_series import series_of
from workbench.triage.question_order import TREE

pytestmark = pytest.mark.jvm
RATE, BATCH = 100.0, 4.0


def told(story: Story, seconds: Any, *, batch: float | None, member: str = "m-0") -> Story:
    """A task with its mean time of a call, the records of a call, and the records of all."""
    place = {"group": story.group, "member": member, "processor": "0"}
    shape = np.asarray(steps(*seconds, at=-90.0)(TIMES) * (batch or 1.0))
    story.add("process_time", shape.tolist(), stat="mean", **place)
    if batch is not None:
        story.add("process_time", batch, stat="batch", **place)
    return story.add("process_time", (RATE * (TIMES - TIMES[0])).tolist(), stat="count", **place)


def processor(spark: Any, story: Story) -> Any:
    """The only processor of the only subscription."""
    [row] = rows_of(spark, story.samples()).values()
    [found] = row.processors
    return found


@pytest.mark.parametrize("batch", [None, BATCH])
def test_a_mean_is_as_good_as_a_sum(spark: Any, batch: float | None) -> None:
    """Per record, in the window and in the baseline; a batch's time is divided by its records."""
    found = processor(spark, told(lagging().people(), (0.002, 0.008), batch=batch))
    assert found.process_seconds == pytest.approx(0.008, rel=0.1)
    assert found.baseline_seconds == pytest.approx(0.002, rel=0.01)
    assert found.slow_down == pytest.approx(4.0, rel=0.1)
    assert found.rate_per_second == pytest.approx(RATE, rel=0.05)


def test_of_several_members_their_mean_counts(spark: Any) -> None:
    """Two tasks of one name, in two workers."""
    story = told(lagging().people(), (0.002, 0.004), batch=BATCH)
    found = processor(spark, told(story, (0.002, 0.012), batch=BATCH, member="m-1"))
    assert found.process_seconds == pytest.approx(0.008, rel=0.1)
    assert found.rate_per_second == pytest.approx(2 * RATE, rel=0.05)


def test_a_mean_that_is_nan_is_not_known(spark: Any) -> None:
    """Nothing was handled lately: Java's clients say NaN then. It is no 0, and no slow handler."""
    place = {"group": "payments", "member": "m-0", "processor": "0"}
    story = lagging().people().add("process_time", float("nan"), stat="mean", **place)
    found = processor(spark, story.add("process_time", 500.0, stat="count", **place))
    assert found.process_seconds is None
    assert found.slow_down is None


def test_its_chart_is_of_a_record(spark: Any) -> None:
    """The same numbers as in the verdict."""
    story = told(lagging(), (0.002, 0.008), batch=BATCH)
    [line] = series_of(story.samples(), WINDOW, group=story.group, topic=story.topic).process_time
    assert line.name == "0"
    assert np.nanmax(line.values) == pytest.approx(0.008)
    assert np.nanmin(line.values) == pytest.approx(0.002)


def test_a_mean_of_the_last_minute_counts_when_it_has_caught_up(spark: Any) -> None:
    """It rises for a third of the incident, until the good time has left it: the last third says how slow the handler is."""
    place = {"group": "payments", "member": "m-0", "processor": "0"}
    rises = np.interp(TIMES, [-90.0, -40.0], [0.002, 0.008])
    story = lagging().people().add("process_time", rises.tolist(), stat="mean", **place)
    story.add("process_time", (RATE * (TIMES - TIMES[0])).tolist(), stat="count", **place)
    found = processor(spark, story)
    assert found.process_seconds == pytest.approx(0.008, rel=0.01)
    assert found.baseline_seconds == pytest.approx(0.002, rel=0.1)


@pytest.mark.parametrize("times", [3.0, 30.0])
@pytest.mark.parametrize("at", [-48.0, -30.0])
def test_good_time_in_the_window_is_not_mixed_with_the_bad_time_after_it(spark: Any, at: float, times: float) -> None:
    """At the old pace a few seconds have more records than all the time since, and the thread waited most of the time."""
    pace = steps(RATE, RATE / times, at=at)(TIMES)
    counts = np.concatenate([[0.0], np.cumsum(np.diff(TIMES) * pace[1:])])
    sums = np.concatenate([[0.0], np.cumsum(np.diff(counts) * steps(0.002, 0.002 * times, at=at)(TIMES)[1:])])
    place = {"group": "payments", "member": "m-0"}
    story = Story().all_partitions(lag=growing(20.0, start=5.0, since=at), time_lag=growing(0.5, start=0.1, since=at))
    story.people().add("poll_idle", steps(0.8, 0.01, at=at), **place)
    story.add("process_time", counts.tolist(), stat="count", processor="0", **place)
    story.add("process_time", sums.tolist(), stat="sum", processor="0", **place)
    [row] = rows_of(spark, story.samples()).values()
    assert row.work_since_onset
    assert row.processors[0].process_seconds == pytest.approx(0.002 * times, rel=0.01)
    assert row.poll_idle == pytest.approx(0.01, abs=0.01)
    assert "since it fell behind" in TREE["queue_backed_up"].words(row)
