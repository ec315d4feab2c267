"""Healthy life: nobody has to do anything, whatever it looks like."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from evaluation.stories.life import HOUR, LOADED, MINUTE, Life, Span
from evaluation.stories.truth import Cast, Plan
from workbench.settings_of_groups import GroupSettings


def _every(seconds: float, objective: float | None = None) -> GroupSettings:
    late = timedelta(seconds=objective) if objective is not None else None
    known = {"commit_every": timedelta(seconds=seconds), "time_lag_objective": late}
    return GroupSettings(**{name: value for name, value in known.items() if value is not None})


def ordinary(cast: Cast) -> Plan:
    """Consumers that follow what arrives."""
    return cast.well(cast.life(loaded=3 * HOUR if cast.turn == 5 else LOADED))


def rhythm(cast: Cast) -> Plan:
    """Commits every second to every ten minutes; some groups' settings say so."""
    every = (1, 5, 15, 30, 60, 90, 120, 180, 240, 300, 420, 600)[cast.turn % 12]
    life = cast.life(commit=every)
    settings = _every(every) if every >= 120 and cast.turn % 2 else None
    return cast.well(life, settings=settings)


def trickle(cast: Cast) -> Plan:
    """A message in some minutes."""
    return cast.well(cast.life(rate=1 / cast.between(20, 400), most=8))


def quiet(cast: Cast) -> Plan:
    """Nothing arrives; all is done."""
    life = cast.life(rate=0.0)
    life.usual = np.full(life.partitions, 20.0)
    return cast.well(life)


def never_committed(cast: Cast) -> Plan:
    """A new group, or a topic without records: no commit, nothing to do."""
    life = cast.life(rate=0.0)
    view = cast.view(life)
    view.never_committed = tuple(range(life.partitions)) if cast.turn % 2 else (0,)
    return cast.well(life, "no_data", view=view)


def _batches(cast: Cast, *, leaves: bool) -> Life:
    life = cast.life(rate=cast.between(2, 20), members=2, warm=2 * HOUR, usage=0.04, commit=5)
    ago, needs = cast.between(5, 50) * MINUTE, cast.between(3, 6) * MINUTE
    runs = [(ago + number * HOUR, ago + number * HOUR - needs) for number in range(4)]
    off = np.ones(len(life.t), dtype=bool)
    for begin, end in runs:
        off &= ~life.between(begin, end)
    life.speed[:, off] = 0.0
    if leaves:
        life.spans = [
            Span(slot, f"job-{number}-{slot}", -begin, -end)
            for number, (begin, end) in enumerate(runs)
            for slot in range(life.members)
        ]
        life.state[off] = 1.0
    else:
        for slot in range(life.members):
            count = float((life.owner[:, 0] == slot).sum())
            life.paused[slot] = np.where(off, count, 0.0)
    return life


def hourly_batch(cast: Cast) -> Plan:
    """It runs for some minutes each hour; its settings may say so. Without them nobody can know whether the next run comes."""
    leaves = cast.turn % 3 != 2
    life = _batches(cast, leaves=leaves)
    settings = _every(HOUR, 70 * MINUTE) if cast.turn % 2 else None
    unknown = () if settings else ("cannot_tell", "consumer_stopped" if leaves else "stuck_partition")
    return cast.well(life, "recovered", *unknown, settings=settings)


def sink(cast: Cast) -> Plan:
    """A sink writes a file every 10 min, and commits all partitions at once."""
    life = cast.life(commit=600, least=3)
    life.commit_together = True
    return cast.well(life, settings=_every(600) if cast.turn % 2 else None)


def checkpoints(cast: Cast) -> Plan:
    """Partitions by assign(), commits at checkpoints of 5 or 10 min: the coordinator knows no member."""
    life = cast.life(commit=(300, 600)[cast.turn % 2], least=3)
    life.commit_together = True
    life.state[:] = 1.0
    view = cast.view(life)
    view.hidden_members = True
    return cast.well(life, settings=_every(600) if cast.turn == 3 else None, view=view)


def new_protocol(cast: Cast) -> Plan:
    """A KIP-848 group: the exporter counts 0 members, because it asks an old API."""
    life = cast.life()
    view = cast.view(life)
    view.hidden_members = True
    return cast.well(life, view=view)


def idle_transactions(cast: Cast) -> Plan:
    """An idle transactional topic: the marker behind the last record is a lag of 1 for ever."""
    life = cast.life(rate=0.0)
    life.usual = np.full(life.partitions, 20.0)
    life.extra = dict.fromkeys(range(life.partitions), 1.0)
    return cast.well(life)


def one_idle_transaction(cast: Cast) -> Plan:
    """One partition of a busy topic gets nothing any more, and ends with a marker."""
    life = cast.life(least=4)
    life.rate[1] = 0.0
    life.extra = {1: 1.0}
    return cast.well(life)


def vanished(cast: Cast) -> Plan:
    """The topic, or some of its partitions, is deleted; the commits are left."""
    life = cast.life(least=3)
    if cast.turn % 2 == 0:
        life.rate[:] = 0.0
    life.rate[-2:] = 0.0
    view = cast.view(life)
    everything = tuple(range(life.partitions))
    view.vanished = everything if cast.turn % 2 == 0 else everything[-2:]
    return cast.well(life, "no_data", "cannot_tell", "unusable_data", "absent", view=view)


