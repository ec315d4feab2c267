"""Odd life, fourth part: logs without a leader, ends of backlogs, lost scrapes, clients alone."""

from __future__ import annotations

import numpy as np

from evaluation.stories.life import HOUR, LOADED, MINUTE, Life, Scraping, Span, serve
from evaluation.stories.odd import Odd, age_of, odd_view
from evaluation.stories.paces import CALM_WORDS, CEILINGS, _short, _slower
from evaluation.stories.stops import STILL
from evaluation.stories.truth import NOT_CAPACITY, Cast, Plan


def skipped_to_datetime(cast: Cast) -> Plan:
    """A backlog of half an hour is skipped by hand to five or ten minutes ago (--by-duration PT5M); the rest is caught up
    within some minutes."""
    ago = cast.between(4, 30) * MINUTE
    life = cast.life(warm=2 * HOUR, rate=cast.between(5, 80), usage=0.25)
    life.stop(None, ago + cast.between(24, 38) * MINUTE, ago)
    life.gone(ago + 70, ago)
    life.thread[:] = life.busiest * 6
    for it in life.processors:
        it.seconds *= 0.5
    at, back = life.tick(ago), round(cast.one_of(5, 10) * 60)
    offsets = life.offsets
    done = serve(offsets.produced[:, at:], offsets.pace[:, at:], offsets.produced[:, at - back : at - back + 1])
    every = np.arange(done.shape[1]) // int(max(1, life.commit_every)) * int(max(1, life.commit_every))
    offsets.committed[:, at:] = offsets.base + done[:, every]
    offsets.done[:, at:] = done
    return cast.sick(life, {"records_lost", "cannot_tell"}, never=NOT_CAPACITY, onset=ago, view=odd_view(cast, life))


def edge_of_retention(cast: Cast) -> Plan:
    """It reads less than what arrives, for days: it is as late as retention allows, and each deleted segment takes unread
    records along."""
    life = cast.life(least=3, warm=3 * HOUR, rate=cast.between(10, 60), members=2, spread=0.05)
    life.retention, life.segment = cast.between(40, 100) * MINUTE, 10 * MINUTE
    _short(life, cast.between(0.6, 0.85))
    life.behind[:] = np.round(life.usual[:, None] * life.retention * 0.95)
    offsets = life.offsets
    for number in range(life.partitions):
        start = offsets.start[number] - offsets.base[number]
        done = offsets.done[number].copy()
        for at in np.flatnonzero(np.diff(start) > 0) + 1:
            if start[at] > done[at]:
                tail = slice(int(at), None)
                one = slice(number, number + 1)
                done[tail] = serve(offsets.produced[one, tail], offsets.pace[one, tail], np.full((1, 1), start[at]))[0]
        offsets.done[number] = done
        every = np.arange(len(done)) // int(max(1, life.commit_every)) * int(max(1, life.commit_every))
        offsets.committed[number] = offsets.base[number] + done[every]
    never = {"dead_letter", "restart_consumers", *CALM_WORDS}
    return cast.sick(
        life, {"records_lost", "cannot_tell", *CEILINGS}, never=never, mentions=None, view=odd_view(cast, life)
    )


def nobody_owns(cast: Cast) -> Plan:
    """After a deploy the partitions of one member are assigned to nobody (a bug of the assignor); the others are well."""
    life = cast.life(least=6, members=3, usage=0.3)
    ago = cast.between(8, 50) * MINUTE
    mine = np.flatnonzero(life.owner[:, 0] == 2)
    life.stop(mine.tolist(), ago)
    life.owner[mine, life.tick(ago) :] = -1
    life.rebalanced += [-ago, -ago + 20]
    life.spans = [
        piece
        for it in life.spans
        for piece in (Span(it.slot, it.name, it.start, -ago - 15), Span(it.slot, f"{it.name}y", -ago))
    ]
    return cast.sick(
        life, {"stuck_partition", "cannot_tell"}, never=STILL | {"producer_burst"}, onset=ago, view=odd_view(cast, life)
    )


