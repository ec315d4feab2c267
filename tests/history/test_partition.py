"""The story of a partition: when it fell behind, its rhythm, what it lost; whatever the series are."""

from __future__ import annotations

from dataclasses import fields, replace
from math import isfinite

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.history.next_message_age import oldest_at_most
from workbench.history.partition_series import Bounds, MeasuredPartition, PartitionHistory, Track
from workbench.history.partition_story import told
from workbench.judgement_numbers import DEPLOY_SECONDS, SKIP_RATE

LIMITS = Bounds(objective=120.0, commit_every=0.0, window_start=-900.0)
RATE = 50.0


def scraped(every: float = 30.0, phase: float = 7.0) -> np.ndarray:
    """Moments of scrapes over 75 minutes."""
    return np.arange(-4500.0, 0.1, every) - phase


def ends(at: np.ndarray) -> np.ndarray:
    """The log's end: an even flow."""
    return np.floor(1e6 + RATE * (at + 5000))


def one(committed: np.ndarray, at: np.ndarray, **more: Track) -> MeasuredPartition:
    """A partition with these commits."""
    return MeasuredPartition(committed=Track(at, committed), log_end=Track(at, ends(at)), **more)


@pytest.mark.parametrize("every", [15.0, 30.0, 60.0])
@pytest.mark.parametrize("ago", [150.0, 400.0, 1000.0, 3000.0])
def test_a_stop_is_dated_to_a_sample(every: float, ago: float) -> None:
    """With a lag exporter alone, wherever it began."""
    at = scraped(every)
    story = told(one(ends(np.minimum(at - 3, -ago)), at), LIMITS)
    assert story.onset == pytest.approx(-ago, abs=every)
    assert story.late or ago < 120 + every + 10
    assert not story.sick_from_start


@pytest.mark.parametrize("delay", [3.0, 600.0])
def test_an_end_that_is_measured_no_more_says_nothing_of_later_commits(delay: float) -> None:
    """The metrics of the partition's broker end half an hour before the window does. Commits that pass their last value are neither
    above the log's end nor in time, and a lag of later is no commit that goes back."""
    at = scraped()
    there = at < -1800
    end = Track(at[there], ends(at[there]))
    behind = np.maximum(delay, np.where(at > -1800, (at + 1800) / 2, 0))
    committed = ends(at - behind)
    story = told(MeasuredPartition(committed=Track(at, committed), log_end=end), LIMITS)
    assert story.above_end is None
    assert story.late is not False
    of_lag = told(MeasuredPartition(lag=Track(at, ends(at) - committed), log_end=end), LIMITS)
    assert (of_lag.back, of_lag.above_end) == (None, None)


@pytest.mark.parametrize("pace", [0.3, 0.6, 0.9])
def test_a_slow_down_is_dated_to_two_samples(pace: float) -> None:
    """Its age grows by less than a second per second."""
    at = scraped()
    began = -1800.0
    behind = np.where(at > began, began + pace * (at - began), at) - 3
    story = told(one(ends(behind), at), LIMITS)
    assert story.onset == pytest.approx(began, abs=60)


@pytest.mark.parametrize("every", [60.0, 300.0, 600.0])
def test_a_rhythm_is_learned_and_explains_its_age(every: float) -> None:
    """A sink that commits every some minutes is not late just before it commits."""
    at = scraped()
    story = told(one(ends(np.floor(at / every) * every - 1), at), LIMITS)
    assert story.cadence == pytest.approx(every, abs=45)
    assert story.late is False


def test_young_data_are_no_proof_of_being_in_time() -> None:
    """In a Prometheus's first minute the age is a bound of that minute: how late it is, is not known. Later it is late for sure."""
    for seconds, late in ((50.0, None), (300.0, True)):
        at = scraped(5.0)
        at = at[at > -seconds]
        assert told(one(np.full(len(at), 5e5), at), LIMITS).late is late
        assert told(one(ends(at - 3), at), LIMITS).late is False


def test_one_odd_sample_is_no_story() -> None:
    """A measured age that cannot be, up or down, in the middle or at the end."""
    at = scraped()
    for place in (-40, -2, -1):
        age = np.full(len(at), 0.5)
        age[place] = 4000.0
        story = told(one(ends(at - 0.5), at, time_lag=Track(at, age)), LIMITS)
        assert (story.late, story.onset) == (False, None), place


