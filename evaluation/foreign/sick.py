"""Kinds that are sick, each with the verdict that names what was done, and others that name it as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evaluation.foreign.circumstances import KEYS, Draw, behave
from evaluation.foreign.spec import INCIDENT_SECONDS, LIBRARIES, Deed, Library, Plan
from workbench.lab.producer import key_of, partition_of

# May send a note with a commit, which brokers refuse if it is long.
_NOTES: tuple[Library, ...] = ("franz_go", "kafkajs", "sarama")


def _slow_all(draw: Draw) -> Plan:
    """What all handlers wait for becomes slow."""
    use = draw.random.uniform(0.2, 0.45)
    times, factor = draw.times(use), draw.random.uniform(1.7, 2.6) / use
    slow = {name: it * factor * draw.random.uniform(0.9, 1.1) for name, it in times.items()}
    also = () if draw.by_type else ("slow_processor",)
    return draw.plan(times, (behave(slow),), "slow_downstream", also=also)


def _slow_type(draw: Draw) -> Plan:
    """The handler of one event type becomes slow."""
    draw.by_type = True
    times, hit = draw.times(draw.random.uniform(0.15, 0.3)), draw.random.choice(list(draw.types))
    more = draw.random.uniform(1.5, 2.2) * draw.slots / draw.rate / draw.share(hit)
    return draw.plan(times, (behave({**times, hit: times[hit] + more}),), "slow_processor", scope={"processors": [hit]})


def _hang(draw: Draw) -> Plan:
    """The handlers of one member never return; its heartbeats go on. With goroutines, its poll loop goes on, too."""
    hung = draw.member(draw.random.randrange(draw.members))
    also = ("stuck_partition",) if draw.style == "partition" else ()
    times = draw.calm_times()
    return draw.plan(times, (behave(times, stalled=[hung]),), "consumer_stopped", scope={"members": [hung]}, also=also)


def _stopped(draw: Draw) -> Plan:
    """All processes end, and nothing starts them again."""
    what: Any = draw.random.choice(("stop", "kill"))
    return draw.plan(draw.calm_times(), (Deed(at=0.0, what=what, value=list(range(draw.members))),), "consumer_stopped")


def _poison(draw: Draw) -> Plan:
    """A record that cannot be handled is tried again and again.

    A poll loop waits for it, and with it all partitions of its member. A goroutine waits alone, and a queue of platformatic's until
    what is behind it has filled the room of its member. kafkajs starts its consumer anew after some attempts, so its member leaves the
    group and comes back each time.
    """
    hit, times = draw.random.randrange(draw.partitions), draw.calm_times()
    deeds = (behave(times, poison="retry"), Deed(at=1.0, what="traffic", value=draw.traffic(poison_partition=hit)))
    whole = draw.style == "loop" or draw.library == "platformatic"
    also = ("rebalance_storm",) if draw.library == "kafkajs" else ("consumer_stopped",) if whole else ()
    return draw.plan(times, deeds, "stuck_partition", scope={"partitions": [hit]}, also=also)


def _crash_loop(draw: Draw) -> Plan:
    """A record ends each process that reads it; something starts them again, and the next owner of the partition ends as well."""
    hit, times = draw.random.randrange(draw.partitions), draw.calm_times()
    deeds = (behave(times, poison="crash"), Deed(at=1.0, what="traffic", value=draw.traffic(poison_partition=hit)))
    return draw.plan(times, deeds, "rebalance_storm", also=("stuck_partition", "consumer_stopped"))


def _outgrown(draw: Draw) -> tuple[dict[str, float], tuple[Deed, ...]]:
    """Traffic rises within some seconds to 135 to 150 % of what the slots can do."""
    use = draw.random.uniform(0.7, 0.76)
    growth, steps = draw.random.uniform(1.35, 1.5) / use, 5
    rates = [draw.rate * (1 + (growth - 1) * step / steps) for step in range(1, steps + 1)]
    deeds = [
        Deed(at=float(at), what="traffic", value=draw.traffic(rate_per_second=rate)) for at, rate in enumerate(rates)
    ]
    return draw.times(use), tuple(deeds)


def _too_few(draw: Draw) -> Plan:
    """One record at a time in each member, fewer members than partitions."""
    draw.loops()
    draw.partitions = 8
    return draw.plan(*_outgrown(draw), "too_few_consumers", also=("burst",))


def _ceiling(draw: Draw) -> Plan:
    """Every partition is handled as fast as one can be: a member or a goroutine for each, so that more members add nothing."""
    if draw.style == "partition":
        draw.partitions, draw.members = 6, 2
    else:
        draw.concurrency, draw.members, draw.partitions = 1, 4, 4
    return draw.plan(*_outgrown(draw), "partition_ceiling", also=("burst",))


def _throttled(draw: Draw) -> Plan:
    """A quota lets the members fetch a third of what arrives.

    Brokers hold an answer back for up to eleven seconds, and kafkajs' heartbeats behind it: a real session is longer than that.
    """
    draw.record_bytes, draw.session_seconds = 1000, 30.0
    quota = draw.random.uniform(0.28, 0.36) * draw.rate / draw.members * (draw.record_bytes + 100)
    return draw.plan(draw.calm_times(), (Deed(at=0.0, what="quota", value=round(quota)),), "throttled")


def _hot(draw: Draw) -> tuple[dict[str, float], float]:
    """Times, and the share of the traffic with which one slot gets 170 to 200 % of what it can do."""
    draw.partitions, draw.concurrency = 4, 1
    if draw.library == "platformatic":
        draw.loops()  # its queues share the room of their member, so one that is full would hold up the others
    draw.members = 2 if draw.style == "partition" else 4
    use = draw.random.uniform(0.45, 0.55)
    wanted = draw.random.uniform(1.7, 2.0) / use / draw.partitions
    return draw.times(use), min(0.95, (wanted - 1 / draw.partitions) / (1 - 1 / draw.partitions))


def _hot_partition(draw: Draw) -> Plan:
    """Most of the traffic goes to one partition."""
    (times, share), hit = _hot(draw), draw.random.randrange(4)
    deeds = (Deed(at=0.0, what="traffic", value=draw.traffic(hot_partition=hit, hot_share=share)),)
    return draw.plan(times, deeds, "hot_partition", scope={"partitions": [hit]})


def _hot_key(draw: Draw) -> Plan:
    """Most of the traffic has one key."""
    (times, share), key = _hot(draw), draw.random.randrange(KEYS)
    deeds = (Deed(at=0.0, what="traffic", value=draw.traffic(hot_key=key, hot_share=share)),)
    hit = partition_of(key_of(key), draw.partitions)
    return draw.plan(times, deeds, "hot_partition", scope={"partitions": [hit]}, also=("hot_key",))


def _storm(draw: Draw) -> Plan:
    """Handlers of kafkajs that take longer than the session's timeout; elsewhere, a member that dies again and again.

    The other libraries send their heartbeats beside the handlers, and know no limit between two polls.
    """
    times = draw.calm_times()
    if draw.library == "kafkajs":
        draw.by_type = True
        hit = draw.random.choice(list(draw.types))
        slow = {**times, hit: draw.random.uniform(10.0, 12.0)}
        return draw.plan(times, (behave(slow),), "rebalance_storm", also=("slow_processor", "slow_downstream"))
    victim = draw.random.randrange(draw.members)
    return draw.plan(times, _deaths(draw, [victim]), "rebalance_storm", scope={"members": [draw.member(victim)]})


def _deaths(draw: Draw, victims: Sequence[int]) -> tuple[Deed, ...]:
    """One of these members is killed every 9 to 12 s, and comes back."""
    deeds, at = list[Deed](), 0.0
    while at < INCIDENT_SECONDS + 120:
        victim = draw.random.choice(victims)
        deeds += [Deed(at=at, what="kill", value=[victim]), Deed(at=at + 1.5, what="start", value=[victim])]
        at += draw.random.uniform(9.0, 12.0)
    return tuple(deeds)


def _oom(draw: Draw) -> Plan:
    """The kernel kills one member after the other: all take too much memory."""
    return draw.plan(draw.calm_times(), _deaths(draw, range(draw.members)), "rebalance_storm")


def _freezes(draw: Draw) -> Plan:
    """A member stands still again and again, longer than its session: a heap that is too small, or a machine that swaps.

    What it owns waits until its session is over. Its last stop has lasted as long when the recording ends. platformatic's member comes
    back with a commit that is refused, joins anew, and sends the same offsets again: commits go back, by what others have read since.
    """
    draw.session_seconds = 20.0
    victim = draw.random.randrange(draw.members)
    deeds = []
    for at in (0.0, 28.0, 56.0, 84.0):
        deeds += [Deed(at=at, what="freeze", value=[victim]), Deed(at=at + 24.0, what="thaw", value=[victim])]
    scope = {"members": [draw.member(victim)]}
    also = ("consumer_stopped", *(("offsets_reset",) if draw.library == "platformatic" else ()))
    return draw.plan(draw.calm_times(), tuple(deeds), "rebalance_storm", scope=scope, also=also)


def _no_commits(draw: Draw) -> Plan:
    """Records are handled, and their commits are refused or forgotten."""
    draw.auto_commit, draw.commit_seconds = False, draw.random.choice((1.0, 2.0))
    times = draw.calm_times()
    how: Any = draw.random.choice(("refused", "none") if draw.library in _NOTES else ("none",))
    return draw.plan(times, (behave(times, commits=how),), "stuck_partition", scope={"cause": "commit_fails"})


def _moved(draw: Draw) -> Plan:
    """Somebody stops the group, commits the log's end, and starts it again."""
    whole = list(range(draw.members))
    deeds = (
        Deed(at=0.0, what="stop", value=whole),
        Deed(at=25.0, what="forward"),
        Deed(at=28.0, what="start", value=whole),
    )
    return draw.plan(draw.calm_times(), deeds, "records_lost")


