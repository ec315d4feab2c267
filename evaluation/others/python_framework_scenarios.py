"""Faults of applications on FastStream and Faust that other consumers do not have, and what holds for all of their runs."""

from __future__ import annotations

from dataclasses import replace

from evaluation.others import pods, python_frameworks
from workbench.lab.client_spec import Behaviour
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import Draw, Scenario, behaving, sending
from workbench.triage.verdict_names import Verdict

_KEYS = 4000


def prepare(draw: Draw, framework: str) -> None:
    """An application, and so many partitions that its consumers have equally many."""
    draw.consumer, draw.by_type = framework, False
    draw.topic = draw.random.choice(("events", "shop.events"))
    draw.rate = draw.random.uniform(60, 90)  # an event loop takes a millisecond of the processor for each
    draw.measured = python_frameworks.drawn(draw)
    if framework == "faust":
        draw.measured = replace(draw.measured, workers=draw.random.choice((1, 1, 4)), errors="retry")
    set_up(draw)


def set_up(draw: Draw) -> None:
    """Threads, members and partitions, by what was drawn."""
    measured = draw.measured
    draw.threads = measured.workers
    draw.consumers = 1
    if draw.consumer == "faststream" and measured.ack and measured.library == "aiokafka":
        draw.consumers = measured.workers
    draw.partitions = draw.instances * draw.consumers * draw.random.choice((2, 3))


def _calm(draw: Draw, most: float = 0.3) -> Behaviour:
    return Behaviour(process_seconds=pods.times(draw, draw.random.uniform(0.12, most)))


def poison_retried(framework: str, draw: Draw, run_id: str) -> Scenario:
    """One record fails, and is tried again for ever: FastStream reads it again, an agent of Faust waits for it."""
    prepare(draw, framework)
    draw.measured = replace(draw.measured, ack="nack_on_error", batch=False, workers=1)
    set_up(draw)
    hit = draw.random.randrange(draw.partitions)
    return draw.scenario(
        _calm(draw, 0.15), sending(poison_partition=hit), Verdict.STUCK_PARTITION, run_id=run_id, keys=_KEYS,
        also=(Verdict.CONSUMER_STOPPED,) if framework == "faust" else (),  # all of its agent waits
    )  # fmt: skip


def poison_skipped(framework: str, draw: Draw, run_id: str) -> Scenario:
    """One record fails, and is given up: healthy."""
    prepare(draw, framework)
    draw.measured = replace(draw.measured, ack="", workers=1, errors="skip")
    set_up(draw)
    fault = sending(poison_partition=draw.random.randrange(draw.partitions))
    return draw.scenario(_calm(draw), fault, Verdict.HEALTHY, run_id=run_id, keys=_KEYS)


def poison_crashes(framework: str, draw: Draw, run_id: str) -> Scenario:
    """One record ends its process, which is started again: each of its owners ends in turn."""
    prepare(draw, framework)
    draw.measured = replace(draw.measured, ack="nack_on_error", batch=False, workers=1, errors="crash")
    set_up(draw)
    hit = draw.random.randrange(draw.partitions)

    def fault(fleet: LabFleet) -> None:
        sending(poison_partition=hit)(fleet)
        pods.start_what_ends(fleet)

    return draw.scenario(
        _calm(draw, 0.15), fault, Verdict.STUCK_PARTITION, run_id=run_id, keys=_KEYS, also=(Verdict.REBALANCE_STORM,)
    )


def outage(framework: str, draw: Draw, run_id: str) -> Scenario:
    """What all handlers need is out: every record fails. With the default policy of FastStream all are lost."""
    prepare(draw, framework)
    expected, scope = Verdict.FAILING_RECORDS, {}
    if framework == "faust" or draw.measured.ack == "nack_on_error":
        expected, scope = Verdict.STUCK_PARTITION, {"cause": "handlers_fail"}
    fault = behaving(dead_share=dict.fromkeys(draw.types, 1.0))
    return draw.scenario(_calm(draw), fault, expected, run_id=run_id, scope=scope, keys=_KEYS)


def poll_interval(framework: str, draw: Draw, run_id: str) -> Scenario:
    """A record of one instance takes longer than the longest time between polls: it is put out again and again."""
    prepare(draw, framework)
    draw.measured = replace(draw.measured, workers=1, batch=False, blocking=False)
    set_up(draw)
    draw.kafka = {"max.poll.interval.ms": 3200}
    stalled = f"{draw.group(run_id)}-{draw.random.randrange(draw.instances)}"
    fault = behaving(stall_members=[stalled], stall_seconds=draw.random.uniform(4.2, 4.8))
    return draw.scenario(
        _calm(draw), fault, Verdict.REBALANCE_STORM, run_id=run_id, scope={"cause": "poll_stall"}, keys=_KEYS
    )


def quiet(framework: str, draw: Draw, run_id: str) -> Scenario:
    """A record now and then."""
    prepare(draw, framework)
    return pods.now_and_then(draw, run_id)


KINDS = {
    "quiet": (quiet, "a record now and then: healthy"),
    "poison_retried": (poison_retried, "a record that cannot be handled is tried again for ever"),
    "poison_skipped": (poison_skipped, "one record fails, and is given up: healthy"),
    "poison_crashes": (poison_crashes, "a record ends each process that reads it"),
    "outage": (outage, "every record fails"),
    "poll_interval": (poll_interval, "one instance needs longer between polls than it may"),
}
# Faust polls beside its agents, however long these take.
NEVER = {("faust", "poll_interval")}
