"""Rules of what an exporter tells in parts or as a rate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collect.test_copies import counted, samples_of
from workbench.collect.whole_from_parts_or_rates import Wholes
from workbench.profiles import Profile, load_profile, parse_profile
from workbench.samples import SampleBatch, SeriesTable

ROCKETMQ = load_profile("rocketmq_exporter")
TIMES = np.arange(0, 600, 15.0)
WHERE = {"group": "pay", "topic": "orders", "partition": 0}


def table(*parts: tuple[str, dict[str, object], np.ndarray, np.ndarray], stat: str = "value") -> SeriesTable:
    """Series: signal, labels, seconds, values."""
    batch = SampleBatch("c", ROCKETMQ.name)
    for signal, labels, seconds, values in parts:
        batch.add(signal, labels, np.round(seconds * 1e6).astype(np.int64), values, stat=stat)
    return batch.to_series()


def by_broker(signal: str, **of: tuple[np.ndarray, np.ndarray]) -> SeriesTable:
    """A signal of the subscription, on each broker."""
    return table(*((signal, {**WHERE, "broker": name}, *samples) for name, samples in of.items()))


def test_brokers_are_added_up_and_the_oldest_age_counts() -> None:
    """Offsets of both brokers together; the time lag of the worse one; no series of a broker is left."""
    offsets = by_broker("committed_offset", a=(TIMES, TIMES * 10), b=(TIMES, TIMES * 5))
    found = Wholes(ROCKETMQ).of(offsets)
    assert samples_of(found, "committed_offset") == [(at, at * 15) for at in TIMES]
    assert found.names["broker"].to_pylist() == [None]
    ages = by_broker("time_lag", a=(TIMES, TIMES * 0 + 3), b=(TIMES + 4, TIMES * 0 + 9))
    assert {value for _, value in samples_of(Wholes(ROCKETMQ).of(ages), "time_lag")} == {9.0}


@pytest.mark.parametrize("kept", [TIMES < 300, TIMES > 300, (TIMES < 200) | (TIMES > 400)])
def test_without_one_broker_the_whole_is_not_known(kept: np.ndarray) -> None:
    """A sum without it would be commits that were set back."""
    found = Wholes(ROCKETMQ).of(
        by_broker("committed_offset", a=(TIMES, TIMES * 10), b=(TIMES[kept], TIMES[kept] * 5 + 1000))
    )
    values = samples_of(found, "committed_offset")
    there = TIMES[kept]
    assert all(np.min(np.abs(at - there[there <= at])) <= 37.5 for at, _ in values)
    assert [value for _, value in values] == sorted(value for _, value in values)


def test_a_broker_that_a_later_page_lacks_takes_the_sum_with_it() -> None:
    """Pages are read one moment at a time: what was there before is remembered."""
    wholes = Wholes(ROCKETMQ)
    first = wholes.of(by_broker("committed_offset", a=(TIMES[:1], TIMES[:1] + 7), b=(TIMES[:1] + 0.2, TIMES[:1] + 8)))
    assert samples_of(first, "committed_offset") == [(0.2, 15.0)]
    second = by_broker("committed_offset", a=(TIMES[1:2], TIMES[1:2]))
    assert len(wholes.of(second)) == 0
    assert len(Wholes(ROCKETMQ).of(second)) == 1


def test_a_brokers_own_signal_keeps_its_broker() -> None:
    """Only what is not of a broker is put together."""
    own = parse_profile("signals: {network_idle: {metric: idle, labels: {broker: b}}}", name="ours")
    series = table(("network_idle", {"broker": "a"}, TIMES, TIMES), ("network_idle", {"broker": "b"}, TIMES, TIMES))
    assert Wholes(own).of(series) is series


RATE = {**WHERE, "partition": None, "member": "m", "processor": "all"}


def test_a_rate_becomes_a_count() -> None:
    """Per second, over the time since the sample before; whole or sample by sample."""
    series = table(("processed", RATE, TIMES, TIMES * 0 + 4), stat="ok")
    assert samples_of(Wholes(ROCKETMQ).of(series), "processed") == [(at, at * 4) for at in TIMES]
    wholes, pieces = Wholes(ROCKETMQ), []
    for at in TIMES:
        one = np.array([at])
        pieces += samples_of(wholes.of(table(("processed", RATE, one, one * 0 + 4), stat="ok")), "processed")
    assert pieces == [(at, at * 4) for at in TIMES]


def test_nothing_is_counted_over_a_gap() -> None:
    """What a rate of the last minute says of the ten minutes before is not known."""
    kept = (TIMES < 200) | (TIMES >= 500)
    series = table(("processed", RATE, TIMES[kept], TIMES[kept] * 0 + 4), stat="ok")
    assert samples_of(Wholes(ROCKETMQ).of(series), "processed")[-1][1] == 4 * (195 + 585 - 510 + 0)


@given(st.lists(st.floats(0, 1e6) | st.just(float("nan")), min_size=1, max_size=40))
def test_a_count_never_goes_back(rates: list[float]) -> None:
    """Whatever the rates are; where there is none, there is no count."""
    at = np.arange(len(rates)) * 15.0
    found = Wholes(ROCKETMQ).of(table(("processed", RATE, at, np.array(rates)), stat="ok"))
    known = found.values[~np.isnan(found.values)]
    assert (np.diff(known) >= 0).all()
    assert np.isnan(found.values).tolist() == np.isnan(rates).tolist()


def test_the_series_that_began_last_counts() -> None:
    """An exporter that has the number of members in a label shows the former series for a minute."""
    diff = {"__name__": "rocketmq_group_diff", "group": "pay", "topic": "orders", "msgModel": "1"}

    def of(members: int, inside: np.ndarray, value: float) -> tuple[dict[str, str], np.ndarray, np.ndarray]:
        return {**diff, "countOfOnlineConsumers": str(members)}, TIMES[inside], np.full(inside.sum(), value)

    moved = [of(2, TIMES < 300, 10.0), of(1, TIMES >= 240, 900.0)]
    found = counted(moved, profile=ROCKETMQ)
    assert found.notes == ()
    assert samples_of(found.series, "consumer_lag") == [(at, 10.0 if at < 240 else 900.0) for at in TIMES]
    # A third member for a moment, while the series of two goes on.
    blink = [of(2, TIMES >= 0, 10.0), of(3, (TIMES >= 240) & (TIMES < 300), 20.0)]
    values = [value for _, value in samples_of(counted(blink, profile=ROCKETMQ).series, "consumer_lag")]
    assert values == [20.0 if 240 <= at < 300 else 10.0 for at in TIMES]
    # It comes back after a gap, so it is the present one again.
    back = [of(2, (TIMES < 100) | (TIMES >= 400), 10.0), of(1, (TIMES >= 90) & (TIMES < 450), 30.0)]
    values = [value for _, value in samples_of(counted(back, profile=ROCKETMQ).series, "consumer_lag")]
    assert values == [30.0 if 90 <= at < 405 else 10.0 for at in TIMES]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("consumer_lag: {metric: a, labels: {}, per_second: true}", "'consumer_lag' counts nothing"),
        ("consumer_lag: {metric: a, labels: {}, parts: {mean: a, count: b}}", "'consumer_lag' cannot be read in parts"),
        ("processed: {metric: a, labels: {}, parts: {mean: a}}", "'mean' is no part of 'processed'"),
        ("process_time: {metric: a, labels: {}, parts: {ok: a}}", "'ok' is no part of 'process_time'"),
        ("log_end_offset: {metric: a, labels: {}, beside: [{metric: b, labels: {cg: x}}]}", "not a canonical label"),
    ],
)
def test_words_that_a_signal_cannot_have_are_named(text: str, said: str) -> None:
    """With what it could have."""
    with pytest.raises(Exception, match=said):
        parse_profile(f"signals: {{{text}}}", name="ours")


def test_a_signal_is_there_or_absent() -> None:
    """A reason for what a profile has, or for what is no signal, is a mistake."""
    rule = "signals: {consumer_lag: {metric: a, labels: {}}}\nabsent: "
    for absent, said in (("{consumer_lag: x}", "so it is not absent"), ("{lag: x}", "'lag' is not a signal")):
        with pytest.raises(Exception, match=said):
            parse_profile(rule + absent, name="ours")
    assert isinstance(parse_profile(rule + "{poll_age: x}", name="ours"), Profile)


STEPS = np.arange(len(TIMES))
OPENED = 20  # steps
ENDS = 500.0 + 7 * STEPS
STOOD = np.where(STEPS < OPENED, ENDS, ENDS[OPENED])


def seen_by_client(ends: np.ndarray, stable: np.ndarray, at: np.ndarray = STEPS) -> SeriesTable:
    """The log's end and the last stable offset of a partition, as one observer tells them."""
    place = {"topic": "t", "partition": 0}
    parts = (("log_end_offset", ends), ("last_stable_offset", stable))
    return table(*((signal, place, TIMES[at], values[at]) for signal, values in parts))