def _slow_member(draw: Draw) -> Plan:
    """What the handlers of one member wait for becomes slow: its zone, its connection pool, its neighbour on the machine."""
    use, hit = draw.random.uniform(0.2, 0.4), draw.member(draw.random.randrange(draw.members))
    times, also = draw.times(use), () if draw.by_type else ("slow_processor",)
    slower = {hit: draw.random.uniform(1.8, 2.6) / use}
    return draw.plan(times, (behave(times, slower=slower),), "slow_downstream", scope={"members": [hit]}, also=also)


def _slow_deploy(draw: Draw) -> Plan:
    """Somebody restarts one member after the other while what they wait for is slow, and it helps nothing."""
    slow = _slow_all(draw)
    deeds = list(slow.deeds)
    for number in range(draw.members):
        at = 30.0 + 9.0 * number
        deeds += [Deed(at=at, what="stop", value=[number]), Deed(at=at + 2.0, what="start", value=[number])]
    return replace(slow, deeds=tuple(deeds))


def _paused(draw: Draw) -> Plan:
    """A circuit breaker has paused one partition, and nobody resumes it."""
    hit, times = draw.random.randrange(draw.partitions), draw.calm_times()
    return draw.plan(times, (behave(times, paused=[hit]),), "stuck_partition", scope={"partitions": [hit]})