def hourly_dump(cast: Cast) -> Plan:
    """A nightly job that runs each half hour writes for 3 min what its consumers need 8 to 14 min for; so it is every time.
    All is well."""
    life = cast.life(least=2, rate=cast.between(5, 40), usage=0.3, warm=HOUR, spread=0.05)
    needs = cast.between(8, 14)
    _short(life, 3.0)
    phase = cast.between(1, 30) * MINUTE
    for number in range(5):
        begin = phase + number * 30 * MINUTE
        # In 3 min so much that 2 of 3 parts of the pace need so long for it.
        life.rate[:, life.between(begin, begin - 3 * MINUTE)] *= 3.0 + needs * 2 / 3
    return cast.well(life, "producer_burst", "recovered", "burst", "cannot_tell", view=odd_view(cast, life))


def new_partitions_well(cast: Cast) -> Plan:
    """Partitions are added 3 to 40 min ago; the group finds them after some minutes, begins at their start, and reads all."""
    life = cast.life(least=6, rate=cast.between(5, 60), usage=0.3)
    ago = cast.between(7, 40) * MINUTE
    found = ago - cast.between(2, 5) * MINUTE
    new = list(range(life.partitions - 2, life.partitions))
    life.rate[np.ix_(np.array(new), np.flatnonzero(~life.after(ago)))] = 0.0
    life.stop(new, LOADED * 3, found)
    life.thread[:] = life.busiest * 10
    for it in life.processors:
        it.seconds *= 0.4
    life.rebalanced += [-found]
    offsets = life.offsets
    for number in new:
        offsets.base[number] = 0.0
        offsets.end[number] = offsets.produced[number]
        offsets.start[number] = 0.0
        offsets.committed[number] = offsets.committed[number] - offsets.committed[number, 0]
    view = odd_view(cast, life)
    view.born = dict.fromkeys(new, ago)
    view.uncommitted = dict.fromkeys(new, found - life.commit_every)
    view.rowless = cast.turn % 2 == 1
    return cast.well(life, "recovered", "producer_burst", view=view)


def first_start(cast: Cast) -> Plan:
    """A new group begins at the start of a topic with days of records, 8 to 60 min ago, and is done in some hours. All is well."""
    life = cast.life(least=3, rate=cast.between(5, 40), usage=0.2)
    ago = cast.between(8, 60) * MINUTE
    behind, needs = cast.between(6, 48) * HOUR, cast.between(0.6, 4) * HOUR
    at = life.tick(ago)
    _short(life, 1 + behind / (needs + ago))
    offsets = life.offsets
    done = serve(
        offsets.produced[:, at:],
        offsets.pace[:, at:],
        offsets.produced[:, at : at + 1] - np.round(life.usual[:, None] * behind),
    )
    every = np.arange(done.shape[1]) // int(max(1, life.commit_every)) * int(max(1, life.commit_every))
    offsets.start[:] = offsets.base + offsets.produced[:, at : at + 1] - np.round(life.usual[:, None] * behind)
    offsets.committed[:, at:] = offsets.base + done[:, every]
    offsets.done[:, at:] = done
    view = odd_view(cast, life)
    view.silent = (LOADED * 2, ago)
    life.counted = np.where(life.after(ago), float(life.members), 0.0)
    life.spans = [Span(it.slot, it.name, -ago) for it in life.spans]
    return cast.well(life, "producer_burst", "cannot_tell", "offsets_reset", "burst", *CEILINGS, view=view)


def leaderless_behind(cast: Cast) -> Plan:
    """As `leaderless`, but the group was some minutes behind there when the broker went; or the exporter leaves the whole
    partition out."""
    life = cast.life(least=6, usage=0.3)
    ago = cast.between(5, 50) * MINUTE
    chosen = list(range(0, life.partitions, 3))
    life.stop(chosen, ago + cast.between(1, 3) * MINUTE)
    life.rate[np.ix_(np.array(chosen), np.flatnonzero(life.after(ago)))] = 0.0
    view = odd_view(cast, life)
    view.endless = dict.fromkeys(chosen, ago)
    if cast.turn % 2:
        view.gone_rows = dict.fromkeys(chosen, ago)
    return cast.sick(
        life, {"stuck_partition", "cannot_tell", "unusable_data", "no_data"}, never=NOT_CAPACITY, view=view
    )