def test_a_process_that_is_gone_measures_no_age() -> None:
    """Its last age was 0: while nobody measures it, the offsets say how old the next record is."""
    at = scraped()
    gone = (at > -1500.0) & (at <= -1000.0)
    measured = Track(at[~gone], np.full(int((~gone).sum()), 0.5))
    story = told(one(ends(np.where(gone, -1500.0, at) - 3), at, time_lag=measured), LIMITS)
    assert story.outages == 1
    lately = told(
        one(ends(np.minimum(at, -400.0) - 3), at, time_lag=Track(at[at < -400], np.full(int((at < -400).sum()), 0.5))),
        LIMITS,
    )
    assert lately.late is True


@given(
    steps=st.lists(st.tuples(st.integers(0, 50), st.floats(0.0, 1.0)), min_size=3, max_size=30),
    seconds=st.integers(0, 20),
)
def test_a_lag_alone_bounds_the_age(steps: list[tuple[int, float]], seconds: int) -> None:
    """Whatever arrives and is read in between: at one of these samples, the oldest message is no older than the bound."""
    at = np.arange(1.0 - len(steps), 1.0)
    end = np.cumsum([arrived for arrived, _ in steps]).astype(float)
    committed = np.zeros(len(steps))
    for number, (_, share) in enumerate(steps):
        before = committed[number - 1] if number else 0.0
        committed[number] = before + np.floor(share * (end[number] - before))
    found = oldest_at_most(Track(at, end - committed), float(seconds))
    # The first offset that is not committed was produced after the last sample of the end at or below it.
    first = np.searchsorted(end, committed, side="right")
    oldest = [
        0.0 if committed[n] == end[n] else at[n] - at[max(first[n] - 1, 0)] for n in range(len(at)) if at[n] >= -seconds
    ]
    assert found is None or (oldest and min(oldest) <= found)


def test_a_lag_that_never_falls_bounds_nothing() -> None:
    """The same lag all the time may be of a group that is hours late; one that was 0 is of none."""
    at = scraped()
    assert oldest_at_most(Track(at, np.full(len(at), 40.0)), 300.0) is None
    assert oldest_at_most(Track(at, np.where(at > -100, 0.0, 40.0)), 300.0) == 0.0
    assert oldest_at_most(Track(), 300.0) is None


@pytest.mark.parametrize("every", [70.0, 90.0, 130.0, 240.0])
@pytest.mark.parametrize("phase", [0.0, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("step", [15.0, 30.0, 60.0])
def test_a_lag_alone_that_falls_no_more_bounds_nothing(every: float, phase: float, step: float) -> None:
    """Its rhythm is its own: at each moment of it the lag is bounded, and no more when the group has stood for two of them."""
    at = scraped(step)

    def lag(stopped: float) -> Track:
        committed = np.floor((np.minimum(at, -stopped) + phase * every) / every) * every - phase * every - 0.2
        return Track(at, ends(at) - ends(committed))

    assert oldest_at_most(lag(0.0), 300.0) is not None
    assert oldest_at_most(lag(2 * every + 2 * step), 300.0) is None


def test_lost_is_what_retention_took_before_it_was_read() -> None:
    """Not what was read before and is read again, and not where the log start follows the commits."""
    at = scraped()
    still = ends(np.minimum(at, -3000.0))
    start = Track(at, np.where(at > -600, ends(np.array([-2400.0]))[0], 0.0))
    assert told(one(still, at, log_start=start), LIMITS).lost == pytest.approx(600 * RATE, abs=RATE)
    followed = ends(at - 3)
    assert told(one(followed, at, log_start=Track(at, followed - 10)), LIMITS).lost is None
    again = np.where(at > -500, ends(np.array([-4000.0]))[0] + 2 * RATE * (at + 500), followed)
    story = told(one(again, at, log_start=Track(at, np.minimum(followed, start.value))), LIMITS)
    assert story.lost is None
    assert story.back is not None


def overtaken(*, every: float, share: float, latest: bool, stops: float = 0.0, fast: float = 0.0) -> PartitionHistory:
    """A group that reads a share of what arrives until retention, which keeps 20 minutes, reaches it half an hour before the end.

    It then goes on at the log's end, or at its start. It has stood still for `stops` seconds by then, and reads `fast` times as fast
    as what arrives from then on.
    """
    seconds = np.arange(-4500.0, 0.1) - 7.0
    end, kept = ends(seconds), np.floor((seconds + 5000) / 100) * 100 - 5000 - 1200
    start, place = ends(kept), np.zeros(len(seconds))
    place[0] = start[2700] - share * RATE * (2700 - stops)
    for it in range(1, len(seconds)):
        pace = fast * RATE if fast and it > 2700 else 0.0 if 2700 - stops < it <= 2700 else share * RATE
        place[it] = min(end[it], place[it - 1] + pace)
        if place[it] < start[it] and it > 2700:
            place[it] = end[it] if latest else min(end[it], start[it] + pace)
    shown = slice(None, None, round(every))
    at = seconds[shown]
    series = (Track(at, line[shown]) for line in (np.floor(place), end, start))
    return told(MeasuredPartition(**dict(zip(("committed", "log_end", "log_start"), series, strict=True))), LIMITS)


@pytest.mark.parametrize("every", [15.0, 30.0, 60.0])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.8])
def test_what_is_passed_on_the_way_to_the_end_is_lost_as_what_retention_took(every: float, share: float) -> None:
    """Its place was deleted, and it begins at the end: twenty minutes of records that nobody reads; and no step to doubt besides."""
    story = overtaken(every=every, share=share, latest=True)
    assert story.leapt == pytest.approx(1200 * RATE, rel=0.15)
    assert story.lost is not None
    assert story.lost_ago == pytest.approx(1800, abs=200)
    assert story.skipped is None


