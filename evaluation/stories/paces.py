"""Sick life, second part: too slow for what arrives; and what happens to offsets and records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evaluation.stories.life import DAY, HOUR, LOADED, MINUTE, Life, Span
from evaluation.stories.truth import NOT_CAPACITY, Cast, Plan

CEILINGS = {"too_few_consumers", "partition_ceiling", "saturated_processors"}
CALM_WORDS = {"producer_burst"}


def _slower(life: Life, ago: float, number: int, pace: float) -> None:
    """One processor takes so much longer that a member's pace falls to this share of what arrives."""
    it = life.processors[number]
    if life.loop:  # the rest of its time goes to the others
        others = sum(o.seconds * o.share for o in life.processors if o is not it)
        it.slow[life.after(ago)] *= max((1 / (pace * life.busiest) - others) / (it.seconds * it.share), 3.5)
        return
    usual = it.queues / (it.seconds * it.share) / life.busiest
    it.slow[life.after(ago)] *= max(usual / pace, 3.5)


SINCE = (5 * MINUTE, 20 * MINUTE, 1.1 * HOUR, 3 * HOUR)


def slow_one(cast: Cast) -> Plan:
    """One processor is many times slower, for 5 min to 3 h."""
    ago = SINCE[cast.turn % 4]
    life = cast.life(warm=3.2 * HOUR if ago > HOUR else 900, least=2, usage=0.4)
    _slower(
        life, ago, cast.any_of(len(life.processors)), cast.between(0.25, 0.45) if ago < HOUR else cast.between(0.6, 0.8)
    )
    unknown = ("cannot_tell",) if ago > HOUR else ()
    never = NOT_CAPACITY - {"scale_processors"} | {"dead_letter", *CALM_WORDS}
    return cast.sick(
        life, {"slow_processor", *unknown}, lag_alone=("cannot_tell",), never=never, onset=ago if ago < LONG else None
    )


LONG = 1.2 * HOUR


def slow_all(cast: Cast) -> Plan:
    """Everything that the processors depend on is slow, for 5 min to 3 h."""
    ago = SINCE[cast.turn % 4]
    life = cast.life(
        warm=3.2 * HOUR if ago > HOUR else 900, least=2, usage=0.4, loaded=3.5 * HOUR if cast.turn == 3 else LOADED
    )
    pace = cast.between(0.25, 0.45) if ago < HOUR else cast.between(0.6, 0.8)
    slowest = life.busiest / float(life.work_pace()[0])
    for it in life.processors:
        it.slow[life.after(ago)] *= max(1 / (pace * slowest), 2.0)
    unknown = ("cannot_tell",) if ago > HOUR else ()
    never = NOT_CAPACITY - {"scale_processors"} | {"dead_letter", *CALM_WORDS}
    return cast.sick(
        life, {"slow_downstream", *unknown}, lag_alone=("cannot_tell",), never=never, onset=ago if ago < LONG else None
    )


def slow_network(cast: Cast) -> Plan:
    """Round trips of a second, for 20 min or 3 h."""
    ago = (3 * HOUR, 20 * MINUTE)[cast.turn % 2]
    life = cast.life(warm=3.2 * HOUR if ago > HOUR else 900, least=2)
    life.network[life.after(ago)] = life.busiest * cast.between(0.5, 0.8)
    life.round_trip[life.after(ago)] = cast.between(0.7, 2.0)
    unknown = ("cannot_tell",) if ago > HOUR else ()
    return cast.sick(
        life, {"slow_network", *unknown}, never=NOT_CAPACITY | CALM_WORDS, onset=ago if ago < LONG else None
    )


def throttled(cast: Cast) -> Plan:
    """A quota holds the client back; after each answer for a while, so that its partitions are read one after the other."""
    life = cast.life(least=2)
    ago = cast.between(8, 50) * MINUTE
    life.network[life.after(ago)] = life.busiest * cast.between(0.3, 0.6)
    life.throttle[life.after(ago)] = cast.between(0.2, 1.5)
    if cast.turn % 2:
        _one_after_the_other(life, ago, pause=cast.between(10, 40))
    return cast.sick(life, {"throttled"}, never=NOT_CAPACITY | CALM_WORDS, onset=ago)


def _one_after_the_other(life: Life, ago: float, *, pause: float) -> None:
    """Each member gets the records of one partition in one answer, and then nothing for so many seconds."""
    for slot in range(life.members):
        mine = np.flatnonzero(life.owner[:, 0] == slot)
        late = np.flatnonzero(life.after(ago))
        life.speed[np.ix_(mine, late)] = 0.0
        for number, at in enumerate(np.arange(late[0], late[-1], pause)):
            life.speed[mine[number % len(mine)], int(at) : int(at) + 2] = pause * len(mine) / 2