@pytest.mark.parametrize(
    ("ends", "stable", "shown"),
    [
        (ENDS, STOOD, STEPS > OPENED),  # a transaction stays open
        (ENDS, ENDS, STEPS < 0),  # none is
        (STOOD, STOOD, STEPS < 0),  # not fetched any more: paused, a fetch that hangs, a broker out of reach
        (STOOD, STOOD - 3, STEPS < 0),  # likewise, while one was open for a moment
        (ENDS, ENDS - 3, STEPS < 0),  # one follows the other, each for less than the time between two samples
        (np.minimum(ENDS, 620.0), STOOD - 3, (STEPS > OPENED) & (ENDS < 627.0)),  # paused while one is open
        (ENDS, STEPS * 0 - 1.0, STEPS < 0),  # never told
    ],
    ids=["open", "none", "not-fetched", "paused-behind-one", "short-ones", "paused-later", "never-told"],
)
def test_a_last_stable_offset_shows_something_where_it_stands_while_the_same_observers_end_moves(
    ends: np.ndarray, stable: np.ndarray, shown: np.ndarray
) -> None:
    """A client tells both of its last fetch, however long ago that was; page by page as in one table."""
    wanted = list(zip(TIMES[shown], stable[shown], strict=True))
    found = Wholes(load_profile("librdkafka")).of(seen_by_client(ends, stable))
    assert samples_of(found, "last_stable_offset") == wanted
    assert samples_of(found, "log_end_offset") == list(zip(TIMES, ends, strict=True))
    pages = Wholes(load_profile("librdkafka"))
    each = [samples_of(pages.of(seen_by_client(ends, stable, STEPS[[at]])), "last_stable_offset") for at in STEPS]
    assert [sample for samples in each for sample in samples] == wanted


