"""Faults of consumers on Watermill: each partition has a goroutine, which waits until its record is acknowledged."""

from __future__ import annotations

from functools import partial

from evaluation.others import pods
from evaluation.others.spring_scenarios import limit_each
from evaluation.others.watermill import WatermillMeasured
from workbench.lab.client_spec import Behaviour
from workbench.lab.scenario_circumstances import Draw, Make, Scenario, behaving, growing, sending
from workbench.triage.verdict_names import Verdict

_KEYS = 4000


def _prepare(draw: Draw, *, poison_queue: bool = False) -> None:
    """A consumer whose members have equally many partitions, and as many handlers."""
    choose = draw.random.choice
    draw.consumer, draw.by_type = "watermill", False
    draw.topic = choose(("events", "shop.events"))
    draw.measured = WatermillMeasured(
        namespace=choose(("", "shop")),
        named=choose((True, False)),
        poison_queue=poison_queue,
        retries=choose((0, 3)) if poison_queue else 0,
    )
    draw.threads = choose((2, 3))
    draw.partitions = draw.instances * draw.threads


def _behaviour(draw: Draw, least: float, most: float) -> Behaviour:
    """Handlers that use this share of the partitions' goroutines."""
    return Behaviour(process_seconds=pods.times(draw, draw.random.uniform(least, most)))


def _healthy(draw: Draw, run_id: str) -> Scenario:
    """Normal traffic."""
    _prepare(draw)
    return draw.scenario(_behaviour(draw, 0.1, 0.6), lambda _fleet: None, Verdict.HEALTHY, run_id=run_id, keys=_KEYS)


def _slow(draw: Draw, run_id: str) -> Scenario:
    """What all handlers wait for becomes slow."""
    _prepare(draw)
    usual = _behaviour(draw, 0.2, 0.4)
    fault = behaving(process_seconds=pods.times(draw, draw.random.uniform(1.7, 2.4)))
    also = (Verdict.SLOW_PROCESSOR,)
    return draw.scenario(usual, fault, Verdict.SLOW_DOWNSTREAM, run_id=run_id, keys=_KEYS, also=also)


def _outgrown(draw: Draw, run_id: str) -> Scenario:
    """More arrives than the partitions' goroutines can do: they wait, one record at a time, whichever members they are in."""
    _prepare(draw)
    return draw.scenario(
        _behaviour(draw, 0.75, 0.85), growing(1.8), Verdict.PARTITION_CEILING, run_id=run_id, keys=_KEYS,
        also=(Verdict.BURST, Verdict.CANNOT_TELL),
    )  # fmt: skip


def _hot(draw: Draw, run_id: str) -> Scenario:
    """Most of the traffic goes to one partition, whose goroutine can do half of it."""
    _prepare(draw)
    hit = draw.random.randrange(draw.partitions)
    use = draw.random.uniform(0.3, 0.4)
    fault = sending(hot_partition=hit, hot_share=min(0.9, 1.8 / use / draw.partitions))
    return draw.scenario(
        _behaviour(draw, use, use), fault, Verdict.HOT_PARTITION, run_id=run_id, scope={"partitions": [hit]}, keys=_KEYS
    )


def _hangs(draw: Draw, run_id: str) -> Scenario:
    """The handlers of one member never return; its client goes on to send heartbeats."""
    _prepare(draw)
    hung = f"{draw.group(run_id)}-{draw.random.randrange(draw.instances)}"
    fault = behaving(stall_members=[hung], stall_seconds=3600.0)
    return draw.scenario(
        _behaviour(draw, 0.15, 0.3), fault, Verdict.CONSUMER_STOPPED, run_id=run_id, keys=_KEYS, also=(Verdict.CANNOT_TELL,)
    )  # fmt: skip


def _poison(draw: Draw, run_id: str) -> Scenario:
    """A record fails, and is sent to its handler again: its partition waits."""
    _prepare(draw)
    hit = draw.random.randrange(draw.partitions)
    return draw.scenario(
        _behaviour(draw, 0.15, 0.3), sending(poison_partition=hit), Verdict.STUCK_PARTITION, run_id=run_id,
        scope={"partitions": [hit]}, keys=_KEYS,
    )  # fmt: skip


def _poison_queue(draw: Draw, run_id: str) -> Scenario:
    """A record fails, and goes to the poison queue: healthy."""
    _prepare(draw, poison_queue=True)
    draw.settings = {"dead_letter_topic": f"{draw.topic}-{run_id}-poison"}
    fault = sending(poison_partition=draw.random.randrange(draw.partitions))
    return draw.scenario(_behaviour(draw, 0.15, 0.3), fault, Verdict.HEALTHY, run_id=run_id, keys=_KEYS)


def _outage(draw: Draw, run_id: str) -> Scenario:
    """What all handlers need is out: every record fails, and is sent again."""
    _prepare(draw)
    fault, scope = behaving(dead_share=dict.fromkeys(draw.types, 1.0)), {"cause": "handlers_fail"}
    return draw.scenario(
        _behaviour(draw, 0.15, 0.3), fault, Verdict.STUCK_PARTITION, run_id=run_id, scope=scope, keys=_KEYS
    )


def _stopped(draw: Draw, run_id: str) -> Scenario:
    """All members crash."""
    _prepare(draw)
    return draw.scenario(
        _behaviour(draw, 0.15, 0.3), lambda fleet: fleet.kill(list(fleet.instances)), Verdict.CONSUMER_STOPPED,
        run_id=run_id, keys=_KEYS,
    )  # fmt: skip


def _crash_loop(draw: Draw, run_id: str) -> Scenario:
    """One instance dies soon after each start."""
    _prepare(draw)
    victim = f"{draw.group(run_id)}-{draw.random.randrange(draw.instances)}"
    fault = partial(pods.keep_crashing, victim, 3.0)
    return draw.scenario(
        _behaviour(draw, 0.6, 0.7), fault, Verdict.REBALANCE_STORM, run_id=run_id, keys=_KEYS, also=(Verdict.CANNOT_TELL,)
    )  # fmt: skip


def _throttled(draw: Draw, run_id: str) -> Scenario:
    """A quota lets the members fetch a third of what arrives."""
    _prepare(draw)
    share = draw.random.uniform(0.28, 0.36)
    return draw.scenario(
        _behaviour(draw, 0.15, 0.3), partial(limit_each, share, draw), Verdict.THROTTLED, run_id=run_id, keys=_KEYS,
        also=(Verdict.CANNOT_TELL,),
    )  # fmt: skip


def _quiet(draw: Draw, run_id: str) -> Scenario:
    """A record now and then."""
    _prepare(draw)
    return pods.now_and_then(draw, run_id)


KINDS: dict[str, tuple[Make, str]] = {
    name: (partial(pods.of_one_name, make), what)
    for name, (make, what) in {
        "healthy": (_healthy, "normal traffic, no fault"),
        "quiet": (_quiet, "a record now and then: healthy"),
        "slow_handler": (_slow, "every handler becomes slow at once"),
        "outgrown": (_outgrown, "more arrives than one record at a time of each partition"),
        "hot_partition": (_hot, "most of the traffic goes to one partition"),
        "hangs": (_hangs, "the handlers of one member never return"),
        "poison": (_poison, "a record that fails is sent to its handler for ever"),
        "poison_queue": (_poison_queue, "a record that fails goes to the poison queue: healthy"),
        "outage": (_outage, "every record fails"),
        "stopped": (_stopped, "all members crash"),
        "crash_loop": (_crash_loop, "one instance dies soon after each start"),
        "throttled": (_throttled, "a client quota on the broker throttles the members"),
    }.items()
}
