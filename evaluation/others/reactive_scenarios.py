"""Faults of reactive consumers that others do not have: a record that fails ends the stream, and what is paused polls on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from evaluation.others import pods, reactive
from workbench.lab.client_spec import Behaviour
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import Draw, Make, Scenario, behaving, sending
from workbench.triage.verdict_names import Verdict

Shape = Literal["quarkus", "pekko", "reactor"]

_KEYS = 4000


def prepare(draw: Draw, shape: Shape) -> None:
    """An application of this kind."""
    draw.consumer, draw.by_type = shape, False
    draw.instances, draw.rate = 2, draw.random.uniform(60, 100)  # each record costs these frameworks more than others
    draw.topic = draw.random.choice(("events", "shop.events"))
    draw.measured = reactive.drawn(draw)
    several = shape != "quarkus" or draw.measured.channel == "orders-pool"
    draw.threads = draw.random.choice((3, 4)) if several else 1


def told_by_pods(make: Make, draw: Draw, run_id: str) -> Scenario:
    """A run whose truth names no member where all pods call their consumers the same."""
    made = make(draw, run_id)
    measured: reactive.ReactiveMeasured = made.spec.measured
    # The proxy knows clients by the beginning of their id; and a quota of one that all channels share would outlive the run.
    if made.spec.proxied or made.expected is Verdict.THROTTLED:
        measured = replace(measured, named=True)
    made = pods.told_apart(replace(made, spec=replace(made.spec, measured=measured)), named=measured.named)
    if made.expected is Verdict.STUCK_PARTITION and _in_line(made):  # the whole member waits for one record
        return replace(made, scope={}, also=(*made.also, Verdict.CONSUMER_STOPPED))
    return made


def _in_line(made: Scenario) -> bool:
    return made.spec.consumer != "quarkus" or made.spec.measured.channel != "orders-pool"


def _calm(draw: Draw) -> Behaviour:
    return Behaviour(process_seconds=pods.times(draw, draw.random.uniform(0.12, 0.3)))


def _failing(draw: Draw, run_id: str, *, restarts: bool) -> Scenario:
    hit = draw.random.randrange(draw.partitions)

    def fault(fleet: LabFleet) -> None:
        sending(poison_partition=hit)(fleet)
        if restarts:
            pods.start_what_ends(fleet)

    return draw.scenario(_calm(draw), fault, Verdict.CONSUMER_STOPPED, run_id=run_id, keys=_KEYS)


def stream_ends(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """A record fails, and with it the stream that has read it: its client closes, and the next owner ends in the same way."""
    prepare(draw, shape)
    draw.measured = replace(draw.measured, failure="fail", errors="fail")
    return _failing(draw, run_id, restarts=False)


def started_anew(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """A record fails; a liveness probe, or the stream itself with a back-off, starts it again, and it fails again."""
    prepare(draw, shape)
    draw.measured = replace(draw.measured, failure="exit", errors="restart")
    made = _failing(draw, run_id, restarts=shape == "quarkus")
    also = (Verdict.REBALANCE_STORM,)
    return replace(made, expected=Verdict.STUCK_PARTITION, also=also)


def dead_letters(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """A share of one type's records goes to the dead letters."""
    prepare(draw, shape)
    draw.measured = replace(draw.measured, failure="dead-letter-queue", channel="orders", observed=True)
    draw.threads = 1
    draw.settings = {"dead_letter_topic": f"{draw.topic}-{run_id}-dlt"}
    fault = behaving(dead_share={next(iter(draw.types)): draw.random.uniform(0.15, 0.3)})
    return draw.scenario(_calm(draw), fault, Verdict.FAILING_RECORDS, run_id=run_id, keys=_KEYS)


def letters_missing(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """Records fail, and the topic of the dead letters is not there: nobody commits beyond them."""
    made = dead_letters(shape, draw, run_id)
    also = (Verdict.STUCK_PARTITION, Verdict.FAILING_RECORDS)
    return replace(made, spec=replace(made.spec, settings={}), expected=Verdict.CONSUMER_STOPPED, also=also)


def quiet(shape: Shape, draw: Draw, run_id: str) -> Scenario:
    """A record now and then."""
    prepare(draw, shape)
    return pods.now_and_then(draw, run_id)


_EVERY: tuple[Shape, ...] = ("quarkus", "pekko", "reactor")
KINDS: dict[str, tuple[Callable[[Shape, Draw, str], Scenario], str, tuple[Shape, ...]]] = {
    "quiet": (quiet, "a record now and then: healthy", _EVERY),
    "stream_ends": (stream_ends, "a record fails, and each stream that reads it ends", _EVERY),
    "started_anew": (started_anew, "a record fails, and what reads it is started again and again", _EVERY),
    "dead_letters": (dead_letters, "some records go to the dead letters", ("quarkus",)),
    "letters_missing": (letters_missing, "records fail, and the topic of the dead letters is missing", ("quarkus",)),
}
