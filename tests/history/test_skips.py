"""A commit passed what waited in one step: read or skipped, by counters, by what was read next, and of new partitions."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.stories import TIMES, WINDOW
from evaluation.stories import Story as Samples
from evaluation.stories.truth import WINDOW as LONG
from workbench.history.commit_skips import explained, slower_beside, unread_beginnings
from workbench.history.handled_counts import Handled, handled_by
from workbench.history.partition_series import Bounds, MeasuredPartition, PartitionHistory, Track
from workbench.history.partition_story import told
from workbench.judgement_numbers import MOST
from workbench.samples import SERIES_ORDER, SampleBatch

LIMITS = Bounds(objective=120.0, commit_every=0.0, window_start=-900.0)
RATE = 50.0
AT = np.arange(-4500.0, 0.1, 30.0) - 7
STOPPED, AGAIN = -1800.0, -1000.0
ORDER = [(name, "ascending") for name in (*SERIES_ORDER, "ts")]


def ends(at: np.ndarray) -> np.ndarray:
    """The log's end: an even flow."""
    return np.floor(1e6 + RATE * (at + 5000))


def stood_and_jumped() -> np.ndarray:
    """Commits that stood for 800 s, and were at the end in the next sample."""
    return ends(np.where((AT > STOPPED) & (AT <= AGAIN), STOPPED, AT - 3))


def jumped(committed: np.ndarray) -> tuple[dict[int, PartitionHistory], dict[int, dict[str, Track]]]:
    """One partition's story and series."""
    lines = {"committed": Track(AT, committed), "log_end": Track(AT, ends(AT))}
    return {0: told(MeasuredPartition(**lines), LIMITS)}, {0: lines}


def counting(handled: np.ndarray, each: float = 1.0) -> Handled:
    """One counter, measured between the commits' samples."""
    at = AT + 11.0
    return Handled([Track(at, each * np.interp(at, AT, handled))], 30.0)


@pytest.mark.parametrize("each", [1.0, 0.01, 2.0])
def test_what_the_handlers_counted_was_read(each: float) -> None:
    """However many they count for a record: batches of a hundred, or two processors for each."""
    parts, lines = jumped(stood_and_jumped())
    explained(parts, lines, counting(stood_and_jumped() - 1e6, each))
    assert parts[0].skip_read is not None and parts[0].skip_read > 0.8


@pytest.mark.parametrize("ahead", [-65.0, -40.0, 0.0, 40.0, 65.0])
def test_ages_of_another_clock_hide_no_step(ahead: float) -> None:
    """What tells the ages has another clock than what tells the offsets: a commit that stands waits for as long as ever before."""
    stands = (AT + ahead > STOPPED) & (AT + ahead <= AGAIN)
    lines = {"committed": Track(AT, stood_and_jumped()), "log_end": Track(AT, ends(AT))}
    time_lag = Track(AT, np.where(stands, AT + ahead - STOPPED, 3.0))
    story = told(MeasuredPartition(**lines, time_lag=time_lag), LIMITS)
    assert story.skipped == pytest.approx(RATE * 800, rel=0.1)
    assert story.skip_waited is not None and story.skip_waited > 700


def test_members_commit_at_different_moments() -> None:
    """What one of two partitions passed is seen a sample later than the other's: their handlers' counts are of both."""
    committed = stood_and_jumped()
    later = np.where(AT <= AGAIN + 30, np.minimum(committed, ends(np.array([STOPPED]))[0]), committed)
    parts, lines = jumped(committed)
    lines[1] = {"committed": Track(AT, later), "log_end": Track(AT, ends(AT))}
    parts[1] = told(MeasuredPartition(**lines[1]), LIMITS)
    explained(parts, lines, counting(committed + later - 2e6))
    assert all((it.skip_read or 0.0) > 0.8 for it in parts.values())


def test_a_filter_may_have_left_out_what_was_passed() -> None:
    """Handlers that usually count one record in a hundred: those that were passed may be of a kind that they never see."""
    committed = stood_and_jumped()
    parts, lines = jumped(committed)
    explained(parts, lines, counting(committed - 1e6 - np.where(AT > AGAIN, RATE * 800.0, 0.0), 0.01))
    assert parts[0].skip_read is None