def test_a_last_stable_offset_without_an_end_of_its_observer_shows_nothing() -> None:
    """Somebody else's end is of another moment."""
    found = Wholes(load_profile("librdkafka")).of(
        table(("last_stable_offset", {"topic": "t", "partition": 0}, TIMES, STOOD))
    )
    assert samples_of(found, "last_stable_offset") == []


def test_attempts_that_did_not_fail_were_ok() -> None:
    """FastStream counts all calls, and those that raised: these begin with the first, and anew with their process."""
    who = {"group": "pay", "member": "pay-0", "processor": "all"}
    seconds = np.arange(0, 150, 15.0)
    every = np.array([10, 20, 30, 40, 50, 0, 10, 20, 30, 40.0])
    failed = np.array([2, 4, 6.0])  # of the third to the fifth; after the restart none
    batch = SampleBatch("c", "faststream")
    batch.add("processed", who, (seconds * 1e6).astype(np.int64), every, stat="all")
    batch.add("processed", who, (seconds[2:5] * 1e6).astype(np.int64), failed, stat="failed")
    found = Wholes(load_profile("faststream")).of(batch.to_series()).to_samples().to_pylist()
    ok = {row["ts"].timestamp(): row["value"] for row in found if row["stat"] == "ok"}
    assert [ok[at] for at in seconds] == [10, 20, 28, 36, 44, 0, 10, 20, 30, 40]
    assert {row["stat"] for row in found} == {"ok", "failed"}
