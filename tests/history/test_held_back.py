"""Lag before Kafka: what is held back is found with bounds that hold, and what cannot be told is said."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.history.gateway import END, window_of
from workbench.history.backlog_before_kafka import LagBeforeKafka, lag_before_kafka
from workbench.history.gateway_counts import processes
from workbench.samples import SampleBatch

SECONDS, BASELINE = 900, 900
LATE = 120.0


def lag(*tables: pa.Table, seconds: int = SECONDS, baseline: int = BASELINE) -> LagBeforeKafka:
    """What is found at END."""
    window = window_of(seconds, baseline)
    return lag_before_kafka(processes(pa.concat_tables(tables), window), window, late_seconds=LATE, stale_seconds=90.0)


class Agent:
    """Takes records in, keeps what it cannot send on its disk, and sends the oldest first; `is_blocked` says when it cannot."""

    def __init__(self, is_blocked: Callable[[int], bool], *, rate: int = 20, drain: int = 60, seed: int = 1) -> None:
        chance, waiting, sent = random.Random(seed), deque[int](), 0
        self.lines: dict[str, list[float]] = {"records": [], "age": [], "sent": []}
        for second in range(SECONDS + BASELINE):
            waiting += [second] * chance.randrange(rate + 1)
            for _ in range(0 if is_blocked(second) else min(drain, len(waiting))):
                waiting.popleft()
                sent += 1
            for name, it in (("records", len(waiting)), ("age", second - waiting[0] if waiting else 0), ("sent", sent)):
                self.lines[name].append(float(it))

    def scraped(self, *told: str, every: int = 15, name: str = "agent-1", until: int = SECONDS + BASELINE) -> pa.Table:
        """Samples of `records`, `bytes`, `age` and `sent`."""
        batch = SampleBatch("prod", "page")
        seconds = list(range(every - 1, until, every))
        times = [round((END - SECONDS - BASELINE + it + 1) * 1e6) for it in seconds]
        for it in told:
            values = [
                self.lines["records" if it == "bytes" else it][at] * (500 if it == "bytes" else 1) for at in seconds
            ]
            signal, stat = ("gateway_sends", "ok") if it == "sent" else (f"disk_backlog_{it}", "value")
            batch.add(signal, {"member": name, "queue": "gateway"}, times, values, stat=stat)
        return batch.to_arrow()


@pytest.mark.parametrize("blocked", [BASELINE + 450, BASELINE + 100])
@pytest.mark.parametrize("told", [("age",), ("records",), ("age", "records", "bytes")])
def test_a_backlog_that_is_measured_no_more_is_not_known(blocked: int, told: tuple[str, ...]) -> None:
    """The agent sends on, and its gauges ended a while ago: neither is nothing held back, nor what it held then."""
    agent = Agent(lambda second: second >= blocked)
    found = lag(agent.scraped(*told, until=BASELINE + 400), agent.scraped("sent"))
    assert (found.held, found.told) == ((), ())
    assert "disk_backlog" in dict(found.untold)["agent-1"]
    # One that goes on stands for another that has ended.
    agent = Agent(lambda second: second >= BASELINE + 450)
    assert lag(agent.scraped("records", until=BASELINE + 400), agent.scraped("age", "sent")).held


@given(st.integers(0, 700), st.integers(1, 899), st.sampled_from([5, 15, 30]), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_the_age_of_the_oldest_lies_within_its_bounds(start: int, long: int, every: int, seed: int) -> None:
    """By what waits and what has left; whether it is late is then told, or it is said that it cannot be."""
    agent = Agent(lambda second: start <= second - BASELINE < start + long, drain=25, seed=seed)
    truth = agent.lines["age"][-1 - (SECONDS + BASELINE) % every]
    found = lag(agent.scraped("records", "sent", every=every))
    for it in found.held:
        assert it.age_low_seconds is not None
        assert LATE < it.age_low_seconds <= truth + 1 <= (it.age_high_seconds or 1e9) + 1
        assert it.since <= END - truth
    assert bool(found.held) + bool(found.told and not found.held) + bool(found.untold) == 1
    if truth > LATE + 2 * every:
        assert found.held
    elif truth < LATE - 2 * every:
        assert not found.held
        assert found.told == ("agent-1",)


def test_a_told_age_is_the_age() -> None:
    """With it nothing else is needed; since when is the creation of the oldest."""
    [it] = lag(Agent(lambda second: second >= 1200).scraped("age", "records", "bytes")).held
    assert (it.age_low_seconds, it.age_high_seconds, it.is_growing) == (599.0, 599.0, True)
    assert it.since == END - 599
    assert it.size_bytes == 500 * (it.records or 0) > 0
    assert "agent-1 keeps " in it.words
    assert "the oldest 9 min 59 s old" in it.words
    draining = lag(Agent(lambda second: 1000 <= second < 1750, drain=30).scraped("age", "records")).held
    assert [it.is_growing for it in draining] == [False]


def test_ages_that_cannot_be_are_no_calm_and_no_crash() -> None:
    """-1 is no age, and an absurd one is told as it is."""
    for value in (-1.0, 1e300):
        batch = SampleBatch("prod", "page")
        batch.add("disk_backlog_age", {"member": "agent-1"}, [round(END * 1e6) - 1], [value])
        found = lag(batch.to_arrow())
        assert found.told == (("agent-1",) if value > 0 else ())
        assert [it.since for it in found.held] == ([0.0] if value > 0 else [])
        assert all("agent-1 keeps" in it.words for it in found.held)


def test_bytes_alone_are_compared_with_what_usually_waits() -> None:
    """An age is then not known; without a usual one, nothing is, but that nothing waited lately."""
    [it] = lag(Agent(lambda second: second >= 1200).scraped("bytes")).held
    assert (it.age_low_seconds, it.age_high_seconds, it.records) == (None, pytest.approx(600, abs=15), None)
    assert it.since == pytest.approx(END - 600, abs=20)
    full = Agent(lambda second: second < 300, drain=10)  # as much leaves as comes: that much is usual
    found = lag(full.scraped("bytes"))
    assert (found.held, found.told) == ((), ())
    assert found.untold == (("agent-1", "disk_backlog_age: what waits may be late or not"),)
    assert lag(full.scraped("bytes"), baseline=0).untold == found.untold
    [it] = lag(full.scraped("records", "sent")).held
    assert it.age_low_seconds is not None
    assert it.age_low_seconds <= full.lines["age"][-1] <= (it.age_high_seconds or 0) + 1
    burst = lag(Agent(lambda second: 1700 <= second < 1740).scraped("bytes"))
    assert (burst.held, burst.told, burst.untold) == ((), ("agent-1",), ())  # it was empty a moment ago


def test_a_process_that_is_gone_is_not_well() -> None:
    """What it had on its disk then, is there still, or not."""
    gone = Agent(lambda second: second >= 1000).scraped("records", "sent", until=1400)
    found = lag(gone)
    assert (found.held, found.told) == ((), ())
    [(name, missing)] = found.untold
    assert (name, "anything since 6 min 45 s" in missing) == ("agent-1", True)


def answers(
    refused: Callable[[int], float], *, codes: Sequence[str] = ("200", "429"), rate: int = 50, every: int = 1
) -> pa.Table:
    """A gateway's answers, so many each so many seconds, of which a share is 429."""
    batch, counts = SampleBatch("prod", "page"), {"200": 0.0, "429": 0.0}
    lines: dict[str, list[float]] = {it: [] for it in codes}
    times = []
    for second in range(SECONDS + BASELINE):
        if second % every == 0:
            counts["429"] += round(rate * refused(second - BASELINE))
            counts["200"] += rate - round(rate * refused(second - BASELINE))
        if second % 15 == 14:
            times.append(round((END - SECONDS - BASELINE + second + 1) * 1e6))
            for it in codes:
                lines[it].append(counts[it])
    for code, values in lines.items():
        batch.add("gateway_answers", {"member": "gw-1"}, times, values, stat=code)
    return batch.to_arrow()