@pytest.mark.parametrize("each", [1.0, 2.0])
def test_what_the_handlers_did_not_count_was_skipped(each: float) -> None:
    """The same step of the commit, and the handlers go on as if nothing had been there."""
    committed = stood_and_jumped()
    idle = np.where(AT > AGAIN, RATE * 800.0, 0.0)
    parts, lines = jumped(committed)
    explained(parts, lines, counting(committed - 1e6 - idle, each))
    assert parts[0].skip_read is not None and parts[0].skip_read < 0.2


@pytest.mark.parametrize("size", [5000.0, 40_000.0, 1e6])
@pytest.mark.parametrize("long", [150.0, 300.0, 800.0])
@pytest.mark.parametrize("others", [0.0, 5.0, 50.0, 300.0])
def test_an_aborted_transaction_at_the_end_is_no_loss(size: float, long: float, others: float) -> None:
    """A consumer waits before it, reads what others produce meanwhile, and passes the rest: offsets that hold no record."""
    begin = -1500.0
    waits = (begin < AT) & (begin + long >= AT)
    read = np.floor(1e6 + others * (np.where(waits, begin, AT - 3) + 5000))
    end = np.floor(1e6 + others * (AT + 5000)) + np.floor(np.clip((AT - begin) / 60, 0, 1) * size)
    lines = {"committed": Track(AT, read + np.where(begin + long < AT, size, 0.0)), "log_end": Track(AT, end)}
    parts = {0: told(MeasuredPartition(**lines), LIMITS)}
    assert parts[0].skipped is not None
    explained(parts, {0: lines}, counting(read - 1e6))
    assert parts[0].skip_read is None or parts[0].skip_read >= MOST


@pytest.mark.parametrize(("measured_after", "known"), [(-10.0, False), (20.0, False), (45.0, True)])
def test_counters_that_have_not_been_measured_since_deny_nothing(measured_after: float, known: bool) -> None:
    """The exporter was asked a moment ago, the handlers before: what they have done since then nobody has measured."""
    committed = stood_and_jumped()
    parts, lines = jumped(committed)
    step = float(AT[AT > AGAIN][0])
    [line] = counting(committed - 1e6 - np.where(AT > AGAIN, RATE * 800.0, 0.0)).lines
    seen = line.at <= step + measured_after + 1
    explained(parts, lines, Handled([Track(line.at[seen], line.value[seen])], 30.0))
    assert (parts[0].skip_read is not None) == known


def test_what_is_handled_is_committed_some_seconds_later() -> None:
    """Measured each second, it shows: a client commits now and then, and an exporter asks for the commits when it will."""
    at = np.arange(-60.0, 0.1, 1.0)
    pace = np.where((at > -40) & (at <= -12), 0.0, RATE)  # a quota holds it up, and lets it through at once
    pace = np.where((at > -14) & (at <= -13), RATE / 5, pace)
    pace = np.where((at > -12) & (at <= -11), 10 * RATE, pace)
    done = np.floor(np.cumsum(pace) + 1e6)
    late = np.interp(at - 4.0, at, done)
    lines = {"committed": Track(at, np.floor(late)), "log_end": Track(at, ends(at))}
    parts = {0: told(MeasuredPartition(**lines), Bounds(objective=5.0, commit_every=0.0, window_start=-30.0))}
    assert parts[0].skipped is not None
    explained(parts, {0: lines}, Handled([Track(at, done - 1e6)], 1.0))
    assert parts[0].skip_read is not None and parts[0].skip_read > 0.7


def test_what_was_read_before_is_not_skipped() -> None:
    """Set back by an hour, and read again faster than ever."""
    usual = ends(AT - 3)
    committed = np.where((AT > STOPPED) & (AT <= STOPPED + 200), usual[AT <= STOPPED][-1] - 3600 * RATE, usual)
    committed = np.where((AT > STOPPED + 200) & (AT <= STOPPED + 230), usual[AT <= STOPPED][-1] - 60, committed)
    parts, _ = jumped(committed)
    assert parts[0].skipped is None
    assert parts[0].back


