"""Recordings of consumers in other languages: what is drawn, and the truth that is written before anything runs."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from evaluation.foreign.draw import HEALTHY, LIBRARIES, SICK, Draw, drawn
from evaluation.foreign.spec import HERE, PROFILES, Behaviour, Library, Plan
from workbench.lab.producer import key_of, partition_of
from workbench.profiles import load_profile
from workbench.triage.verdict import Verdict

SEEDS = range(40)


def plans_of(kind: str) -> list[Plan]:
    """The kind on every library, by many seeds."""
    make = {**HEALTHY, **SICK}[kind]
    return [make(Draw(seed, 0, kind, library)) for seed in SEEDS for library in LIBRARIES]


def use_of(plan: Plan, behaviour: Behaviour, rate: float) -> float:
    """Share of the slots that this work takes."""
    slots = (
        plan.partitions
        if plan.client.style == "partition"
        else min(plan.partitions, plan.members * plan.client.concurrency)
    )
    types = plan.traffic.event_types
    mean = sum(share * behaviour.process_seconds[name] for name, share in types.items()) / sum(types.values())
    return rate * mean / slots


def test_a_seed_is_one_draw() -> None:
    """The same seed draws the same recordings, every kind of fault among them, a third healthy, and nothing twice."""
    plans = drawn(6101, 24)
    assert [json.dumps(it.truth()) for it in plans] == [json.dumps(it.truth()) for it in drawn(6101, 24)]
    assert json.dumps(drawn(6102, 24)[0].truth()) != json.dumps(plans[0].truth())
    assert set(SICK) <= {it.kind for it in plans}
    assert sum(it.kind in HEALTHY for it in plans) == 7
    assert max(Counter((it.kind, it.library) for it in plans).values()) == 1
    assert {it.library for it in plans} == set(LIBRARIES)


def test_too_many_are_refused() -> None:
    """A draw has no recording twice, so there is an end."""
    with pytest.raises(ValueError, match="fewer than 99"):
        drawn(1, 99)


@pytest.mark.parametrize("kind", [*HEALTHY, *SICK])
def test_truth(kind: str) -> None:
    """A truth names verdicts that exist, and parts of the group; what triage reads names none of it."""
    for plan in plans_of(kind):
        told = plan.truth()
        for name in (told["expected"]["verdict"], *told["also"]):
            Verdict(name)
        assert set(told["expected"]["scope"].get("partitions", [])) <= set(range(plan.partitions))
        assert set(told["expected"]["scope"].get("members", [])) <= {plan.client_id(it) for it in range(plan.members)}
        assert set(told["expected"]["scope"].get("processors", [])) <= set(plan.traffic.event_types)
        assert kind not in plan.group + plan.topic


@pytest.mark.parametrize("kind", ["steady", "burst", "quiet", "deploy", "uneven", "slower"])
def test_healthy_have_room(kind: str) -> None:
    """At the end, a healthy group is far from its limit."""
    for plan in plans_of(kind):
        last = {it.what: it.value for it in plan.deeds}
        rate = last.get("traffic", plan.traffic).rate_per_second
        assert use_of(plan, last.get("behave", plan.behaviour), rate) < 0.65


@pytest.mark.parametrize("kind", ["slow_all", "slow_type", "too_few", "ceiling"])
def test_sick_are_beyond_their_limit(kind: str) -> None:
    """Before the fault there is room; after it, more arrives than can be handled."""
    for plan in plans_of(kind):
        last = {it.what: it.value for it in plan.deeds}
        assert use_of(plan, plan.behaviour, plan.traffic.rate_per_second) < 0.9
        rate = last.get("traffic", plan.traffic).rate_per_second
        assert use_of(plan, last.get("behave", plan.behaviour), rate) > 1.3


def test_a_hot_key_names_its_partition() -> None:
    """The partition of the truth is the one to which the producer sends the key."""
    for plan in plans_of("hot_key"):
        key = plan.deeds[0].value.hot_key
        assert plan.scope == {"partitions": [partition_of(key_of(key), plan.partitions)]}


@pytest.mark.parametrize(("library", "folder"), [("franz_go", "go"), ("kafkajs", "node")])
def test_profiles_read_what_the_clients_show(library: Library, folder: str) -> None:
    """Every metric of a profile is one that its program exports."""
    source = "".join(path.read_text() for path in (HERE / folder).iterdir())
    for rule in load_profile(str(PROFILES[library])).signals.values():
        assert f'"{rule.metric}"' in source.replace("'", '"') or rule.metric == "process_start_time_seconds"
