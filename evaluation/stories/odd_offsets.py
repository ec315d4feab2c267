"""Odd life, second part: what looks as if records were lost, what is, and exporters with habits."""

from __future__ import annotations

import numpy as np

from evaluation.stories.life import HOUR, LOADED, MINUTE, Life, Scraping, serve
from evaluation.stories.odd import odd_view
from evaluation.stories.stops import STILL
from evaluation.stories.truth import NOT_CAPACITY, Cast, Plan


def quick_catch_up(cast: Cast) -> Plan:
    """A short outage is over, and a consumer with much room has read all of it within one scrape. Nothing is lost."""
    life = cast.life(rate=cast.between(4, 120), usage=0.4)
    over = cast.between(2.5, 40) * MINUTE
    long = cast.between(4, 25) * MINUTE
    if cast.turn % 2:
        life.gone(over + long, over)
    else:
        life.stop(None, over + long, over)
    room = cast.between(60, 400)  # 20,000 events/s of one thread are ordinary
    life.thread[:] = life.busiest * room
    for it in life.processors:
        it.seconds = it.seconds * 0.4 / room
    return cast.well(life, "recovered", view=odd_view(cast, life))


def deleted_group(cast: Cast) -> Plan:
    """The group stood still, somebody deleted it (no commits for a while), and it came back at the end: what arrived was never read."""
    life = cast.life(warm=HOUR, rate=cast.between(5, 80), usage=0.4)
    back = cast.between(3, 25) * MINUTE
    gone, deleted = back + cast.between(20, 60) * MINUTE, back + cast.between(4, 15) * MINUTE
    life.gone(gone, back)
    life.jumps = [(-back, "latest")]
    view = odd_view(cast, life)
    view.silent = (min(deleted, gone - 60), back)
    return cast.sick(life, {"records_lost", "cannot_tell"}, never=NOT_CAPACITY, view=view)


def new_partitions_latest(cast: Cast) -> Plan:
    """Partitions are added; the group finds them 5 min later, and begins at their end (auto.offset.reset=latest)."""
    life = cast.life(least=6, rate=cast.between(5, 60), usage=0.3)
    ago = cast.between(8, 40) * MINUTE
    # A whole second, as life is simulated by: else a scrape within it shows a commit of before.
    found = float(round(ago - cast.between(3.5, 5) * MINUTE))
    return _new_partitions(cast, life, ago, found, latest=True)


def new_partitions_unread(cast: Cast) -> Plan:
    """Partitions are added 12 to 60 min ago; the consumers were given theirs by hand, and nobody reads the new ones."""
    life = cast.life(least=6, rate=cast.between(5, 60), usage=0.3)
    return _new_partitions(cast, life, cast.between(12, 60) * MINUTE, None, latest=False)


def _new_partitions(cast: Cast, life: Life, ago: float, found: float | None, *, latest: bool) -> Plan:
    new = list(range(life.partitions - 2, life.partitions))
    life.rate[np.ix_(np.array(new), np.flatnonzero(~life.after(ago)))] = 0.0
    life.stop(new, LOADED * 3, -2.0 if found is None else found)
    life.owner[
        np.ix_(np.array(new), np.arange(len(life.t) if found is None else life.tick(found)))
    ] = -1  # no process shows them
    offsets = life.offsets
    for number in new:
        offsets.base[number] = 0.0
        offsets.end[number] = offsets.produced[number]
        offsets.start[number] = 0.0
        if found is not None:
            at = life.tick(found)
            offsets.committed[number, at:] = serve(
                offsets.produced[number : number + 1, at:],
                offsets.pace[number : number + 1, at:],
                offsets.produced[number : number + 1, at : at + 1],
            )[0]
    view = odd_view(cast, life)
    view.born = dict.fromkeys(new, ago)
    view.uncommitted = dict.fromkeys(new, -5.0 if found is None else found)
    view.rowless = cast.turn % 2 == 1
    if latest:
        return cast.sick(life, {"records_lost", "cannot_tell"}, never=NOT_CAPACITY, view=view)
    return cast.sick(life, {"stuck_partition", "consumer_stopped", "cannot_tell"}, never=NOT_CAPACITY, view=view)


def reset_and_done(cast: Cast) -> Plan:
    """Somebody read the last 20 to 60 min once more, on purpose, 30 to 65 min ago; it took 2 min, and all is well since."""
    life = cast.life(warm=HOUR, rate=cast.between(5, 60), usage=0.05)
    ago = cast.between(30, 62) * MINUTE
    life.retention = 7 * 24 * HOUR
    life.gone(ago + 60, ago)
    at, back = life.tick(ago), round(cast.between(10, 40) * 60)
    life.thread[:] = life.busiest * 30
    for it in life.processors:
        it.seconds *= 0.6
    offsets = life.offsets
    offsets.committed[:, at:] = offsets.base + serve(
        offsets.produced[:, at:], offsets.pace[:, at:], offsets.produced[:, at - back : at - back + 1]
    )
    offsets.done[:, at:] = offsets.committed[:, at:] - offsets.base
    return cast.well(life, "recovered", "offsets_reset", view=odd_view(cast, life))


