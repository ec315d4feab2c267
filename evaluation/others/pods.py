"""What runs of frameworks have in common, whose pods call their clients, or themselves, all alike."""

from __future__ import annotations

import threading
from dataclasses import replace

from workbench.lab.client_spec import Behaviour
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import Draw, Make, Scenario
from workbench.triage.verdict_names import Verdict

_SECONDS = 74.0  # processes of one name are told apart when they have been there together for a minute


def told_apart(made: Scenario, *, named: bool) -> Scenario:
    """A run that is long enough for that; its truth names no member unless each is `named`."""
    scope = {name: value for name, value in made.scope.items() if named or name != "members"}
    return replace(made, scope=scope, steady_seconds=_SECONDS - made.incident_seconds)


def of_one_name(make: Make, draw: Draw, run_id: str) -> Scenario:
    """A run whose truth names no member, as all pods have one name."""
    return told_apart(make(draw, run_id), named=False)


def times(draw: Draw, use: float) -> dict[str, float]:
    """Process times that use all handlers of all pods to this share."""
    return dict.fromkeys(draw.types, use * draw.instances * draw.threads / draw.rate)


def now_and_then(draw: Draw, run_id: str) -> Scenario:
    """A record now and then: healthy."""
    draw.rate = draw.random.uniform(0.5, 3)
    behaviour = Behaviour(process_seconds=dict.fromkeys(draw.types, draw.random.uniform(0.01, 0.1)))
    return draw.scenario(behaviour, lambda _fleet: None, Verdict.HEALTHY, run_id=run_id)


def start_what_ends(fleet: LabFleet) -> None:
    """From now on, start each process again that ends itself."""

    def again(over: threading.Event) -> None:
        while not over.wait(1.0):
            for name, child in list(fleet.instances.items()):
                if not child.alive:
                    fleet.relaunch(name, announce=False)

    fleet.keep_doing(again)


def keep_crashing(victim: str, pause_seconds: float, fleet: LabFleet) -> None:
    """From now on, kill a process and start it again, each time after a pause."""

    def again(over: threading.Event) -> None:
        while not over.is_set():
            fleet.kill([victim])
            fleet.relaunch(victim)
            over.wait(pause_seconds)

    fleet.keep_doing(again)