def burst(cast: Cast) -> Plan:
    """Three times the arrivals for 12 to 25 min, and still on; the consumers work at their full pace."""
    tight = cast.turn % 3 == 2
    life = cast.life(least=2)
    life.fit(1.1 if tight else cast.between(1.5, 2.0))
    ago = cast.between(12, 25) * MINUTE
    life.rate[:, life.after(ago)] *= cast.between(2.7, 3.3)
    short = CEILINGS if tight else set()
    never = {"dead_letter", "restart_consumers", *({"add_partitions", "partition_ceiling"} - short)}
    return cast.sick(life, {"burst", *short}, lag_alone=("cannot_tell",), never=never, onset=ago)


def saturated(cast: Cast) -> Plan:
    """Arrivals have grown slowly past what the processors can do; each event takes as long as ever."""
    life = cast.life(least=2, warm=HOUR)
    room = 1.5
    life.fit(room)
    full = cast.between(30, 50) * MINUTE  # ago
    times, factors = [life.t[0], -full, 0.0], [0.75 * room, room, room * cast.between(1.25, 1.5)]
    life.rate *= np.interp(life.t, times, factors)[None, :]
    return cast.sick(
        life, {"saturated_processors", "burst"}, lag_alone=("cannot_tell", *CEILINGS), never={"dead_letter"}
    )


def hot_partition(cast: Cast) -> Plan:
    """One partition gets many times as much as the others, and more than it can be read."""
    life = cast.life(least=6, usage=0.3)
    ago = cast.between(12, 70) * MINUTE
    _hot(life, cast.any_of(life.partitions), ago)
    never = {"too_few_consumers", "partition_ceiling", "add_consumers", "dead_letter", *CALM_WORDS}
    return cast.sick(life, {"hot_partition"}, lag_alone=("cannot_tell",), never=never, onset=ago)


def _hot(life: Life, number: int, ago: float, times: float = 5.0) -> None:
    life.rate[number, life.after(ago)] *= times
    usual = float(life.usual[number])
    life.limit[number] = usual * times * 0.6
    for it in life.processors:
        it.seconds *= 0.4


def hot_key(cast: Cast) -> Plan:
    """One key fills one queue of a processor; its siblings idle."""
    life = cast.life(least=4, usage=0.3)
    ago = cast.between(10, 50) * MINUTE
    partition, number = cast.any_of(life.partitions), cast.any_of(len(life.processors))
    life.processors[number].queues = max(life.processors[number].queues, 3)
    life.rate[partition, life.after(ago)] *= 3.0
    life.limit[partition, life.after(ago)] = float(life.usual[partition]) * 1.6
    life.full_queues = [(int(life.owner[partition, 0]), number, ago)]
    never = {"too_few_consumers", "partition_ceiling", "add_consumers", "dead_letter", *CALM_WORDS}
    return cast.sick(life, {"hot_key"}, lag_alone=("cannot_tell", "hot_partition"), never=never, onset=ago)


def _short(life: Life, share: float) -> None:
    """Consumer threads that can do only this share of what arrives; queues and processors have room."""
    life.thread[:] = life.busiest * share
    for it in life.processors:
        it.seconds *= 0.3


def too_few(cast: Cast) -> Plan:
    """Two members for many partitions cannot read as fast as messages arrive; or one of three was lost and its work moved."""
    life = cast.life(least=6, members=3 if cast.turn % 2 else 2, spread=0.05)
    ago = cast.between(12, 60) * MINUTE
    if cast.turn % 2:
        _short(life, 1.12)
        at = life.tick(ago)
        moved = np.flatnonzero(life.owner[:, 0] == 2)
        life.owner[moved, at:] = (np.arange(len(moved)) % 2)[:, None]
        life.spans = [Span(it.slot, it.name, it.start, -ago if it.slot == 2 else it.end) for it in life.spans]
        life.rebalanced.append(-ago)
    else:
        _short(life, cast.between(0.75, 0.9))
    onset = ago if cast.turn % 2 else None
    never = {"dead_letter", "partition_ceiling", "add_partitions", *CALM_WORDS}
    return cast.sick(life, {"too_few_consumers"}, lag_alone=("cannot_tell",), never=never, onset=onset)


def ceiling(cast: Cast) -> Plan:
    """As many members as partitions, and still too slow."""
    number = int(cast.one_of(2, 3, 4, 6))
    life = cast.life(partitions=number, members=number, spread=0.05)
    _short(life, cast.between(0.7, 0.9))
    never = {"dead_letter", "too_few_consumers", "add_consumers", *CALM_WORDS}
    return cast.sick(life, {"partition_ceiling"}, lag_alone=("cannot_tell",), never=never)