def _scaled_in(draw: Draw) -> Plan:
    """Two of three members are taken away, and one cannot do what arrives."""
    draw.loops()
    draw.members = 3
    times = draw.times(draw.random.uniform(0.45, 0.52))
    return draw.plan(times, (Deed(at=0.0, what="stop", value=[1, 2]),), "too_few_consumers")


def _outage(draw: Draw) -> Plan:
    """What all handlers call refuses everything, at once; they try again and again, and nothing is finished.

    A loop does not poll meanwhile, partitions stand still, and kafkajs starts its consumer anew: whoever reads of the one, the other,
    or of what all of them wait for, is led to it.
    """
    times, every = draw.calm_times(), ("consumer_stopped", "stuck_partition", "slow_downstream")
    if draw.library == "kafkajs":
        return draw.plan(times, (behave(times, fails=True),), "rebalance_storm", also=every)
    verdict = "consumer_stopped" if draw.style == "loop" else "stuck_partition"
    return draw.plan(times, (behave(times, fails=True),), verdict, also=tuple(it for it in every if it != verdict))


def _rewound(draw: Draw) -> Plan:
    """Somebody stops the group, commits the log's beginning, and starts it again: all is read once more."""
    whole = list(range(draw.members))
    deeds = (
        Deed(at=40.0, what="stop", value=whole),
        Deed(at=50.0, what="rewind"),
        Deed(at=53.0, what="start", value=whole),
    )
    return draw.plan(draw.calm_times(), deeds, "offsets_reset")


def _expired(draw: Draw) -> Plan:
    """The group is off for a while, and retention deletes half of what waits; then it comes back.

    platformatic's stream ends where it finds its records gone, and its process with it, each time that it is started again.
    """
    whole = list(range(draw.members))
    deeds = (
        Deed(at=0.0, what="stop", value=whole),
        Deed(at=40.0, what="expire"),
        Deed(at=45.0, what="start", value=whole),
    )
    also = ("rebalance_storm", "consumer_stopped") if draw.library == "platformatic" else ()
    return draw.plan(draw.calm_times(), deeds, "records_lost", also=also)


def _added(draw: Draw) -> Plan:
    """The topic gets two more partitions, and by default kafka-go's Reader never looks for them: nobody reads them."""
    total = draw.partitions + 2
    more = draw.traffic(partitions=total)
    deeds = (Deed(at=5.0, what="grow", value=total), Deed(at=8.0, what="traffic", value=more))
    scope = {"partitions": list(range(draw.partitions, total))}
    return draw.plan(draw.calm_times(), deeds, "stuck_partition", scope=scope)


SICK = {
    "slow_all": _slow_all, "slow_type": _slow_type, "hang": _hang, "stopped": _stopped, "poison": _poison,
    "crash_loop": _crash_loop, "too_few": _too_few, "ceiling": _ceiling, "throttled": _throttled,
    "hot_partition": _hot_partition, "hot_key": _hot_key, "storm": _storm, "no_commits": _no_commits, "moved": _moved,
    "slow_member": _slow_member, "slow_deploy": _slow_deploy, "paused": _paused, "scaled_in": _scaled_in, "oom": _oom,
    "freezes": _freezes, "outage": _outage, "rewound": _rewound, "expired": _expired, "added": _added,
}  # fmt: skip
# Kinds that do not befall every library.
ONLY: dict[str, tuple[Library, ...]] = {
    "too_few": tuple(it for it in LIBRARIES if it != "sarama"),
    "scaled_in": tuple(it for it in LIBRARIES if it != "sarama"),
    "paused": ("franz_go", "kafkajs", "sarama"),
    "added": ("kafka_go",),
    "delayed": ("franz_go", "sarama", "platformatic"),
    "frozen_once": tuple(it for it in LIBRARIES if it != "platformatic"),  # whose commits go back afterwards
}
