"""Odd life, first part: what began before the data, and what looks as if it drained."""

from __future__ import annotations

import numpy as np

from evaluation.stories.life import HOUR, MINUTE, Span
from evaluation.stories.odd import age_of, latest_of, odd_view
from evaluation.stories.paces import CALM_WORDS, CEILINGS, _short
from evaluation.stories.stops import STILL
from evaluation.stories.truth import Cast, Plan


def frozen_for_hours(cast: Cast) -> Plan:
    """All partitions, those of one member, or one have stood still for 2 to 6 h; members are there, records arrive."""
    hours = cast.between(2, 6)
    life = cast.life(warm=hours * HOUR, rate=cast.between(3, 40), least=6, members=3)
    which = cast.turn % 3
    chosen = (
        list(range(life.partitions)),
        np.flatnonzero(life.owner[:, 0] == 1).tolist(),
        [cast.any_of(life.partitions)],
    )[which]
    life.stop(chosen, hours * HOUR)
    causes = {"client_stalled", None}
    never = STILL | {"healthy"}
    return cast.sick(
        life,
        {"stuck_partition", "consumer_stopped", "cannot_tell"},
        causes=causes,
        never=never,
        view=odd_view(cast, life),
    )


def frozen_and_quiet(cast: Cast) -> Plan:
    """It froze 2 to 4 h ago, all or half of it, and the producer stopped at that moment: the lag is the same all the time."""
    hours = cast.between(2, 4)
    life = cast.life(warm=hours * HOUR, rate=cast.between(3, 40), least=4)
    life.behind[:] = np.round(life.usual[:, None] * cast.between(30, 300))
    chosen = list(range(life.partitions)) if cast.turn % 2 else list(range(0, life.partitions, 2))
    life.stop(chosen, (hours + 0.2) * HOUR)
    life.rate[:, life.after(hours * HOUR)] = 0.0
    return cast.sick(life, {"stuck_partition", "consumer_stopped", "cannot_tell"}, never=STILL)


def slow_leak(cast: Cast) -> Plan:
    """It reads 1 to 6 % less than what arrives, for many hours: half an hour to hours behind, and growing slowly."""
    short = cast.one_of(0.01, 0.02, 0.03, 0.06)
    life = cast.life(least=4, members=3, rate=cast.between(10, 60), spread=0.05)
    behind = cast.between(20, 200) * MINUTE
    life.behind[:] = np.round(life.usual[:, None] * behind)
    _short(life, 1 - short)
    return cast.sick(
        life,
        {*CEILINGS, "cannot_tell"},
        never={"dead_letter", "restart_consumers", *CALM_WORDS},
        view=odd_view(cast, life),
    )


def leak_begins(cast: Cast) -> Plan:
    """Its handlers lose 1 % of their pace in each minute, since 25 to 60 min; by now they are slower than what arrives."""
    life = cast.life(least=3, usage=0.7)
    life.fit(1.25)
    ago = cast.between(35, 65) * MINUTE
    decay = np.where(life.after(ago), np.exp(0.015 * (life.t + ago) / 60), 1.0)
    for it in life.processors:
        it.slow = it.slow * decay
    crossed = ago - 60 * np.log(1.25) / 0.015
    unknown = {"cannot_tell", "slow_downstream", "slow_processor", *CEILINGS}
    return cast.sick(
        life, unknown, never={"dead_letter", *CALM_WORDS}, onset=crossed, calm_is_fine=latest_of(life) < 180
    )


def drain_turns(cast: Cast) -> Plan:
    """A backlog drains for 40 min; then one partition (of few or many) turns: it is late, and has grown for 5 to 12 min."""
    life = cast.life(least=6, rate=cast.between(10, 60), members=3, usage=0.4)
    stop = cast.between(55, 62) * MINUTE
    length = cast.between(12, 18) * MINUTE
    life.stop(None, stop, stop - length)
    need = (stop - length) * cast.between(0.9, 1.1) + 10 * MINUTE  # still draining at the end
    _short(life, 1 + length / need)
    late = cast.any_of(life.partitions)
    turned = cast.between(5, 12) * MINUTE
    usual = float(life.usual[late])
    life.limit[late, life.after(turned)] = usual * cast.between(0.5, 0.8)
    never = {"dead_letter", "add_partitions", *CALM_WORDS}
    return cast.sick(
        life, {"hot_partition", "cannot_tell", "slow_processor", "slow_downstream", *CEILINGS}, never=never, onset=None,
        calm_is_fine=age_of(life, late) < 200 or age_of(life, late) < age_of(life, late, 240) + 60, view=odd_view(cast, life),
    )  # fmt: skip