def one_late(cast: Cast) -> Plan:
    """After a stop, most partitions drain; one is late and grows, because far more arrives there than it can be read."""
    life = cast.life(least=6, usage=0.55, rate=cast.between(10, 60))
    ago = cast.between(35, 60) * MINUTE
    life.stop(None, ago, ago - 20 * MINUTE)
    _short(life, 1.8)
    late = cast.any_of(life.partitions)
    life.rate[late, life.after(ago)] *= 1.6
    life.limit[late, life.after(ago)] = float(life.usual[late]) * 0.9
    never = {"add_consumers", "too_few_consumers", "dead_letter", *CALM_WORDS}
    return cast.sick(life, {"hot_partition", "cannot_tell"}, never=never, onset=ago)


def hopeless(cast: Cast) -> Plan:
    """20 h behind; it drains so slowly that retention is faster."""
    life = cast.life(partitions=int(cast.one_of(2, 4, 8, 12)), members=2, rate=cast.between(10, 60), spread=0.02)
    _short(life, 1.08)
    life.behind[:] = np.round(life.usual[:, None] * cast.between(15, 24) * HOUR)
    behind = float(life.behind[0, 0] / life.usual[0])
    life.retention, life.segment = behind + cast.between(2, 3) * HOUR, 20 * MINUTE
    return cast.sick(life, {*CEILINGS, "burst", "records_lost", "cannot_tell"}, never={"dead_letter", *CALM_WORDS})


def overtaken(cast: Cast) -> Plan:
    """Nobody consumed for hours, retention passed the commit; then it came back and began at the end: records are lost."""
    hours, back = cast.between(2.2, 4), cast.between(2.5, 12) * MINUTE
    life = cast.life(warm=hours * HOUR, rate=cast.between(5, 60))
    life.gone(hours * HOUR, back)
    life.retention, life.segment = (hours - cast.between(0.5, 1.2)) * HOUR, 10 * MINUTE
    life.jumps = [(-back, "latest")]
    # It began when the first segment went, and that is not when it came back.
    return cast.sick(life, {"records_lost"}, never=NOT_CAPACITY)


def skipped(cast: Cast) -> Plan:
    """A backlog of half an hour and more is skipped by hand: the group stops for a minute, and starts at the end."""
    ago = cast.between(2.5, 12) * MINUTE
    life = cast.life(warm=HOUR, rate=cast.between(5, 60), usage=0.5)
    life.stop(None, ago + cast.between(30, 60) * MINUTE)
    life.speed[:, life.after(ago)] = 1.0
    life.gone(ago + 70, ago)
    life.jumps = [(-ago, "latest")]
    return cast.sick(life, {"records_lost"}, never=NOT_CAPACITY, onset=ago)


def recreated(cast: Cast) -> Plan:
    """The topic was deleted and created again; the commits are above its end."""
    life = cast.life(rate=cast.between(2, 40))
    ago = cast.between(3, 50) * MINUTE
    life.recreated = ago
    life.stop(None, ago)
    return cast.sick(life, {"offsets_reset"}, never=NOT_CAPACITY | {"dead_letter"}, onset=ago)


def from_the_start(cast: Cast) -> Plan:
    """Reset to earliest: everything that the log has is read once more."""
    ago = cast.between(2.5, 25) * MINUTE
    life = cast.life(rate=cast.between(5, 60), usage=0.3)
    life.retention, life.segment = cast.between(1, 4) * DAY, HOUR
    life.gone(ago + 70, ago)
    life.jumps = [(-ago, "earliest")]
    return cast.sick(life, {"offsets_reset"}, never=NOT_CAPACITY | {"dead_letter"}, onset=ago)


def failing(cast: Cast) -> Plan:
    """It keeps up, because every event fails: into the dead-letter topic, or into a log file."""
    life = cast.life(least=2)
    ago = cast.between(4, 50) * MINUTE
    outcome = ("dead", "failed")[cast.turn % 2]
    life.failing = (outcome, np.where(life.after(ago), cast.between(0.7, 1.0), 0.0))
    return cast.sick(life, {"failing_records"}, never=NOT_CAPACITY | {"dead_letter"}, onset=ago)


def dead_producer(cast: Cast) -> Plan:
    """500 messages/s become none: the group is healthy, and somebody should know about the producer."""
    life = cast.life(rate=500 / 6, partitions=6)
    ago = cast.between(6, 30) * MINUTE
    life.rate[:, life.after(ago)] = 0.0
    return cast.sick(life, {"producer_silent"}, never=NOT_CAPACITY | {"dead_letter"}, onset=ago, quiet=True)