def leaderless(cast: Cast) -> Plan:
    """A broker is gone, and with it the leaders of a third of the partitions: their ends and lags are missing, the commits stay."""
    life = cast.life(least=6, usage=0.3)
    ago = cast.between(4, 50) * MINUTE
    chosen = list(range(0, life.partitions, 3))
    life.stop(chosen, ago)
    life.rate[np.ix_(np.array(chosen), np.flatnonzero(life.after(ago)))] = 0.0
    view = odd_view(cast, life)
    view.endless = dict.fromkeys(chosen, ago)
    return cast.sick(
        life, {"stuck_partition", "cannot_tell", "unusable_data", "no_data"}, never=NOT_CAPACITY, view=view
    )


def dropped_group(cast: Cast) -> Plan:
    """kafka_exporter --no-offset.show-all: when the last member goes, commits and lag of the group go; the count says 0."""
    life = cast.life(rate=cast.between(3, 60))
    ago = cast.between(4, 60) * MINUTE
    life.gone(ago, noticed=45 if cast.turn % 2 else 0)
    view = odd_view(cast, life)
    view.silent = (ago - (45 if cast.turn % 2 else 0), -2)
    return cast.sick(life, {"consumer_stopped", "no_data", "cannot_tell"}, never=STILL, onset=ago, view=view)


def stale_exporter(cast: Cast) -> Plan:
    """The exporter (kafka-lag-exporter, a collector) repeats its last values since 4 to 20 min, because its own poll fails.
    All is well."""
    life = cast.life(usage=0.3)
    view = odd_view(cast, life)
    view.stale = (cast.between(4, 20) * MINUTE, -2)
    return cast.well(life, "cannot_tell", "unusable_data", "no_data", "producer_silent", view=view)


def stale_for_a_while(cast: Cast) -> Plan:
    """It repeated its last values for 5 to 12 min, some time ago."""
    life = cast.life(usage=0.3)
    view = odd_view(cast, life)
    over = cast.between(1.2, 30) * MINUTE
    view.stale = (over + cast.between(5, 12) * MINUTE, over)
    return cast.well(life, "cannot_tell", "recovered", view=view)


def slow_poll(cast: Cast) -> Plan:
    """The exporter asks Kafka every 60 to 180 s, Prometheus scrapes it every 15 to 30 s. All is well."""
    life = cast.life()
    view = odd_view(cast, life, scraping=Scraping(every=cast.one_of(15, 30)))
    view.polls = cast.one_of(60, 120, 180)
    return cast.well(life, view=view)


def slow_poll_gone(cast: Cast) -> Plan:
    """The same exporter; all members are gone, or one partition stands still."""
    life = cast.life(least=4)
    view = odd_view(cast, life, scraping=Scraping(every=cast.one_of(15, 30)))
    view.polls = cast.one_of(60, 120, 180)
    ago = cast.between(11, 50) * MINUTE
    if cast.turn % 2:
        life.gone(ago)
        return cast.sick(life, {"consumer_stopped"}, never=STILL, onset=ago, view=view)
    life.stop([cast.any_of(life.partitions)], ago)
    return cast.sick(life, {"stuck_partition", "cannot_tell"}, never=STILL, onset=ago, view=view)


def gap_over_onset(cast: Cast) -> Plan:
    """The exporter was away for 5 to 8 min, and the members went meanwhile."""
    life = cast.life()
    ago = cast.between(9, 30) * MINUTE
    life.gone(ago)
    scraping = cast.scraping()
    scraping.missing = [(ago + cast.between(2, 3) * MINUTE, ago - cast.between(3, 5) * MINUTE)]
    view = odd_view(cast, life, scraping=scraping)
    return cast.sick(life, {"consumer_stopped"}, never=STILL, view=view, onset=ago)


def flapping_exporter(cast: Cast) -> Plan:
    """Two of three scrapes time out, since 20 min; a partition stands still, all members are gone, or all is well."""
    life = cast.life(least=4, usage=0.3)
    scraping = cast.scraping()
    gaps = np.flatnonzero(cast.rng.uniform(size=200) < 0.6)
    scraping.missing = [
        (float(at * cast.scrape + cast.scrape), float(at * cast.scrape)) for at in gaps if at * cast.scrape < 1200
    ]
    view = odd_view(cast, life, scraping=scraping)
    ago = cast.between(12, 40) * MINUTE
    if cast.turn % 3 == 0:
        return cast.well(life, "cannot_tell", "no_data", view=view)
    if cast.turn % 3 == 1:
        life.gone(ago)
        return cast.sick(life, {"consumer_stopped", "cannot_tell", "no_data"}, never=STILL, view=view)
    life.stop([cast.any_of(life.partitions)], ago)
    return cast.sick(life, {"stuck_partition", "cannot_tell", "no_data"}, never=STILL, view=view)


def short_history(cast: Cast) -> Plan:
    """Prometheus is 16 to 22 min old; a partition, or everything, has stood still since before, or since 6 min."""
    life = cast.life(least=4, warm=HOUR)
    scraping = cast.scraping()
    scraping.missing = [(LOADED + 600, cast.between(16, 22) * MINUTE)]
    view = odd_view(cast, life, scraping=scraping)
    ago = (6 * MINUTE, 40 * MINUTE)[cast.turn % 2]
    chosen = [cast.any_of(life.partitions)] if cast.turn // 2 % 2 else None
    life.stop(chosen, max(ago, cast.earliest(life)))
    return cast.sick(life, {"stuck_partition", "cannot_tell", "consumer_stopped"}, never=STILL, view=view)