def test_what_was_handled_and_committed_late_was_read() -> None:
    """Commits failed for a while; the handlers went on."""
    parts, lines = jumped(stood_and_jumped())
    explained(parts, lines, counting(ends(AT) - 1e6))
    assert parts[0].skip_read is not None and parts[0].skip_read > 0.8


def test_counters_say_nothing_of_a_few_records_beside_many() -> None:
    """Others catch up at the same moment: a hundredth of what they read is no proof."""
    committed = stood_and_jumped()
    parts, lines = jumped(committed)
    others = {
        number: {"committed": Track(AT, committed * 100.0), "log_end": Track(AT, ends(AT) * 100.0)} for number in (1, 2)
    }
    for number, own in others.items():
        parts[number], lines[number] = PartitionHistory(interval=30.0), own
    explained(parts, lines, counting(committed * 200.0))
    assert parts[0].skip_read is None


@pytest.mark.parametrize(("before", "known"), [(0.0, True), (20_000.0, False)])
def test_a_process_may_have_read_what_it_had_counted_when_it_was_first_measured(before: float, known: bool) -> None:
    """A batch begins, and its first page is measured half a minute later: what that page shows was handled by then, or long ago."""
    parts, lines = jumped(stood_and_jumped())
    told_from = AT + 11.0
    counts = np.interp(told_from, AT, ends(np.maximum(AT, AGAIN)) - ends(np.array([AGAIN]))[0])
    seen = told_from > AGAIN - 30.0
    handled = Handled([Track(told_from[seen], counts[seen])], 30.0, [(-np.inf, float(told_from[seen][0]), before)])
    explained(parts, lines, handled)
    assert (parts[0].skip_read is not None) is known


def test_a_process_that_comes_back_has_counted_after_the_pause() -> None:
    """Its counter was not measured while it was away: the growth is not spread over that time."""
    labels = {"group": "g", "topic": "t", "member": "m", "processor": "all"}
    count = np.where(TIMES < -65, 100.0, 50_000.0)
    seen = (TIMES < -120) | (TIMES > -60)
    story = Samples().add("process_time", count.tolist(), stat="count", keep=seen, **labels)
    found = handled_by(story.samples().sort_by(ORDER), WINDOW, {("test", "g")})["test", "g", "t"]
    assert found.between(-110.0, -70.0) == pytest.approx(0.0, abs=1.0)
    assert found.between(-70.0, -50.0) == pytest.approx(49_900.0, abs=1.0)


def test_a_sample_that_came_twice_leaves_what_no_sample_shows_a_number() -> None:
    """Of a counter that begins anew, what may be lost is at most its highest pace: here its first growth anew. 0 in 0 s is no pace."""
    labels = {"group": "g", "topic": "t", "member": "m", "processor": "all"}
    batch = SampleBatch("test", "runtime")
    stamps = np.round((WINDOW.end.timestamp() + np.repeat(TIMES, 2)) * 1e6).astype(np.int64)
    count = np.repeat(np.where(TIMES < -60, 1000.0 + TIMES, 100.0 + TIMES), 2)
    batch.add("process_time", labels, stamps, count, stat="count")
    found = handled_by(batch.to_arrow().sort_by(ORDER), WINDOW, {("test", "g")})["test", "g", "t"]
    assert [count for after, _, count in found.unseen if np.isfinite(after)] == [
        pytest.approx(count[2 * np.argmax(TIMES >= -60)])
    ]