@pytest.mark.parametrize("every", [15.0, 30.0, 60.0])
@pytest.mark.parametrize(
    "more", [{"share": 0.5}, {"share": 0.5, "fast": 2.0}, {"share": 0.9, "stops": 900.0, "fast": 400.0}]
)
def test_what_goes_on_at_the_logs_start_has_leapt_over_nothing_else(every: float, more: dict[str, float]) -> None:
    """Nor what reads all of it in one step after a stop: its own pace before that is not known to be all that it can."""
    assert overtaken(every=every, latest=False, **more).leapt is None


def test_where_the_start_follows_the_commits_nothing_is_leapt_over() -> None:
    """Kafka Streams deletes what it has read of its own topics; slow handlers that are well again read it in one step."""
    at = scraped()
    committed = ends(np.where(at > -900, at - 3, at - 0.5 * (at + 4600)))
    story = told(one(committed, at, log_start=Track(at, committed - 20)), LIMITS)
    assert story.leapt is None


@pytest.mark.parametrize("every", [15.0, 30.0, 60.0])
@pytest.mark.parametrize("old", [2000.0, 9000.0])
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_timestamps_from_before_the_records_came_make_nobody_late(every: float, old: float, share: float) -> None:
    """Devices that were offline: some or all records are hours old when they come. Offsets say how long they wait, also if they do."""
    at = scraped(every)
    told_old = np.where(np.random.default_rng(7).random(len(at)) < share, old, 2.0)
    for behind, late in ((np.full(len(at), 3.0), False), (3.0 + np.maximum(0.0, at + 600.0), True)):
        series = Track(at, told_old + behind)
        story = told(one(ends(at - behind), at, time_lag=series), LIMITS)
        assert story.other_clock == pytest.approx(old, rel=0.4)
        assert story.late is late
        assert story.waiting == pytest.approx(behind[-1], abs=every + 1)


@pytest.mark.parametrize("off", [-60.0, 0.0, 60.0])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_record_that_has_waited_so_long_contradicts_nobody(off: float, frozen: bool) -> None:
    """A clock a minute off is no other one; nor is that of a client whose exporter repeats the offsets of before it fell behind."""
    at = scraped()
    behind = 3.0 + np.maximum(0.0, at + 1500.0)
    age = Track(at, np.maximum(0.0, behind + off))
    shown = np.minimum(at, -1510.0) if frozen else at
    committed = ends(shown - (3.0 if frozen else behind))
    story = told(
        MeasuredPartition(committed=Track(at, committed), log_end=Track(at, ends(shown)), time_lag=age), LIMITS
    )
    assert story.other_clock is None
    assert story.late is True
    assert story.waiting == pytest.approx(age.value[-1], abs=1)


def transactions(
    *, every: float, apart: float, records: int = 2, mark: int = 1, until: float = 0.0, left: int = 0
) -> PartitionHistory:
    """Some records each time, with a mark behind them, all read at once; from `until` on, `left` offsets of the last time are not."""
    at = scraped(every)
    size = records + mark
    times = np.floor((at + 5000) / apart)
    last = np.floor((until + 5000 - 1) / apart)
    end = 1000.0 + size * np.minimum(times, last)
    committed = np.where(times >= last, end - mark - left, end - mark)
    return told(MeasuredPartition(committed=Track(at, committed), log_end=Track(at, end)), LIMITS)


@pytest.mark.parametrize("every", [15.0, 30.0, 60.0])
@pytest.mark.parametrize("apart", [200.0, 700.0])
@pytest.mark.parametrize("records", [1, 2, 40])
def test_nothing_waits_where_commits_always_rest_before_the_mark(every: float, apart: float, records: int) -> None:
    """Each transaction takes one offset more than it has records, and no consumer commits that one before the next transaction."""
    for until in (0.0, -900.0):
        story = transactions(every=every, apart=apart, records=records, until=until)
        assert (story.mark, story.waiting, story.late, story.onset) == (True, 0.0, False, None)


