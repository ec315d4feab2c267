"""Draws recordings by seed, with their truths: nothing here knows what triage says.

The arithmetic is the lab's: use = arrivals × mean handler time / slots. A slot handles one record at a time: a poll loop has one for
each member, kafkajs as many as partitions it may consume concurrently, and goroutines for partitions as many as there are partitions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from evaluation.foreign.spec import INCIDENT_SECONDS, SESSION_SECONDS, Behaviour, Client, Deed, Library, Plan
from workbench.lab.draw import TYPES
from workbench.lab.producer import key_of, partition_of
from workbench.lab.spec import Traffic

LIBRARIES: tuple[Library, ...] = ("franz_go", "kafkajs")
_HEALTHY_SHARE = 0.3
_CALM = ("recovered", "producer_burst")
_KEYS = 2000


class Draw:
    """The circumstances of one recording."""

    def __init__(self, seed: int, number: int, kind: str, library: Library) -> None:
        self.random = random.Random(f"{seed}/{number}/{kind}/{library}")
        self.seed, self.number, self.kind, self.library = seed, number, kind, library
        chance = self.random
        self.partitions = chance.choice((6, 8))
        self.members = chance.choice((2, 3))
        self.rate = chance.uniform(25, 60)
        self.types = {name: chance.uniform(1.0, 2.0) for name in chance.sample(TYPES, chance.choice((3, 4)))}
        self.style: Any = chance.choice(("loop", "partition") if library == "franz_go" else ("message", "batch"))
        self.max_poll = chance.choice((0, 50))
        self.concurrency = chance.choice((1, 1, 3)) if library == "kafkajs" else 1
        self.auto_commit = True
        self.commit_seconds = chance.choice((1.0, 2.0, 5.0) if library == "franz_go" else (0.0, 1.0, 5.0))
        self.by_type = chance.random() < 0.75
        self.record_bytes = 200
        self.session_seconds = SESSION_SECONDS

    @property
    def group(self) -> str:
        """Nothing that a verdict could be read from."""
        return f"svc-{self.seed}-{self.number:02d}"

    @property
    def slots(self) -> int:
        """Records that the group handles at the same time."""
        if self.style == "partition":
            return self.partitions
        return min(self.partitions, self.members * self.concurrency)

    def share(self, name: str) -> float:
        """Of the traffic."""
        return self.types[name] / sum(self.types.values())

    def times(self, use: float) -> dict[str, float]:
        """Handler times that use this share of the slots."""
        weights = {name: self.random.uniform(0.7, 1.4) for name in self.types}
        mean = sum(self.share(name) * weight for name, weight in weights.items())
        return {name: use * self.slots / self.rate * weight / mean for name, weight in weights.items()}

    def traffic(self, **changes: Any) -> Traffic:
        """What arrives; the broker's address follows when there is one."""
        usual: dict[str, Any] = {
            "rate_per_second": self.rate, "event_types": self.types, "keys": _KEYS, "seed": self.seed + self.number,
            "record_bytes": self.record_bytes,
        }  # fmt: skip
        return Traffic(bootstrap="", topic=f"events-{self.group}", partitions=self.partitions, **{**usual, **changes})

    def plan(
        self,
        times: Mapping[str, float],
        deeds: tuple[Deed, ...],
        verdict: str,
        *,
        scope: dict[str, Any] | None = None,
        also: tuple[str, ...] = (),
        **traffic: Any,
    ) -> Plan:
        """Put it together; further options are those of the traffic before the fault."""
        return Plan(
            name=f"{self.number:02d}-{self.library}-{self.kind}",
            seed=self.seed,
            kind=self.kind,
            library=self.library,
            group=self.group,
            topic=f"events-{self.group}",
            partitions=self.partitions,
            members=self.members,
            client=Client(
                style=self.style,
                max_poll=self.max_poll,
                auto_commit=self.auto_commit,
                commit_seconds=self.commit_seconds,
                concurrency=self.concurrency,
                session_seconds=self.session_seconds,
                by_type=self.by_type,
            ),
            behaviour=Behaviour(process_seconds=dict(times)),
            traffic=self.traffic(**traffic),
            deeds=deeds,
            verdict=verdict,
            scope=scope or {},
            also=also,
        )

    def calm_times(self) -> dict[str, float]:
        """Of a group with much room."""
        return self.times(self.random.uniform(0.15, 0.35))


def _behave(times: Mapping[str, float], **changes: Any) -> Deed:
    return Deed(at=0.0, what="behave", value=Behaviour(process_seconds=dict(times), **changes))


# Healthy, some in odd ways.