def deploy(cast: Cast) -> Plan:
    """A rolling restart: one member after the other is away for half a minute, and everybody rebalances twice."""
    life = cast.life(least=3, members=int(cast.rng.integers(2, 5)), usage=0.35)
    at, spans = cast.between(4, 60) * MINUTE + 60 * life.members, []
    renamed = cast.turn % 2 == 0  # a Deployment has new names, a StatefulSet the old ones
    for span in life.spans:
        back = at - cast.between(15, 35)
        spans.append(Span(span.slot, span.name, span.start, -at))
        spans.append(Span(span.slot, f"{span.name}x" if renamed else span.name, -back))
        life.rebalanced += [-at + 1, -back + 1]
        for moment in (at, back):
            life.stop(None, moment, moment - 5)
            life.state[life.between(moment, moment - 4)] = 2.0
        life.stop(np.flatnonzero(life.owner[:, 0] == span.slot).tolist(), at, back - 3)
        at = back - cast.between(20, 50)
    life.spans = spans
    return cast.well(life, "recovered")


def hiccup(cast: Cast) -> Plan:
    """Everything stands still for 40 s: a long collection of garbage, a broker that fails over."""
    life = cast.life(usage=0.4)
    ago = cast.between(3, 60) * MINUTE
    life.stop(None, ago, ago - 40)
    return cast.well(life, "recovered")


def recovered(cast: Cast) -> Plan:
    """An incident of some minutes that was over well before the end."""
    life = cast.life(usage=0.25)
    over = cast.between(5, 9) * MINUTE
    life.stop(None, over + cast.between(3, 20) * MINUTE, over)
    life.thread[:] = life.busiest * 12  # it drains quickly
    for it in life.processors:
        it.seconds *= 0.3
    return cast.well(life, "recovered")


def missed_scrape(cast: Cast) -> Plan:
    """One scrape, or two, get lost: a gap of 60 s somewhere, perhaps at the end."""
    life = cast.life()
    scraping = cast.scraping()
    ago = (0.0, 30.0, 400.0)[cast.turn % 3]
    scraping.missing = [(ago + 59.0, ago)]
    return cast.well(life, view=cast.view(life, scraping=scraping))


def clock_skew(cast: Cast) -> Plan:
    """The measuring machine's clock is 95 s off."""
    life = cast.life()
    scraping = cast.scraping()
    scraping.skew = (-95.0, 95.0)[cast.turn % 2]
    return cast.well(life, view=cast.view(life, scraping=scraping))


def trimmed(cast: Cast) -> Plan:
    """What is committed is deleted a minute later (DeleteRecords): the log start follows the commits."""
    life = cast.life(usage=0.4)
    life.trims_after = 60.0
    return cast.well(life)


def waves(cast: Cast) -> Plan:
    """Steep daily waves and spikes that the group follows."""
    life = cast.life(usage=0.2)
    if cast.turn % 2:
        life.rate *= 1 + 0.5 * np.sin(2 * np.pi * (life.t / (3 * HOUR) + cast.rng.uniform()))[None, :]
    else:
        spikes = np.ones(len(life.t))
        for _ in range(8):
            ago = cast.between(1, 75) * MINUTE
            spikes[life.between(ago, ago - cast.between(10, 60))] = cast.between(2, 3)
        life.rate *= spikes[None, :]
    return cast.well(life)


def delayed(cast: Cast) -> Plan:
    """Every event is held back for 30 min on purpose; its settings say so, or nobody can know."""
    life = cast.life(warm=HOUR, rate=cast.between(1, 20))
    life.delay = 30 * MINUTE
    if cast.turn % 2:
        return cast.well(life, settings=GroupSettings(time_lag_objective=timedelta(minutes=40)))
    return cast.well(life, "cannot_tell")


def standby(cast: Cast) -> Plan:
    """MirrorMaker copies the offsets of a group to the standby cluster, every minute or two; nobody consumes there."""
    life = cast.life(commit=(60, 60, 120)[cast.turn % 3], least=3)
    life.commit_together = True
    life.state[:] = 1.0
    view = cast.view(life)
    view.hidden_members = True
    return cast.well(life, view=view)


# How often, and with which tiers.
WELL = {
    ordinary: (8, "LR"),
    rhythm: (12, "LR"),
    trickle: (5, "LR"),
    quiet: (3, "LR"),
    never_committed: (3, "L"),
    hourly_batch: (6, "LLR"),
    sink: (5, "LLR"),
    checkpoints: (6, "L"),
    new_protocol: (4, "LLR"),
    idle_transactions: (4, "LLR"),
    one_idle_transaction: (4, "LR"),
    vanished: (3, "L"),
    deploy: (5, "RRL"),
    hiccup: (4, "LR"),
    recovered: (6, "LR"),
    missed_scrape: (3, "L"),
    clock_skew: (3, "L"),
    trimmed: (3, "LR"),
    waves: (6, "LR"),
    delayed: (4, "LLRR"),
    standby: (3, "L"),
}