def one_step_skip(cast: Cast) -> Plan:
    """One partition of many was stuck for 20 to 50 min, and somebody has moved it to its end (a poison record, and all behind it)."""
    life = cast.life(least=6, rate=cast.between(20, 150), usage=0.3)
    ago = cast.between(3, 30) * MINUTE
    return _skip_one(cast, life, ago, cast.between(20, 50) * MINUTE)


def _skip_one(cast: Cast, life: Life, ago: float, long: float) -> Plan:
    number = cast.any_of(life.partitions)
    life.stop([number], ago + long, ago)
    at = life.tick(ago)
    offsets = life.offsets
    one, tail = slice(number, number + 1), slice(at, None)
    done = serve(offsets.produced[one, tail], offsets.pace[one, tail], offsets.produced[one, at : at + 1])
    every = np.arange(done.shape[1]) // int(max(1, life.commit_every)) * int(max(1, life.commit_every))
    offsets.committed[one, tail] = offsets.base[one] + done[:, every]
    offsets.done[one, tail] = done
    return cast.sick(life, {"records_lost", "cannot_tell"}, never=NOT_CAPACITY, onset=ago, view=odd_view(cast, life))


def one_drains_for_ever(cast: Cast) -> Plan:
    """One partition of many is hours late and reads what arrives and nothing more; all others are well. It was so before the
    data begin."""
    life = cast.life(least=6, rate=cast.between(5, 60), usage=0.3, members=3)
    late = cast.any_of(life.partitions)
    life.behind[late] = np.round(float(life.usual[late]) * cast.between(20, 200) * MINUTE)
    life.limit[late] = life.rate[late] * cast.between(0.97, 1.0)
    accepted = {"cannot_tell", "hot_partition", "slow_processor", "slow_downstream", "stuck_partition"}
    never = {"add_consumers", "too_few_consumers", "dead_letter", *CALM_WORDS}
    return cast.sick(life, accepted, never=never, view=odd_view(cast, life))


def one_drains_slowly(cast: Cast) -> Plan:
    """After a stop of 20 min, 50 min ago, all partitions are well again but one, which is late, and reads no more than what arrives."""
    life = cast.life(least=6, rate=cast.between(5, 60), usage=0.2, members=3)
    late = cast.any_of(life.partitions)
    stop = cast.between(45, 60) * MINUTE
    life.stop(None, stop, stop - 20 * MINUTE)
    life.limit[late, life.after(stop - 20 * MINUTE)] = life.rate[late, life.after(stop - 20 * MINUTE)] * cast.between(
        0.97, 1.01
    )
    accepted = {"cannot_tell", "hot_partition", "slow_processor", "slow_downstream", "stuck_partition"}
    never = {"add_consumers", "too_few_consumers", "dead_letter", *CALM_WORDS}
    return cast.sick(life, accepted, never=never, view=odd_view(cast, life))


def drained_but_one_frozen(cast: Cast) -> Plan:
    """A backlog drains on all partitions, with ends in sight; one of them froze 3 to 10 min ago, in the midst of it."""
    life = cast.life(least=6, rate=cast.between(10, 60), members=3, usage=0.4)
    stop, length = cast.between(50, 60) * MINUTE, cast.between(12, 18) * MINUTE
    life.stop(None, stop, stop - length)
    _short(life, 1 + length / (stop - length + 10 * MINUTE))
    ago = max(cast.between(3, 10) * MINUTE, cast.earliest(life))
    frozen = cast.any_of(life.partitions)
    life.stop([frozen], ago)
    never = NOT_CAPACITY | {"dead_letter", *CALM_WORDS}
    young = age_of(life, frozen) < 200
    return cast.sick(
        life, {"stuck_partition", "cannot_tell"}, never=never, view=odd_view(cast, life), calm_is_fine=young
    )