def test_answers_of_429_for_longer_than_is_late_are_lag() -> None:
    """A burst of them is none, and neither is one that is over, or a client that is refused now and then."""
    [it] = lag(answers(lambda second: 0.3 if second >= 600 else 0.0)).held
    assert it.since == END - 300
    assert (it.refused, it.refused_share) == (4500, pytest.approx(0.3))
    assert it.words.startswith("gw-1 answers 429 since ")
    assert it.words.endswith("4,500 requests, 30.0% of its answers")
    for calm in (
        answers(lambda second: 0.9 if second >= 830 else 0.0),
        answers(lambda second: 0.9 if 300 <= second < 700 else 0.0),
        answers(lambda _second: 0.04),
        answers(lambda _second: 0.0, codes=("200",)),
    ):
        found = lag(calm)
        assert (found.held, found.told, found.untold) == ((), ("gw-1",), ())
    only = lag(answers(lambda _second: 0.3, codes=("429",)))
    assert (only.held, only.untold) == ((), (("gw-1", "gateway_answers of other codes than 429"),))


def test_a_gateway_that_is_asked_little_is_neither_late_too_early_nor_well() -> None:
    """A block of twenty answers is long: what is refused begins where it was seen. With fewer it cannot be told."""
    for since in (600, 615, 645, 660):
        [it] = lag(answers(lambda second, since=since: 1.0 if second >= since else 0.0, rate=1, every=4)).held
        assert 0 <= END - SECONDS + since - it.since <= 15
    assert lag(answers(lambda second: 1.0 if second >= 800 else 0.0, rate=1, every=4)).held == ()
    rare = lag(answers(lambda second: 1.0 if second >= 600 else 0.0, rate=1, every=20))
    assert (rare.held, rare.told) == ((), ())
    assert rare.untold[0][1].startswith("20 answers in 1 min 30 s: ")
    over = lag(answers(lambda second: 1.0 if second < 600 else 0.0, rate=1, every=20))
    assert (over.held, over.told) == ((), ("gw-1",))


def test_nothing_is_told_of_processes_that_tell_nothing() -> None:
    """Sends alone say nothing of what waits."""
    found = lag(Agent(lambda _second: False).scraped("sent"))
    assert found == LagBeforeKafka()


def test_answers_that_are_counted_no_more_are_not_known() -> None:
    """The gateway lives by what else it tells: whether it refuses now is not known, whatever it did before."""
    table = answers(lambda second: 0.0)
    ended = table.filter(pc.less(pc.cast(table["ts"], pa.int64()), round((END - 300) * 1e6)))
    goes_on = SampleBatch("prod", "page")
    times = [round((END - SECONDS - BASELINE + at) * 1e6) for at in range(15, SECONDS + BASELINE + 1, 15)]
    goes_on.add("gateway_sends", {"member": "gw-1", "queue": "normal"}, times, list(range(len(times))), stat="ok")
    found = lag(ended, goes_on.to_arrow())
    assert (found.held, found.told) == ((), ())
    assert "gateway_answers since" in dict(found.untold)["gw-1"]
