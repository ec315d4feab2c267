"""Faults of Spring Boot applications that other consumers do not have, and what holds for all of their runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from evaluation.others import pods, spring
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.lab.client_spec import Behaviour
from workbench.lab.lab_broker import set_quota
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import Draw, Make, Scenario, behaving, sending
from workbench.lab.scenarios_outside_processors import RECORD_BYTES
from workbench.triage.verdict_names import Verdict

_KEYS = 4000
_KEPT_MEGABYTES = 76  # of 128, of which Boot takes 30
_CONTAINERS = 3  # of a listener with retry topics: its own, the retries', the letters'


def prepare(draw: Draw) -> None:
    """An application, and so many partitions that its consumers have equally many."""
    draw.consumer, draw.by_type = "spring", False
    draw.topic = draw.random.choice(("events", "shop.events"))
    draw.measured = spring.drawn(draw)
    _concurrent(draw, draw.measured.concurrency)


def _concurrent(draw: Draw, concurrency: int) -> None:
    if draw.instances * concurrency > 6:
        draw.instances = 2
    draw.measured = replace(draw.measured, concurrency=concurrency)
    draw.threads = draw.consumers = concurrency
    draw.partitions = draw.instances * concurrency * draw.random.choice((1, 2, 3))


def with_errors(draw: Draw, errors: spring.Errors) -> None:
    """What becomes of a record that fails."""
    draw.measured = replace(draw.measured, errors=errors)
    if errors == "retry_topic":  # which takes no batches
        draw.measured = replace(draw.measured, kind="record", ack="RECORD")


def told_by_pods(make: Make, draw: Draw, run_id: str) -> Scenario:
    """A run whose truth names no member where all pods call their consumers the same."""
    made = make(draw, run_id)
    measured: spring.SpringMeasured = made.spec.measured
    if made.spec.proxied:  # the proxy knows clients by the beginning of their id
        measured = replace(measured, client_ids="pod")
    named = measured.client_ids == "pod" and measured.concurrency == 1
    return pods.told_apart(replace(made, spec=replace(made.spec, measured=measured)), named=named)


def times(draw: Draw, use: float) -> dict[str, float]:
    """Process times that use the listener's threads to this share; as many as there are partitions for."""
    return dict.fromkeys(draw.types, use * min(draw.partitions, draw.instances * draw.threads) / draw.rate)


def limit_each(share: float, draw: Draw, fleet: LabFleet) -> None:
    """A quota for each client id in the group, which all together may fetch this share of what arrives."""
    views = KafkaCluster(fleet.lab.bootstrap).snapshot(groups=[fleet.spec.group]).groups
    names = {member.client_id for view in views for member in view.members if member.client_id}
    for name in names:
        set_quota(fleet.lab.bootstrap, name, round(share * draw.rate * RECORD_BYTES / len(names)))


def _calm(draw: Draw, most: float = 0.3) -> Behaviour:
    return Behaviour(process_seconds=times(draw, draw.random.uniform(0.12, most)))


def _nothing(_fleet: LabFleet) -> None:
    return


def quiet(draw: Draw, run_id: str) -> Scenario:
    """A record now and then."""
    prepare(draw)
    return pods.now_and_then(draw, run_id)


def idle_members(draw: Draw, run_id: str) -> Scenario:
    """More consumers than partitions: some have nothing, and all is well."""
    prepare(draw)
    _concurrent(draw, 4)
    draw.partitions = 3
    return draw.scenario(_calm(draw), _nothing, Verdict.HEALTHY, run_id=run_id, keys=_KEYS)


def slow_records(draw: Draw, run_id: str) -> Scenario:
    """Records of one type, which lie in one partition, become slow: their thread falls behind with all of its partitions."""
    prepare(draw)
    hit, place = draw.random.choice(list(draw.types)), draw.random.randrange(draw.partitions)
    usual = times(draw, draw.random.uniform(0.12, 0.2))
    slow = draw.random.uniform(1.6, 2.2) / (draw.rate * draw.share(hit))
    return draw.scenario(
        Behaviour(process_seconds=usual), behaving(process_seconds={**usual, hit: slow}), Verdict.SLOW_PROCESSOR,
        run_id=run_id, keys=_KEYS, also=(Verdict.SLOW_DOWNSTREAM,), type_partitions={hit: [place]},
    )  # fmt: skip


