"""Scenarios by name: a healthy subscription, a fault that begins at some time, and the expected verdict."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.errors import UsageError
from workbench.humanize import did_you_mean
from workbench.lab import (
    compound_scenarios,
    healthy_consumer_scenarios,
    lost_work_scenarios,
    rebalance_scenarios,
    scenarios_outside_processors,
    standstill_scenarios,
)
from workbench.lab.client_spec import Behaviour
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import QUICK_SECONDS, Draw, Make, Scenario, behaving, growing, sending
from workbench.triage.verdict_names import Verdict


def _healthy(draw: Draw, run_id: str) -> Scenario:
    behaviour = Behaviour(process_seconds=draw.process_seconds(draw.random.uniform(0.1, 0.4)))
    return draw.scenario(behaviour, lambda _fleet: None, Verdict.HEALTHY, run_id=run_id)


def _slow_processor(draw: Draw, run_id: str) -> Scenario:
    times = dict.fromkeys(draw.types, QUICK_SECONDS)
    hit = draw.random.choice(list(draw.types))
    slow = draw.process_seconds(draw.random.uniform(2.0, 2.8))[hit]  # 36 to 50 % of what arrives can be handled

    fault = behaving(process_seconds={**times, hit: slow})
    return draw.scenario(
        Behaviour(process_seconds=times), fault, Verdict.SLOW_PROCESSOR, run_id=run_id, scope={"processors": [hit]}
    )


def _saturated(draw: Draw, run_id: str) -> Scenario:
    draw.rate = draw.random.uniform(90, 130)
    use = draw.random.uniform(0.4, 0.5)
    growth = draw.random.uniform(3.6, 4.6)
    behaviour = Behaviour(process_seconds=draw.process_seconds(use))
    return draw.scenario(behaviour, growing(growth), Verdict.SATURATED_PROCESSORS, run_id=run_id, keys=2000)


def _slow_downstream(draw: Draw, run_id: str) -> Scenario:
    times = draw.process_seconds(draw.random.uniform(0.15, 0.2))
    factor = draw.random.uniform(11, 15)

    def fault(fleet: LabFleet) -> None:
        slow = {name: seconds * factor * draw.random.uniform(0.9, 1.1) for name, seconds in times.items()}
        fleet.set_behaviour(process_seconds=slow)

    return draw.scenario(Behaviour(process_seconds=times), fault, Verdict.SLOW_DOWNSTREAM, run_id=run_id)


def _too_few_consumers(draw: Draw, run_id: str) -> Scenario:
    """Decoding on the consumer thread is what takes the time; either traffic grows or instances are taken away."""
    times = dict.fromkeys(draw.types, QUICK_SECONDS)
    by_traffic = draw.random.random() < 0.5
    draw.instances = 2 if by_traffic else 3
    members = draw.instances
    use = draw.random.uniform(0.5, 0.6)
    decode = use * members / draw.rate
    growth = draw.random.uniform(1.6, 2.0) / use  # up to 160 to 200 % use

    def fewer_instances(fleet: LabFleet) -> None:
        fleet.shut_down(list(fleet.instances)[1:])

    return draw.scenario(
        Behaviour(process_seconds=times, decode_seconds=decode),
        growing(growth) if by_traffic else fewer_instances,
        Verdict.TOO_FEW_CONSUMERS,
        run_id=run_id,
    )


def _hot_partition(draw: Draw, run_id: str) -> Scenario:
    """As many consumers as partitions, each with room to spare; then most of the traffic goes to one partition."""
    draw.consumers = draw.random.choice((2, 3))
    draw.instances = 2
    draw.partitions = draw.instances * draw.consumers
    times = dict.fromkeys(draw.types, QUICK_SECONDS)
    use = draw.random.uniform(0.55, 0.6)
    decode = use * draw.partitions / draw.rate
    capacity = 1 / decode  # of one consumer, messages/s
    wanted = draw.random.uniform(1.9, 2.2) * capacity / draw.rate  # share of the traffic on the hot one
    share = (wanted - 1 / draw.partitions) / (1 - 1 / draw.partitions)
    hit = draw.random.randrange(draw.partitions)
    return draw.scenario(
        Behaviour(process_seconds=times, decode_seconds=decode),
        sending(hot_partition=hit, hot_share=min(0.95, share)),
        Verdict.HOT_PARTITION,
        run_id=run_id,
        scope={"partitions": [hit]},
    )


def _stuck_partition(draw: Draw, run_id: str) -> Scenario:
    draw.max_attempts = 1_000_000
    hit = draw.random.randrange(draw.partitions)
    behaviour = draw.calm()
    fault = sending(poison_partition=hit)
    return draw.scenario(behaviour, fault, Verdict.STUCK_PARTITION, run_id=run_id, scope={"partitions": [hit]})


def _consumer_stopped(draw: Draw, run_id: str) -> Scenario:
    crash = draw.random.random() < 0.5
    behaviour = draw.calm()

    def fault(fleet: LabFleet) -> None:
        names = list(fleet.instances)
        if crash:
            fleet.kill(names)
        else:
            fleet.shut_down(names)

    return draw.scenario(behaviour, fault, Verdict.CONSUMER_STOPPED, run_id=run_id)


def demo_scenario(bootstrap: str, *, seed: int) -> Scenario:
    """The demo's story: the handler of "refund" in the service "payments" becomes slow."""
    draw = Draw("demo", seed, bootstrap)
    draw.types = {"order": 2.0, "refund": 1.2, "shipment": 1.5, "signup": 1.0}
    draw.partitions, draw.instances, draw.rate = 6, 2, 200.0
    times = dict.fromkeys(draw.types, 0.004)
    slow = draw.process_seconds(2.4)["refund"]
    return draw.scenario(
        Behaviour(process_seconds=times),
        behaving(process_seconds={**times, "refund": slow}),
        Verdict.SLOW_PROCESSOR,
        names=("orders", "payments"),
        scope={"processors": ["refund"]},
    )


SCENARIOS: dict[str, tuple[Make, str]] = {
    "healthy": (_healthy, "normal traffic, no fault"),
    "slow_processor": (_slow_processor, "one event type's handler becomes slow"),
    "saturated_processors": (_saturated, "the traffic becomes more than the processor threads can handle"),
    "slow_downstream": (_slow_downstream, "every handler becomes slow at once"),
    "too_few_consumers": (_too_few_consumers, "fewer consumers than partitions, and they cannot keep up"),
    "hot_partition": (_hot_partition, "most of the traffic goes to one partition"),
    "stuck_partition": (_stuck_partition, "a poison record blocks the commits of one partition"),
    "consumer_stopped": (_consumer_stopped, "all instances crash or are stopped"),
    **scenarios_outside_processors.SCENARIOS,
    **rebalance_scenarios.SCENARIOS,
    **healthy_consumer_scenarios.SCENARIOS,
    **standstill_scenarios.SCENARIOS,
    **lost_work_scenarios.SCENARIOS,
    **compound_scenarios.SCENARIOS,
}


def make_scenario(
    name: str, seed: int, *, bootstrap: str, run_id: str, among: Mapping[str, tuple[Make, str]] = SCENARIOS
) -> Scenario:
    """A scenario with the circumstances of its seed.

    Args:
        among: those that there are.

    Raises:
        UsageError: if there is none of this name.
    """
    if name not in among:
        raise UsageError(
            f"There is no scenario {name!r}.{did_you_mean(name, [*among])}", hint="List them with: workbench lab list."
        )
    make, _ = among[name]
    return make(Draw(name, seed, bootstrap), run_id)