def night_falls(cast: Cast) -> Plan:
    """Handlers have become three times slower; arrivals fall at the same time, so that lag in messages stays, and the age rises."""
    life = cast.life(least=3, usage=0.4, rate=cast.between(10, 80), warm=HOUR, spread=0.05)
    ago = cast.between(40, 60) * MINUTE
    _slower(life, ago, 0, 0.3)
    fall = np.interp(life.t, [life.t[0], -ago, 0.0], [1.0, 1.0, 0.12])
    life.rate *= fall[None, :]
    return cast.sick(
        life, {"slow_processor", "cannot_tell"}, lag_alone=("producer_burst",),
        never={"dead_letter", "add_partitions", "add_consumers"}, onset=ago, view=odd_view(cast, life), calm_is_fine=True,
    )  # fmt: skip


def lost_one_of_many(cast: Cast) -> Plan:
    """One of four members is gone (its pod does not start), 8 to 50 min ago; the others have taken over its part, and keep up.
    All is well."""
    life = cast.life(least=8, members=4, usage=0.3)
    ago = cast.between(8, 50) * MINUTE
    at = life.tick(ago - 45)
    moved = np.flatnonzero(life.owner[:, 0] == 3)
    life.stop(moved.tolist(), ago, ago - 45)
    life.owner[moved, at:] = (np.arange(len(moved)) % 3)[:, None]
    life.spans = [Span(it.slot, it.name, it.start, -ago if it.slot == 3 else it.end) for it in life.spans]
    life.rebalanced.append(-ago + 45)
    return cast.well(life, "recovered", view=odd_view(cast, life))


def rare_scrapes(cast: Cast) -> Plan:
    """Everything is scraped every 2 min: paused by hand, a record that no attempt gets past, one slow handler, or all is well."""
    what = cast.turn % 4
    life = cast.life(least=4, members=int(cast.rng.integers(1, 4)), usage=0.35)
    scraping = Scraping(every=120.0)
    view = odd_view(cast, life, scraping=scraping)
    return _inside_fault(cast, life, view, what, cast.between(14, 45) * MINUTE)


def lost_last_scrape(cast: Cast) -> Plan:
    """Scraped each minute; the last scrape timed out. The same faults."""
    what = cast.turn % 4
    life = cast.life(least=4, members=int(cast.rng.integers(1, 4)), usage=0.35)
    scraping = Scraping(every=60.0)
    scraping.missing = [(61.0, -1.0)]
    view = odd_view(cast, life, scraping=scraping)
    return _inside_fault(cast, life, view, what, cast.between(10, 45) * MINUTE)


def _inside_fault(cast: Cast, life: Life, view: Odd, what: int, ago: float) -> Plan:
    if what == 0:
        return cast.well(life, view=view)
    if what == 1:
        life.stop(None, ago)
        for slot in range(life.members):
            mine = float((life.owner[:, -1] == slot).sum())
            life.paused[slot] = np.where(life.after(ago), mine, 0.0)
        return cast.sick(
            life,
            {"stuck_partition", "cannot_tell"},
            causes={"paused", None},
            never=STILL | {"consumer_stopped"},
            view=view,
        )
    if what == 2:
        number = cast.any_of(life.partitions)
        life.held = {number: ago}
        life.stop([number], ago - 30)
        slot = int(life.owner[number, -1])
        life.retries = (slot, ago, 3.0)
        return cast.sick(
            life, {"stuck_partition", "cannot_tell"}, causes={"poison_record", "client_stalled", None}, never=NOT_CAPACITY,
            view=view,
        )  # fmt: skip
    _slower(life, ago, 0, 0.35)
    return cast.sick(
        life, {"slow_processor", "cannot_tell"}, never=NOT_CAPACITY - {"scale_processors"} | {"dead_letter"}, view=view
    )


