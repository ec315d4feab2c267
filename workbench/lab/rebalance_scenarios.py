"""Rebalance storms, one for each cause. The members are busy, so that what a storm takes from them is missed at once."""

from __future__ import annotations

import threading

from workbench.lab.client_spec import Behaviour
from workbench.lab.lab_broker import add_partitions
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import QUICK_SECONDS, Draw, Make, Scenario, behaving
from workbench.triage.verdict_names import Verdict

_SESSION_MS = 2500
_MAX_POLL_MS = 3200
_KEYS = 2000  # with few, some partitions get so much more than others that one member could never catch up


def _storm(draw: Draw, *, instances: int, use: float) -> Behaviour:
    draw.instances, draw.consumers = instances, 1
    draw.rate = draw.random.uniform(120, 180)
    draw.kafka = {"session.timeout.ms": _SESSION_MS}
    return Behaviour(process_seconds=dict.fromkeys(draw.types, QUICK_SECONDS), decode_seconds=draw.decode_seconds(use))


def poll_stall(draw: Draw, run_id: str) -> Scenario:
    """One member's consumer thread blocks for longer than max.poll.interval.ms, again and again."""
    behaviour = _storm(draw, instances=3, use=draw.random.uniform(0.66, 0.72))
    draw.kafka = {**draw.kafka, "max.poll.interval.ms": _MAX_POLL_MS}
    stalled = f"{draw.group(run_id)}-{draw.random.randrange(3)}"
    # Between two stalls it takes in what has come meanwhile, and polls: two in one batch would be a member that hangs.
    seconds = draw.random.uniform(4.2, 4.8)
    fault = behaving(stall_members=[stalled], stall_seconds=seconds, stall_pause_seconds=4.0)
    return draw.scenario(
        behaviour, fault, Verdict.REBALANCE_STORM, run_id=run_id,
        scope={"cause": "poll_stall", "members": [f"{stalled}-0"]}, keys=_KEYS,
    )  # fmt: skip


def member_crash(draw: Draw, run_id: str) -> Scenario:
    """One instance dies and is started again, again and again."""
    behaviour = _storm(draw, instances=3, use=draw.random.uniform(0.68, 0.74))
    victim = f"{draw.group(run_id)}-{draw.random.randrange(3)}"

    def fault(fleet: LabFleet) -> None:
        def crash_loop(over: threading.Event) -> None:
            while not over.is_set():
                fleet.kill([victim])
                fleet.relaunch(victim)
                over.wait(2.5)

        fleet.keep_doing(crash_loop)

    return draw.scenario(
        behaviour, fault, Verdict.REBALANCE_STORM, run_id=run_id,
        scope={"cause": "member_crash", "members": [f"{victim}-0"]}, keys=_KEYS,
    )  # fmt: skip


def deploy(draw: Draw, run_id: str) -> Scenario:
    """A rolling restart goes through the instances one by one."""
    behaviour = _storm(draw, instances=5, use=draw.random.uniform(0.72, 0.76))
    draw.partitions = 10

    def fault(fleet: LabFleet) -> None:
        def roll(over: threading.Event) -> None:
            while not over.is_set():
                for name in list(fleet.instances):
                    if over.is_set():
                        return
                    fleet.restart([name])
                    over.wait(1.0)

        fleet.keep_doing(roll)

    return draw.scenario(
        behaviour, fault, Verdict.REBALANCE_STORM, run_id=run_id, scope={"cause": "deploy"}, keys=_KEYS
    )


def metadata_change(draw: Draw, run_id: str) -> Scenario:
    """Somebody adds partitions one at a time, and an eager assignor stops the whole group for each."""
    behaviour = _storm(draw, instances=3, use=draw.random.uniform(0.8, 0.84))
    draw.kafka = {
        **draw.kafka,
        # Eager, and it gives everybody some of the old partitions, which hold what waits ("range" gives them all to the first member).
        "partition.assignment.strategy": "roundrobin",
        "topic.metadata.refresh.interval.ms": 1000,
    }
    draw.partitions = 6

    def fault(fleet: LabFleet) -> None:
        def grow(over: threading.Event) -> None:
            total = fleet.spec.partitions
            while not over.is_set():
                total += 1
                add_partitions(fleet.lab.bootstrap, fleet.spec.topic, total)
                over.wait(2.0)

        fleet.keep_doing(grow)

    return draw.scenario(
        behaviour, fault, Verdict.REBALANCE_STORM, run_id=run_id, scope={"cause": "metadata_change"}, keys=_KEYS
    )


SCENARIOS: dict[str, tuple[Make, str]] = {
    "rebalance_storm_poll_stall": (poll_stall, "one member polls too rarely, and the group removes it again and again"),
    "rebalance_storm_member_crash": (member_crash, "one member crashes and comes back, again and again"),
    "rebalance_storm_deploy": (deploy, "a rolling restart goes through a busy group"),
    "rebalance_storm_metadata_change": (metadata_change, "partitions are added one by one"),
}