@pytest.mark.parametrize("records", [1, 2, 40])
@pytest.mark.parametrize("mark", [0, 1])
def test_a_record_that_waits_at_the_end_is_no_mark(records: int, mark: int) -> None:
    """It hangs with the last record, or with all of the last time: of transactions that is one offset more than the mark."""
    for left in {1, records}:
        story = transactions(every=30.0, apart=300.0, records=records, mark=mark, until=-600.0, left=left)
        assert (story.mark, story.late) == (False, True)


def test_who_is_always_one_record_behind_leaves_no_mark() -> None:
    """Single records, each of which takes until the next one comes; and what was seen twice may be chance."""
    at = scraped()
    end = 1000.0 + np.floor((np.minimum(at, -300.0) + 5000) / 60)
    assert not told(MeasuredPartition(committed=Track(at, end - 1), log_end=Track(at, end)), LIMITS).mark
    assert not transactions(every=30.0, apart=2200.0).mark


def test_the_mark_of_a_transaction_is_no_lag() -> None:
    """Nothing arrives, and one offset is never committed; with two more messages it is a lag."""
    at = scraped()
    quiet = MeasuredPartition(committed=Track(at, np.full(len(at), 99.0)), log_end=Track(at, np.full(len(at), 100.0)))
    assert told(quiet, LIMITS).idle
    assert not told(replace(quiet, log_end=Track(at, np.full(len(at), 103.0))), LIMITS).idle


def test_loss_is_the_time_until_the_next_segment_goes() -> None:
    """Segments of 10 min; the one that holds the next message goes as a whole. Where the start follows the commits: never."""
    at = scraped()
    start = np.floor((at - 7200) / 600) * 600 * RATE + 1e7
    committed = np.full(len(at), start[-1] + 3 * 600 * RATE)
    end = committed + 1e6
    kept = MeasuredPartition(committed=Track(at, committed), log_end=Track(at, end), log_start=Track(at, start))
    assert told(kept, LIMITS).loss_in == pytest.approx(1200, abs=60)
    follows = ends(at - 3)
    assert told(one(follows, at, log_start=Track(at, follows - 5)), LIMITS).loss_in is None


@pytest.mark.parametrize("stopped", [300.0, 600.0, 1200.0])
@pytest.mark.parametrize("reads", [0.0, 0.5])
def test_loss_is_told_by_the_pace_since_it_fell_behind(stopped: float, reads: float) -> None:
    """It kept up until then, and so did retention: what counts is how the two come closer now."""
    at = scraped()
    start = ends(np.floor((at - 1800) / 60) * 60)
    committed = ends(np.where(at < -stopped, at - 3, -stopped - 3 + reads * (at + stopped)))
    found = told(one(committed, at, log_start=Track(at, start)), LIMITS)
    room = 1800 - (1 - reads) * stopped
    assert found.loss_in == pytest.approx(room / (1 - reads), abs=0.1 * room / (1 - reads) + 120)


# Instants are of milliseconds, and each is there once, as where series are read.
LINE = st.lists(st.tuples(st.integers(-5_000_000, 0), st.floats(-10, 1e12)), max_size=40).map(
    lambda rows: Track(np.array([at / 1000 for at, _ in sorted(rows)]), np.array([it for _, it in sorted(rows)])).once()
)


@settings(max_examples=300, deadline=None)
@given(committed=LINE, log_end=LINE, log_start=LINE, lag=LINE, time_lag=LINE)
def test_no_series_breaks_it(
    committed: Track,
    log_end: Track,
    log_start: Track,
    lag: Track,
    time_lag: Track,
) -> None:
    """Whatever an exporter says: numbers or nothing, never an error, and nothing that is not finite."""
    with np.errstate(all="ignore"):
        story = told(
            MeasuredPartition(committed=committed, log_end=log_end, log_start=log_start, lag=lag, time_lag=time_lag),
            LIMITS,
        )
    assert isinstance(story, PartitionHistory)
    for field in fields(PartitionHistory):
        value = getattr(story, field.name)
        numbers = [it for stretch in value for it in stretch] if field.name == "lateness" else [value]
        assert all(it is None or isfinite(it) for it in numbers), field.name


