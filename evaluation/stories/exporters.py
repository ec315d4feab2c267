"""What exporters show of a life at their scrapes: a lag exporter, and the runtime with all its signals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from evaluation.stories import END
from evaluation.stories.life import Array, Life, Scraping, Span
from workbench.samples import SampleBatch, concat

CLUSTER = "prod"
BROKERS = ("1", "2")
Add = Callable[..., None]


class View:
    """One life as its exporters show it."""

    def __init__(self, life: Life, scraping: Scraping, group: str, topic: str, rng: np.random.Generator) -> None:
        self.life, self.scraping, self.rng, self.group, self.topic = life, scraping, rng, group, topic
        self.lags = SampleBatch(CLUSTER, "kafka_exporter")
        self.asked = SampleBatch(CLUSTER, "kafka")
        self.states = SampleBatch(CLUSTER, "group_state")
        self.inside = SampleBatch(CLUSTER, "runtime")
        self.hidden_members = False  # the exporter counts 0 members (KIP-848, assign())
        self.no_members = False  # it has no count at all
        self.vanished: tuple[int, ...] = ()  # partitions of which only the commits are left
        self.never_committed: tuple[int, ...] = ()
        self.held_back: tuple[int, ...] = ()  # partitions with an open transaction, right behind the commit
        self.shows_state = False  # whether a lag exporter's user collects the group's state too
        self.first = True
        self.one_handler = False  # its process times are not told apart by event type
        self.statistics = True  # whether its clients show theirs
        self.shows_start = False  # whether its processes say when they started

    def tell(self, *, inside: bool, first: bool = True, client: bool = False) -> None:
        """Measure: the lag exporter, and the processes if they are measured; members and group belong to the first topic.

        Args:
            inside: by the runtime, with all signals.
            client: by the statistics of their Kafka client and their process times only.
        """
        self.first = first
        self.lag_exporter(state=(inside or self.shows_state) and first)
        self.ask_kafka()
        if inside or client:
            self.runtime(client=client)

    def ask_kafka(self) -> None:
        """What a live triage asks of partitions that stand still."""
        for number in self.held_back:
            log = {"topic": self.topic, "partition": number}
            self.asked.add(
                "last_stable_offset", log, self._stamps(np.zeros(1)), self.life.offsets.committed[number, -1:]
            )

    def _stamps(self, at: Array) -> np.ndarray:
        return np.round((END.timestamp() + at + self.scraping.skew) * 1e6).astype(np.int64)

    def _at(self, instants: Array) -> np.ndarray:
        return np.clip(np.floor(instants - self.life.t[0]).astype(int), 0, len(self.life.t) - 1)

    def lag_exporter(self, *, state: bool = False) -> None:
        """Offsets, lag and members, as kafka_exporter has them."""
        life, found = self.life, self.life.offsets
        instants = self.scraping.instants(life, self.rng, "exporter")
        at, stamps = self._at(instants), self._stamps(instants)
        earlier = np.maximum(at - self.scraping.late_end, 0)
        for number in range(life.partitions):
            log = {"topic": self.topic, "partition": number}
            place = {"group": self.group, **log}
            end, committed = found.end[number, earlier], found.committed[number, at]
            if number in self.vanished:
                self.lags.add("committed_offset", place, stamps, committed)
                continue
            self.lags.add("log_end_offset", log, stamps, end)
            self.lags.add("log_start_offset", log, stamps, found.start[number, at])
            if number in self.never_committed:
                none = np.full(len(at), -1.0)
                self.lags.add("committed_offset", place, stamps, none)
                self.lags.add("consumer_lag", place, stamps, none)
            else:
                self.lags.add("committed_offset", place, stamps, committed)
                self.lags.add("consumer_lag", place, stamps, end - committed)
        members = self._counted()[at]
        if self.hidden_members:
            members = np.zeros(len(at))
        if not self.no_members and self.first:
            self.lags.add("group_members", {"group": self.group}, stamps, members)
        if state and not self.no_members:
            self.states.add("group_state", {"group": self.group}, stamps, life.state[at])

    def _counted(self) -> Array:
        if self.life.counted is not None:
            return self.life.counted
        present = [(self.life.t >= span.start) & (self.life.t <= span.end) for span in self.life.spans]
        return np.asarray(np.sum(present, axis=0), dtype=float)

    def runtime(self, *, client: bool = False) -> None:
        """What every process says of itself; nothing of one that has ended."""
        life = self.life
        inside = Inside(life)
        for span in life.spans:
            instants = self.scraping.instants(life, self.rng, f"member {span.slot}")
            there = instants[(instants >= span.start) & (instants <= span.end)]
            if len(there) and client:
                self._client(span, there, inside)
            elif len(there):
                self._member(span, there, inside)

    def _member(self, span: Span, instants: Array, inside: Inside) -> None:
        life, batch = self.life, self.inside
        at, stamps, n = self._at(instants), self._stamps(instants), len(instants)
        member = {"group": self.group, "member": f"{self.group}-{span.name}"}

        def add(signal: str, values: Array | float, stat: str = "value", **labels: object) -> None:
            batch.add(signal, {**member, **labels}, stamps, np.broadcast_to(np.asarray(values, float), n), stat=stat)

        mine = life.owner[:, at] == span.slot
        if self.first:
            self._process(span, at, instants, inside, add)
        self._work(span, at, instants, inside, add)
        for number in range(life.partitions):
            kept = mine[number]
            if kept.any():
                self._partition(number, at[kept], stamps[kept], member, span, inside)

    def _assignments(self, span: Span, instants: Array) -> Array:
        """How many a member has counted since its start."""
        events = np.array(sorted(it for it in self.life.rebalanced if it >= span.start), dtype=float)
        before = 1.0 if span.start > self.life.t[0] else float(2 + len(self.group) % 5)
        return np.asarray(before + np.searchsorted(events, instants, side="right"))

    def _client(self, span: Span, instants: Array, inside: Inside) -> None:
        """librdkafka's statistics, whose values stay as they were while nobody polls, and a histogram of process times."""
        life, batch, rng = self.life, self.inside, self.rng
        stamps, n = self._stamps(instants), len(instants)
        member = {"group": self.group, "member": f"{self.group}-{span.name}"}
        # The statistics come with a poll: while a member hangs, they are those of its last one.
        hangs = life.poll_age.get(span.slot)
        stood = self._at(instants)
        at = stood
        if hangs is not None:
            at = np.maximum(stood - np.where(hangs[stood] > 5, np.round(hangs[stood]), 0.0).astype(int), 0)

        def add(signal: str, values: Array | float, stat: str = "value", **labels: object) -> None:
            batch.add(signal, {**member, **labels}, stamps, np.broadcast_to(np.asarray(values, float), n), stat=stat)

        if self.first:
            if self.statistics:
                add("rebalances", self._assignments(span, instants))
            if self.shows_start:
                add("start_time", _started(span))
            jitter = rng.lognormal(0, 0.2, len(life.t))[at]
            for broker in BROKERS if self.statistics else ():
                add("throttle_time", life.throttle[at] * jitter, broker=broker)
                add("broker_rtt", life.round_trip[at] * jitter, broker=broker)
        mine = life.owner[:, at] == span.slot
        every = np.array([np.floor(inside.fetched(number)[at]) for number in range(life.partitions)])
        queued = (every * mine).sum(axis=0)
        for number in range(life.partitions) if self.statistics else ():
            # It lists every partition of the topic, with nothing fetched of those that are not its own. Those go to one queue, and each
            # shows its whole length.
            place = {**member, "topic": self.topic, "partition": number}
            fetched = np.where(mine[number], queued, 0.0)
            batch.add("fetch_queue_length", place, stamps, fetched)
        first = int(np.clip(np.ceil(span.start - life.t[0]), 0, len(life.t) - 1))
        done = np.where(np.arange(len(life.t)) >= first, inside.done_by(span.slot), 0.0)
        old = span.start <= life.t[0]
        counts, sums = {}, {}
        for number, processor in enumerate(life.processors):
            name = "all" if self.one_handler else processor.name
            spent = processor.seconds * processor.slow * inside.noise[number]
            initial = float(1000 + 977 * number) if old else 0.0
            counts[name] = counts.get(name, 0.0) + np.floor(initial + np.cumsum(done * processor.share))
            sums[name] = sums.get(name, 0.0) + initial * processor.seconds + np.cumsum(done * processor.share * spent)
        for name in counts:
            add("process_time", counts[name][stood], "count", topic=self.topic, processor=name)
            add("process_time", sums[name][stood], "sum", topic=self.topic, processor=name)

    def _process(self, span: Span, at: np.ndarray, instants: Array, inside: Inside, add: Add) -> None:
        life, rng, n = self.life, self.rng, len(at)
        polled = life.poll_age.get(span.slot)
        add("poll_age", rng.uniform(0.0, 0.2, n) if polled is None else polled[at] + rng.uniform(0, 0.1, n))
        add("heartbeat_age", rng.uniform(0.0, 3.0, n))
        add("rebalances", self._assignments(span, instants))
        add("start_time", _started(span))
        delayed = inside.delayed(span.slot)[at]
        add("delayed_length", delayed)
        add("delayed_capacity", max(10000.0, float(np.ceil(inside.delayed(span.slot).max() * 2.5))))
        mine = life.owner[:, at] == span.slot
        paused = life.paused.get(span.slot)
        full = (inside.full(span.slot)[at] > 0.5) * mine.sum(axis=0)
        add("paused_partitions", np.floor(full * rng.uniform(0.6, 1.0, n)) if paused is None else paused[at])
        for broker in BROKERS:
            add("throttle_time", life.throttle[at] * rng.uniform(0.7, 1.3, n), broker=broker)
            add("broker_rtt", life.round_trip[at] * rng.lognormal(0, 0.2, n), broker=broker)

    def _work(self, span: Span, at: np.ndarray, instants: Array, inside: Inside, add: Add) -> None:
        life, rng, n = self.life, self.rng, len(at)
        first = int(np.clip(np.ceil(span.start - life.t[0]), 0, len(life.t) - 1))
        done = inside.done_by(span.slot)
        done = np.where(np.arange(len(done)) >= first, done, 0.0)
        old = span.start <= life.t[0]
        for number, processor in enumerate(life.processors):
            labels = {"topic": self.topic, "processor": processor.name}
            events = done * processor.share
            tries = np.zeros(len(life.t))
            if life.retries is not None and life.retries[0] == span.slot and number == 0:
                _, since, every = life.retries
                tries = np.where(life.after(since), 1 / every, 0.0)
            spent = processor.seconds * processor.slow * inside.noise[number]
            initial = float(1000 + 977 * number) if old else 0.0
            counts = np.floor(initial + np.cumsum(events + tries))
            sums = initial * processor.seconds + np.cumsum((events + tries) * spent)
            add("process_time", counts[at], "count", **labels)
            add("process_time", sums[at], "sum", **labels)
            bad = life.failing[1] * events if life.failing is not None else np.zeros(len(life.t))
            add("processed", np.floor(initial + np.cumsum(events - bad))[at], "ok", **labels)
            if life.retries is not None:
                add("processed", np.floor(np.cumsum(tries))[at], "retry", **labels)
            if life.failing is not None:
                add("processed", np.floor(np.cumsum(bad))[at], life.failing[0], **labels)
            dead = bad if life.failing is not None and life.failing[0] == "dead" else np.zeros(len(life.t))
            add("dead_letters", np.floor(np.cumsum(dead))[at], **labels)
            if not life.has_queues:
                continue
            lengths = inside.queue(span.slot, number)[at]
            for queue in range(processor.queues):
                noisy = np.minimum(
                    rng.poisson(np.full(n, 0.3)) + lengths * rng.uniform(0.93, 1.0, n), processor.capacity
                )
                for slot, which, since in life.full_queues:
                    if (slot, which) == (span.slot, number) and queue == 0:
                        noisy = np.where(instants > -since + 20, processor.capacity * rng.uniform(0.95, 1, n), noisy)
                place = {"processor": processor.name, "queue": str(queue)}
                add("queue_length", np.floor(noisy), **place)
                add("queue_capacity", processor.capacity, **place)

    def _partition(
        self, number: int, at: np.ndarray, stamps: np.ndarray, member: dict[str, str], span: Span, inside: Inside
    ) -> None:
        life, rng, batch, n = self.life, self.rng, self.inside, len(at)
        place = {**member, "topic": self.topic, "partition": number}
        age = inside.ages[number, at]
        batch.add("time_lag", place, stamps, np.where(age > 0, age + rng.uniform(0, 1, n), 0.0))
        batch.add(
            "oldest_incomplete_age", place, stamps, inside.oldest(number, span.slot)[at] + rng.uniform(0, 0.05, n)
        )
        batch.add("fetch_queue_length", place, stamps, np.floor(inside.fetched(number)[at]))
        if not life.has_queues:
            return
        counts = np.cumsum(inside.steps[number])
        sums = np.cumsum(inside.steps[number] * inside.waits(number, span.slot))
        initial = 1000.0
        batch.add("enqueue_time", place, stamps, np.floor(initial + counts[at]), stat="count")
        batch.add("enqueue_time", place, stamps, initial * 5e-5 + sums[at], stat="sum")

    def samples(self) -> pa.Table:
        """Everything."""
        return concat([self.lags.to_arrow(), self.asked.to_arrow(), self.states.to_arrow(), self.inside.to_arrow()])