def _steady(draw: Draw) -> Plan:
    return draw.plan(draw.times(draw.random.uniform(0.1, 0.6)), (), "healthy", also=_CALM)


def _burst(draw: Draw) -> Plan:
    """Three times as much for some seconds; what waits is gone long before the end."""
    often = draw.traffic(rate_per_second=draw.rate * draw.random.uniform(2.7, 3.2))
    deeds = (Deed(at=0.0, what="traffic", value=often), Deed(at=15.0, what="traffic", value=draw.traffic()))
    return draw.plan(draw.times(draw.random.uniform(0.45, 0.55)), deeds, "healthy", also=_CALM)


def _quiet(draw: Draw) -> Plan:
    """A record every few seconds, and rare commits."""
    draw.rate, draw.commit_seconds = draw.random.uniform(0.2, 0.5), 10.0
    return draw.plan(dict.fromkeys(draw.types, 0.005), (), "healthy", also=_CALM)


def _deploy(draw: Draw) -> Plan:
    """A rolling restart, once."""
    deeds = []
    for number in range(draw.members):
        at = 5.0 + 9.0 * number
        deeds += [Deed(at=at, what="stop", value=[number]), Deed(at=at + 2.0, what="start", value=[number])]
    return draw.plan(draw.calm_times(), tuple(deeds), "healthy", also=_CALM)


def _uneven(draw: Draw) -> Plan:
    """One key has a large share, and there is room for it."""
    draw.members = 2
    times = draw.times(draw.random.uniform(0.1, 0.15))
    return draw.plan(
        times, (), "healthy", also=_CALM, hot_key=draw.random.randrange(_KEYS), hot_share=draw.random.uniform(0.35, 0.5)
    )


def _slower(draw: Draw) -> Plan:
    """All handlers take twice as long, and there is room for it."""
    times = draw.times(draw.random.uniform(0.2, 0.25))
    return draw.plan(times, (_behave({name: 2 * it for name, it in times.items()}),), "healthy", also=_CALM)


# Sick.


def _slow_all(draw: Draw) -> Plan:
    """What all handlers wait for becomes slow."""
    use = draw.random.uniform(0.2, 0.45)
    times, factor = draw.times(use), draw.random.uniform(1.7, 2.6) / use
    slow = {name: it * factor * draw.random.uniform(0.9, 1.1) for name, it in times.items()}
    also = () if draw.by_type else ("slow_processor",)
    return draw.plan(times, (_behave(slow),), "slow_downstream", also=also)


def _slow_type(draw: Draw) -> Plan:
    """The handler of one event type becomes slow."""
    draw.by_type = True
    times, hit = draw.times(draw.random.uniform(0.15, 0.3)), draw.random.choice(list(draw.types))
    more = draw.random.uniform(1.5, 2.2) * draw.slots / draw.rate / draw.share(hit)
    return draw.plan(
        times, (_behave({**times, hit: times[hit] + more}),), "slow_processor", scope={"processors": [hit]}
    )


def _hang(draw: Draw) -> Plan:
    """The handlers of one member never return; its heartbeats go on. With goroutines, its poll loop goes on, too."""
    hung = f"{draw.group}-{draw.random.randrange(draw.members)}"
    also = ("stuck_partition",) if draw.style == "partition" else ()
    times = draw.calm_times()
    return draw.plan(times, (_behave(times, stalled=[hung]),), "consumer_stopped", scope={"members": [hung]}, also=also)


def _stopped(draw: Draw) -> Plan:
    """All processes end, and nothing starts them again."""
    what: Any = draw.random.choice(("stop", "kill"))
    return draw.plan(draw.calm_times(), (Deed(at=0.0, what=what, value=list(range(draw.members))),), "consumer_stopped")


def _poison(draw: Draw) -> Plan:
    """A record that cannot be handled is tried again and again.

    A poll loop waits for it, and with it all partitions of its member. A goroutine waits alone. kafkajs starts its consumer anew after
    some attempts, so its member leaves the group and comes back each time.
    """
    hit, times = draw.random.randrange(draw.partitions), draw.calm_times()
    deeds = (_behave(times, poison="retry"), Deed(at=1.0, what="traffic", value=draw.traffic(poison_partition=hit)))
    also = {"loop": ("consumer_stopped",), "partition": ()}.get(draw.style, ("rebalance_storm",))
    return draw.plan(times, deeds, "stuck_partition", scope={"partitions": [hit]}, also=also)