def in_batches(at: np.ndarray, *, began: float, pace: float, most: float, stops: float = 0.0) -> np.ndarray:
    """Commits of a consumer that is slower than what arrives since a moment: each is of all that waited, or of so many, at once."""
    times, offsets = [began], [float(ends(np.array(began))) - 60]
    while times[-1] < stops:
        size = min(most, float(ends(np.array(times[-1]))) - offsets[-1])
        times.append(times[-1] + size / pace)
        offsets.append(offsets[-1] + size)
    slow = np.array(offsets)[np.searchsorted(times, at, side="right") - 1]
    return np.where(at < began, ends(at - 1), slow)


@pytest.mark.parametrize("began", [-900.0, -700.0, -500.0, -330.0])
@pytest.mark.parametrize("pace", [20.0, 35.0, 45.0])
def test_batches_of_all_that_waits_take_ever_longer(began: float, pace: float) -> None:
    """Each takes as long as what came during the one before: a commit that stands for longer than ever has not stopped."""
    at = scraped(5.0)
    story = told(one(in_batches(at, began=began, pace=pace, most=np.inf), at), LIMITS)
    assert story.moved_ago is not None and story.rhythm is not None
    assert story.moved_ago <= story.rhythm + 10


@pytest.mark.parametrize("most", [100.0, 500.0])
def test_batches_of_a_fixed_size_have_a_rhythm(most: float) -> None:
    """However much waits, the next one takes as long as those before: what stands for longer has stopped."""
    at = scraped(5.0)
    story = told(one(in_batches(at, began=-1500.0, pace=30.0, most=most, stops=-600.0), at), LIMITS)
    assert story.rhythm == pytest.approx(most / 30.0, abs=7)
    assert (story.moved_ago or 0.0) > 500


def test_a_stop_amid_a_burst_is_no_long_batch() -> None:
    """It kept up, read a little of what came at once, and stopped: nothing says that it takes all of it together."""
    at = scraped(5.0)
    end = ends(at) + np.where(at > -300, 50_000, 0)
    committed = np.where(at > -292, float(ends(np.array(-292.0))) + 500, ends(at - 1))
    story = told(MeasuredPartition(committed=Track(at, committed), log_end=Track(at, end)), LIMITS)
    assert (story.rhythm or 0.0) <= 30.0


def test_two_long_pauses_among_a_hundred_commits_are_no_rhythm() -> None:
    """A partition in which nothing ever waits has no sawtooth; its pauses do not explain an age."""
    at = scraped()
    read = at - 0.0
    for begin in (-1400.0, -1150.0, -200.0):  # each three minutes long; before the window, and now
        read = np.where((at > begin) & (at <= begin + 180), begin, read)
    story = told(one(ends(read), at), LIMITS)
    assert story.cadence == 0.0
    assert story.late or story.lateness


@pytest.mark.parametrize(("every", "since"), [(240.0, -4400.0), (900.0, -4600.0), (480.0, -2700.0), (600.0, -2400.0)])
def test_polls_that_take_minutes_are_the_rhythm_of_who_is_late_since(every: float, since: float) -> None:
    """Late since the data begin, or a handler that has become slow: its commits come as rarely as its polls now, not as they did."""
    at = scraped()
    slow = since + np.floor((at - since) / every) * every * 0.5 - 60
    story = told(one(ends(np.where(at > since, slow, at - 3)), at), LIMITS)
    assert story.rhythm == pytest.approx(every, abs=45)
    # One stop, after which it reads on as before, is none; nor is one that lasts.
    stopped = np.where((at > -1500) & (at < -900), -1500, np.where(at > -300, -300, at)) - 3
    assert (told(one(ends(stopped), at), LIMITS).rhythm or 0.0) <= 120.0


def test_what_neither_grows_nor_is_read_has_not_moved() -> None:
    """More than marks between a commit and an end that both stand: known as that, for as long as the data show; else not at all."""
    at = scraped()
    flat = np.full(len(at), 1e6)
    still = told(MeasuredPartition(committed=Track(at, flat - 40), log_end=Track(at, flat)), LIMITS)
    assert still.unmoved == pytest.approx(at[-1] - at[0])
    assert not still.idle
    assert told(MeasuredPartition(committed=Track(at, flat - 1), log_end=Track(at, flat)), LIMITS).unmoved is None
    assert told(MeasuredPartition(committed=Track(at, flat - 40), log_end=Track(at, ends(at))), LIMITS).unmoved is None


