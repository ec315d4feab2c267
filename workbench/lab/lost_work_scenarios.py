"""Scenarios in which records are not read, are read again, or are given up."""

from __future__ import annotations

import threading
from dataclasses import replace

from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.lab.lab_broker import delete_group, move_commits
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import Draw, Make, Scenario, behaving
from workbench.triage.verdict_names import Verdict

_SEGMENT_MS = 2000  # retention deletes whole segments


def _kept_for(draw: Draw, seconds: float) -> None:
    draw.topic_settings = {"segment.ms": str(_SEGMENT_MS), "retention.ms": str(round(seconds * 1000))}


def _end_all(fleet: LabFleet, *, crash: bool) -> None:
    names = list(fleet.instances)
    (fleet.kill if crash else fleet.shut_down)(names)


def records_lost(draw: Draw, run_id: str) -> Scenario:
    """All instances are away for longer than the topic keeps its records; they come back, or they do not."""
    behaviour = draw.calm(most=0.25)
    _kept_for(draw, draw.random.uniform(4, 6))
    crash, back = draw.random.random() < 0.5, draw.random.random() < 0.6
    away = draw.random.uniform(17, 19)

    def fault(fleet: LabFleet) -> None:
        _end_all(fleet, crash=crash)

        def come_back(over: threading.Event) -> None:
            if not over.wait(away):
                for name in list(fleet.instances):
                    fleet.relaunch(name, announce=False)

        if back:
            fleet.keep_doing(come_back)

    scope = {"cause": "deleted", "partitions": list(range(draw.partitions))}
    return draw.scenario(behaviour, fault, Verdict.RECORDS_LOST, run_id=run_id, scope=scope)


def loss_ahead(draw: Draw, run_id: str) -> Scenario:
    """All instances are away, and retention comes closer to what they have not read."""
    behaviour = draw.calm(most=0.25)
    _kept_for(draw, draw.random.uniform(43, 45))  # longer than the incident on a busy machine, and shorter than the run
    crash = draw.random.random() < 0.5

    def fault(fleet: LabFleet) -> None:
        _end_all(fleet, crash=crash)

    made = draw.scenario(behaviour, fault, Verdict.CONSUMER_STOPPED, run_id=run_id, loss_ahead=True)
    return replace(made, steady_seconds=draw.random.uniform(34, 38))


def offsets_reset(draw: Draw, run_id: str) -> Scenario:
    """Somebody stops the group, moves its commits back or deletes them, and starts it again."""
    behaviour = draw.calm(most=0.25)
    deleted = draw.random.random() < 0.4
    seconds = draw.random.uniform(8, 14)  # of arrivals

    def fault(fleet: LabFleet) -> None:
        spec = fleet.spec
        fleet.shut_down(list(fleet.instances))
        if deleted:
            delete_group(fleet.lab.bootstrap, spec.group)
        else:
            commits = KafkaCluster(fleet.lab.bootstrap).snapshot(groups=[spec.group]).commits
            by = round(seconds * fleet.traffic.rate_per_second / spec.partitions)
            target = {part: max(0, offset - by) for (_, _, part), offset in commits.items() if offset is not None}
            move_commits(fleet.lab.bootstrap, spec.group, spec.topic, target)
        for name in list(fleet.instances):
            fleet.relaunch(name, announce=False)

    scope = {"cause": "went_back", "partitions": list(range(draw.partitions))}
    return draw.scenario(behaviour, fault, Verdict.OFFSETS_RESET, run_id=run_id, scope=scope)


def failing_records(draw: Draw, run_id: str) -> Scenario:
    """The handler of one event type gives up a share of its events, as quickly as it handles the others."""
    behaviour = draw.calm(most=0.25)
    draw.settings = {"dead_letter_topic": f"letters-{run_id}"}
    hit = draw.random.choice(list(draw.types))
    fault = behaving(dead_share={hit: draw.random.uniform(0.25, 0.6)})
    return draw.scenario(behaviour, fault, Verdict.FAILING_RECORDS, run_id=run_id, scope={"processors": [hit]})


SCENARIOS: dict[str, tuple[Make, str]] = {
    "records_lost": (records_lost, "nobody reads for longer than the topic keeps its records"),
    "loss_ahead": (loss_ahead, "nobody reads, and retention is about to delete what waits"),
    "offsets_reset": (offsets_reset, "the group's commits are moved back, or deleted"),
    "failing_records": (failing_records, "a handler gives up a share of its events, and keeps up"),
}
