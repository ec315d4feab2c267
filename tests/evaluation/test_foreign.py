"""Recordings of consumers in other languages: what is drawn, and the truth that is written before anything runs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from evaluation.corpus import sets_of
from evaluation.foreign.circumstances import STYLES, Draw
from evaluation.foreign.draw import drawn
from evaluation.foreign.healthy import HEALTHY
from evaluation.foreign.sick import ONLY, SICK
from evaluation.foreign.spec import HERE, INCIDENT_SECONDS, LIBRARIES, PROFILES, Behaviour, Library, Plan
from workbench.lab.producer import key_of, partition_of
from workbench.profiles import load_profile
from workbench.triage.verdict_names import Verdict

SEEDS = range(40)


def plans_of(kind: str) -> list[Plan]:
    """The kind on every library that it befalls, by many seeds."""
    make = {**HEALTHY, **SICK}[kind]
    able = ONLY.get(kind, LIBRARIES)
    return [make(Draw(seed, 0, kind, library)) for seed in SEEDS for library in able]


def use_of(plan: Plan, behaviour: Behaviour, rate: float, *, members: int | None = None) -> float:
    """Share of the slots that this work takes, of all members or of so many."""
    slots = (
        plan.partitions
        if plan.client.style == "partition"
        else min(plan.partitions, (members or plan.members) * plan.client.concurrency)
    )
    types = plan.traffic.event_types
    mean = sum(share * behaviour.process_seconds[name] for name, share in types.items()) / sum(types.values())
    return rate * mean / slots


def test_a_seed_is_one_draw() -> None:
    """The same seed draws the same recordings, a third healthy, no kind twice while there is another, and none of other libraries."""
    plans = drawn(6101, 24)
    assert [json.dumps(it.truth()) for it in plans] == [json.dumps(it.truth()) for it in drawn(6101, 24)]
    assert json.dumps(drawn(6102, 24)[0].truth()) != json.dumps(plans[0].truth())
    assert sum(it.kind in HEALTHY for it in plans) == 7
    assert max(Counter(it.kind for it in plans).values()) == 1
    assert {it.library for it in drawn(6101, 24, libraries=("sarama", "kafka_go"))} == {"sarama", "kafka_go"}
    many = drawn(6101, 90)
    assert {it.kind for it in many} == {*HEALTHY, *SICK}
    assert max(Counter((it.kind, it.library) for it in many).values()) == 1
    assert all(it.library in ONLY.get(it.kind, LIBRARIES) for it in many)


def test_too_many_are_refused() -> None:
    """A draw has no recording twice, so there is an end."""
    with pytest.raises(ValueError, match="fewer than 300"):
        drawn(1, 300)


@pytest.mark.parametrize("kind", [*HEALTHY, *SICK])
def test_truth(kind: str) -> None:
    """A truth names verdicts that exist, and parts of the group; what triage reads names none of it."""
    for plan in plans_of(kind):
        told = plan.truth()
        for name in (told["expected"]["verdict"], *told["also"]):
            Verdict(name)
        total = max([plan.partitions, *(it.value for it in plan.deeds if it.what == "grow")])
        assert set(told["expected"]["scope"].get("partitions", [])) <= set(range(total))
        assert set(told["expected"]["scope"].get("members", [])) <= {plan.client_id(it) for it in range(plan.members)}
        assert set(told["expected"]["scope"].get("processors", [])) <= set(plan.traffic.event_types)
        assert kind not in plan.group + plan.topic
        assert plan.client.style in STYLES[plan.library]


@pytest.mark.parametrize("kind", HEALTHY)
def test_healthy_have_room(kind: str) -> None:
    """At the end, a healthy group is far from its limit."""
    for plan in plans_of(kind):
        last = {it.what: it.value for it in plan.deeds if it.at < INCIDENT_SECONDS}
        rate = last.get("traffic", plan.traffic).rate_per_second
        members = plan.members - (len(last["stop"]) if kind == "scaled_down" else 0)
        assert use_of(plan, last.get("behave", plan.behaviour), rate, members=members) < 0.65
        number = Counter(it.what for it in plan.deeds)
        assert number["freeze"] == number["thaw"]
        assert number["stop"] + number["kill"] == number["start"] + (kind == "scaled_down")


@pytest.mark.parametrize("kind", ["slow_all", "slow_deploy", "slow_type", "too_few", "ceiling"])
def test_sick_are_beyond_their_limit(kind: str) -> None:
    """Before the fault there is room; after it, more arrives than can be handled."""
    for plan in plans_of(kind):
        last = {it.what: it.value for it in plan.deeds}
        assert use_of(plan, plan.behaviour, plan.traffic.rate_per_second) < 0.9
        rate = last.get("traffic", plan.traffic).rate_per_second
        assert use_of(plan, last.get("behave", plan.behaviour), rate) > 1.3


def test_few_are_too_few() -> None:
    """Those that are left after scaling in cannot do what arrives."""
    for plan in plans_of("scaled_in"):
        assert use_of(plan, plan.behaviour, plan.traffic.rate_per_second) < 0.6
        assert use_of(plan, plan.behaviour, plan.traffic.rate_per_second, members=1) > 1.3


def test_a_slow_member_is_beyond_its_limit() -> None:
    """Its own share is more than it can do, and only its."""
    for plan in plans_of("slow_member"):
        (factor,) = plan.deeds[0].value.slower.values()
        assert use_of(plan, plan.behaviour, plan.traffic.rate_per_second) * factor > 1.5
        assert list(plan.deeds[0].value.slower) == plan.scope["members"]


def test_batches_are_drawn_from_the_healthy_time_on() -> None:
    """What is usual of a batch producer is seen before the window: it sends as much, and as often."""
    for plan in plans_of("batches"):
        starts = [it.at for it in plan.deeds if it.value.rate_per_second > 0]
        assert plan.traffic.rate_per_second == 0
        assert min(starts) < -60
        assert max(starts) > INCIDENT_SECONDS


def test_a_hot_key_names_its_partition() -> None:
    """The partition of the truth is the one to which the producer sends the key."""
    for plan in plans_of("hot_key"):
        key = plan.deeds[0].value.hot_key
        assert plan.scope == {"partitions": [partition_of(key_of(key), plan.partitions)]}


SOURCES: dict[Library, tuple[str, ...]] = {
    "franz_go": ("go/team", "go/franzgo"),
    "sarama": ("go/team", "go/saramago"),
    "kafka_go": ("go/team", "go/kafkago"),
    "kafkajs": ("node/team.js", "node/page.js", "node/kafkajs.js"),
    "platformatic": ("node/team.js", "node/page.js", "node/platformatic.js"),
}
# Metrics of the process, and those that sarama names itself.
OTHERS = {"process_start_time_seconds", "sarama_request_latency_in_ms_mean", "sarama_throttle_time_in_ms_mean"}


@pytest.mark.parametrize("library", LIBRARIES)
def test_profiles_read_what_the_clients_show(library: Library) -> None:
    """Every metric of a profile is one that its program exports."""
    places = [HERE / name for name in SOURCES[library]]
    files = [path for place in places for path in (place.iterdir() if place.is_dir() else [place])]
    source = "".join(path.read_text() for path in files).replace("'", '"')
    for rule in load_profile(str(PROFILES[library])).signals.values():
        assert f'"{rule.metric}"' in source or rule.metric in OTHERS


def test_recordings_are_judged_alone() -> None:
    """Without a seed, nothing but the recordings of the folder is measured."""
    assert list(sets_of([], Path("foreign-6101"))) == ["recordings-foreign-6101"]
    assert "incidents" in sets_of([5001], Path("foreign-6101"))
