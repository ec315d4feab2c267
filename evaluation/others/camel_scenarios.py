"""Faults of Camel applications: what a route does with a record that fails, and a queue in memory behind it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from evaluation.others import pods
from evaluation.others.camel import CamelMeasured
from workbench.lab.client_spec import Behaviour
from workbench.lab.scenario_circumstances import Draw, Make, Scenario, behaving, growing, sending
from workbench.triage.verdict_names import Verdict

_KEYS = 4000


def _prepare(draw: Draw, *, breaks: bool = False, seda: bool = False) -> None:
    """An application, and so many partitions that its consumers have equally many."""
    choose = draw.random.choice
    draw.consumer, draw.by_type = "camel", False
    draw.topic = choose(("events", "shop.events"))
    draw.rate = draw.random.uniform(80, 140)
    draw.consumers = choose((1, 1, 2))
    draw.measured = CamelMeasured(
        breaks=breaks, manual=not seda and choose((True, False)), seda=choose((2, 3)) if seda else 0,
        max_poll_records=choose((50, 500)),
    )  # fmt: skip
    draw.threads = draw.measured.seda or draw.consumers
    draw.partitions = draw.instances * draw.consumers * choose((2, 3))


def _behaviour(draw: Draw, least: float, most: float) -> Behaviour:
    return Behaviour(process_seconds=pods.times(draw, draw.random.uniform(least, most)))


def _calm(draw: Draw) -> Behaviour:
    return _behaviour(draw, 0.15, 0.3)


def _healthy(draw: Draw, run_id: str) -> Scenario:
    _prepare(draw)
    return draw.scenario(_behaviour(draw, 0.1, 0.6), lambda _fleet: None, Verdict.HEALTHY, run_id=run_id, keys=_KEYS)


def _slow(draw: Draw, run_id: str, *, seda: bool = False) -> Scenario:
    """What all handlers wait for becomes slow; behind a queue, this is full first."""
    _prepare(draw, seda=seda)
    usual = _behaviour(draw, 0.2, 0.4)
    fault = behaving(process_seconds=pods.times(draw, draw.random.uniform(1.7, 2.4)))
    also = (Verdict.SLOW_PROCESSOR, *((Verdict.SATURATED_PROCESSORS,) if seda else ()))
    return draw.scenario(usual, fault, Verdict.SLOW_DOWNSTREAM, run_id=run_id, keys=_KEYS, also=also)


def _outgrown(draw: Draw, run_id: str) -> Scenario:
    """Fewer consumers than partitions, and traffic outgrows them."""
    _prepare(draw)
    also = (Verdict.BURST, Verdict.CANNOT_TELL)
    return draw.scenario(
        _behaviour(draw, 0.7, 0.75), growing(2.0), Verdict.TOO_FEW_CONSUMERS, run_id=run_id, keys=_KEYS, also=also
    )


def _hot(draw: Draw, run_id: str) -> Scenario:
    """Most of the traffic goes to one partition, whose consumer can take half of it."""
    _prepare(draw)
    draw.instances, draw.consumers = 4, 1
    draw.threads, draw.partitions = 1, 4
    use, hit = draw.random.uniform(0.45, 0.55), draw.random.randrange(4)
    fault = sending(hot_partition=hit, hot_share=min(0.95, (1.85 / use / 4 - 0.25) / 0.75))
    return draw.scenario(
        _behaviour(draw, use, use), fault, Verdict.HOT_PARTITION, run_id=run_id, scope={"partitions": [hit]}, keys=_KEYS
    )


def _hangs(draw: Draw, run_id: str) -> Scenario:
    """The handlers of one member never return."""
    _prepare(draw)
    hung = f"{draw.group(run_id)}-{draw.random.randrange(draw.instances)}"
    fault = behaving(stall_members=[hung], stall_seconds=3600.0)
    return draw.scenario(_calm(draw), fault, Verdict.CONSUMER_STOPPED, run_id=run_id, keys=_KEYS)


def _poison_blocks(draw: Draw, run_id: str) -> Scenario:
    """A record fails, and the route reads it again, for ever."""
    _prepare(draw, breaks=True)
    draw.measured = replace(draw.measured, manual=True)  # its documents ask for both together
    fault = sending(poison_partition=draw.random.randrange(draw.partitions))
    also = (Verdict.CONSUMER_STOPPED,)  # its thread comes to nothing else
    return draw.scenario(_calm(draw), fault, Verdict.STUCK_PARTITION, run_id=run_id, keys=_KEYS, also=also)


def _poison_skipped(draw: Draw, run_id: str) -> Scenario:
    """A record fails, and the route goes on: healthy."""
    _prepare(draw)
    fault = sending(poison_partition=draw.random.randrange(draw.partitions))
    return draw.scenario(_calm(draw), fault, Verdict.HEALTHY, run_id=run_id, keys=_KEYS)


def _some_fail(draw: Draw, run_id: str) -> Scenario:
    """A share of one type's records fails, and is left out."""
    _prepare(draw)
    draw.measured = replace(draw.measured, manual=False)
    fault = behaving(dead_share={next(iter(draw.types)): draw.random.uniform(0.15, 0.3)})
    return draw.scenario(_calm(draw), fault, Verdict.FAILING_RECORDS, run_id=run_id, keys=_KEYS)


def _outage(draw: Draw, run_id: str) -> Scenario:
    """Every record fails, and is read again."""
    _prepare(draw, breaks=True)
    draw.measured = replace(draw.measured, manual=True)
    fault, scope = behaving(dead_share=dict.fromkeys(draw.types, 1.0)), {"cause": "handlers_fail"}
    return draw.scenario(_calm(draw), fault, Verdict.STUCK_PARTITION, run_id=run_id, scope=scope, keys=_KEYS)


def _stopped(draw: Draw, run_id: str) -> Scenario:
    """All members are ended in order."""
    _prepare(draw)
    return draw.scenario(
        _calm(draw), lambda fleet: fleet.shut_down(list(fleet.instances)), Verdict.CONSUMER_STOPPED,
        run_id=run_id, keys=_KEYS,
    )  # fmt: skip


KINDS: dict[str, tuple[Make, str]] = {
    name: (partial(pods.of_one_name, make), what)
    for name, (make, what) in {
        "healthy": (_healthy, "normal traffic, no fault"),
        "slow_handler": (_slow, "the route's handler becomes slow"),
        "slow_seda": (partial(_slow, seda=True), "the handler behind a SEDA queue becomes slow"),
        "too_few": (_outgrown, "fewer consumers than partitions, and traffic outgrows them"),
        "hot_partition": (_hot, "most of the traffic goes to one partition"),
        "hangs": (_hangs, "the handlers of one member never return"),
        "poison_blocks": (_poison_blocks, "a record that fails is read again (breakOnFirstError)"),
        "poison_skipped": (_poison_skipped, "a record that fails is left out: healthy"),
        "some_fail": (_some_fail, "some records fail, and are left out"),
        "outage": (_outage, "every record fails, and is read again"),
        "stopped": (_stopped, "all members are ended"),
    }.items()
}
