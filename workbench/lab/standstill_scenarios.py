"""Scenarios in which commits stand still while members poll: an open transaction, clients that get nothing, a forgotten pause."""

from __future__ import annotations

from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import Draw, Make, Scenario, behaving
from workbench.triage.verdict_names import Verdict


def _some_instances(draw: Draw, run_id: str) -> list[str]:
    """One of them, or all."""
    names = [f"{draw.group(run_id)}-{number}" for number in range(draw.instances)]
    return names if draw.random.random() < 0.3 else [draw.random.choice(names)]


def open_transaction(draw: Draw, run_id: str) -> Scenario:
    """A producer writes into some partitions, or all, and leaves its transaction open; it dies, or goes on doing nothing."""
    behaviour = draw.calm()
    few = draw.random.choice((1, 2, draw.partitions))
    hit = sorted(draw.random.sample(range(draw.partitions), few))
    dies = draw.random.random() < 0.5

    def fault(fleet: LabFleet) -> None:
        fleet.open_transaction(hit, producer_dies=dies)

    return draw.scenario(
        behaviour, fault, Verdict.STUCK_PARTITION, run_id=run_id, scope={"partitions": hit, "cause": "open_transaction"}
    )


def client_stalled(draw: Draw, run_id: str) -> Scenario:
    """The network loses the answers to the fetches of one member, or of all; heartbeats and polls go on."""
    behaviour = draw.calm()
    draw.proxied = True
    draw.kafka = {"socket.timeout.ms": 300_000}  # longer than a run: until then the client waits for them
    hit = _some_instances(draw, run_id)

    def fault(fleet: LabFleet) -> None:
        fleet.lab.hold_fetches(fleet.spec.group, [f"{name}-" for name in hit])

    return draw.scenario(behaviour, fault, Verdict.STUCK_PARTITION, run_id=run_id, scope={"cause": "client_stalled"})


def forgotten_pause(draw: Draw, run_id: str) -> Scenario:
    """Somebody has paused the partitions of one member, or of all, and forgets them."""
    behaviour = draw.calm()
    fault = behaving(held_members=_some_instances(draw, run_id))
    return draw.scenario(behaviour, fault, Verdict.STUCK_PARTITION, run_id=run_id, scope={"cause": "paused"})


SCENARIOS: dict[str, tuple[Make, str]] = {
    "open_transaction": (open_transaction, "a producer leaves a transaction open, and consumers may not read on"),
    "client_stalled": (client_stalled, "members poll, but get no more records"),
    "forgotten_pause": (forgotten_pause, "partitions were paused, and nobody resumes them"),
}