def test_a_new_process_may_have_counted_more_than_the_old_one() -> None:
    """Measured again after the pause, a counter is above its old value: by what it grew, or begun anew. Then nobody knows."""
    committed = stood_and_jumped()
    away = (AT > STOPPED) & (AT <= AGAIN)
    passed = 1000.0 + RATE * 800.0
    count = np.where(AT <= STOPPED, passed - 1000.0 + (AT - STOPPED), passed + RATE * np.maximum(0.0, AT - AGAIN))
    labels = {"group": "g", "topic": "t", "member": "m", "processor": "all"}
    batch = SampleBatch("test", "runtime")
    stamps = np.round((LONG.end.timestamp() + AT[~away] + 3.0) * 1e6).astype(np.int64)
    batch.add("process_time", labels, stamps, count[~away], stat="count")
    found = handled_by(batch.to_arrow().sort_by(ORDER), LONG, {("test", "g")})["test", "g", "t"]
    after_pause = [count for after, _, count in found.unseen if np.isfinite(after)]
    assert after_pause == [pytest.approx(passed - 1000.0, abs=31.0)]
    parts, lines = jumped(committed)
    parts[0].interval = 30.0
    explained(
        parts,
        lines,
        Handled(counting(committed - 1e6 - np.where(AT > AGAIN, RATE * 800.0, 0.0)).lines, 30.0, found.unseen),
    )
    assert parts[0].skip_read is None


@pytest.mark.parametrize(
    ("found_after", "first", "told_so"),
    [(240.0, 1.0, True), (240.0, 0.4, False), (60.0, 1.0, False), (110.0, 1.0, True)],
)
def test_the_first_records_of_a_new_partition(found_after: float, first: float, told_so: bool) -> None:
    """Beyond all that had waited at the first commit, after more than the objective, as samples show it; not if it began among them."""
    born = AT[AT > -2000.0]
    read = AT[-2000.0 + found_after < AT]
    waiting = RATE * (read - born[0])
    new = {
        "log_end": Track(born, np.floor(RATE * (born - born[0]))),
        "log_start": Track(born, np.zeros(len(born))),
        "committed": Track(read, np.floor(np.where(read < read[0] + 1, first * waiting, waiting))),
    }
    old = {"log_end": Track(AT, ends(AT)), "committed": Track(AT, ends(AT - 3))}
    lines = {0: old, 1: new}
    parts = {number: told(MeasuredPartition(**own), LIMITS) for number, own in lines.items()}
    unread_beginnings(parts, lines, LIMITS)
    assert parts[1].skip_new is told_so
    assert not parts[0].skip_new


def test_a_new_group_skips_nothing() -> None:
    """Its first commits are all at the end of logs that are as old as the data: that is where it begins."""
    late = AT[AT > -1500.0]
    lines = {number: {"log_end": Track(AT, ends(AT)), "committed": Track(late, ends(late))} for number in (0, 1)}
    parts = {number: told(MeasuredPartition(**own), LIMITS) for number, own in lines.items()}
    unread_beginnings(parts, lines, LIMITS)
    assert not any(it.skip_new for it in parts.values())


def stalled(rng: np.random.Generator) -> tuple[dict[int, dict[str, Track]], Handled]:
    """A group that passes nothing unread: one of its members stands for a while, and reads what has waited at once."""
    at = np.arange(-48.0, 0.0, 0.05)
    number, members = int(rng.integers(2, 10)), int(rng.integers(1, 3))
    rates, pace = rng.uniform(5, 60, number), rng.uniform(100, 1300)
    begin, long, every = -rng.uniform(14, 38), rng.uniform(5, 20), rng.choice([0.5, 1.0, 5.0])
    log = [np.floor(1000 + rate * (at + 48)) for rate in rates]
    done = np.full((number, len(at)), 1000.0)
    for step in range(1, len(at)):
        room = np.full(members, 0.0 if begin < at[step] < begin + long else pace * 0.05)
        room[1:] = pace * 0.05
        for partition in range(number):
            took = min(log[partition][step] - done[partition, step - 1], room[partition % members])
            done[partition, step] = done[partition, step - 1] + took
            room[partition % members] -= took
    commits = np.searchsorted(at, np.floor((at + 48) / every) * every - 48, side="right") - 1
    seen, counted = (np.arange(-48 + rng.uniform(0.05, 1), -0.05, 1.0) for _ in range(2))

    def then(line: np.ndarray, when: np.ndarray) -> np.ndarray:
        return line[np.searchsorted(at, when, side="right") - 1]

    lines = {
        partition: {
            "committed": Track(seen, then(np.floor(done[partition])[commits], seen)),
            "log_end": Track(seen, then(log[partition], seen)),
        }
        for partition in range(number)
    }
    return lines, Handled([Track(counted, then((done - 1000).sum(axis=0), counted))], 1.0)