def drain_stops(cast: Cast) -> Plan:
    """A backlog drains for 40 min; then all of it freezes, or is read no faster than it arrives plus a bit less, 4 to 8 min ago."""
    life = cast.life(least=4, rate=cast.between(10, 60), members=3, usage=0.4)
    stop, length = cast.between(55, 62) * MINUTE, cast.between(12, 18) * MINUTE
    life.stop(None, stop, stop - length)
    _short(life, 1 + length / (stop - length + 10 * MINUTE))
    turned = max(cast.between(4, 8) * MINUTE, cast.earliest(life))
    if cast.turn % 2:
        life.stop(None, turned)
        verdicts = {"stuck_partition", "cannot_tell", "consumer_stopped"}
    else:
        life.thread[life.after(turned)] = life.busiest * cast.between(0.6, 0.85)
        verdicts = {"cannot_tell", *CEILINGS, "slow_processor", "slow_downstream", "throttled"}
    return cast.sick(life, verdicts, never={"dead_letter", *CALM_WORDS}, view=odd_view(cast, life))


def oscillates_late(cast: Cast) -> Plan:
    """Never on time for 75 min and more: 4 to 14 min late, up and down with a neighbour's load, and never caught up."""
    life = cast.life(least=3, rate=cast.between(10, 80), spread=0.05)
    period = cast.between(8, 22) * MINUTE
    phase = cast.rng.uniform(0, 2 * np.pi)
    swing = cast.between(0.3, 0.6)
    life.behind[:] = np.round(life.usual[:, None] * cast.between(7, 12) * MINUTE)
    wave = 1 + swing * np.sin(2 * np.pi * life.t / period + phase)
    _short(life, 1.0)
    # As much as arrives, on average: what is late stays late.
    arriving = life.rate.mean(axis=1)
    life.limit[:] = (arriving[:, None]) * np.maximum(wave, 0.02)[None, :]
    life.thread[:] = life.busiest * 3
    return cast.sick(
        life,
        {"cannot_tell", *CEILINGS, "slow_downstream", "slow_processor", "stuck_partition"},
        never={"dead_letter", "add_partitions", "restart_consumers", *CALM_WORDS},
    )


def outage_again(cast: Cast) -> Plan:
    """The process is killed for want of memory: 9 min of work, 6 min gone, for 75 min; at the end it is gone, or back since a while."""
    life = cast.life(members=int(cast.rng.integers(1, 4)), rate=cast.between(5, 60), usage=0.2)
    works, away = cast.between(7, 11) * MINUTE, cast.between(4, 7) * MINUTE
    phase = cast.between(1, 1000) % (works + away)
    clock = np.mod(-life.t + phase, works + away)
    down = clock < away
    life.speed[:, down] = 0.0
    life.counted = np.where(down, 0.0, float(life.members))
    life.state[down] = 1.0
    spans = []
    ups = np.flatnonzero(np.diff(np.concatenate([[1], down.astype(int), [1]])) == -1)
    ends = np.flatnonzero(np.diff(np.concatenate([[1], down.astype(int), [1]])) == 1)
    for number, (first, last) in enumerate(zip(ups, ends, strict=True)):
        for slot in range(life.members):
            spans.append(
                Span(slot, f"pod-{number}-{slot}", float(life.t[first]), float(life.t[min(last, len(life.t) - 1)]))
            )
        life.rebalanced.append(float(life.t[first]) + 3)
    life.spans = spans
    verdicts = {"consumer_stopped", "rebalance_storm", "cannot_tell", "stuck_partition"}
    return cast.sick(life, verdicts, never=STILL, mentions=None)
