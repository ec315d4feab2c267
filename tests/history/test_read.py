"""By what time a subscription is judged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from workbench.features.condense import COLUMNS
from workbench.history.partition_histories import JudgedHistory, comes_again, read
from workbench.history.partition_series import PartitionHistory
from workbench.samples import DERIVED, SERIES_ORDER, SampleBatch
from workbench.thresholds import Thresholds
from workbench.window import Window

END = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = Window(baseline_start=END - timedelta(minutes=75), start=END - timedelta(minutes=15), end=END)
KEY = ("c", "g", "t")


def test_a_step_past_what_waited_is_no_riddle_where_only_the_lag_is_measured() -> None:
    """An exporter tells the log's end, the lag and the members, and no commit: 10 minutes wait, and are passed in one step."""
    at = np.arange(-4500.0, 0.1, 15.0)
    micros = [round((END.timestamp() + float(it)) * 1e6) for it in at]
    waits = np.where((at >= -1200) & (at < -600), 50 * (at + 1200), 0.0) + 10
    batch = SampleBatch("c", "exporter")
    batch.add("log_end_offset", {"topic": "t", "partition": 0}, micros, list(map(float, 1e6 + 50 * (at + 10_000))))
    batch.add("consumer_lag", {"group": "g", "topic": "t", "partition": 0}, micros, list(map(float, waits)))
    batch.add("group_members", {"group": "g"}, micros, [3.0] * len(at))
    samples = batch.to_arrow().select(list(COLUMNS)).sort_by([(name, "ascending") for name in (*SERIES_ORDER, "ts")])
    story = read(samples, WINDOW, lambda _group: Thresholds()).stories[KEY][0]
    assert story.skipped is not None and story.skipped > 25_000
    assert story.skip_read is None and not story.skip_beside


def judged_of(*waits: Callable[[float], float], every: float = 10.0) -> JudgedHistory:
    """How a group is judged whose partitions wait so many seconds at a time before the end; 50 records arrive a second."""
    at = np.arange(-4500.0, 0.1, every)
    batch = SampleBatch("c", "exporter")
    micros = [round((END.timestamp() + float(it)) * 1e6) for it in at]
    for number, wait in enumerate(waits):
        of_log = {"topic": "t", "partition": number}
        read_up_to = np.array([it - wait(float(it)) for it in at])
        for signal, labels, seconds in (
            ("log_end_offset", of_log, at),
            ("committed_offset", {"group": "g", **of_log}, read_up_to),
        ):
            batch.add(signal, labels, micros, list(map(float, np.floor(1e6 + 50 * (seconds + 10_000)))))
    order = [(name, "ascending") for name in (*SERIES_ORDER, "ts")]
    samples = batch.to_arrow().select(list(COLUMNS)).sort_by(order)
    return read(samples, WINDOW, lambda _group: Thresholds()).judged[KEY]


def test_what_began_later_and_waits_far_less_is_no_beginning_of_what_others_wait_for() -> None:
    """A member that was too slow before the data begin has partitions of both kinds: its handlers were no faster at a good time."""

    def all_the_time(at: float) -> float:
        return 1500 + 0.3 * (at + 4500)

    def lately(most: float) -> Callable[[float], float]:
        return lambda at: 3 + max(0.0, most * (at + 1500) / 1500)

    assert judged_of(all_the_time, lately(200)).good_until_us is None
    assert judged_of(lately(200)).onset == pytest.approx(-1500, abs=120)
    as_bad = judged_of(lambda at: 300 + 0.01 * (at + 4500), lately(1200))
    assert as_bad.onset == pytest.approx(-1500, abs=120) and as_bad.good_until_us is not None


@pytest.mark.parametrize("since", [-2800.0, -1500.0, -1000.0])
def test_what_has_waited_since_before_the_window_was_no_good_time(since: float) -> None:
    """One of its partitions comes and goes meanwhile: the baseline ends where the first fell behind, not where the window begins."""

    def for_good(at: float) -> float:
        return 3 + max(0.0, 0.6 * (at - since))

    def comes_and_goes(at: float) -> float:
        return 203 if -700 <= at < -600 or at >= -200 else 3

    found = judged_of(for_good, comes_and_goes, lambda _at: 3.0)
    assert found.good_until_us is not None
    assert since - 60 <= found.good_until_us / 1e6 - END.timestamp() <= since + 60
    assert found.start_us == round(WINDOW.start.timestamp() * 1e6)


@pytest.mark.parametrize("step", [5.0, 10.0, 30.0])
@pytest.mark.parametrize("onset", [-700.0, -433.0, -240.0])
def test_the_work_of_members_is_measured_from_the_first_bad_sample_on(onset: float, step: float) -> None:
    """One good minute at the old pace has more records than five bad ones; growth of a lag needs the last good sample all the same."""
    judged = judged_of(lambda at: 3 + max(0.0, 0.9 * (at - onset)), every=step)
    from_at, work_from = (it / 1e6 - END.timestamp() for it in (judged.start_us, judged.work_from_us))
    assert judged.onset is not None
    assert judged.onset == pytest.approx(onset, abs=2 * step)
    assert (from_at, work_from) == pytest.approx((judged.onset - step, judged.onset + step), abs=0.01)


