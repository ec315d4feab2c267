"""Faults that the story book does not have: two at once, decoys beside a fault, and faults that the tree has no question for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from evaluation.stories.life import MINUTE, Life
from evaluation.stories.truth import Cast, Plan, Story
from evaluation.tiers.cases import Case, Tier, cases_of, changed

_SCRAPES = (15.0, 30.0, 30.0, 60.0)
_AUTHOR = "evaluation"
_Make = Callable[[Cast], Plan]


def _life(cast: Cast) -> Life:
    return cast.life(least=6, members=3, usage=0.4, rate=cast.between(5, 80))


def _slow_all(life: Life, ago: float, pace: float) -> None:
    """Handlers that let a member do this share of what arrives."""
    usual = float(life.work_pace()[0]) / life.busiest
    for it in life.processors:
        it.slow[life.after(ago)] *= max(usual / pace, 2.0)


def _throttle(life: Life, ago: float, pace: float, seconds: float) -> None:
    life.network[life.after(ago)] = life.busiest * pace
    life.throttle[life.after(ago)] = seconds


def _network(life: Life, ago: float, pace: float, seconds: float) -> None:
    life.network[life.after(ago)] = life.busiest * pace
    life.round_trip[life.after(ago)] = seconds


def _stop_one(life: Life, ago: float, cast: Cast) -> None:
    life.stop([cast.any_of(life.partitions)], ago)


def throttled_and_slow(cast: Cast) -> tuple[Plan, str, str]:
    """A quota, and handlers that have become slower; the one with the lower pace is the larger."""
    life, ago = _life(cast), cast.between(10, 40) * MINUTE
    low, high = cast.between(0.3, 0.4), cast.between(0.6, 0.75)
    quota_first = bool(cast.turn % 2)
    _throttle(life, ago, low if quota_first else high, cast.between(0.3, 1.2))
    _slow_all(life, ago, high if quota_first else low)
    pair = ("throttled", "slow_downstream") if quota_first else ("slow_downstream", "throttled")
    return cast.sick(life, {pair[0]}, onset=ago), *pair


def network_and_slow(cast: Cast) -> tuple[Plan, str, str]:
    """Long round trips, and handlers that have become slower."""
    life, ago = _life(cast), cast.between(10, 40) * MINUTE
    low, high = cast.between(0.3, 0.4), cast.between(0.6, 0.75)
    network_first = bool(cast.turn % 2)
    _network(life, ago, low if network_first else high, cast.between(0.7, 1.5))
    _slow_all(life, ago, high if network_first else low)
    pair = ("slow_network", "slow_downstream") if network_first else ("slow_downstream", "slow_network")
    return cast.sick(life, {pair[0]}, onset=ago), *pair


def stuck_and_throttled(cast: Cast) -> tuple[Plan, str, str]:
    """One partition is not read at all, and a quota holds the others back. A frozen partition is asked about first."""
    life, ago = _life(cast), cast.between(10, 40) * MINUTE
    _throttle(life, ago, cast.between(0.4, 0.7), cast.between(0.3, 1.2))
    _stop_one(life, ago, cast)
    return cast.sick(life, {"stuck_partition"}, onset=ago), "stuck_partition", "throttled"


def stuck_and_slow(cast: Cast) -> tuple[Plan, str, str]:
    """One partition is not read at all, and all handlers have become slower."""
    life, ago = _life(cast), cast.between(10, 40) * MINUTE
    _slow_all(life, ago, cast.between(0.4, 0.7))
    _stop_one(life, ago, cast)
    return cast.sick(life, {"stuck_partition"}, onset=ago), "stuck_partition", "slow_downstream"


PAIRS: Mapping[str, Callable[[Cast], tuple[Plan, str, str]]] = {
    it.__name__: it for it in (throttled_and_slow, network_and_slow, stuck_and_throttled, stuck_and_slow)
}


def starved_reader(cast: Cast) -> Plan:
    """Something that nobody measures halves what every partition can be read at: a codec, a starved core, a lock in the client."""
    life, ago = _life(cast), cast.between(10, 40) * MINUTE
    life.limit[:, life.after(ago)] = life.usual[:, None] * cast.between(0.4, 0.7)
    return cast.sick(life, {"cannot_tell"}, onset=ago)


def starved_member(cast: Cast) -> Plan:
    """The same for one member of three, whose partitions alone fall behind; none of them stands still, and none is hot."""
    life, ago = _life(cast), cast.between(10, 40) * MINUTE
    mine = life.owner[:, 0] == cast.any_of(life.members)
    life.limit[np.ix_(mine, life.after(ago))] = (life.usual[mine] * cast.between(0.4, 0.7))[:, None]
    return cast.sick(life, {"cannot_tell"}, onset=ago)


def slow_disk(cast: Cast) -> Plan:
    """The brokers serve old records slowly; round trips and throttling as ever, as their averages are of small requests."""
    life, ago = _life(cast), cast.between(10, 40) * MINUTE
    life.network[life.after(ago)] = life.busiest * cast.between(0.4, 0.7)
    return cast.sick(life, {"cannot_tell"}, onset=ago)


UNKNOWN: Mapping[str, _Make] = {it.__name__: it for it in (starved_reader, starved_member, slow_disk)}


def _cast(kind: str, seed: int, number: int, turn: int, tier: Tier) -> Cast:
    letter: Literal["R", "C"] = "R" if tier == "runtime" else "C"
    return Cast(kind=kind, number=number, tier=letter, scrape=_SCRAPES[(turn + seed) % 4], seed=seed, turn=turn)


def _already(plan: Plan) -> Callable[[Cast], Plan]:
    return lambda _cast: plan


def pairs(seed: int, tier: Tier, *, each: int = 6) -> list[Case]:
    """Two faults at once."""
    found, number = [], 5000
    for kind, make in PAIRS.items():
        for turn in range(each):
            number += 1
            cast = _cast(kind, seed, number, turn, tier)
            plan, _, second = make(cast)
            story = Story(cast=cast, make=_already(plan), truths=tuple(plan.truths), settings=None)
            made = cases_of(story, tier, plan, fault=kind, author=_AUTHOR)
            found += [changed(it, also=frozenset({second})) for it in made]
    return found


def unknown(seed: int, tier: Tier, *, each: int = 8) -> list[Case]:
    """Faults that the tree has no question for: right is "cannot tell"."""
    found, number = [], 6000
    for kind, make in UNKNOWN.items():
        for turn in range(each):
            number += 1
            cast = _cast(kind, seed, number, turn, tier)
            plan = make(cast)
            story = Story(cast=cast, make=_already(plan), truths=tuple(plan.truths), settings=None)
            found += cases_of(story, tier, plan, fault=kind, author=_AUTHOR)
    return found


# Kinds of the book whose fault is one thing that a decoy can stand beside.
DECOYED = (
    "slow_one", "slow_all", "throttled", "slow_network", "hot_partition", "one_partition", "everything", "members_gone", "burst",
)  # fmt: skip


def with_decoys(story: Story, tier: Tier) -> list[Case]:
    """A harmless change a few minutes before the fault: a rebalance, and round trips that are twice as long, still milliseconds."""
    plan = story.plan()
    for view, truth in zip(plan.views, plan.truths, strict=False):
        ago = (truth.onset or 15 * MINUTE) + 4 * MINUTE
        life = view.life
        life.rebalanced.append(-ago)
        life.rebalanced.sort()
        life.round_trip[life.between(ago, truth.onset or 0.0)] *= 2.0
    return cases_of(story, tier, plan, fault=f"{story.cast.kind} beside a decoy")