def _started(span: Span) -> float:
    """Start of a process, in seconds since the epoch; of old ones, some days ago."""
    return END.timestamp() + (span.start if span.start > -1e6 else -86400.0 * (2 + span.slot % 3))


class Inside:
    """What follows inside of the processes: queues, waits, ages of open events."""

    def __init__(self, life: Life) -> None:
        self.life = life
        found = life.offsets
        self.ages = life.ages()
        self.steps = np.maximum(np.diff(found.done, axis=1, prepend=found.done[:, :1]), 0.0)
        # A jump of the position is no work.
        self.steps = np.minimum(self.steps, np.ceil(found.pace) + 1)
        self.backlog = np.maximum(found.produced - found.done, 0.0)
        self.work, self.pace = life.work_pace(), life.member_pace()
        self.noise = [np.exp(life.rng.normal(0, 0.08, len(life.t))) for _ in life.processors]
        self._done: dict[int, Array] = {}

    def _mine(self, slot: int) -> np.ndarray:
        return self.life.owner == slot

    def done_by(self, slot: int) -> Array:
        """Events of each tick."""
        if slot not in self._done:
            self._done[slot] = (self.steps * self._mine(slot)).sum(axis=0)
        return self._done[slot]

    def held(self, slot: int) -> Array:
        """Backlog that presses on the queues of a member: only what is read, and only where processors are the limit."""
        life = self.life
        limited = np.isfinite(life.limit) & (life.limit <= life.offsets.pace + 1e-9)
        pressing = self.backlog * (self._mine(slot) & (life.speed > 0) & ~limited)
        if life.delay:
            return np.zeros(len(life.t))
        return np.asarray(np.where(self.work <= self.pace * 1.0001, pressing.sum(axis=0), 0.0))

    def queue(self, slot: int, number: int) -> Array:
        """Events in one queue of a processor."""
        it = self.life.processors[number]
        own = it.queues / (it.seconds * it.share * it.slow)
        used = np.clip(self.done_by(slot) / own, 0, 0.9)
        idle = used / (1 - used)
        pressed = np.minimum(self.held(slot) * it.share / it.queues, it.capacity)
        return np.asarray(np.where(own <= self.work * 1.12, np.maximum(pressed, idle), idle))

    def full(self, slot: int) -> Array:
        """Share of the fullest queue."""
        return np.asarray(
            np.maximum.reduce([self.queue(slot, i) / it.capacity for i, it in enumerate(self.life.processors)])
        )

    def waits(self, number: int, slot: int) -> Array:
        """Seconds that an event of a partition waits for its place in a queue."""
        life = self.life
        slow = np.minimum(np.minimum(self.backlog[number], 500) / np.maximum(life.offsets.pace[number], 1.0), 30.0)
        waits = np.where(self.full(slot) > 0.9, slow, 5e-5)
        for full_slot, _, since in life.full_queues:
            if full_slot == slot and np.isfinite(life.limit[number, -1]):
                waits = np.where(life.after(since), slow, waits)
        return np.asarray(waits)

    def oldest(self, number: int, slot: int) -> Array:
        """Age of the oldest open event of a partition."""
        life = self.life
        inside = sum(self.queue(slot, i) * it.queues for i, it in enumerate(life.processors))
        age = np.minimum(inside / np.maximum(self.pace, 1e-3), np.maximum(self.backlog[number], 0) * 10.0)
        if life.delay:
            age = np.minimum(self.ages[number], life.delay)
        for full_slot, which, since in life.full_queues:
            if full_slot == slot and np.isfinite(life.limit[number, -1]):
                it = life.processors[which]
                age = np.where(life.after(since), np.minimum(it.capacity * it.seconds, self.ages[number]), age)
        age = np.where(life.speed[number] > 0, age, 0.0)
        if number in life.held:
            age = np.where(life.after(life.held[number]), life.t + life.held[number], age)
        return np.asarray(age)

    def fetched(self, number: int) -> Array:
        """Messages in the client that nobody has polled."""
        life = self.life
        by_thread = (
            (life.thread <= self.pace * 1.0001)
            | ((not life.has_queues) & (self.work <= self.pace * 1.0001))
            | ((life.limit[number] <= life.offsets.pace[number] + 1e-9) & (not life.full_queues))
        )
        waiting = np.minimum(self.backlog[number], 20_000.0)
        return np.asarray(np.where(by_thread & (life.speed[number] > 0), waiting, 0.0))

    def delayed(self, slot: int) -> Array:
        """Events that wait on purpose."""
        if not self.life.delay:
            return np.zeros(len(self.life.t))
        return np.asarray((self.backlog * self._mine(slot)).sum(axis=0))
