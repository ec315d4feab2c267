"""Incidents with a main cause and something else that is also true, and must not be taken for the cause."""

from __future__ import annotations

import threading

from workbench.lab.client_spec import Behaviour
from workbench.lab.healthy_consumer_scenarios import burst
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import QUICK_SECONDS, Draw, Make, Scenario, behaving
from workbench.lab.scenarios_outside_processors import SMALL_FETCHES
from workbench.triage.verdict_names import Verdict


def slow_type_on_few_partitions(draw: Draw, run_id: str) -> Scenario:
    """A handler becomes slow, and all keys of its type fall on two partitions, which therefore look hot."""
    draw.partitions = draw.random.choice((6, 8, 9))
    hit = draw.random.choice(list(draw.types))
    few = sorted(draw.random.sample(range(draw.partitions), 2))
    times = dict.fromkeys(draw.types, QUICK_SECONDS)
    # Two partitions may both be one member's, whose threads alone then have to cope.
    slow = draw.process_seconds(draw.random.uniform(2.2, 2.8))[hit]
    fault = behaving(process_seconds={**times, hit: slow})
    return draw.scenario(
        Behaviour(process_seconds=times), fault, Verdict.SLOW_PROCESSOR, run_id=run_id,
        scope={"processors": [hit]}, side=("hot_partition",), type_partitions={hit: few},
    )  # fmt: skip


def hot_partition_and_deploy(draw: Draw, run_id: str) -> Scenario:
    """Most of the traffic goes to one partition, and meanwhile one instance is restarted."""
    draw.instances = draw.partitions = 4
    use = draw.random.uniform(0.4, 0.45)
    decode = draw.decode_seconds(use)
    wanted = draw.random.uniform(2.0, 2.3) / decode / draw.rate  # share of the traffic on the hot one
    share = (wanted - 1 / draw.partitions) / (1 - 1 / draw.partitions)
    hit = draw.random.randrange(draw.partitions)

    def fault(fleet: LabFleet) -> None:
        fleet.set_traffic(hot_partition=hit, hot_share=min(0.95, share))

        def restart_one(over: threading.Event) -> None:
            if not over.wait(14):
                fleet.restart([list(fleet.instances)[-1]])

        fleet.keep_doing(restart_one)

    return draw.scenario(
        Behaviour(process_seconds=dict.fromkeys(draw.types, QUICK_SECONDS), decode_seconds=decode),
        fault, Verdict.HOT_PARTITION, run_id=run_id, scope={"partitions": [hit]},
    )  # fmt: skip


def burst_hides_a_stopped_member(draw: Draw, run_id: str) -> Scenario:
    """A burst is being worked off; behind it, one member hangs and its partitions wait."""
    draw.instances = 3
    draw.rate = draw.random.uniform(70, 100)
    capacity = draw.random.uniform(2.0, 2.4)
    hung = f"{draw.group(run_id)}-{draw.random.randrange(3)}"

    def fault(fleet: LabFleet) -> None:
        fleet.set_behaviour(stall_members=[hung], stall_seconds=3600.0)
        burst(fleet, factor=capacity + 5.0, seconds=6.0)

    return draw.scenario(
        Behaviour(
            process_seconds=dict.fromkeys(draw.types, QUICK_SECONDS), decode_seconds=draw.decode_seconds(1 / capacity)
        ),
        fault, Verdict.CONSUMER_STOPPED, run_id=run_id, scope={"members": [f"{hung}-0"]}, keys=2000,
    )  # fmt: skip


def slow_network_of_one_member(draw: Draw, run_id: str) -> Scenario:
    """The way of one member alone becomes long; its partitions look hot."""
    draw.partitions, draw.proxied, draw.kafka = 6, True, SMALL_FETCHES
    hit = f"{draw.group(run_id)}-{draw.random.randrange(draw.instances)}"
    delay = draw.random.uniform(0.8, 1.2)

    def fault(fleet: LabFleet) -> None:
        fleet.lab.slow_down(fleet.spec.group, {hit: delay})

    behaviour = Behaviour(process_seconds=dict.fromkeys(draw.types, QUICK_SECONDS))
    return draw.scenario(behaviour, fault, Verdict.SLOW_NETWORK, run_id=run_id, scope={"members": [f"{hit}-0"]})


SCENARIOS: dict[str, tuple[Make, str]] = {
    "slow_type_few_partitions": (slow_type_on_few_partitions, "a slow event type whose keys share two partitions"),
    "hot_partition_deploy": (hot_partition_and_deploy, "a hot partition while one instance is restarted"),
    "burst_stopped_member": (burst_hides_a_stopped_member, "the group catches up after a burst, but one member hangs"),
    "slow_network_one_member": (slow_network_of_one_member, "the network to the broker becomes slow for one member"),
}
