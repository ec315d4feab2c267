"""Faults of Micronaut applications that other consumers do not have, and what holds for all of their runs."""

from __future__ import annotations

from dataclasses import replace

from evaluation.others import micronaut, pods
from workbench.lab.client_spec import Behaviour
from workbench.lab.scenario_circumstances import Draw, Make, Scenario, behaving, sending
from workbench.triage.verdict_names import Verdict

_KEYS = 4000


def prepare(draw: Draw) -> None:
    """An application, and so many partitions that its consumers have equally many."""
    draw.consumer, draw.by_type = "micronaut", False
    draw.topic = draw.random.choice(("events", "shop.events"))
    draw.rate = draw.random.uniform(80, 140)
    draw.measured = micronaut.drawn(draw)
    draw.threads = draw.consumers = draw.random.choice((1, 1, 2))
    draw.partitions = draw.instances * draw.consumers * draw.random.choice((1, 2, 3))


def told_by_pods(make: Make, draw: Draw, run_id: str) -> Scenario:
    """A run whose truth names no member where all pods call their consumers the same."""
    made = make(draw, run_id)
    measured: micronaut.MicronautMeasured = made.spec.measured
    if made.spec.proxied or made.expected is Verdict.THROTTLED:  # the proxy, and quotas, know clients by their ids
        measured = replace(measured, named=True)
    made = replace(made, spec=replace(made.spec, measured=measured))
    return pods.told_apart(made, named=measured.named and made.spec.consumers == 1)


def _calm(draw: Draw, most: float = 0.3) -> Behaviour:
    return Behaviour(process_seconds=pods.times(draw, draw.random.uniform(0.12, most)))


def _of_kind(draw: Draw, kind: micronaut.Kind) -> None:
    prepare(draw)
    draw.measured = replace(draw.measured, kind=kind)


def quiet(draw: Draw, run_id: str) -> Scenario:
    """A record now and then."""
    prepare(draw)
    return pods.now_and_then(draw, run_id)


def poison_retried(draw: Draw, run_id: str) -> Scenario:
    """One record fails and is read again every second; its partition is paused meanwhile."""
    _of_kind(draw, "retry")
    hit = draw.random.randrange(draw.partitions)
    return draw.scenario(
        _calm(draw), sending(poison_partition=hit), Verdict.STUCK_PARTITION, run_id=run_id, scope={"partitions": [hit]}, keys=_KEYS
    )  # fmt: skip


def poison_in_batch(draw: Draw, run_id: str) -> Scenario:
    """One record of a batch fails, and with it the batch, which is read again every second: all partitions that it had wait."""
    _of_kind(draw, "batch")
    fault = sending(poison_partition=draw.random.randrange(draw.partitions))
    return draw.scenario(
        _calm(draw), fault, Verdict.STUCK_PARTITION, run_id=run_id, keys=_KEYS, also=(Verdict.CONSUMER_STOPPED,)
    )


def poison_left_out(draw: Draw, run_id: str) -> Scenario:
    """One record fails; by default, it and what the poll has brought after it of its partition are left out: healthy."""
    _of_kind(draw, draw.random.choice(("auto", "resume")))
    fault = sending(poison_partition=draw.random.randrange(draw.partitions))
    return draw.scenario(_calm(draw), fault, Verdict.HEALTHY, run_id=run_id, keys=_KEYS)


def some_left_out(draw: Draw, run_id: str) -> Scenario:
    """A share of one type's records fails, and is left out."""
    _of_kind(draw, "resume")
    draw.measured = replace(draw.measured, timed=True)
    fault = behaving(dead_share={next(iter(draw.types)): draw.random.uniform(0.15, 0.3)})
    return draw.scenario(_calm(draw), fault, Verdict.FAILING_RECORDS, run_id=run_id, keys=_KEYS)


def outage(draw: Draw, run_id: str) -> Scenario:
    """What all handlers need is out: every record fails, and is read again."""
    _of_kind(draw, "retry")
    fault = behaving(dead_share=dict.fromkeys(draw.types, 1.0))
    scope = {"cause": "handlers_fail"} if draw.measured.timed else {}
    return draw.scenario(_calm(draw), fault, Verdict.STUCK_PARTITION, run_id=run_id, scope=scope, keys=_KEYS)


def poll_interval(draw: Draw, run_id: str) -> Scenario:
    """A record of one instance takes longer than max.poll.interval.ms: its consumer is put out again and again."""
    prepare(draw)
    draw.threads = draw.consumers = 1
    draw.partitions = draw.instances * 2
    draw.measured = replace(
        draw.measured, max_poll_records=1
    )  # else it is out for as long as all records of a poll take
    draw.kafka = {"max.poll.interval.ms": 3200}
    stalled = f"{draw.group(run_id)}-{draw.random.randrange(draw.instances)}"
    fault = behaving(stall_members=[stalled], stall_seconds=draw.random.uniform(4.2, 4.8))
    return draw.scenario(
        _calm(draw), fault, Verdict.REBALANCE_STORM, run_id=run_id, scope={"cause": "poll_stall"}, keys=_KEYS
    )


KINDS: dict[str, tuple[Make, str]] = {
    "quiet": (quiet, "a record now and then: healthy"),
    "poison_retried": (poison_retried, "a record that cannot be handled is read again every second, for ever"),
    "poison_in_batch": (poison_in_batch, "a batch with such a record is read again every second, for ever"),
    "poison_left_out": (poison_left_out, "one record fails, and is left out: healthy"),
    "some_left_out": (some_left_out, "some records fail, and are left out"),
    "outage": (outage, "every record fails, and is read again every second"),
    "poll_interval": (poll_interval, "one instance needs longer than max.poll.interval.ms"),
}
