"""Status without a fixed number: predicates over time-based samples, in the spirit of Burrow's evaluator and without its blind spots.

Burrow's sixteen numbered windows (`core/internal/evaluator/caching_test.go`) are told again as stories. It judges ten commits of one
partition; we judge samples of time, the group's members and the age of what waits, so where we want another status the reason stands
beside it. Status words: ok, late (it lags and moves), frozen (it lags and does not move), deserted (nobody is there to take it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, Story, growing, steps
from tests.triage.judging import rows_of
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Answer

pytestmark = pytest.mark.jvm

RATE = 50.0


@dataclass(frozen=True)
class Told:
    """One window: what Burrow says, what we want, and why."""

    make: Callable[[Story], Story]
    burrow: str
    ours: str
    why: str


def one(story: Story, lag: Any, *, age: Any = None, rate: float = RATE, people: bool = True, **who: Any) -> Story:
    """A subscription of a single partition with this lag; the age of what waits follows from it unless it is given."""
    story.partitions = 1
    story.partition(0, rate=rate, lag=lag, time_lag=age)
    return story.people(**who) if people else story


def frozen(since: float, *, start: float = 100.0) -> Callable[[np.ndarray], np.ndarray]:
    """Commits stand still from a moment on, so the lag grows with the arrivals."""
    return growing(RATE, start=start, since=since)


GONE = {"keep": TIMES < -40, "group_members": steps(1, 0, at=-40)}

WINDOWS: dict[str, Told] = {
    "1 lag was nothing once": Told(
        lambda s: one(s, lambda t: 20 + 20 * np.sin(t / 3)), "OK", "ok", "lows come back to nothing: it keeps up"
    ),
    "2 offsets move, lag shrinks once": Told(
        lambda s: one(s, lambda t: 900 + 6 * (t - t[0]) - 60 * (t > -20)), "OK", "late",
        "one decrease does not make a growing lag healthy: over the window it grew, and it is 18 s old",
    ),
    "3 steady rise": Told(lambda s: one(s, growing(20, start=200)), "WARN", "late", "it falls behind all the time"),
    "4 frozen, lag rises": Told(lambda s: one(s, frozen(-90)), "STALL", "frozen", "no commit in the whole window"),
    "5 frozen, lag stays": Told(
        lambda s: one(s, 300.0, rate=0.0), "STALL", "frozen", "nothing arrives and nothing is taken, yet something waits"
    ),
    "6 rewind, recovered": Told(
        lambda s: one(s, lambda t: np.where((t > -50) & (t < -42), 400.0, 10.0)), "OK", "ok", "a reset that was caught up with"
    ),
    "7 rewind, not recovered": Told(
        lambda s: one(s, lambda t: np.where(t > -50, 5000.0, 10.0)), "REWIND", "late",
        "whoever went back, 100 s of messages wait now",
    ),
    "8 stopped, nothing waits": Told(
        lambda s: one(s, 0.0, rate=0.0, **GONE), "OK", "ok", "nobody is there, and nobody is needed"
    ),
    "9 stopped, always at zero, then new messages": Told(
        lambda s: one(s, frozen(-40, start=0), **GONE), "STOP", "deserted", "members are gone and messages wait (Burrow #290)"
    ),
    "10 the same, but the log's end shows nothing new": Told(
        lambda s: one(s, 0.0, rate=0.0, people=True), "OK", "ok", "an idle topic is not a stopped consumer (Burrow #303)"
    ),
    "11 stopped with commits before": Told(
        lambda s: one(s, frozen(-40), **GONE), "STOP", "deserted", "the coordinator counts nobody for two samples"
    ),
    "12 some lags unknown, steady rise": Told(
        lambda s: one(s, lambda t: np.where(np.arange(len(t)) % 3 == 0, np.nan, 200 + 20 * (t - t[0]))), "WARN", "late",
        "a sample without a value changes nothing about the others",
    ),
    "13 some lags unknown, healthy": Told(
        lambda s: one(s, lambda t: np.where(np.arange(len(t)) % 3 == 0, np.nan, 10.0)), "OK", "ok", "likewise"
    ),
    "14 never zero, but never much (allowed lag 1)": Told(
        lambda s: one(s, 1.0), "OK", "ok", "a busy topic always has a message between read and commit; no allowance to be tuned"
    ),
    "15 never zero, but never much (allowed lag 99)": Told(
        lambda s: one(s, 45.0), "OK", "ok", "under a second of arrivals: the objective is in time, not in messages"
    ),
    "16 a single commit in the window": Told(
        lambda s: one(s, 10.0, age=0.2), "STOP (incomplete)", "ok", "we sample time: one commit is no sign of death"
    ),
    # What Burrow cannot see
    "steady 10 % growth, commits every second": Told(
        lambda s: one(s, growing(0.1 * RATE, start=150.0)), "OK for ever (#155, #453)", "late", "growth is judged over the window"
    ),
    "killed, commits every 2 s": Told(
        lambda s: one(s, frozen(-6), keep=TIMES < -4, group_members=steps(1, 0, at=-4)), "STOP after 20 s", "deserted",
        "two samples after the coordinator noticed",
    ),
    "killed, commits every 8 min": Told(
        lambda s: one(s, lambda t: 4000 + RATE * (t - t[0]), keep=TIMES < -4, group_members=steps(1, 0, at=-4)),
        "STOP after 6,410 s", "deserted", "members are counted, not commits",
    ),
    "sawtooth of slow commits": Told(
        lambda s: one(s, lambda t: RATE * ((t - t[0]) % 8)), "OK", "ok", "its lows come back to nothing"
    ),
    "sawtooth longer than the objective": Told(
        lambda s: one(s, lambda t: RATE * ((t - t[0]) % 14)), "OK", "ok", "late for a moment before each commit, and then not at all"
    ),
    "low traffic, caught with a message in hand": Told(
        lambda s: one(s, lambda t: 1.0 * (t > -12), age=lambda t: np.maximum(0.0, np.minimum(t + 12, 1.6)), rate=0.05),
        "STOP (#237)", "ok", "one message is not twenty seconds of arrivals",
    ),
    "low traffic, and its one message waits": Told(
        lambda s: one(s, growing(0.01, start=1.0, since=-100.0), age=growing(1.0, since=-100.0), rate=0.01), "OK or STOP", "late",
        "the age of what waits counts, not how much it is"
    ),
    "low traffic": Told(
        lambda s: one(s, lambda t: 1.0 * (np.arange(len(t)) % 9 == 0), rate=0.1), "STOP (#237)", "ok", "a message now and then"
    ),
}  # fmt: skip


def status(row: SubscriptionFeatures) -> str:
    """The status in our terms, from the answers."""
    if row.answers["lagging"] is not Answer.YES:
        return "ok" if row.answers["lagging"] is Answer.NO else "unknown"
    if row.answers["consuming"] is Answer.NO and row.group_members == 0:
        return "deserted"
    return "frozen" if row.stuck_count else "late"


@pytest.fixture(scope="module")
def told(spark: Any) -> dict[str, str]:
    """Status by name."""
    rows = rows_of(spark, [it.make(Story(group=name, topic=name, members=1)) for name, it in WINDOWS.items()])
    return {name: status(rows[name]) for name in WINDOWS}


@pytest.mark.parametrize("name", WINDOWS)
def test_the_status_of_a_window(name: str, told: dict[str, str]) -> None:
    """What we want, whatever Burrow says."""
    assert told[name] == WINDOWS[name].ours, WINDOWS[name].why


def test_a_killed_consumer_is_seen_within_two_samples_whatever_its_commit_interval(spark: Any) -> None:
    """From the second sample at which the coordinator counts nobody; not at the first one, which may be a restart."""
    stories = []
    for interval in (2, 8, 30, 480):
        for samples in (1, 2, 3):
            dead = TIMES[-1] - 2 * samples + 1 < TIMES
            saw = np.maximum(1.0, RATE * ((TIMES - TIMES[0]) % interval))
            saw[dead] = saw[~dead][-1] + RATE * (TIMES[dead] - TIMES[~dead][-1])  # the dead commit nothing
            story = Story(group=f"{interval}-{samples}", topic=f"{interval}-{samples}", members=1)
            stories.append(one(story, saw.tolist(), age=0.1, group_members=np.where(dead, 0.0, 1.0).tolist()))
    rows = rows_of(spark, stories)
    for name, row in rows.items():
        samples = int(name.split("-")[1])
        assert (status(row) == "deserted") == (samples >= 2), name


GLITCHES = (0.0, 1.0, 50_000.0, float("nan"), -1.0)


def test_one_odd_sample_does_not_flip_a_verdict(spark: Any) -> None:
    """Hysteresis: whatever one sample of the lag says, wherever it stands, the healthy stay healthy and the sick stay sick."""
    places = [len(TIMES) - back for back in (1, 2, 3, 6, 9, 25)]
    stories = []
    for kind, shape in (("healthy", 10.0), ("sick", growing(20.0, start=5.0, since=-110.0))):
        for value in GLITCHES:
            for place in places:
                lag = np.broadcast_to(shape if not callable(shape) else shape(TIMES), TIMES.shape).astype(float).copy()
                age = lag / RATE
                lag[place], age[place] = value, max(0.0, value / RATE) if value == value else np.nan
                name = f"{kind}/{value}/{place}"
                story = Story(group=name, topic=name, partitions=1, members=1)
                story.add("log_end_offset", (1e6 + RATE * (TIMES - TIMES[0])).tolist(), topic=name, partition=0)
                story.add(
                    "committed_offset",
                    (1e6 + 0.4 * RATE * (TIMES - TIMES[0])).tolist(),
                    group=name,
                    topic=name,
                    partition=0,
                )
                story.add("consumer_lag", lag.tolist(), group=name, topic=name, partition=0)
                story.add("time_lag", age.tolist(), group=name, topic=name, partition=0)
                stories.append(story.people())
    rows = rows_of(spark, stories)
    for name, row in rows.items():
        assert row.answers["lagging"] is (Answer.YES if name.split("/")[0] == "sick" else Answer.NO), name
