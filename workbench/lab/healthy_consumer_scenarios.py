"""Scenarios in which nothing is wrong with the consumers: no or bad data, and traffic that only looks bad."""

from __future__ import annotations

import threading

from workbench.lab.client_spec import Behaviour, ExporterFault
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import QUICK_SECONDS, Draw, Make, Scenario
from workbench.triage.verdict_names import Verdict


def _nothing(_fleet: LabFleet) -> None:
    return


def unusable_data(draw: Draw, run_id: str) -> Scenario:
    """The exporter begins to show NaN, or -1, instead of the lag."""
    behaviour = draw.calm()
    mode = draw.random.choice(("nan", "minus_one"))

    def fault(fleet: LabFleet) -> None:
        fault = {"group": fleet.spec.group, "topic": fleet.spec.topic, "mode": mode}
        fleet.lab.break_exporter(ExporterFault.model_validate(fault))

    return draw.scenario(behaviour, fault, Verdict.UNUSABLE_DATA, run_id=run_id)


def no_data(draw: Draw, run_id: str) -> Scenario:
    """The metrics targets go away; the consumers go on."""
    behaviour = draw.calm()

    def fault(fleet: LabFleet) -> None:
        fleet.lab.break_exporter(ExporterFault(group=fleet.spec.group, topic=fleet.spec.topic, mode="hidden"))
        fleet.lab.forget(fleet.spec.group)

    return draw.scenario(behaviour, fault, Verdict.NO_DATA, run_id=run_id)


def low_traffic(draw: Draw, run_id: str) -> Scenario:
    """A message now and then."""
    draw.rate = draw.random.uniform(0.3, 1.5)
    behaviour = Behaviour(process_seconds=dict.fromkeys(draw.types, draw.random.uniform(0.01, 0.1)))
    return draw.scenario(behaviour, _nothing, Verdict.HEALTHY, run_id=run_id)


def sawtooth(draw: Draw, run_id: str) -> Scenario:
    """Commits come rarely: the lag rises and falls, and none of it is late."""
    draw.settings = {"commit_interval_seconds": draw.random.uniform(4.5, 6.0)}
    return draw.scenario(draw.calm(), _nothing, Verdict.HEALTHY, run_id=run_id)


def diurnal(draw: Draw, run_id: str) -> Scenario:
    """Traffic swings slowly, and the consumers have room for its height."""
    behaviour = Behaviour(process_seconds=draw.process_seconds(draw.random.uniform(0.25, 0.35)))
    swing, seconds = draw.random.uniform(0.6, 0.8), draw.random.uniform(35, 50)
    return draw.scenario(behaviour, _nothing, Verdict.HEALTHY, run_id=run_id, swing=swing, swing_seconds=seconds)


def burst(fleet: LabFleet, *, factor: float, seconds: float) -> None:
    """So many times the traffic, for so long; in the background."""
    usual = fleet.traffic.rate_per_second

    def rise_and_fall(over: threading.Event) -> None:
        fleet.set_traffic(rate_per_second=usual * factor)
        over.wait(seconds)
        fleet.set_traffic(rate_per_second=usual)

    fleet.keep_doing(rise_and_fall)


def producer_burst(draw: Draw, run_id: str) -> Scenario:
    """Traffic was far above what can be taken for some seconds; now the rest is worked off."""
    draw.rate = draw.random.uniform(70, 100)
    capacity = draw.random.uniform(2.0, 2.4)  # in units of the usual traffic
    behaviour = Behaviour(
        process_seconds=dict.fromkeys(draw.types, QUICK_SECONDS), decode_seconds=draw.decode_seconds(1 / capacity)
    )

    def fault(fleet: LabFleet) -> None:
        burst(fleet, factor=capacity + 7.0, seconds=7.0)

    return draw.scenario(behaviour, fault, Verdict.PRODUCER_BURST, run_id=run_id, keys=2000)


SCENARIOS: dict[str, tuple[Make, str]] = {
    "producer_burst": (producer_burst, "a burst of traffic that the group catches up with: no alarm"),
    "unusable_data": (unusable_data, "the exporter shows NaN or -1 for the lag"),
    "no_data": (no_data, "the metrics targets disappear"),
    "low_traffic": (low_traffic, "a quiet topic: healthy"),
    "sawtooth": (sawtooth, "slow periodic commits: healthy"),
    "diurnal": (diurnal, "slowly varying traffic: healthy"),
}