@pytest.mark.parametrize("every", [60.0, 200.0, 900.0])
@pytest.mark.parametrize(
    ("below", "short"),
    [
        (1.0, True),
        (0.0, False),
        (2.0, False),
        ("one more at last", False),
        ("once read", False),
        ("twice as many", False),
    ],
)
def test_a_commit_that_rests_one_before_the_end_each_time_is_told(
    every: float, below: float | str, short: bool
) -> None:
    """It may be that of the last record; then it is not late. One that ever rests elsewhere is not, nor are marks of transactions."""
    at = scraped()
    end = 9_000 + np.floor((at + 5000) / every)
    lag = np.full(len(at), below if isinstance(below, float) else 1.0)
    if below == "one more at last":
        lag[at > -1200] = 2.0
    elif below == "once read":
        lag[(at > -3000) & (at < -2000)] = 0.0
    elif below == "twice as many":  # each record has a mark behind it
        end = 2 * end
    story = told(MeasuredPartition(committed=Track(at, end - lag), log_end=Track(at, end)), LIMITS)
    assert story.short is short
    assert story.mark is (below == "twice as many")
    if short:
        assert story.late is False


def test_a_few_records_do_not_show_that_commits_rest_before_the_end() -> None:
    """Twice may be chance; and a log that is never at rest shows nothing."""
    at = scraped()
    for end in (9_000.0 + (at > -1000) + (at > -2000), ends(at)):
        assert not told(MeasuredPartition(committed=Track(at, end - 1), log_end=Track(at, end)), LIMITS).short


@settings(max_examples=60, deadline=None)
@given(
    begin=st.integers(1, 10**12),
    below=st.integers(3, 10**9),
    left=st.integers(0, 2),
    lag_alone=st.booleans(),
    late=st.booleans(),
)
def test_what_is_deleted_does_not_wait(begin: int, below: int, left: int, lag_alone: bool, late: bool) -> None:
    """A commit before the start of a log that is empty, or ends in a mark, has nothing to read; whatever lag is exported."""
    at = scraped()
    flat = np.full(len(at), float(begin + below))
    commit, end = Track(at, flat - below), Track(at, flat + left)
    of = {"lag": Track(at, end.value - commit.value)} if lag_alone else {"committed": commit}
    # A commit set back into what is deleted is one that has always been there.
    if late and not lag_alone:
        of = {
            "committed": Track(at, np.where(at > -1800, commit.value, flat)),
            "time_lag": Track(at, np.full(len(at), 9e4)),
        }
    story = told(MeasuredPartition(log_end=end, log_start=Track(at, flat), **of), LIMITS)
    assert story.idle
    assert story.unmoved is None
    assert story.back is None
    assert story.lost is None
    assert story.lost_before == (None if late and not lag_alone else below)
    assert story.late is False or left


@pytest.mark.parametrize("deleted", [0.0, 40.0, 4000.0])
@pytest.mark.parametrize("kept", [3.0, 500.0])
def test_what_is_left_of_a_log_waits(deleted: float, kept: float) -> None:
    """However much was deleted before it: a start below the end is no all-clear."""
    at = scraped()
    flat = np.full(len(at), 1e6)
    story = told(
        MeasuredPartition(
            committed=Track(at, flat - deleted - kept), log_start=Track(at, flat - kept), log_end=Track(at, flat)
        ),
        LIMITS,
    )
    assert story.unmoved == pytest.approx(at[-1] - at[0])
    assert not story.idle


def test_the_start_of_a_log_before_this_one_deletes_nothing() -> None:
    """A topic that is made anew begins at 0: what waits there waits, although the old log began far above."""
    at = scraped()
    fresh = at > -1500
    end = np.where(fresh, RATE * (at + 1500), ends(at))
    committed = np.where(fresh, 0.0, ends(at - 3))
    start = Track(at, np.where(fresh, 0.0, 5e5))
    story = told(MeasuredPartition(committed=Track(at, committed), log_end=Track(at, end), log_start=start), LIMITS)
    assert story.recreated_ago == pytest.approx(1500, abs=60)
    assert story.waiting == pytest.approx(1500, abs=60)
    assert story.back == pytest.approx(ends(np.array([-1500.0]))[0], rel=0.01)


@pytest.mark.parametrize("by", [1.0, 3.0, 10.0, 40.0])
@pytest.mark.parametrize("ago", [60.0, 400.0, 2400.0])
def test_a_commit_that_stays_back_by_a_few_has_gone_back(by: float, ago: float) -> None:
    """While both offsets move, a few are what two readings differ by; not where they stand for longer than anything may wait."""
    at = scraped()
    came = np.floor(np.interp(at, [-4500.0, -2700.0], [0.0, 60.0])) + 41_000
    story = told(
        MeasuredPartition(committed=Track(at, np.where(at > -ago, came - by, came)), log_end=Track(at, came)), LIMITS
    )
    assert story.back == (by if by > 20 or (ago > 120 and by > 2) else None), "the mark of a transaction is no message"
    moving = told(one(np.where(at > -ago, ends(at - 3) - by, ends(at - 3)), at), LIMITS)
    assert moving.back is None