def test_what_was_handled_is_never_said_to_be_lost() -> None:
    """Members that commit in lumps beside it, and clocks of two exporters: only what no handler can have counted is lost."""
    rng, noted = np.random.default_rng(5), 0
    limits = Bounds(objective=4.0, commit_every=0.0, window_start=-18.0)
    for _ in range(60):
        lines, handled = stalled(rng)
        parts = {partition: told(MeasuredPartition(**own), limits) for partition, own in lines.items()}
        noted += any(it.skipped is not None for it in parts.values())
        explained(parts, lines, handled)
        assert not [it for it in parts.values() if it.skip_read is not None and it.skip_read < MOST]
    assert noted >= 20


@pytest.mark.parametrize(("passed", "after", "outran"), [(20_000, 3000, True), (36_000, 40_000, False)])
def test_who_reads_on_slower_and_stays_behind_cannot_read_at_that_pace(passed: int, after: int, outran: bool) -> None:
    """Set forward to a moment in the backlog: what it then reads in a whole interval is all that it can."""
    end = ends(AT)
    committed = ends(np.where(AT > STOPPED, STOPPED, AT - 3))
    later = np.flatnonzero(AT > AGAIN)
    committed[later] = np.minimum(end[later], committed[later] + passed + after * np.arange(len(later)))
    parts, _ = jumped(committed)
    assert parts[0].skipped == passed and parts[0].skip_outran is outran


def catching_up(
    rng: np.random.Generator, *, scrape: float, commit: float, capable: float, skipping: int = 0
) -> dict[int, dict[str, Track]]:
    """A dozen partitions that stand for some minutes and are then read at one pace, but some that begin at the end."""
    every = np.arange(-4500.0, 1.0)
    at = np.arange(-4500.0, 0.1, scrape)
    long = rng.uniform(350, 550)
    lines = {}
    for partition in range(12):
        rate = rng.uniform(0.15, 0.3) * capable
        log = np.floor(1e6 + rate * (every + 4500))
        done, reached = np.empty(len(every)), log[0]
        for second in range(len(every)):
            if every[second] > -1000 and partition < skipping and done[second - 1] < log[every <= -1000][-1]:
                reached = log[second]
            stands = -1000 - long < every[second] <= -1000
            reached = min(log[second], reached + (0.0 if stands else capable))
            done[second] = reached
        when = (
            np.cumsum(np.clip(rng.normal(1, 0.12, int(5000 / commit)), 0.6, 1.5)) * commit
            - 4500
            - rng.random() * commit
        )
        last = when[np.maximum(np.searchsorted(when, at, side="right") - 1, 0)]
        committed = np.floor(np.interp(np.maximum(last, -4500.0), every, done))
        lines[partition] = {"committed": Track(at, committed), "log_end": Track(at, np.interp(at, every, log))}
    return lines


