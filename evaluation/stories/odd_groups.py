"""Odd life, third part: members that come, go and differ; few and many partitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evaluation.stories.life import HOUR, LOADED, MINUTE, Span
from evaluation.stories.odd import age_of, latest_of, odd_view
from evaluation.stories.paces import CALM_WORDS, _short
from evaluation.stories.stops import STILL
from evaluation.stories.truth import NOT_CAPACITY, Cast, Plan


def migrated(cast: Cast) -> Plan:
    """A classic group went over to KIP-848 (or to assign()) 20 to 60 min ago: since then the exporter counts 0 members. All is well."""
    life = cast.life(commit=cast.one_of(5, 60, 120, 180, 300))
    ago = cast.between(18, 45) * MINUTE
    life.counted = np.where(life.after(ago), 0.0, float(life.members))
    return cast.well(life, view=odd_view(cast, life))


def scaled_to_zero(cast: Cast) -> Plan:
    """KEDA: no member while nothing waits; records come in clumps each 8 to 25 min, and a process starts 20 to 50 s later."""
    life = cast.life(rate=0.0, partitions=int(cast.one_of(2, 4, 6)), members=2, usage=0.3, warm=3600.0)
    life.usual[:] = 5.0
    life.busiest = 15.0
    for it in life.processors:
        it.seconds = 0.002
    every = cast.between(8, 25) * MINUTE
    first = cast.between(0.2, every / 60) * MINUTE
    begins = np.arange(first, LOADED + 3600, every)
    counted, works = np.zeros(len(life.t)), np.zeros(len(life.t), bool)
    spans = []
    for number, ago in enumerate(begins):
        life.batches.append((ago, np.full(life.partitions, cast.between(60, 3000))))
        start, end = ago - cast.between(20, 50), ago - 6 * MINUTE
        counted[life.between(start, end)] = 2
        works |= life.between(start, end)
        if start > 1:
            spans += [Span(slot, f"job-{number}-{slot}", -start, -max(end, -1)) for slot in range(2)]
    life.counted = counted
    life.speed[:, ~works] = 0.0
    life.state[~works] = 1.0
    life.spans = spans
    life.batches = [it for it in life.batches if life.tick(it[0]) + 21 < len(life.t)]
    return cast.well(life, "recovered", "producer_burst", "producer_silent", view=odd_view(cast, life))


def one_heals_another(cast: Cast) -> Plan:
    """A was stuck for half an hour until somebody helped it 2 to 7 min ago; B is stuck since some minutes before that."""
    life = cast.life(least=8, members=4, usage=0.3)
    first, second = cast.rng.choice(life.partitions, 2, replace=False).tolist()
    healed = cast.between(2, 7) * MINUTE
    ago = healed + cast.between(3, 9) * MINUTE
    life.stop([first], ago + cast.between(12, 30) * MINUTE, healed)
    life.stop([second], ago)
    life.thread[:] = life.busiest * 12
    for it in life.processors:
        it.seconds *= 0.2
    never = NOT_CAPACITY | {"dead_letter"}
    return cast.sick(
        life, {"stuck_partition"}, lag_alone=("cannot_tell",), causes={"client_stalled", None}, never=never, onset=ago,
        view=odd_view(cast, life),
    )  # fmt: skip


def slow_member(cast: Cast) -> Plan:
    """After a deploy one of three members is on a slow machine: half the pace, handlers twice as slow; the others are well."""
    life = cast.life(least=6, members=3, usage=0.6, spread=0.05)
    life.fit(1.4)
    ago = cast.between(10, 50) * MINUTE
    slot = int(cast.rng.integers(3))
    mine = np.flatnonzero(life.owner[:, 0] == slot)
    slower = cast.between(2.2, 3.2)
    late = np.flatnonzero(life.after(ago))
    life.speed[np.ix_(mine, late)] /= slower
    life.spans = [
        piece
        for span in life.spans
        for piece in (
            Span(span.slot, span.name, span.start, -ago - 20),
            Span(span.slot, f"{span.name}x", -ago),
        )
    ]
    life.rebalanced += [-ago - 20, -ago + 2]
    view = odd_view(cast, life)
    view.slot_slow = {slot: np.where(life.after(ago), slower, 1.0)}
    never = {"add_partitions", "partition_ceiling", "dead_letter", *CALM_WORDS}
    accepted = {"slow_downstream", "slow_processor", "cannot_tell", "saturated_processors"}
    young = max(age_of(life, int(number)) for number in mine) < 180
    return cast.sick(life, accepted, never=never, onset=ago, view=view, calm_is_fine=young)


def cascade(cast: Cast) -> Plan:
    """One of three members dies, then the next: the last has all partitions, and cannot."""
    life = cast.life(least=6, members=3, spread=0.05)
    _short(life, 1.6)
    first = cast.between(25, 50) * MINUTE
    second = first - cast.between(6, 14) * MINUTE
    for ago, left in ((first, 2), (second, 1)):
        at = life.tick(ago)
        life.owner[:, at:] = (np.arange(life.partitions) % left)[:, None]
        life.rebalanced.append(-ago)
    life.spans = [
        Span(it.slot, it.name, it.start, -first if it.slot == 2 else -second if it.slot == 1 else it.end)
        for it in life.spans
    ]
    never = {"dead_letter", "partition_ceiling", "add_partitions", *CALM_WORDS}
    return cast.sick(
        life,
        {"too_few_consumers", "saturated_processors", "cannot_tell"},
        never=never,
        onset=second,
        view=odd_view(cast, life),
    )


def three_of_200(cast: Cast) -> Plan:
    """200 partitions; 3 stand still, or are read more slowly than they get."""
    life = cast.life(partitions=200, members=4, rate=cast.between(1, 10), usage=0.3)
    ago = cast.between(8, 50) * MINUTE
    chosen = cast.rng.choice(200, 3, replace=False).tolist()
    if cast.turn % 2:
        life.stop(chosen, ago)
        return cast.sick(
            life, {"stuck_partition"}, lag_alone=("cannot_tell",), causes={"client_stalled", None},
            never=NOT_CAPACITY | {"producer_burst"}, onset=ago, view=odd_view(cast, life),
        )  # fmt: skip
    ago = max(ago, 15 * MINUTE)
    life.limit[np.ix_(np.array(chosen), np.flatnonzero(life.after(ago)))] = (life.usual[chosen] * 0.4)[:, None]
    return cast.sick(
        life, {"cannot_tell", "hot_partition", "slow_processor", "slow_downstream"},
        never={"add_consumers", "too_few_consumers", "dead_letter", *CALM_WORDS}, onset=ago, view=odd_view(cast, life),
    )  # fmt: skip


def trickle_dead(cast: Cast) -> Plan:
    """A record in 5 to 15 min in each of 1 to 4 partitions; the consumer hangs (its members are counted), or is gone, for 25
    to 70 min."""
    life = cast.life(
        partitions=int(cast.one_of(1, 2, 4)), rate=1 / (cast.between(5, 15) * MINUTE), members=1, warm=HOUR
    )
    ago = cast.between(25, 70) * MINUTE
    for number in range(life.partitions):  # surely something arrives after it, and before
        life.rate[number, life.between(ago, ago - 60)] += 1 / 20
        life.rate[number, life.between(LOADED, LOADED - 300)] += 1 / 100
    if cast.turn % 2:
        life.gone(ago)
        return cast.sick(life, {"consumer_stopped"}, never=STILL, view=odd_view(cast, life))
    life.stop(None, ago)
    return cast.sick(
        life, {"stuck_partition", "consumer_stopped", "cannot_tell"}, never=STILL, view=odd_view(cast, life)
    )


def rare_commits_gone(cast: Cast) -> Plan:
    """Commits each 3 to 10 min without a setting; members are gone for 15 to 50 min."""
    life = cast.life(commit=cast.one_of(180, 300, 600))
    ago = max(cast.between(15, 50) * MINUTE, 2.3 * life.commit_every)
    if cast.turn % 2:
        life.gone(ago)
        return cast.sick(life, {"consumer_stopped"}, never=STILL, onset=ago, view=odd_view(cast, life))
    life.stop(None, ago)
    return cast.sick(life, {"stuck_partition", "cannot_tell"}, never=STILL, onset=ago, view=odd_view(cast, life))


def edge_of_load(cast: Cast) -> Plan:
    """The daily wave has passed what the consumers can do, 20 to 35 min ago, and rises on: 5 to 15 % too much by now."""
    life = cast.life(least=4, members=2, spread=0.05)
    _short(life, 1.0)
    crossed = cast.between(25, 40) * MINUTE
    peak = cast.between(1.12, 1.25)
    life.rate *= np.interp(life.t, [life.t[0], -crossed, 0.0], [0.8, 1.0, peak])[None, :]
    accepted = {"too_few_consumers", "saturated_processors", "burst", "cannot_tell"}
    return cast.sick(
        life, accepted, never={"dead_letter", "restart_consumers", *CALM_WORDS}, calm_is_fine=latest_of(life) < 180,
        view=odd_view(cast, life),
    )  # fmt: skip


def wandering_heat(cast: Cast) -> Plan:
    """A hot key wanders: each 12 min another partition gets six times as much, more than it can be read."""
    life = cast.life(least=6, usage=0.3, spread=0.1)
    life.limit[:] = life.usual[:, None] * 2.5
    phase = cast.between(4, 11) * MINUTE
    order = cast.rng.permutation(life.partitions)
    for number, start in enumerate(np.arange(phase, 60 * MINUTE, 12 * MINUTE)):
        hot = int(order[number % life.partitions])
        life.rate[hot, life.between(start, start - 12 * MINUTE)] *= 6
    for it in life.processors:
        it.seconds *= 0.3
    never = {"too_few_consumers", "partition_ceiling", "add_consumers", "dead_letter", *CALM_WORDS}
    return cast.sick(
        life, {"hot_partition", "cannot_tell", "burst"}, never=never, onset=phase, calm_is_fine=phase < 5 * MINUTE,
        view=odd_view(cast, life),
    )  # fmt: skip


def second_fault(cast: Cast) -> Plan:
    """An outage of 10 min is over and caught up since half an hour; now everything, or the last member's part, stands still."""
    life = cast.life(least=6, members=3, usage=0.25)
    over = cast.between(35, 45) * MINUTE
    life.gone(over + 10 * MINUTE, over)
    life.thread[:] = life.busiest * 10
    for it in life.processors:
        it.seconds *= 0.4
    ago = max(cast.between(4, 14) * MINUTE, cast.earliest(life))
    chosen = None if cast.turn % 2 else np.flatnonzero(life.owner[:, 0] == 1).tolist()
    life.stop(chosen, ago)
    return cast.sick(
        life, {"stuck_partition"}, lag_alone=("cannot_tell",), causes={"client_stalled", None}, never=STILL, onset=ago,
        view=odd_view(cast, life),
    )  # fmt: skip