@pytest.mark.parametrize("unseen", [30.0, 1200.0])
def test_a_commit_went_back_when_it_was_first_seen_lower(unseen: float) -> None:
    """Not when it was last seen higher: in between, it may have been gone."""
    at = scraped()
    committed = np.where(at > -600, 1e6 + 2 * RATE * (at + 600), ends(at - 3))
    there = (at > -600) | (at <= -600 - unseen + 30)
    story = told(MeasuredPartition(committed=Track(at[there], committed[there]), log_end=Track(at, ends(at))), LIMITS)
    assert story.back_ago == pytest.approx(600, abs=30)
    assert story.back_unseen == pytest.approx(unseen, abs=30)


@pytest.mark.parametrize(
    ("seconds", "faster", "leapt"), [(300.0, None, True), (90.0, None, True), (300.0, 1.0, False), (300.0, 3.0, False)]
)
def test_only_a_commit_that_leaps_forward_again_was_a_late_one(
    seconds: float, faster: float | None, leapt: bool
) -> None:
    """What is read again comes back at a pace; what was handed over late is passed in one step."""
    at = scraped()
    usual = ends(at - 3)
    stood = (at > -900) & (at <= -900 + seconds)
    low = usual[at <= -900][-1] - 1800 * RATE
    again = low if faster is None else np.minimum(low + faster * 2 * RATE * (at + 900), usual)
    since = stood if faster is None else at > -900
    story = told(one(np.where(since, again, usual), at), LIMITS)
    assert story.back is not None
    assert story.back_leapt is leapt