def poison_blocks(draw: Draw, run_id: str) -> Scenario:
    """One record fails, and the error handler's back-off has no end: its partition waits, and its thread between attempts."""
    prepare(draw)
    with_errors(draw, "backoff")
    hit = draw.random.randrange(draw.partitions)
    return draw.scenario(
        _calm(draw, 0.15), sending(poison_partition=hit), Verdict.STUCK_PARTITION, run_id=run_id, keys=_KEYS
    )


def outage(draw: Draw, run_id: str) -> Scenario:
    """What all handlers need is out: every record fails, and the error handler's back-off has no end."""
    prepare(draw)
    with_errors(draw, "backoff")
    fault = behaving(dead_share=dict.fromkeys(draw.types, 1.0))
    scope = {"cause": "handlers_fail"}
    return draw.scenario(_calm(draw), fault, Verdict.STUCK_PARTITION, run_id=run_id, scope=scope, keys=_KEYS)


def poison_skipped(draw: Draw, run_id: str) -> Scenario:
    """One record fails; Spring's default tries it ten times at once and goes on."""
    prepare(draw)
    with_errors(draw, "default")
    fault = sending(poison_partition=draw.random.randrange(draw.partitions))
    return draw.scenario(_calm(draw), fault, Verdict.HEALTHY, run_id=run_id, keys=_KEYS)


def garbage(draw: Draw, run_id: str) -> Scenario:
    """Handlers keep more memory than before: the process stands still most of the time, to collect garbage."""
    prepare(draw)
    behaviour = Behaviour(process_seconds=times(draw, draw.random.uniform(0.45, 0.6)))
    fault = behaving(kept_megabytes=_KEPT_MEGABYTES)
    return draw.scenario(
        behaviour, fault, Verdict.SLOW_PROCESSOR, run_id=run_id, scope={"cause": "garbage_collection"}, keys=_KEYS,
        also=(Verdict.SLOW_DOWNSTREAM,),
    )  # fmt: skip


def poll_interval(draw: Draw, run_id: str) -> Scenario:
    """A record of one instance takes longer than max.poll.interval.ms: its consumers are put out again and again."""
    prepare(draw)
    _concurrent(draw, 1)
    draw.measured = replace(draw.measured, protocol="classic", max_poll_records=50)
    draw.kafka = {"max.poll.interval.ms": 3200}
    stalled = f"{draw.group(run_id)}-{draw.random.randrange(draw.instances)}"
    fault = behaving(stall_members=[stalled], stall_seconds=draw.random.uniform(4.2, 4.8))
    return draw.scenario(
        _calm(draw), fault, Verdict.REBALANCE_STORM, run_id=run_id, scope={"cause": "poll_stall"}, keys=_KEYS
    )


def crash_loop(draw: Draw, run_id: str) -> Scenario:
    """One instance dies soon after each start."""
    prepare(draw)
    _concurrent(draw, 1)
    behaviour = Behaviour(process_seconds=times(draw, draw.random.uniform(0.6, 0.7)))
    victim = f"{draw.group(run_id)}-{draw.random.randrange(draw.instances)}"
    fault = partial(pods.keep_crashing, victim, 1.5)
    return draw.scenario(
        behaviour, fault, Verdict.REBALANCE_STORM, run_id=run_id, scope={"cause": "member_crash"}, keys=_KEYS
    )


def deployed(draw: Draw, run_id: str) -> Scenario:
    """A rolling restart of two pods with much room; it is over when somebody looks."""
    prepare(draw)
    draw.instances = 2
    _concurrent(draw, draw.random.choice((1, 2)))

    def fault(fleet: LabFleet) -> None:
        fleet.keep_doing(lambda _over: fleet.restart())

    also = (Verdict.RECOVERED, Verdict.PRODUCER_BURST)
    return draw.scenario(_calm(draw, 0.2), fault, Verdict.HEALTHY, run_id=run_id, keys=_KEYS, also=also)