def half_a_topic(cast: Cast) -> Plan:
    """One group reads two topics; the thread for the second (slow: a record in some seconds) has died 8 to 60 min ago, members
    are there."""
    first = cast.life(partitions=6, members=3, usage=0.3)
    plan = cast.well(first, view=odd_view(cast, first))
    second = cast.life(partitions=int(cast.one_of(1, 2, 6)), members=3, rate=cast.between(0.05, 1), usage=0.3)
    second.spans = first.spans
    ago = cast.between(8, 60) * MINUTE
    second.stop(None, ago)
    other = cast.sick(
        second, {"stuck_partition"}, lag_alone=("cannot_tell",), causes={"client_stalled", None}, never=STILL, onset=ago,
        view=odd_view(cast, second, topic="clicks", scraping=plan.views[0].scraping),
    )  # fmt: skip
    other.truths = [replace(it, topic=f"{cast.group}.clicks") for it in other.truths]
    return Plan(views=plan.views + other.views, truths=plan.truths + other.truths)


def new_producer(cast: Cast) -> Plan:
    """Arrivals have doubled for good since 30 to 60 min, and grow on: too few members; the consumers are not slower."""
    life = cast.life(least=6, members=2, spread=0.05)
    _short(life, 1.5)
    ago = cast.between(20, 55) * MINUTE
    life.rate[:, life.after(ago)] *= cast.between(1.7, 1.95)
    accepted = {"too_few_consumers", "burst", "saturated_processors", "cannot_tell"}
    return cast.sick(
        life, accepted, never={"dead_letter", "restart_consumers", *CALM_WORDS}, onset=ago, view=odd_view(cast, life)
    )
