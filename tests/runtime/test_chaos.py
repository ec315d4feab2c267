"""What a real group survives: deploys without a repeat; kills, freezes and the broker's restart without a loss."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.runtime.chaos.conductor import INSTANCES, PROTOCOLS, Done, Fleet, judge, schedule
from workbench.lab.kafka import start_broker

SECONDS = float(os.environ.get("CHAOS_SECONDS", "20"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))


@pytest.mark.lab
def test_a_group_under_chaos_loses_nothing_and_keeps_order(tmp_path: Path) -> None:
    """Three groups at once, one for each assignment protocol.

    First a rolling restart of every instance: nothing is lost, out of order or repeated. Then what the seed says. Run again with
    CHAOS_SEED and CHAOS_SECONDS.
    """
    print(f"replay with CHAOS_SEED={SEED} CHAOS_SECONDS={SECONDS:g}")
    broker = start_broker(tmp_path / "broker")
    fleets = [Fleet(protocol, broker, tmp_path) for protocol in PROTOCOLS]
    try:
        with ThreadPoolExecutor(len(fleets)) as pool:
            list(pool.map(Fleet.start, fleets))
            list(pool.map(_rolling_restart, fleets))
            for fleet in fleets:
                repeats = judge(fleet.lines(), {})["repeats"]
                assert repeats == 0, f"{fleet.protocol}: a deploy repeated {repeats} events"
            for wait, what, whom in schedule(SEED, SECONDS):
                time.sleep(wait)
                if what == "broker":
                    broker.restart(pause_seconds=1.0)
                else:
                    list(pool.map(lambda fleet, what=what, whom=whom: getattr(fleet, what)(whom), fleets))
            list(pool.map(Fleet.finish, fleets))
        for fleet in fleets:
            lines, ends = fleet.lines(), fleet.ends()
            found = judge(lines, ends)
            print(f"{fleet.protocol}: {sum(ends.values())} records, {found}, sentinels {fleet.broken}")
            assert sum(ends.values()) > 1000
            assert (found["lost"], found["disorder"], found["overlap"]) == (0, 0, 0)
            assert found["repeats"] < 0.2 * sum(ends.values())
            assert fleet.broken
            assert set(fleet.broken.values()) == {0}
    finally:
        for fleet in fleets:
            fleet.abandon()
        broker.stop()


def _rolling_restart(fleet: Fleet) -> None:
    for number in range(INSTANCES):
        fleet.restart(f"i{number}")
        time.sleep(1.0)


def test_the_judge_sees_what_is_wrong() -> None:
    """A loss, a swap within a key, an overlap in one process and a repeat are each counted."""

    def done(offset: int, began: int, ended: int, *, key: str = "k", pid: int = 1) -> Done:
        return Done(key, 0, offset, began, ended, pid)

    fine = [done(0, 0, 1), done(1, 1, 2), done(2, 2, 3)]
    assert judge(fine, {0: 3}) == {"lost": 0, "disorder": 0, "overlap": 0, "repeats": 0}
    assert judge(fine[:2], {0: 3})["lost"] == 1
    assert judge([done(1, 0, 1), done(0, 1, 2)], {0: 2})["disorder"] == 1
    assert judge([done(0, 0, 5), done(1, 3, 6)], {0: 2})["overlap"] == 1
    assert judge([done(0, 0, 5), done(1, 3, 6, pid=2)], {0: 2})["overlap"] == 0
    assert judge([*fine, done(1, 4, 5)], {0: 3})["repeats"] == 1


def test_a_schedule_follows_from_its_seed() -> None:
    """So that a failure can be had again; every kind of trouble is in it."""
    assert schedule(7, 30) == schedule(7, 30)
    assert schedule(7, 30) != schedule(8, 30)
    assert {what for _, what, _ in schedule(3, 0)} == {"restart", "kill", "freeze", "broker"}