def _given_up(draw: Draw, run_id: str, errors: spring.Errors, share: tuple[float, float], types: int) -> Scenario:
    prepare(draw)
    with_errors(draw, errors)
    draw.settings = {"dead_letter_topic": f"{draw.topic}-{run_id}-dlt"}
    hit = list(draw.types)[:types]
    fault = behaving(dead_share={name: draw.random.uniform(*share) for name in hit})
    # A record that fails ends its batch, so that what a poll brings is fetched again and again.
    return draw.scenario(_calm(draw, 0.15), fault, Verdict.FAILING_RECORDS, run_id=run_id, keys=_KEYS)


def dead_letters(draw: Draw, run_id: str) -> Scenario:
    """A share of one type's records fails three times and goes to the dead letters."""
    return _given_up(draw, run_id, "dlt", (0.1, 0.3), 1)


def retry_topics(draw: Draw, run_id: str) -> Scenario:
    """A share of one type's records fails, is tried again by way of retry topics, and ends in the dead letters.

    The consumers of those topics are members of the same group.
    """
    made = _given_up(draw, run_id, "retry_topic", (0.2, 0.5), 1)
    return replace(made, spec=replace(made.spec, consumers=_CONTAINERS * made.spec.consumers))


def letters_missing(draw: Draw, run_id: str) -> Scenario:
    """Records fail, and the topic of the dead letters is not there: their producer waits for it, and nobody polls meanwhile."""
    made = _given_up(draw, run_id, "dlt", (0.1, 0.3), 1)
    spec = replace(made.spec, settings={})
    return replace(made, spec=spec, expected=Verdict.CONSUMER_STOPPED, also=(Verdict.STUCK_PARTITION,))


def all_fail(draw: Draw, run_id: str) -> Scenario:
    """Every record fails and goes to the dead letters; the group keeps up."""
    return _taking(_given_up(draw, run_id, "dlt", (1.0, 1.0), len(draw.types)), kind="record", ack="BATCH")


def never_acknowledged(draw: Draw, run_id: str) -> Scenario:
    """Every record goes to the dead letters, and a listener that acknowledges by hand does not: Spring commits none of them."""
    made = _given_up(draw, run_id, "dlt", (1.0, 1.0), len(draw.types))
    made = replace(made, expected=Verdict.STUCK_PARTITION, scope={"cause": "commit_fails"})
    return _taking(made, kind="manual", ack="MANUAL_IMMEDIATE")


def _taking(made: Scenario, **changes: Any) -> Scenario:
    return replace(made, spec=replace(made.spec, measured=replace(made.spec.measured, **changes)))


KINDS: dict[str, tuple[Make, str]] = {
    "quiet": (quiet, "a record now and then: healthy"),
    "idle_members": (idle_members, "more consumers than partitions: healthy"),
    "slow_records": (slow_records, "records of one type, all in one partition, become slow"),
    "poison_blocks": (poison_blocks, "a record that cannot be handled is tried every second, for ever"),
    "outage": (outage, "every record fails and is tried every second, for ever"),
    "poison_skipped": (poison_skipped, "one record fails, and is skipped: healthy"),
    "garbage": (garbage, "handlers keep memory, and the process collects garbage most of the time"),
    "poll_interval": (poll_interval, "one instance needs longer than max.poll.interval.ms"),
    "crash_loop": (crash_loop, "one instance dies soon after each start"),
    "deployed": (deployed, "a rolling restart with much room: healthy"),
    "dead_letters": (dead_letters, "some records go to the dead letters"),
    "retry_topics": (retry_topics, "some records go through retry topics to the dead letters"),
    "letters_missing": (letters_missing, "records fail, and the topic of the dead letters is missing"),
    "never_acknowledged": (never_acknowledged, "all records go to the dead letters, and are never acknowledged"),
    "all_fail": (all_fail, "all records go to the dead letters"),
}
