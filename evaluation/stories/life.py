"""Simulate the life of one consumer group that reads one topic, second by second: what really happens, before anybody measures it.

Messages arrive, members work on them at the pace that their processors, their consumer thread, the network and quotas allow, commits
follow at their own times, retention deletes whole segments. Stories change arrivals, paces and members; the offsets follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LOADED = 75 * 60.0  # a window of 15 min and a baseline of an hour
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
LONG_AGO = 1e7  # seconds before the end: before everything that is simulated


@dataclass
class Processor:
    """Handlers of one event type: in each member, `queues` queues with a thread each."""

    name: str
    share: float  # of the events
    queues: int
    capacity: float  # events in one queue
    seconds: float  # usual process time
    slow: Array  # factor on it, by tick


@dataclass
class Span:
    """One process: a member from its start to its end (seconds relative to the window's end)."""

    slot: int
    name: str
    start: float = -LONG_AGO
    end: float = 1.0


@dataclass
class Offsets:
    """What has happened to the log and its commits, (P, T); offsets of the log, without an end NaN."""

    end: Array
    start: Array
    committed: Array
    done: Array
    produced: Array  # since the first tick, without the base
    base: Array  # (P, 1)
    pace: Array  # messages/s that each partition could have


def serve(produced: Array, pace: Array, start: Array | float = 0.0) -> Array:
    """What a server has done of what has arrived: never more than its pace allows, never more than there is (Lindley's recursion)."""
    able = np.cumsum(pace, axis=-1)
    backlog = np.minimum.accumulate(produced - start - able, axis=-1)
    return np.floor(start + able + np.minimum(0.0, backlog))


class Life:
    """A group; by default healthy, with some noise and a daily wave. Stories change its arrays before `run`.

    Args:
        rng: where all randomness comes from.
        partitions, rate, members: partitions, messages/s of one of them on average, members.
        warm: simulated seconds before the first measurement.
        usage: share of the processors' capacity that is used on an ordinary day.
        commit: seconds between two commits of a member.
        loaded: seconds that are measured.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        partitions: int,
        rate: float,
        members: int = 3,
        warm: float = 900.0,
        usage: float | None = None,
        commit: float = 5.0,
        loaded: float = LOADED,
        spread: float = 0.25,
    ) -> None:
        self.rng, self.partitions, self.loaded = rng, partitions, loaded
        self.members = max(1, min(members, partitions))
        self.commit_every, self.commit_together = commit, False
        self.t = np.arange(-(loaded + warm), 1.0)
        ticks = len(self.t)
        usage = usage or float(rng.uniform(0.2, 0.6))
        shares = rng.lognormal(0.0, spread, partitions) if partitions > 1 else np.ones(1)
        wave = 1 + rng.uniform(0, 0.08) * np.sin(2 * np.pi * (self.t / DAY + rng.uniform()))
        slow_noise = 1 + 0.05 * np.sin(2 * np.pi * (self.t / rng.uniform(200, 900) + rng.uniform()))
        gusts = np.repeat(rng.lognormal(0.0, float(rng.choice([0.05, 0.15, 0.3])), ticks // 20 + 1), 20)[:ticks]
        self.rate = rate * (shares / shares.mean())[:, None] * (wave * slow_noise * gusts / gusts.mean())[None, :]
        self.owner = np.repeat((np.arange(partitions) % self.members)[:, None], ticks, axis=1)
        self.spans = [Span(slot, f"pod-{rng.integers(1 << 20):05x}") for slot in range(self.members)]
        busiest = max(float(self.rate[self.owner[:, 0] == slot].mean(axis=1).sum()) for slot in range(self.members))
        self.usual = self.rate.mean(axis=1)
        self.busiest = busiest
        self.processors = self._processors(busiest, usage, ticks)
        self.thread = np.full(ticks, np.inf)  # messages/s that the consumer thread of a member can decode
        self.network = np.full(ticks, np.inf)  # messages/s that a member gets from the brokers
        self.speed = np.ones((partitions, ticks))  # factor on the pace of each partition; 0: nothing is read
        self.limit = np.full((partitions, ticks), np.inf)  # messages/s of one partition alone
        self.held: dict[int, float] = {}  # partition → since when its oldest event is not done, while others pass it
        self.commits_work = np.ones((partitions, ticks), dtype=bool)
        self.behind = np.zeros((partitions, 1))  # backlog at the first tick
        self.jumps: list[tuple[float, str]] = []  # (when, latest | earliest): a reset of all positions
        self.recreated: float | None = None
        self.retention, self.segment = 7 * DAY, float(rng.uniform(0.2, 1.0)) * HOUR
        self.trims_after: float | None = None  # seconds between a commit and the deletion of its records
        self.extra: dict[int, float] = {}  # partition → markers after its last record
        self.batches: list[tuple[float, Array]] = []  # (when, messages of each partition)
        self.counted: Array | None = None  # members as the coordinator counts them, by tick
        self.state = np.full(ticks, 4.0)
        self.rebalanced: list[float] = []  # when
        self.poll_age: dict[int, Array] = {}  # slot → seconds by tick
        self.paused: dict[int, Array] = {}  # slot → partitions by tick
        self.throttle, self.round_trip = np.zeros(ticks), np.full(ticks, float(rng.uniform(0.002, 0.02)))
        self.failing: tuple[str, Array] | None = None  # outcome, and the share of events with it
        self.retries: tuple[int, float, float] | None = None  # slot, since when, seconds between two
        self.full_queues: list[tuple[int, int, float]] = []  # slot, processor, since when
        self.delay = 0.0  # seconds that every event is held back on purpose
        self.has_queues = True
        self.loop = False  # one thread polls, and handles each record before it goes on
        self._offsets: Offsets | None = None

    def _processors(self, busiest: float, usage: float, ticks: int) -> list[Processor]:
        rng = self.rng
        names = ["order", "refund", "invoice"][: int(rng.integers(2, 4))]
        shares = rng.dirichlet(np.full(len(names), 8.0))
        found = []
        for name, share in zip(names, shares, strict=True):
            queues = int(rng.integers(1, 4))
            used = usage * float(rng.uniform(0.85, 1.0))
            seconds = min(queues * used / max(busiest * share, 1e-6), 0.2)
            capacity = float(rng.choice([100, 200, 500]))
            found.append(Processor(name, float(share), queues, capacity, seconds, np.ones(ticks)))
        return found

    def after(self, ago: float) -> npt.NDArray[np.bool_]:
        """Ticks later than so many seconds before the end."""
        return self.t > -ago

    def between(self, ago: float, until: float) -> npt.NDArray[np.bool_]:
        """Ticks from `ago` to `until` seconds before the end."""
        return (self.t > -ago) & (self.t <= -until)

    def tick(self, ago: float) -> int:
        """Index of the tick so many seconds before the end."""
        return int(np.clip(len(self.t) - 1 - round(ago), 0, len(self.t) - 1))

    def stop(self, partitions: Sequence[int] | None, ago: float, until: float = -2.0, factor: float = 0.0) -> None:
        """Partitions (None: all) are not read from `ago` to `until`."""
        chosen = list(range(self.partitions)) if partitions is None else list(partitions)
        self.speed[np.ix_(chosen, np.flatnonzero(self.between(ago, until)))] *= factor

    def gone(self, ago: float, until: float = -2.0, *, noticed: float = 0.0) -> None:
        """All members are gone from `ago` to `until`; the coordinator notices it after some seconds."""
        self.stop(None, ago, until)
        spans = []
        for span in self.spans:
            spans.append(Span(span.slot, span.name, span.start, -ago))
            if until > -1:
                spans.append(Span(span.slot, span.name, -until, span.end))
        self.spans = spans
        counted = np.full(len(self.t), float(self.members))
        counted[self.between(ago - noticed, until)] = 0.0
        self.counted = counted
        self.state[self.between(ago - noticed, until)] = 1.0
        if until > -1:
            self.rebalanced.append(-until)

    def work_pace(self) -> Array:
        """Messages/s of one member that its processors allow, by tick."""
        if self.loop:
            return np.asarray(1 / np.sum([it.seconds * it.share * it.slow for it in self.processors], axis=0))
        paces = [it.queues / (it.seconds * it.share * it.slow) for it in self.processors]
        return np.asarray(np.minimum.reduce(paces))

    def without_queues(self, *, loop: bool) -> None:
        """Somebody else's consumer: a poll loop, or a pool of threads whose queues nobody measures; as busy as before."""
        used = self.busiest / float(self.work_pace()[0])
        self.has_queues, self.loop = False, loop
        if loop and used > 0:
            self.fit(1 / used)

    def fit(self, room: float) -> None:
        """Processors that can do so many times what arrives at the busiest member on an ordinary day."""
        factor = float(self.work_pace()[0]) / self.busiest / room
        for it in self.processors:
            it.seconds *= factor

    def member_pace(self) -> Array:
        """Messages/s of one member, by tick."""
        return np.minimum(np.minimum(self.work_pace(), self.thread), self.network)

    @property
    def offsets(self) -> Offsets:
        """The log and its commits; computed once."""
        if self._offsets is None:
            self._offsets = self._run()
        return self._offsets

    def _run(self) -> Offsets:
        arriving = self.rng.poisson(np.clip(self.rate, 0, None)).astype(np.float64)
        for when, messages in self.batches:  # lands within 20 s
            at = self.tick(when)
            arriving[:, at : at + 20] += np.floor(messages / 20)[:, None]
        produced = np.cumsum(arriving, axis=1)
        pace = self.paces()
        done = serve(produced, pace, -self.behind)
        age = self.retention
        base = np.ceil(self.usual[:, None] * min(age, 8 * DAY) * 1.3 + self.behind + self.rng.integers(1000, 1_000_000))
        start = self._start(produced, base)
        for when, where in self.jumps:
            at = self.tick(-when)
            to = produced[:, at : at + 1] if where == "latest" else (start - base)[:, at : at + 1]
            done[:, at:] = serve(produced[:, at:], pace[:, at:], to)
        if self.delay:
            back = np.arange(len(self.t)) - round(self.delay)
            early = self.usual[:, None] * np.minimum(back, 0)[None, :]
            done = np.minimum(done, np.where(back >= 0, produced[:, np.maximum(back, 0)], np.floor(early)))
        kept = done.copy()
        for partition, ago in self.held.items():
            at = self.tick(ago)
            kept[partition, at:] = np.minimum(kept[partition, at:], kept[partition, at])
        committed = self._committed(kept)
        if self.trims_after is not None:
            at = np.maximum(np.arange(len(self.t)) // 60 * 60 - round(self.trims_after), 0)
            start = base + committed[:, at]
        end = base + produced
        for partition, markers in self.extra.items():
            end[partition] += markers
        if self.recreated is not None:
            at = self.tick(self.recreated)
            end[:, at:] = produced[:, at:] - produced[:, at - 1 : at]
            start[:, at:] = 0.0
        return Offsets(end, start, base + committed, done, produced, base, pace)

    def paces(self) -> Array:
        """Messages/s that each partition could have, (P, T)."""
        member = self.member_pace()
        pace = np.zeros_like(self.rate)
        for slot in range(self.members):
            mine = self.owner == slot
            load = (self.usual[:, None] * mine).sum(axis=0)
            number = np.maximum(mine.sum(axis=0), 1)
            share = np.maximum(self.usual[:, None] / np.maximum(load, 1e-9), 0.3 / number)
            pace += np.where(mine, share * member, 0.0)
        return np.minimum(np.maximum(pace * self.speed, np.where(self.speed > 0, 0.05, 0.0)), self.limit)

    def _committed(self, done: Array) -> Array:
        ticks = np.arange(len(self.t))
        phases = self.rng.uniform(0, self.commit_every, self.members)
        commits = np.zeros_like(self.commits_work)
        for slot in range(self.members):
            phase = phases[0 if self.commit_together else slot]
            rounds = np.floor((ticks - phase) / self.commit_every)
            mine = np.diff(rounds, prepend=rounds[0] - 1) > 0
            commits |= (self.owner == slot) & mine[None, :]
        commits &= self.commits_work
        for when, _ in self.jumps:  # a reset is a commit
            commits[:, self.tick(-when)] = True
        commits[:, 0] = True
        last = np.maximum.accumulate(np.where(commits, ticks[None, :], 0), axis=1)
        return np.take_along_axis(done, last, axis=1)

    def _start(self, produced: Array, base: Array) -> Array:
        checked = np.floor(self.t / 300) * 300  # the broker looks every 5 min
        at = checked - self.retention - self.t[0]
        known = produced[:, np.clip(at, 0, len(self.t) - 1).astype(int)]
        oldest = np.where(at >= 0, known, self.usual[:, None] * at)
        segment = np.maximum(self.usual[:, None] * self.segment, 1.0)
        return np.asarray(np.maximum(0.0, np.floor((base + oldest) / segment) * segment))

    def ages(self) -> Array:
        """Age of the oldest message that is not committed, (P, T) in seconds; 0 where there is none."""
        found = self.offsets
        committed, produced = found.committed - found.base, found.produced
        age = np.zeros_like(produced)
        for number in range(self.partitions):
            at = np.searchsorted(produced[number], committed[number], side="right")
            arrived = np.where(at < len(self.t), self.t[np.minimum(at, len(self.t) - 1)], self.t)
            rate = max(float(self.usual[number]), 1e-6)
            before = self.t[0] + committed[number] / rate
            age[number] = self.t - np.where(committed[number] < 0, before, arrived)
            age[number][committed[number] >= produced[number]] = 0.0
        if self.recreated is not None:
            age[:, self.tick(self.recreated) :] = 0.0  # nothing is between commit and end
        return age


@dataclass
class Scraping:
    """When somebody measures: every so many seconds with some jitter; some scrapes are lost."""

    every: float = 30.0
    jitter: float = 0.05
    lost: float = 0.0
    missing: list[tuple[float, float]] = field(default_factory=list)  # from, to: seconds before the end
    skew: float = 0.0  # seconds that the clock of the measuring machine is fast
    late_end: int = 0  # seconds by which the log end is read before the commit
    _phases: dict[str, float] = field(default_factory=dict)

    def instants(self, life: Life, rng: np.random.Generator, target: str) -> Array:
        """Seconds before the end (negative), sorted; each target has a phase of its own."""
        phase = self._phases.setdefault(target, float(rng.uniform(0, self.every)))
        found = np.arange(-life.loaded - self.every, 0.0, self.every) + phase
        found = found + rng.uniform(-self.jitter, self.jitter, len(found))
        kept = rng.uniform(size=len(found)) >= self.lost
        for first, last in self.missing:
            kept &= ~((found > -first) & (found <= -last))
        return np.sort(found[kept & (found >= -life.loaded - 1) & (found <= 0)])