def two_topics(cast: Cast) -> Plan:
    """One group reads A, whose processor is slow, and B, which has a hot partition; each has its own cause."""
    first = cast.life(partitions=6, members=3, usage=0.4)
    ago = cast.between(10, 25) * MINUTE
    _slower(first, ago, cast.any_of(len(first.processors)), cast.between(0.3, 0.45))
    plan = cast.sick(
        first, {"slow_processor"}, lag_alone=("cannot_tell",), never=NOT_CAPACITY - {"scale_processors"}, onset=ago
    )
    second = cast.life(partitions=6, members=3, usage=0.3)
    second.spans = first.spans
    for it, name in zip(second.processors, ("click", "view", "scroll"), strict=False):
        it.name = name
    later = cast.between(12, 50) * MINUTE
    _hot(second, cast.any_of(6), later)
    never = {"too_few_consumers", "partition_ceiling", "add_consumers", "slow_processor", "saturated_processors"}
    other = cast.sick(
        second,
        {"hot_partition"},
        lag_alone=("cannot_tell",),
        never=never,
        onset=later,
        view=cast.view(second, topic="clicks", scraping=plan.views[0].scraping),
    )
    other.truths = [replace(it, topic=f"{cast.group}.clicks") for it in other.truths]
    return Plan(views=plan.views + other.views, truths=plan.truths + other.truths)


def inside_the_window(cast: Cast) -> Plan:
    """The onset lies at 10 to 80 % of the window: a stuck partition, a slow processor, a quota, a hot partition."""
    share = (0.1, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9)[cast.turn % 8]
    ago = 15 * MINUTE * (1 - share)
    what = cast.turn % 4
    life = cast.life(least=6, usage=0.35, commit=5)
    unknown = ("cannot_tell",)
    if what == 0:
        life.stop([cast.any_of(life.partitions)], ago)
        never = NOT_CAPACITY | {"dead_letter"}
        return cast.sick(
            life, {"stuck_partition"}, lag_alone=unknown, causes={"client_stalled"}, never=never, onset=ago
        )
    if what == 1:
        life.gone(ago)
        return cast.sick(life, {"consumer_stopped"}, never=NOT_CAPACITY | {"dead_letter"}, onset=ago)
    early = ago * 0.6 < 150  # its time lag is not yet above the objective
    if what == 2:
        _slower(life, ago, cast.any_of(len(life.processors)), 0.25)
        return cast.sick(
            life, {"slow_processor"}, lag_alone=unknown, never=NOT_CAPACITY - {"scale_processors"}, onset=ago,
            calm_is_fine=early,
        )  # fmt: skip
    life.network[life.after(ago)] = life.busiest * 0.25
    life.throttle[life.after(ago)] = 0.8
    return cast.sick(life, {"throttled"}, lag_alone=unknown, never=NOT_CAPACITY, onset=ago, calm_is_fine=early)


def two_faults(cast: Cast) -> Plan:
    """Two things go wrong at once; either is a good answer."""
    life = cast.life(least=6, usage=0.4, members=3)
    ago = cast.between(9, 30) * MINUTE
    what = cast.turn % 4
    verdicts: set[str] = {"cannot_tell", "stuck_partition"}
    _slower(life, ago, cast.any_of(len(life.processors)), 0.4)
    if what == 0:
        life.held, life.retries = {2: ago}, (2, ago, 3.0)
        life.stop([2], ago - 30)
        verdicts |= {"slow_processor"}
    elif what == 1:
        life.throttle[life.after(ago)] = 0.5
        life.network[life.after(ago)] = life.busiest * 0.35
        verdicts |= {"slow_processor", "throttled"}
    elif what == 2:
        mine = np.flatnonzero(life.owner[:, 0] == 1).tolist()
        life.stop(mine, ago)
        life.poll_age[1] = np.where(life.after(ago), life.t + ago, 0.05)
        verdicts |= {"slow_processor", "consumer_stopped"}
    else:
        life.rate[:, life.after(ago)] *= 2.5
        verdicts |= {"slow_processor", "burst", "saturated_processors"}
    never = {"add_partitions", "partition_ceiling", "too_few_consumers", "add_consumers"}
    return cast.sick(life, verdicts, never=never, onset=ago)


PACES = {
    slow_one: (7, "RRRRL"),
    slow_all: (7, "RRRRL"),
    slow_network: (4, "R"),
    throttled: (4, "R"),
    burst: (6, "LR"),
    saturated: (3, "RRL"),
    hot_partition: (6, "LR"),
    hot_key: (4, "RRRL"),
    too_few: (4, "RRL"),
    ceiling: (4, "RRL"),
    one_late: (4, "LR"),
    hopeless: (4, "LR"),
    overtaken: (5, "LR"),
    skipped: (5, "LR"),
    recreated: (4, "LR"),
    from_the_start: (5, "LR"),
    failing: (6, "R"),
    dead_producer: (4, "LR"),
    two_topics: (4, "R"),
    inside_the_window: (8, "RRRRLLRR"),
    two_faults: (4, "R"),
}
