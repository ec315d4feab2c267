"""What a real group survives: deploys without a repeat; kills, freezes and the broker's restart without a loss."""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.runtime.chaos.conductor import (
    DEAD_EVERY,
    INSTANCES,
    KINDS,
    PARTITIONS,
    PROTOCOLS,
    STALL_SECONDS,
    Done,
    Fleet,
    judge,
    schedule,
)
from workbench.lab.lab_broker import Broker, start_broker

SECONDS = float(os.environ.get("CHAOS_SECONDS", "20"))


def _seeds(text: str) -> list[int]:
    """ "1", "1,4" or "1-20"."""
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(seed) for seed in text.split(",")]


@pytest.mark.lab
@pytest.mark.slow  # nine processes and a broker: beside other tests it is the machine that is tried
@pytest.mark.parametrize("seed", _seeds(os.environ.get("CHAOS_SEEDS", "1")))
def test_groups_under_chaos_lose_nothing_and_keep_order(tmp_path: Path, seed: int) -> None:
    """Three groups at once on one broker, one for each assignment protocol.

    First a rolling restart of every instance: nothing is lost, out of order or repeated. Then what the seed says. In the end every
    partition is committed to its end. Run again with CHAOS_SEEDS and CHAOS_SECONDS.
    """
    print(f"replay with CHAOS_SEEDS={seed} CHAOS_SECONDS={SECONDS:g}")
    broker = start_broker(tmp_path / "broker")
    fleets = [Fleet(protocol, broker, tmp_path) for protocol in PROTOCOLS]
    try:
        with ThreadPoolExecutor(len(fleets)) as pool:
            list(pool.map(Fleet.start, fleets))
            list(pool.map(_rolling_restart, fleets))
            for fleet in fleets:
                repeats, fenced = judge(fleet.lines(), {})["repeats"], fleet.fenced()
                print(f"{fleet.protocol}: a deploy repeated {repeats} events, {fenced} said why")
                # A machine that stalls makes the broker fence members, or a rebalance end before what is in flight; each says so.
                assert repeats == 0 or fenced, f"{fleet.protocol}: a deploy repeated {repeats} events"
            for wait, what, whom in schedule(seed, SECONDS):
                time.sleep(wait)
                if what == "stall":
                    _stall(broker)
                elif what in ("broker", "cut"):
                    _restart(broker, fleets, cut=int(whom[1:]) if what == "cut" else None)
                else:
                    list(pool.map(lambda fleet, what=what, whom=whom: getattr(fleet, what)(whom), fleets))
            list(pool.map(Fleet.finish, fleets))
        for fleet in fleets:
            lines, log = fleet.lines(), fleet.log()
            found = judge(lines, log, fleet.remade_at)
            dead = {
                (partition, offset)
                for partition, records in log.items()
                for offset, (_, number) in enumerate(records)
                if number % DEAD_EVERY == 0
            }
            found["letters_missing"] = len(dead - fleet.dead())
            print(f"{fleet.protocol}: {len(lines)} handled, {found}, sentinels {fleet.broken}")
            assert len(lines) > 1000
            assert (found["lost"], found["disorder"], found["overlap"], found["letters_missing"]) == (0, 0, 0, 0)
            assert found["repeats"] < 0.2 * len(lines)
            assert fleet.broken
            assert set(fleet.broken.values()) == {0}
    finally:
        for fleet in fleets:
            fleet.abandon()
        broker.stop()


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize("seed", _seeds(os.environ.get("CHAOS_SEEDS", "1")))
def test_runs_of_ranges_under_kills_handle_all_of_them_and_end(tmp_path: Path, seed: int) -> None:
    """Three groups at once, one for each protocol; instances are killed or restarted until all of them end by themselves."""
    print(f"replay with CHAOS_SEEDS={seed} CHAOS_SECONDS={SECONDS:g}")
    broker = start_broker(tmp_path / "broker")
    fleets = [Fleet(protocol, broker, tmp_path) for protocol in PROTOCOLS]

    def run(fleet: Fleet) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        dice = random.Random(f"{seed} {fleet.protocol}")
        wanted = fleet.prepare_ranges(round(SECONDS * 1200), dice)
        for number in range(INSTANCES):
            fleet.launch(f"i{number}")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(dice.uniform(0.5, 2.0))
            item = fleet.instances[f"i{dice.randrange(INSTANCES)}"]
            (item.popen.kill if dice.random() < 0.6 else item.popen.terminate)()
            item.popen.wait(30)
            fleet.launch(item.name)
        for item in fleet.instances.values():
            assert item.popen.wait(120) == 0, f"{fleet.protocol} {item.name} ended with {item.popen.returncode}"
        ends = {part: found[-1][1] for part, found in (fleet.ranges or {}).items()}
        assert fleet.committed() == ends
        return wanted, {(line.partition, line.number // PARTITIONS) for line in fleet.lines()}

    try:
        with ThreadPoolExecutor(len(fleets)) as pool:
            for fleet, (wanted, handled) in zip(fleets, pool.map(run, fleets), strict=True):
                repeats = len(fleet.lines()) - len(handled)
                print(f"{fleet.protocol}: {len(handled)} of {len(wanted)} records of the ranges, {repeats} repeats")
                assert handled == wanted
    finally:
        for fleet in fleets:
            fleet.abandon()
        broker.stop()


def _restart(broker: Broker, fleets: list[Fleet], *, cut: int | None) -> None:
    broker.stop()
    for fleet in fleets:
        if cut is not None:
            fleet.cut(cut)
    time.sleep(1.0)
    broker.restart()


def _stall(broker: Broker) -> None:
    """What the broker answers late may have changed the group meanwhile: a commit has the epoch of before, for example."""
    broker.child.popen.send_signal(signal.SIGSTOP)
    time.sleep(STALL_SECONDS)
    broker.child.popen.send_signal(signal.SIGCONT)


def _rolling_restart(fleet: Fleet) -> None:
    for number in range(INSTANCES):
        fleet.restart(f"i{number}")
        time.sleep(1.0)


def test_the_judge_sees_what_is_wrong() -> None:
    """A loss, a swap within a key, an overlap in one process and a repeat are each counted."""

    def done(number: int, began: int, ended: int, *, key: str = "k", pid: int = 1) -> Done:
        return Done(key, 0, number, began, ended, pid)

    def log(end: int) -> dict[int, list[tuple[str, int]]]:
        return {0: [("k", number) for number in range(end)]}

    fine = [done(0, 0, 1), done(1, 1, 2), done(2, 2, 3)]
    assert judge(fine, log(3)) == {"lost": 0, "disorder": 0, "overlap": 0, "repeats": 0}
    assert judge(fine[:2], log(3))["lost"] == 1
    assert judge([done(1, 0, 1), done(0, 1, 2)], log(2))["disorder"] == 1
    assert judge([done(0, 0, 5), done(1, 3, 6)], log(2))["overlap"] == 1
    assert judge([done(0, 0, 5), done(1, 3, 6, pid=2)], log(2))["overlap"] == 0
    assert judge([*fine, done(1, 4, 5)], log(3))["repeats"] == 1
    # Of two logs of one name, the former may be finished beside the new one; within each the order holds.
    new = {0: [("k", 2), ("k", 3)]}
    assert judge([done(0, 0, 1), done(2, 2, 3), done(1, 3, 4), done(3, 5, 6)], new, [2])["disorder"] == 0
    assert judge([done(0, 0, 1), done(3, 2, 3), done(2, 3, 4), done(1, 5, 6)], new, [2])["disorder"] == 1
    assert judge([done(1, 0, 1), done(2, 2, 3), done(3, 3, 4), done(0, 5, 6)], new, [2])["disorder"] == 1


def test_a_schedule_follows_from_its_seed() -> None:
    """So that a failure can be had again; every kind of trouble is in it."""
    assert schedule(7, 30) == schedule(7, 30)
    assert schedule(7, 30) != schedule(8, 30)
    assert {what for _, what, _ in schedule(3, 0)} == set(KINDS)
