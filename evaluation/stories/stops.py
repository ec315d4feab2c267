"""Sick life, first part: something stands still, or nobody is there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evaluation.stories.exporters import View
from evaluation.stories.life import HOUR, LOADED, MINUTE, Life, Span
from evaluation.stories.truth import NOT_CAPACITY, Cast, Plan

STILL = NOT_CAPACITY | {"dead_letter", "producer_burst", "burst"}


def _still(
    cast: Cast, life: Life, chosen: list[int], ago: float, how: str, until: float = -2.0
) -> tuple[set[str | None], set[str]]:
    """Let partitions stand still in one of the ways; returns acceptable causes, and verdicts besides `stuck_partition`."""
    if how == "commit_fails":
        life.commits_work[np.ix_(chosen, np.flatnonzero(life.between(ago, until)))] = False
        return {"commit_fails"}, set()
    life.stop(chosen, ago, until)
    if how == "paused":
        for slot in range(life.members):
            mine = float(sum(life.owner[number, -1] == slot for number in chosen))
            life.paused[slot] = np.where(life.between(ago, until), mine, 0.0)
    elif how == "hangs":
        for slot in {int(life.owner[number, -1]) for number in chosen}:
            life.poll_age[slot] = np.where(life.between(ago, until), life.t + ago, 0.05)
        return {None}, {"consumer_stopped"}
    return {how}, set()


def _stuck(cast: Cast, life: Life, chosen: list[int], ago: float, how: str) -> Plan:
    causes, verdicts = _still(cast, life, chosen, ago, how)
    if how == "hangs":
        return cast.sick(life, verdicts, lag_alone=("stuck_partition", "cannot_tell"), never=STILL, onset=ago)
    never = STILL | {"consumer_stopped"}
    return cast.sick(life, {"stuck_partition"}, lag_alone=("cannot_tell",), causes=causes, never=never, onset=ago)


def everything(cast: Cast) -> Plan:
    """Everything freezes while the members poll: their clients stall, are paused, or cannot commit."""
    life = cast.life(loaded=3 * HOUR if cast.turn == 10 else LOADED)
    how = ("client_stalled", "paused", "commit_fails")[cast.turn % 3]
    steps = (2.5, 3.5, 5, 8, 11, 14, 20, 30, 45, 58, 70)
    ago = max(steps[cast.turn % len(steps)] * MINUTE * cast.between(1.0, 1.1), cast.earliest(life))
    return _stuck(cast, life, list(range(life.partitions)), ago, how)


def one_partition(cast: Cast) -> Plan:
    """One partition freezes; the others go on."""
    life = cast.life(least=3)
    how = ("client_stalled", "paused", "client_stalled")[cast.turn % 3]
    chosen = int(cast.rng.integers(life.partitions))
    return _stuck(cast, life, [chosen], cast.since(life, 3, 70), how)


def one_member(cast: Cast) -> Plan:
    """The partitions of one member freeze: it stalls, it is paused, or it hangs."""
    life = cast.life(least=6, members=3)
    how = ("client_stalled", "hangs", "paused")[cast.turn % 3]
    chosen = np.flatnonzero(life.owner[:, 0] == int(cast.rng.integers(3))).tolist()
    # A member that hangs for more than 5 min loses its partitions to the others.
    return _stuck(cast, life, chosen, cast.since(life, 2.6, 4.8 if how == "hangs" else 60), how)


def half(cast: Cast) -> Plan:
    """Half of the partitions freeze."""
    life = cast.life(least=4)
    chosen = list(range(0, life.partitions, 2))
    return _stuck(cast, life, chosen, cast.since(life, 4, 40), "client_stalled")


def paused(cast: Cast) -> Plan:
    """Somebody has paused the partitions and forgotten them."""
    life = cast.life(least=2)
    return _stuck(cast, life, list(range(life.partitions)), cast.since(life, 3, 90), "paused")


def members_gone(cast: Cast) -> Plan:
    """All members are gone: scaled to zero, or killed; the coordinator notices a kill after 45 s."""
    life = cast.life()
    ago = cast.since(life, 2.6, 90) + 50
    life.gone(ago, noticed=45 if cast.turn % 2 else 0)
    return cast.sick(life, {"consumer_stopped"}, never=STILL | {"stuck_partition"}, onset=ago)


def batch_then_frozen(cast: Cast) -> Plan:
    """A batch arrives, and the consumer freezes with 5 % of it left."""
    life = cast.life(rate=cast.between(20, 200), members=3, usage=0.6)
    life.rate[:] = 0.0
    frozen = cast.since(life, 4, 12)
    need = cast.between(4, 8) * MINUTE
    life.batches = [(frozen + need, life.paces()[:, 0] * need / 0.95)]
    plan = _stuck(cast, life, list(range(life.partitions)), frozen, ("client_stalled", "paused")[cast.turn // 2 % 2])
    for at, truth in enumerate(plan.truths):
        if (
            truth.causes is not None
        ):  # nothing arrives any more, so whether the client still gets something cannot be seen
            plan.truths[at] = replace(truth, causes=truth.causes | {None})
    return plan


def on_and_off(cast: Cast) -> Plan:
    """All members hang for 3 of every 4 minutes."""
    life = cast.life(usage=0.12, commit=5)
    began = cast.between(9, 26) * MINUTE
    ages = np.full(len(life.t), 0.05)
    start = began
    while start > 0:
        stop = max(start - 180, -1.0)
        life.stop(None, start, stop)
        inside = life.between(start, stop)
        ages[inside] = life.t[inside] + start
        start -= 240
    life.poll_age = dict.fromkeys(range(life.members), ages)
    verdicts = {"consumer_stopped", "stuck_partition", "cannot_tell", "rebalance_storm"}
    return cast.sick(life, verdicts, never=STILL, onset=began)


def poison_alone(cast: Cast) -> Plan:
    """A record that no attempt gets past, in a topic of one partition."""
    life = cast.life(partitions=1, members=1)
    return _poison(cast, life, 0, cast.since(life, 3, 40))


def poison_among_idle(cast: Cast) -> Plan:
    """The same in one of 12 partitions, while nothing arrives in the others."""
    life = cast.life(partitions=12, members=4)
    life.rate[1:] = 0.0
    life.rate[0] = np.maximum(life.rate[0], 2.0)
    return _poison(cast, life, 0, cast.since(life, 3, 40))


def poison_one_of_many(cast: Cast) -> Plan:
    """The same in one of some busy partitions."""
    life = cast.life(least=4)
    return _poison(cast, life, cast.any_of(life.partitions), cast.since(life, 3, 60))


def _poison(cast: Cast, life: Life, number: int, ago: float) -> Plan:
    life.held = {number: ago}
    life.stop([number], ago - 30)  # other keys pass for a while, until too many wait behind it
    slot = int(life.owner[number, -1])
    life.paused[slot] = np.where(life.after(ago - 30), 1.0, 0.0)
    life.retries = (slot, ago, cast.between(1, 10))
    return cast.sick(
        life,
        {"stuck_partition"},
        lag_alone=("cannot_tell",),
        causes={"poison_record"},
        never=NOT_CAPACITY,
        onset=ago,
    )


def preparing(cast: Cast) -> Plan:
    """The group is in a rebalance that does not end, for 15 to 25 min."""
    life = cast.life(least=2)
    ago = cast.between(15, 25) * MINUTE
    life.stop(None, ago)
    life.state[life.after(ago)] = cast.rng.choice([2.0, 2.0, 2.0, 3.0], int(life.after(ago).sum()))
    view = cast.view(life)
    view.shows_state = True
    return cast.sick(life, {"rebalance_storm"}, never=STILL, onset=ago, view=view)


def crash_loop(cast: Cast) -> Plan:
    """The only consumer crashes half a minute after each start, and comes back with a new member id."""
    life = cast.life(members=1, rate=cast.between(5, 60), usage=0.6)
    began = cast.between(9, 40) * MINUTE
    spans, counted = [Span(0, life.spans[0].name, end=-began)], np.ones(len(life.t))
    at = began - cast.between(8, 20)
    works = np.ones(len(life.t), dtype=bool)
    works[life.after(began)] = False
    counted[life.after(began - 45)] = 0.0
    while at > 15:
        lives = cast.between(20, 50)
        spans.append(Span(0, f"pod-{cast.rng.integers(1 << 20):05x}", -at, -(at - lives)))
        works |= life.between(at - 6, max(at - 14, at - lives))
        counted[life.between(at - 3, max(at - lives - 45, -2))] = 1.0
        life.rebalanced.append(-at + 3)
        at -= lives + cast.between(8, 30)
    life.spans, life.counted = spans, counted
    life.speed[:, ~works] = 0.0
    also = ("cannot_tell", "consumer_stopped", "stuck_partition")
    never = NOT_CAPACITY | {"dead_letter"}
    return cast.sick(life, {"rebalance_storm"}, lag_alone=also, never=never, onset=began)


def storm(cast: Cast) -> Plan:
    """Members leave and join all the time; most of the time nobody works."""
    life = cast.life(least=4, members=4)
    life.fit(2.0)
    began = at = cast.between(8, 50) * MINUTE
    while at > 0:
        busy = cast.between(30, 60)
        life.stop(None, at, max(at - busy, -2.0))
        life.state[life.between(at, max(at - busy, -2.0))] = cast.one_of(2.0, 2.0, 3.0)
        life.rebalanced.append(-at)
        at -= busy + cast.between(4, 12)
    never = NOT_CAPACITY | {"dead_letter"}
    return cast.sick(
        life, {"rebalance_storm"}, lag_alone=("cannot_tell",), never=never, onset=began, view=_with_state(cast, life)
    )


def _with_state(cast: Cast, life: Life) -> View:
    view = cast.view(life)
    view.shows_state = cast.turn % 2 == 0
    return view


def long_handlers(cast: Cast) -> Plan:
    """A plain consumer polls every 3 min, because each batch takes that long; and that is too slow for what arrives."""
    life = cast.life(rate=cast.between(2, 10), members=4, least=4, usage=1.0, commit=180)
    life.has_queues = False
    for it in life.processors:
        it.queues, it.share = 1, it.share
        it.seconds = 1.25 / (life.busiest * it.share)
    phase = cast.between(1, 179)
    life.poll_age = {slot: np.mod(life.t + phase + 41 * slot, 180.0) for slot in range(life.members)}
    verdicts = {
        "too_few_consumers", "partition_ceiling", "slow_processor", "saturated_processors", "slow_downstream", "cannot_tell",
    }  # fmt: skip
    life.behind[:] = np.round(life.usual[:, None] * cast.between(5, 40) * MINUTE)
    return cast.sick(life, verdicts, never={"consumer_stopped", "restart_consumers", "dead_letter", "producer_burst"})


def stopped_and_expired(cast: Cast) -> Plan:
    """Nobody has consumed for hours, and retention has passed the commit: messages are lost already."""
    hours = cast.between(2.2, 6)
    life = cast.life(warm=hours * HOUR, rate=cast.between(5, 60))
    life.gone(hours * HOUR)
    life.retention, life.segment = (hours - cast.between(0.4, 1.2)) * HOUR, 10 * MINUTE
    return cast.sick(
        life,
        {"records_lost", "consumer_stopped"},
        never=STILL | {"stuck_partition"},
        mentions=r"\blost\b|deleted|already gone|retention has",
    )


STOPS = {
    everything: (23, "LRRRLL"),
    one_partition: (9, "LRR"),
    one_member: (6, "RRRLLL"),
    half: (4, "LR"),
    paused: (3, "R"),
    members_gone: (9, "LLRR"),
    batch_then_frozen: (5, "LR"),
    on_and_off: (5, "LR"),
    poison_alone: (5, "RRL"),
    poison_among_idle: (5, "RRL"),
    poison_one_of_many: (3, "RL"),
    preparing: (5, "RL"),
    crash_loop: (4, "RRRL"),
    storm: (4, "RRRL"),
    long_handlers: (4, "R"),
    stopped_and_expired: (4, "LR"),
}
