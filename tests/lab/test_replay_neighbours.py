"""A real replay beside real readers, through a narrow card: without the guard they pass their objective, with it they do not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit
from tests.lab.instances import TOKEN, Fleet, fleet_file
from tests.lab.replaying import kept, plan_for
from tests.lab.sharing import Sharing
from tests.three_brokers.tiered import TieredLab, start_tiered
from tests.waiting import wait_for
from workbench.api import groups_beside_replay
from workbench.api.replay_steps import open_replay
from workbench.errors import WorkbenchError
from workbench.lab.lab_broker import set_quota
from workbench.lab.process import free_ports
from workbench.plans.journal import Journal
from workbench.queues.systems import system_of
from workbench.replay.guard import ReplayLimits

pytestmark = [pytest.mark.lab, pytest.mark.slow]

CARD = 1.8e6  # bytes/s that broker 1 can send: 1.2 MB/s of it are the shops'
SHOPS = ("orders", "payments")
PER_SECOND = 150
OBJECTIVE_SECONDS = 20.0
UNGUARDED_SECONDS, GUARDED_SECONDS = 90.0, 100.0


def behind(lab: TieredLab) -> float:
    """Seconds that the worst shop is behind on broker 1."""
    found = system_of(lab.cluster()).observer(lab.cluster()).snapshot(groups=list(SHOPS))
    return max((found.lag(shop, shop, 0) or 0) / PER_SECOND for shop in SHOPS)


def worst(lab: TieredLab, seconds: float, step: Callable[[], object]) -> float:
    """The largest of it while something is done again and again."""
    until, found = time.monotonic() + seconds, 0.0
    while time.monotonic() < until:
        step()
        try:
            seen = behind(lab)
        except WorkbenchError:
            continue
        print(f"{seen:.1f}", end=" ", flush=True)
        found = max(found, seen)
    return found


def test_the_guard_keeps_the_neighbours_within_their_objective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime is held before they pass it, and goes on when they are back; every step is in the journal."""
    monkeypatch.setattr(groups_beside_replay, "_LOOK", "4s")
    monkeypatch.setattr(groups_beside_replay, "_PAUSE_SECONDS", 6.0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with start_tiered(tmp_path / "lab", narrow={1: CARD}) as lab, Sharing(lab.bootstrap) as sharing:
        for shop in SHOPS:
            sharing.topic(shop, [[1, 2], [2, 3], [3, 1]])
        sharing.topic("history", [[1]] * 3)
        set_quota(lab.bootstrap, "metering", 1_000_000_000)
        sharing.fill("history", 3, 8000, 50_000)
        sharing.write(SHOPS, 3, PER_SECOND, 4000)
        for shop in SHOPS:
            sharing.read(shop, shop)
        settings = tmp_path / "workbench.toml"
        settings.write_text(lab.settings_text(OBJECTIVE_SECONDS))
        commit(AdminClient({"bootstrap.servers": lab.bootstrap}), "old", "history", dict.fromkeys(range(3), 0))
        plan = kept(tmp_path, plan_for(lab, "history", "old", "replayed", "1h ago"))  # type: ignore[arg-type]
        replay = open_replay(plan, config=settings)
        replay.apply(replay.plan.hash, limits=ReplayLimits(allow_busy_brokers=True), quiet_seconds=0.0)
        wait_for(lambda: behind(lab) < 2, seconds=60)
        (tmp_path / "notes").mkdir()
        fleet = Fleet(lab, "history", "replayed", tmp_path, list(free_ports(3)), {})  # type: ignore[arg-type]
        try:
            for index in range(3):
                fleet.start(index)
            wait_for(lambda: all(fleet.answers(index) for index in range(3)), seconds=60)
            watch = replay.neighbours(fleet_file(fleet))
            lines: list[str] = []

            def look() -> None:
                if watch.is_due():
                    lines.extend(watch.look().lines)

            guarded = worst(lab, GUARDED_SECONDS, look)
            if watch.holding.held_for:
                wait_for(lambda: behind(lab) < OBJECTIVE_SECONDS / 2, seconds=120)
                for instance in fleet_urls(fleet):
                    requests.post(f"{instance}/resume", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=10)
            unguarded = worst(lab, UNGUARDED_SECONDS, lambda: time.sleep(2))
        finally:
            fleet.stop()
        print(f"worst without the guard {unguarded:.1f} s, with it {guarded:.1f} s; objective {OBJECTIVE_SECONDS} s")
        print("\n".join(lines))
        assert unguarded > OBJECTIVE_SECONDS
        assert guarded <= OBJECTIVE_SECONDS
        assert any(it.startswith("Held, because") for it in lines)
        actions = [it.action for it in Journal.of_user().read()[0] if it.phase == "end" and it.outcome == "done"]
        assert actions.count("hold") >= 3
        assert ("release" in actions) == any(it.startswith("Goes on") for it in lines)


def fleet_urls(fleet: Fleet) -> list[str]:
    """Of the admin APIs."""
    return [fleet.url(index) for index in range(len(fleet.ports))]
