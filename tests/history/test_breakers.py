"""Breakers replayed from counters: what is said to be measured is what happened, and what is inferred is a bound that holds."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.history.gateway import END, Gateway, during, never, replayed, window_of
from workbench.breaker_settings import BreakerSettings
from workbench.history.gateway_breakers import Breaker, BreakerFault, BreakerState
from workbench.history.gateway_counts import processes
from workbench.samples import SampleBatch

SCRAPES = (5, 15, 30)


def faults(it: Breaker) -> set[str]:
    """What is found of it."""
    return {str(one.fault) for one in it.findings}


def found_in(gateway: Gateway, every: int, **more: object) -> Breaker:
    """The breaker of a gateway whose counters exist from its start on, if nothing else is said."""
    gateway.is_lazy = bool(more.get("is_lazy"))
    return replayed(gateway.run().scraped(every, jitter=0.02), gateway.seconds)["gw-1"]


@st.composite
def outages(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Spans of seconds, one after the other."""
    edges = sorted(draw(st.lists(st.integers(60, 840), max_size=12, unique=True)))
    return [(one, other) for one, other in list(pairwise(edges))[::2]]


@given(outages(), st.sampled_from(SCRAPES), st.sampled_from([30, 300]), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_what_is_said_holds_whatever_happens(spans: list[tuple[int, int]], every: int, rate: int, seed: int) -> None:
    """The share is the truth, changes are no more than there were, and of each state that lasts for two blocks one change is seen."""
    gateway = Gateway(normal=during(*spans), rate=rate, seed=seed)
    it = found_in(gateway, every)
    first, last = (gateway.counts[at] for at in (every - 1, gateway.seconds // every * every - 1))
    sends = sum(last.values()) - sum(first.values())
    diverted = sum(last.get(("failover", name), 0) - first.get(("failover", name), 0) for name in ("ok", "failed"))
    whole = it.resolution_seconds == pytest.approx(max(every, 10), abs=0.1)
    block = (it.resolution_seconds or 0) / gateway.seconds  # one that is not full at the end is not counted
    assert not whole or it.failover_share == pytest.approx(diverted / sends, abs=max(0.02, block))
    true = [0, *gateway.changes, gateway.seconds]
    assert it.changes <= len(gateway.changes)
    assert it.resolution_seconds is not None
    if min(b - a for a, b in pairwise(true)) > 2 * it.resolution_seconds + every:
        assert it.changes == len(gateway.changes)  # none is too short to be seen
    if not gateway.changes:
        assert not faults(it)


@pytest.mark.parametrize("every", SCRAPES)
def test_flapping_is_found_and_one_outage_is_none(every: int) -> None:
    """Half open within an outage is no change: only open and closed count."""
    flapping = found_in(Gateway(normal=during(*((at, at + 70) for at in range(100, 800, 140)))), every)
    [it] = [one for one in flapping.findings if one.fault is BreakerFault.FLAPPING]
    assert it.changes == flapping.changes == 10
    once = found_in(Gateway(normal=during((300, 500))), every)
    assert (faults(once), once.changes, once.state) == (set(), 2, BreakerState.CLOSED)
    assert not faults(found_in(Gateway(normal=during((300, 304))), every))  # a spike opens nothing


@pytest.mark.parametrize("every", SCRAPES)
def test_both_open_is_found_or_that_nothing_is_diverted(every: int) -> None:
    """Once both are open all goes back to the normal one: failover's failures are measured only at the beginning."""
    it = found_in(Gateway(normal=during((300, 600)), failover=during((300, 600))), every)
    stuck = next(one for one in it.findings if one.fault is BreakerFault.NOT_DIVERTED)
    assert stuck.failed == pytest.approx(1.0, abs=0.05)
    assert stuck.failover_share == pytest.approx(0.0, abs=0.05)
    assert 300 - every <= stuck.since - END + 900 <= 340 + every
    assert 570 - every <= stuck.until - END + 900 <= 600 + every
    if every < 30:  # else its first seconds are a small part of a block
        assert BreakerFault.BOTH_OPEN in faults(it)
    well = found_in(Gateway(normal=during((300, 500))), every)
    assert not faults(well)  # failover has taken it


@pytest.mark.parametrize("every", SCRAPES)
def test_a_share_at_its_upper_bound_is_pinned_and_a_smaller_one_is_open(every: int) -> None:
    """The bound is the user's: without it nothing is said to be at it."""
    gateway = Gateway(normal=during((200, 900)))
    it = found_in(gateway, every)
    pinned = next(one for one in it.findings if one.fault is BreakerFault.PINNED)
    assert 0.64 <= (pinned.failover_share or 0) <= 0.8
    assert pinned.until - pinned.since >= 300
    assert (it.state, BreakerFault.OPEN in faults(it)) == (BreakerState.OPEN, True)
    unbounded = replayed(gateway.scraped(every), settings=BreakerSettings())["gw-1"]
    assert faults(unbounded) == {"open"}
    regulates = found_in(Gateway(normal=during((200, 900), share=0.55)), every)
    assert faults(regulates) <= {"open", "flapping"}  # its share follows the failures
    short = found_in(Gateway(normal=during((600, 840))), every)
    assert "pinned" not in faults(short)


@pytest.mark.parametrize("every", SCRAPES)
def test_decoys_are_called_nothing(every: int) -> None:
    """Few sends of which one fails, restarts of the counters, a deploy, a third that fails."""
    one_of_three = Gateway(rate=3, normal=lambda second: 1.0 if second % 60 == 0 else 0.0)
    restarted = Gateway(restarts=(200, 203, 460, 700), normal=during((198, 204), (459, 462), share=0.2))
    for gateway in (one_of_three, restarted, Gateway(normal=during((100, 800), share=0.33)), Gateway()):
        it = found_in(gateway, every)
        assert (faults(it), it.state, it.missing, it.changes) == (set(), BreakerState.CLOSED, (), len(gateway.changes))
    old = Gateway(seconds=600, normal=during((590, 600))).run().scraped(every, name="old")
    new = Gateway(seconds=300, seed=2, is_lazy=False).run().scraped(every, name="new")
    times = pa.array([it - 300_000_000 for it in old["ts"].cast(pa.int64()).to_pylist()]).cast(
        old.schema.field("ts").type
    )
    shifted = old.set_column(0, old.schema.field("ts"), times)
    found = replayed({"old": shifted, "new": new})
    assert {name: faults(it) for name, it in found.items()} == {"old": set(), "new": set()}
    assert found["old"].state is BreakerState.UNKNOWN  # it has been gone for five minutes


@pytest.mark.parametrize("every", SCRAPES)
def test_a_gateway_without_a_failover_cannot_divert(every: int) -> None:
    """Whether it has one is not known of counters alone, unless the settings say so: nothing is called open, flapping or both."""
    gateway = Gateway(normal=during((200, 400)), failover=None, is_lazy=True).run()
    it = replayed(gateway.scraped(every))["gw-1"]
    assert (faults(it), it.missing, it.failover_share) == ({"not diverted"}, ("sends to failover",), None)
    it = replayed(gateway.scraped(every), settings=BreakerSettings(failover=""))["gw-1"]
    assert (faults(it), it.missing, it.failover_share) == ({"not diverted"}, (), 0.0)


def test_what_is_not_counted_cannot_be_told() -> None:
    """Each outcome in turn is left out; a gap in the scrapes is no time without failures."""
    gateway = Gateway(normal=during((200, 400)), is_lazy=False).run()
    it = replayed(gateway.scraped(15, leave_out="failed"))["gw-1"]
    assert it.missing == ("failed sends to normal",)
    assert it.state is BreakerState.UNKNOWN
    assert it.changes == 0  # it opened, and nobody knows that it had been closed
    it = replayed(Gateway(normal=never, is_lazy=True).run().scraped(15))["gw-1"]
    assert (it.state, it.missing) == (BreakerState.UNKNOWN, ("failed sends to normal",))  # none so far, or not exported
    few = Gateway(rate=1, seconds=30, is_lazy=False).run()
    assert replayed(few.scraped(15), 30)["gw-1"].missing == ("20 sends without a gap in the scrapes",)
    table = gateway.scraped(15)
    seconds = [at / 1e6 - END + 900 for at in table["ts"].cast(pa.int64()).to_pylist()]
    holed = table.filter(pa.array([not 190 <= it <= 420 for it in seconds]))
    it = replayed(holed)["gw-1"]
    assert (faults(it), it.changes) == (set(), 0)  # the outage fell into the gap
    assert it.failover_share == pytest.approx(0.0, abs=0.02)  # nothing is counted across it


def test_a_gauge_of_the_state_counts_more_than_counters() -> None:
    """Half open is open; what is told need not be inferred, also of both at once."""
    batch = SampleBatch("prod", "page")
    states = {"normal": "cccooohhoohcccoohhccooccoooooo", "failover": "cccccccccccccccccccccccccccooo"}
    times = [round((END - 450 + 15 * (at + 1)) * 1e6) for at in range(30)]
    for to, told in states.items():
        for letter, name in (("c", "closed"), ("o", "open"), ("h", "half_open")):
            values = [float(it == letter) for it in told]
            batch.add("breaker_state", {"member": "gw-1", "queue": to}, times, values, stat=name)
    it = replayed(batch.to_arrow(), 450)["gw-1"]
    assert (it.state, it.is_told, it.changes) == (BreakerState.OPEN, True, 7)
    assert faults(it) == {"open", "flapping", "both open"}
    both = next(one for one in it.findings if one.fault is BreakerFault.BOTH_OPEN)
    assert (both.since - END, both.until - END) == (-30.0, 0.0)
    assert it.missing == ("sends to normal by ok and failed",)


def test_a_gauge_that_only_says_whether_it_is_open_is_enough() -> None:
    """Hystrix' has no other state: 0 is closed. A number for each state is none, as its meaning is not known."""
    times = [round((END - 450 + 15 * (at + 1)) * 1e6) for at in range(30)]
    for stat, told in (("open", True), ("value", False)):
        batch = SampleBatch("prod", "page")
        values = [float(10 <= at < 15) for at in range(30)]
        batch.add("breaker_state", {"member": "gw-1", "queue": "normal"}, times, values, stat=stat)
        found = replayed(batch.to_arrow(), 450)
        assert [(it.state, it.is_told, it.changes) for it in found.values()] == [(BreakerState.CLOSED, True, 2)] * told


def test_total_and_failed_are_as_good_as_ok_and_failed() -> None:
    """Kafka's own producer counts all sends and the failed ones."""
    table = Gateway(normal=during((200, 400)), is_lazy=False).run().scraped(15)
    by_stat: dict[str, dict[tuple[str, float], float]] = {"ok": {}, "failed": {}, "total": {}}
    for it in table.to_pylist():
        by_stat[it["stat"]][it["queue"], it["ts"].timestamp()] = it["value"]
    by_stat["total"] = {key: value + by_stat["failed"][key] for key, value in by_stat.pop("ok").items()}
    batch = SampleBatch("prod", "page")
    for stat, of in by_stat.items():
        for to in ("normal", "failover"):
            points = sorted((round(at * 1e6), value) for (name, at), value in of.items() if name == to)
            times, values = [at for at, _ in points], [value for _, value in points]
            batch.add("gateway_sends", {"member": "gw-1", "queue": to}, times, values, stat=stat)
    one = replayed(table)["gw-1"]
    other = replayed(batch.to_arrow())["gw-1"]
    assert (one.failover_share, one.changes, one.findings) == (other.failover_share, other.changes, other.findings)


def test_rises_of_a_process_begin_anew_with_it() -> None:
    """A counter that did not fall has begun anew if another of its process fell: nothing is counted from before."""
    chance = random.Random(7)
    batch = SampleBatch("prod", "page")
    ok, failed = [100.0, 200.0, 300.0, 10.0, 20.0], [1.0, 1.0, 1.0, 4.0, 6.0]
    times = [round((END - 60 + 15 * at - chance.uniform(0, 0.01) * (at > 0)) * 1e6) for at in range(5)]
    for name, values in (("ok", ok), ("failed", failed)):
        batch.add("gateway_sends", {"member": "gw", "queue": "normal"}, times, values, stat=name)
    seen = processes(batch.to_arrow(), window_of(60))["gw"].sends
    assert seen.is_gap.tolist() == [False, False, False, True, False]
    assert seen.counted["normal", "ok"].tolist() == [0, 100, 100, 0, 10]
    assert seen.counted["normal", "failed"].tolist() == [0, 0, 0, 0, 2]