def noted_of(lines: dict[int, dict[str, Track]]) -> dict[int, PartitionHistory]:
    """Stories of one subscription, compared with each other."""
    parts = {number: told(MeasuredPartition(**own), LIMITS) for number, own in lines.items()}
    slower_beside(parts, lines)
    return parts


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scrape", [15.0, 30.0])
@pytest.mark.parametrize("skipping", [2, 7])
def test_what_peers_need_minutes_for_is_not_read_at_once(scrape: float, skipping: int, seed: int) -> None:
    """They stood as long, and are still behind when it is at the end: whoever passes all of it in its first commit has skipped it."""
    rng = np.random.default_rng(seed)
    parts = noted_of(catching_up(rng, scrape=scrape, commit=5.0, capable=60.0, skipping=skipping))
    assert {number for number, it in parts.items() if it.skip_beside} <= set(range(skipping))
    assert sum(it.skip_beside for it in parts.values()) >= skipping / 2


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("scrape", "commit"), [(30.0, 30.0), (30.0, 25.0), (15.0, 30.0), (30.0, 5.0), (15.0, 60.0)])
def test_commits_as_seldom_as_samples_are_no_faster_steps(scrape: float, commit: float, seed: int) -> None:
    """Two commits between two samples, and none before: the pace of a steady catch-up is the same for all of them."""
    parts = noted_of(catching_up(np.random.default_rng(seed), scrape=scrape, commit=commit, capable=190.0))
    assert not [number for number, it in parts.items() if it.skip_beside or it.skip_outran]


@pytest.mark.parametrize("stood", [2200.0, 2280.0, 2340.0])
def test_a_long_stop_says_nothing_of_the_time_between_commits(stood: float) -> None:
    """Half of the data are late: what was passed in one step beside what was read next is noted all the same."""
    at = np.arange(-4500.0, 0.1, 120.0) - 7
    back, kept, pace = -900.0, 1200.0, 6 * RATE
    reading = np.minimum(ends(at - 3), ends(np.array(back - kept)) + pace * (at - back))
    committed = np.where(at <= back, ends(np.minimum(at - 3, back - stood)), reading)
    story = told(MeasuredPartition(committed=Track(at, committed), log_end=Track(at, ends(at))), LIMITS)
    assert story.skipped is not None and story.skipped >= 0.8 * RATE * (stood - kept)


@pytest.mark.parametrize(("read_until", "told_so"), [("end", False), ("stop", True), ("nothing", True)])
def test_what_a_clients_position_went_through_was_read(read_until: str, told_so: bool) -> None:
    """A job reads on, and commits when a late checkpoint ends. A position that leaps with the commit, or is not told, shows nothing."""
    positions = {"end": ends(AT - 3), "stop": stood_and_jumped()}
    read = Track(AT, positions[read_until]) if read_until in positions else Track()
    lines = {"committed": Track(AT, stood_and_jumped()), "log_end": Track(AT, ends(AT))}
    assert (told(MeasuredPartition(**lines, read=read), LIMITS).skipped is not None) is told_so


WAVE = np.round(20 + 15 * np.sin(AT / 70))


@pytest.mark.parametrize(
    ("lag", "is_noted"),
    [
        (np.where(AT < AGAIN, 300_000 + RATE * (AT + 5000), WAVE), True),  # a backlog that was there, and is not
        (np.where((AT > STOPPED) & (AT <= AGAIN), RATE * (AT - STOPPED), WAVE), True),  # 800 s of it
        (np.where((AT > AGAIN - 60) & (AT <= AGAIN), 40_000, WAVE), False),  # a burst that is read at once
        (np.where((AT > STOPPED) & (AT <= AGAIN), np.minimum(RATE * (AT - STOPPED), 200 * (AGAIN - AT)), WAVE), False),
        (RATE * (AT % 900), False),  # a batch each quarter of an hour
        (np.where(np.abs(AT - AGAIN) < 30, 0.0, 300_000), False),  # one odd sample
        (np.full(len(AT), 300_000.0), False),
        (WAVE, False),
    ],
    ids=["backlog", "stop", "burst", "drained", "batches", "glitch", "level", "well"],
)
def test_a_lag_that_falls_in_one_step_says_what_was_passed(lag: np.ndarray, *, is_noted: bool) -> None:
    """Clouds export nothing but the lag: commits have moved by as much as it fell, and nobody knows from where."""
    story = told(MeasuredPartition(lag=Track(AT, lag)), LIMITS)
    if not is_noted:
        assert story.skipped is None
        return
    assert story.skipped == pytest.approx(-np.min(np.diff(lag)))
    assert story.skipped_ago == pytest.approx(-AGAIN, abs=40)
    assert story.skipped_from is None
    assert (story.skip_waited or 0.0) >= 360