def lag_only(cast: Cast) -> Plan:
    """The exporter (a cloud's own metrics) has lag and nothing else: no offsets, no members. Well; frozen; too slow; high and level."""
    life = cast.life(least=2, usage=0.35, spread=0.05)
    view = odd_view(cast, life)
    view.only_lag, view.no_members = True, True
    what = cast.turn % 4
    if what == 0:
        return cast.well(life, "cannot_tell", view=view)
    if what == 1:
        life.stop(None, cast.between(12, 90) * MINUTE)
    elif what == 2:
        _short(life, 0.8)
    else:
        life.behind[:] = np.round(life.usual[:, None] * cast.between(30, 300) * MINUTE)
        _short(life, 1.0)
        life.limit[:] = life.rate
    accepted = {"stuck_partition", "consumer_stopped", "cannot_tell", *CEILINGS}
    return cast.sick(life, accepted, never={"add_partitions", "dead_letter", *CALM_WORDS}, view=view)


def clients_alone(cast: Cast) -> Plan:
    """No lag exporter: each member's client shows offsets of its own partitions. One of three is killed; as a static member
    (group.instance.id, session.timeout.ms of 30 min) it keeps its partitions, and nobody reads or shows them."""
    life = cast.life(least=6, members=3, usage=0.3)
    ago = cast.between(3.5, 28) * MINUTE
    view = odd_view(cast, life)
    view.by_member = True
    if cast.turn % 3 == 2:  # the others take over: all is well
        at = life.tick(ago - 45)
        moved = np.flatnonzero(life.owner[:, 0] == 2)
        life.stop(moved.tolist(), ago, ago - 45)
        life.owner[moved, at:] = (np.arange(len(moved)) % 2)[:, None]
        life.spans = [Span(it.slot, it.name, it.start, -ago if it.slot == 2 else it.end) for it in life.spans]
        return cast.well(life, "recovered", "cannot_tell", view=view)
    life.spans = [Span(it.slot, it.name, it.start, -ago if it.slot == 2 else it.end) for it in life.spans]
    life.stop(np.flatnonzero(life.owner[:, 0] == 2).tolist(), ago)
    return cast.sick(
        life,
        {"stuck_partition", "consumer_stopped", "cannot_tell", "no_data"},
        never=STILL,
        view=view,
        calm_is_fine=False,
    )


def aborted_tail(cast: Cast) -> Plan:
    """An idle partition of a busy topic ends with an aborted transaction: its 20 to 500 offsets are given to no consumer. All
    is well."""
    life = cast.life(least=4, usage=0.3)
    number = cast.any_of(life.partitions)
    life.rate[number] = 0.0
    life.extra = {number: float(round(cast.between(20, 500)))}
    return cast.well(life, "cannot_tell", view=odd_view(cast, life))


def skip_before_window(cast: Cast) -> Plan:
    """One partition was stuck for 10 to 15 min, and was moved to its end 17 to 40 min ago; all is measured, handlers too."""
    life = cast.life(least=6, rate=cast.between(80, 250), usage=0.3)
    ago = cast.between(17, 40) * MINUTE
    return _skip_one(cast, life, ago, cast.between(10, 16) * MINUTE)


def caught_up_before_window(cast: Cast) -> Plan:
    """An outage of 5 to 25 min ended 17 to 45 min ago, and was read within a scrape; handlers are measured. Nothing is lost."""
    life = cast.life(rate=cast.between(10, 120), usage=0.4)
    over, long = cast.between(17, 45) * MINUTE, cast.between(8, 25) * MINUTE
    life.gone(over + long, over)
    room = cast.between(100, 400)
    for it in life.processors:
        it.seconds = it.seconds * 0.4 / room
    return cast.well(life, "recovered", view=odd_view(cast, life))


def skipped_after_hours(cast: Cast) -> Plan:
    """It stood still for 2 to 5 h (longer than the data), its members gone or hanging; 4 to 40 min ago it was set to the end
    by hand."""
    ago, hours = cast.between(4, 40) * MINUTE, cast.between(2, 5)
    life = cast.life(warm=hours * HOUR, rate=cast.between(5, 80), usage=0.3)
    life.stop(None, hours * HOUR, ago)
    life.gone(hours * HOUR if cast.turn % 2 else ago + 70, ago)
    life.jumps = [(-ago, "latest")]
    return cast.sick(life, {"records_lost", "cannot_tell"}, never=NOT_CAPACITY, view=odd_view(cast, life))