@pytest.mark.parametrize("onset", [-4000.0, -1500.0, -915.0])
def test_the_work_of_members_is_measured_in_the_window_where_it_began_before(onset: float) -> None:
    """Nothing good is in it."""
    judged = judged_of(lambda at: 3 + max(0.0, 0.2 * (at - onset)))
    assert judged.work_from_us == judged.start_us == round(WINDOW.start.timestamp() * 1e6)


def test_of_an_onset_just_now_enough_samples_are_measured() -> None:
    """A tenth of the window at least, although some of it was good."""
    judged = judged_of(lambda at: 3 + (200 if at > -35 else 0))
    assert judged.work_from_us == judged.start_us == round((END.timestamp() - 90) * 1e6)


@pytest.mark.parametrize(("stops", "from_the_start"), [((-250.0,), False), ((-800.0, -520.0, -250.0), True)])
def test_what_comes_and_goes_did_not_begin_with_its_last_time(stops: tuple[float, ...], from_the_start: bool) -> None:
    """Stands still for 200 s, catches up in one step, and stands still again: what happens at each stop is counted in all of them."""
    at = np.arange(-4500.0, 0.1, 10.0)
    ends = np.floor(1e6 + 50 * (at + 5000))
    read_up_to = at - 3
    for stop in stops:
        until = 0.1 if stop == stops[-1] else stop + 200
        read_up_to = np.where((at >= stop) & (at < until), stop - 3, read_up_to)
    batch = SampleBatch("c", "exporter")
    micros = [round((END.timestamp() + float(it)) * 1e6) for it in at]
    of_log = {"topic": "t", "partition": 0}
    batch.add("log_end_offset", of_log, micros, list(map(float, ends)))
    committed = np.floor(1e6 + 50 * (read_up_to + 5000))
    batch.add("committed_offset", {"group": "g", **of_log}, micros, list(map(float, committed)))
    order = [(name, "ascending") for name in (*SERIES_ORDER, "ts")]
    samples = batch.to_arrow().select(list(COLUMNS)).sort_by(order)
    judged = read(samples, WINDOW, lambda _group: Thresholds()).judged[KEY]
    assert judged.onset == pytest.approx(-250, abs=40)
    start = judged.start_us / 1e6 - END.timestamp()
    assert start == pytest.approx(-900 if from_the_start else -255, abs=40)
    assert judged.good_until_us is not None
    assert judged.good_until_us <= judged.start_us
    assert (judged.work_from_us == judged.start_us) is from_the_start


def late_in(*stretches: tuple[float, float]) -> PartitionHistory:
    """A partition that was late in these stretches of the window."""
    return PartitionHistory(interval=10.0, lateness=stretches)


@pytest.mark.parametrize(
    ("parts", "again"),
    [
        ([late_in((-500.0, -450.0), (-300.0, -120.0))], True),
        ([late_in((-500.0, -450.0), (-300.0, 0.0))], True),
        ([late_in((-500.0, -450.0))], False),
        ([late_in((-800.0, -700.0), (-600.0, -500.0))], False),  # it has stayed away for far longer than in between
        ([late_in((-500.0, -300.0)), late_in((-450.0, -250.0))], False),  # one time, of two partitions
        ([late_in((-500.0, -450.0)), late_in((-300.0, -120.0))], True),  # another partition each time
        ([late_in((-500.0, -450.0)), late_in((-440.0, -400.0))], False),  # one time, one partition after the other
    ],
)
def test_what_comes_and_goes_is_counted_of_the_group_and_ends_when_it_stays_away(
    parts: list[PartitionHistory], again: bool
) -> None:
    """Members that die in turn make other partitions late each time; and what happened twice is over after longer than in between."""
    assert comes_again(parts) is again


@pytest.mark.parametrize("exporter", [True, False])
def test_a_lag_that_was_worked_out_is_known_from_who_told_the_end(exporter: bool) -> None:
    """A query of Spark tells the end of the batch that it has read: the difference, always 0, is no measurement of somebody else."""
    at = np.arange(-4500.0, 0.1, 15.0)
    micros = [round((END.timestamp() + float(it)) * 1e6) for it in at]
    place, ends = {"topic": "t", "partition": 0}, list(map(float, 1e6 + 50 * (at + 10_000)))
    query, other, made = SampleBatch("c", "query"), SampleBatch("c", "exporter"), SampleBatch("c", DERIVED)
    query.add("committed_offset", {"group": "g", "member": "q", **place}, micros, ends)
    (other if exporter else query).add("log_end_offset", place, micros, ends)
    made.add("consumer_lag", {"group": "g", **place}, micros, [0.0] * len(at))
    rows = pa.concat_tables([it.to_arrow().select(list(COLUMNS)) for it in (query, other, made)])
    samples = rows.sort_by([(name, "ascending") for name in (*SERIES_ORDER, "ts")])
    assert read(samples, WINDOW, lambda _group: Thresholds()).stories[KEY][0].by_client is not exporter