def _crash_loop(draw: Draw) -> Plan:
    """A record ends each process that reads it; something starts them again, and the next owner of the partition ends as well."""
    hit, times = draw.random.randrange(draw.partitions), draw.calm_times()
    deeds = (_behave(times, poison="crash"), Deed(at=1.0, what="traffic", value=draw.traffic(poison_partition=hit)))
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
    if draw.library == "franz_go":
        draw.style = "loop"
    draw.concurrency, draw.partitions = 1, 8
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
    (times, share), key = _hot(draw), draw.random.randrange(_KEYS)
    deeds = (Deed(at=0.0, what="traffic", value=draw.traffic(hot_key=key, hot_share=share)),)
    hit = partition_of(key_of(key), draw.partitions)
    return draw.plan(times, deeds, "hot_partition", scope={"partitions": [hit]}, also=("hot_key",))


def _storm(draw: Draw) -> Plan:
    """Handlers of kafkajs that take longer than the session's timeout; a member of franz-go that dies again and again.

    franz-go sends its heartbeats beside the handlers, and knows no limit between two polls.
    """
    times = draw.calm_times()
    if draw.library == "kafkajs":
        draw.by_type = True
        hit = draw.random.choice(list(draw.types))
        slow = {**times, hit: draw.random.uniform(10.0, 12.0)}
        return draw.plan(times, (_behave(slow),), "rebalance_storm", also=("slow_processor", "slow_downstream"))
    victim, deeds, at = draw.random.randrange(draw.members), list[Deed](), 0.0
    while at < INCIDENT_SECONDS + 120:
        deeds += [Deed(at=at, what="kill", value=[victim]), Deed(at=at + 1.5, what="start", value=[victim])]
        at += draw.random.uniform(9.0, 12.0)
    return draw.plan(times, tuple(deeds), "rebalance_storm", scope={"members": [f"{draw.group}-{victim}"]})


def _no_commits(draw: Draw) -> Plan:
    """Records are handled, and their commits are refused or forgotten."""
    draw.auto_commit, draw.commit_seconds = False, draw.random.choice((1.0, 2.0))
    times = draw.calm_times()
    how = draw.random.choice(("refused", "none"))
    return draw.plan(times, (_behave(times, commits=how),), "stuck_partition", scope={"cause": "commit_fails"})


def _moved(draw: Draw) -> Plan:
    """Somebody stops the group, commits the log's end, and starts it again."""
    whole = list(range(draw.members))
    deeds = (
        Deed(at=0.0, what="stop", value=whole),
        Deed(at=25.0, what="forward"),
        Deed(at=28.0, what="start", value=whole),
    )
    return draw.plan(draw.calm_times(), deeds, "records_lost")


Make = Callable[[Draw], Plan]
HEALTHY: dict[str, Make] = {
    "steady": _steady, "burst": _burst, "quiet": _quiet, "deploy": _deploy, "uneven": _uneven, "slower": _slower,
}  # fmt: skip
SICK: dict[str, Make] = {
    "slow_all": _slow_all, "slow_type": _slow_type, "hang": _hang, "stopped": _stopped, "poison": _poison,
    "crash_loop": _crash_loop, "too_few": _too_few, "ceiling": _ceiling, "throttled": _throttled,
    "hot_partition": _hot_partition, "hot_key": _hot_key, "storm": _storm, "no_commits": _no_commits, "moved": _moved,
}  # fmt: skip


def _chosen(chance: random.Random, kinds: Mapping[str, Make], count: int) -> list[tuple[str, Library]]:
    """Every kind once before any comes again, and then with another library."""
    names = chance.sample(list(kinds), len(kinds))
    first: dict[str, int] = {name: chance.randrange(len(LIBRARIES)) for name in names}
    return [
        (name, LIBRARIES[(first[name] + turn) % len(LIBRARIES)]) for turn in range(len(LIBRARIES)) for name in names
    ][:count]


def drawn(seed: int, count: int, *, only: tuple[str, ...] = ()) -> list[Plan]:
    """Recordings of a seed, about a third of them healthy; with `only`, these kinds on each library.

    Raises:
        ValueError: if there are not so many different ones.
    """
    chance = random.Random(seed)
    calm = round(count * _HEALTHY_SHARE)
    pairs = [*_chosen(chance, HEALTHY, calm), *_chosen(chance, SICK, count - calm)]
    if only:
        pairs = [(kind, library) for kind in only for library in LIBRARIES]
    elif len(pairs) < count:
        raise ValueError(f"there are {len(pairs)} recordings to draw, fewer than {count}")
    chance.shuffle(pairs)
    return [
        {**HEALTHY, **SICK}[kind](Draw(seed, number, kind, library)) for number, (kind, library) in enumerate(pairs)
    ]