@pytest.mark.parametrize("pace", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("share", [0.3, 0.9, 1.1, 2.0])
def test_what_went_back_is_over_where_the_commit_was(pace: float, share: float) -> None:
    """However late the group is by then, for another reason."""
    at = scraped()
    usual = ends(at - 3)
    from_at = -1200 * share / pace
    low = ends(np.array([from_at - 3 - 1200.0]))[0]
    story = told(one(np.where(at > from_at, np.minimum(low + pace * RATE * (at - from_at), usual), usual), at), LIMITS)
    assert story.back == pytest.approx(1200 * RATE, rel=0.1)
    assert story.back_over is (share > 1)


@pytest.mark.parametrize("every", [30.0, 120.0])
@pytest.mark.parametrize(("away", "counted"), [(300.0, True), (700.0, False)])
def test_outages_are_stops_between_long_times_of_work(every: float, away: float, counted: bool) -> None:
    """Killed every 15 min and away for 5: outages, however rarely somebody looks. Away for most of the time: the rhythm of a batch."""
    at = scraped(every)
    down = np.mod(-at, 900.0) < away
    since = np.floor(at / 900.0) * 900.0 + 900.0 - away
    story = told(one(ends(np.where(down, since, at) - 3), at), LIMITS)
    assert (story.outages >= 3) is counted


@pytest.mark.parametrize("swing", [40.0, 100.0, 250.0])
@pytest.mark.parametrize("phase", [0.0, 150.0, 300.0, 450.0, 600.0, 900.0])
def test_a_lag_that_goes_up_and_down_does_not_drain(swing: float, phase: float) -> None:
    """However little, and wherever in its swing it is looked at: the next minutes are no promise."""
    at = scraped()
    wave = 600 + swing * np.sin(2 * np.pi * (at + phase) / 1200)
    assert told(one(ends(at - wave), at), LIMITS).drain_in is None


@pytest.mark.parametrize("swing", [0.0, 30.0])
def test_a_lag_that_has_fallen_by_more_than_it_swings_drains(swing: float) -> None:
    """A neighbour's load beside a backlog that is read."""
    at = scraped()
    wave = np.maximum(0, -0.25 * at + swing * np.sin(2 * np.pi * at / 600))
    assert told(one(ends(at - wave - 150), at), LIMITS).drain_in is not None


@pytest.mark.parametrize("every_minutes", [20, 30, 40])
@pytest.mark.parametrize("first", [100.0, 700.0])
def test_how_long_a_batch_has_stood_still_before_is_known_of_its_runs(every_minutes: int, first: float) -> None:
    """Whether the data begin in the middle of a pause or just before a run: two minutes of commits, then nothing until the next run."""
    at, period = scraped(), 60.0 * every_minutes
    began = at[0] + first
    into = (at - began) % period
    last_run = np.where(into < 120.0, at, at - into + 120.0)
    read = np.where(at < began, at[0] - period, np.maximum(last_run, at[0]))
    story = told(one(ends(np.maximum(read, -4990.0)), at), LIMITS)
    assert story.stood_before == pytest.approx(period - 120.0, abs=90.0)


@pytest.mark.parametrize("slow", [0.0, 0.6])
@pytest.mark.parametrize("since", [1200.0, 3000.0])
@pytest.mark.parametrize("pace", [1.4, 3.0])
def test_a_backlog_that_has_turned_drains_after_a_few_samples(slow: float, since: float, pace: float) -> None:
    """However large it is beside what a few samples read of it."""
    at = scraped()
    turned = -110.0
    read = np.where(at < -since, 1.0, np.where(at < turned, slow, pace))
    behind = np.maximum(np.cumsum(np.append(0.0, (1 - read[1:]) * np.diff(at))), 0.0)
    story = told(one(ends(at) - RATE * (behind + 3), at), LIMITS)
    assert story.drain_in == pytest.approx(behind[-1] / (pace - 1), rel=0.3)
    assert story.lag_course == pytest.approx((1 - pace) * RATE, rel=0.3)


def test_who_reads_all_the_time_has_not_stood_still() -> None:
    """Nor has one that lags and moves; and what has never moved shows no commit before which it stood."""
    at = scraped()
    assert told(one(ends(at - 3), at), LIMITS).stood_before == pytest.approx(30.0, abs=35.0)
    late = told(one(ends(np.minimum(at - 3, -4000 + (at + 4000) / 2)), at), LIMITS)
    assert late.stood_before == pytest.approx(30.0, abs=35.0)
    assert told(one(np.full(len(at), 1e6), at), LIMITS).stood_before is None


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lines", [["committed"], ["lag"], ["committed", "lag"]])
def test_what_falls_and_leaps_back_faster_than_anybody_reads_was_misread(lines: list[str], seed: int) -> None:
    """An exporter shows an old commit for a while, with a gap before it: nothing is read again, and nothing was passed unread."""
    rng = np.random.default_rng(seed)
    at = scraped()
    begin, long = -rng.uniform(300, 1500), rng.uniform(30, 300)
    wrong = (at > begin) & (at <= begin + long)
    committed = np.where(wrong, ends(at - 3) - rng.uniform(5e6, 5e7), ends(at - 3))
    there = ~((at > begin - rng.uniform(0, 70)) & (at <= begin))
    own = {"committed": committed, "lag": ends(at) - committed}
    told_of = {name: Track(at[there], own[name][there]) for name in lines}
    story = told(MeasuredPartition(log_end=Track(at[there], ends(at)[there]), **told_of), LIMITS)
    assert (story.back, story.lost, story.skip_outran) == (None, None, False)
    # As long as the commits were not seen, they may have been anywhere: no longer than a deploy.
    assert story.skipped is None or (story.skip_waited or 0.0) <= DEPLOY_SECONDS


@pytest.mark.parametrize("samples", [1.0, 4.0])
def test_what_is_read_again_at_a_pace_that_somebody_reads_at_has_gone_back(samples: float) -> None:
    """The same fall, and it is read again: by many messages in one step, or in some steps that are each a small part of it."""
    at = scraped()
    fell = 0.9 * SKIP_RATE * 30 if samples == 1 else 4 * SKIP_RATE * 30
    low = ends(at - 3) - fell
    again = np.minimum(ends(at - 3), low + np.maximum(0.0, at + 810) / 30 / samples * fell)
    story = told(one(np.where(at > -900, again, ends(at - 3)), at), LIMITS)
    assert story.back == pytest.approx(fell, rel=0.01)


@pytest.mark.parametrize("pace", [0.7, 0.8])
@pytest.mark.parametrize("every", [300.0, 600.0])
def test_between_two_rare_commits_nothing_has_begun(every: float, pace: float) -> None:
    """A slow group that commits rarely has not begun to be behind with its last commit, whenever that was: it rests after each."""
    at, rate, slow, late = np.arange(-4500.0, 0.1, 30.0), 50.0, -2600.0, 0
    for phase in np.linspace(0.0, every, 12, endpoint=False):
        last = np.floor((at - phase) / every) * every + phase
        committed = np.floor(rate * (last + 9000) - (1 - pace) * rate * np.maximum(0.0, last - slow))
        story = told(MeasuredPartition(committed=Track(at, committed), log_end=Track(at, rate * (at + 9000))), LIMITS)
        if story.onset is not None:
            late += 1
            assert story.onset < -(story.moved_ago or 0.0) - every / 2, phase
    assert late >= 3
