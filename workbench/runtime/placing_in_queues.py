"""Placement of events in their queues: in log order, and through the delay queue if they are not due yet.

Events without room are held here and count towards their partition, which pauses when it has too many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, islice
from operator import attrgetter

from workbench.runtime.config import RuntimeConfig
from workbench.runtime.delay_queue import DelayQueue
from workbench.runtime.event import Event
from workbench.runtime.partition_state import EventTarget
from workbench.runtime.processors import Processors, Slot
from workbench.runtime.runtime_metrics import RuntimeMetrics


class Placing:
    """Places the events of one consumer thread; only that thread calls it."""

    def __init__(
        self,
        config: RuntimeConfig,
        processors: Processors,
        metrics: RuntimeMetrics,
        *,
        give_up: Callable[[Event, str], None],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self.delayed = DelayQueue(config.delay_capacity)
        self._group = config.group
        self._delay_max_seconds = config.delay_max_seconds
        self._processors = processors
        self._metrics = metrics
        self._give_up = give_up
        self._clock = clock
        self._wall_clock = wall_clock
        self._held: dict[EventTarget, deque[Event]] = {}  # events without room, in order, by their full target

    @property
    def is_holding(self) -> bool:
        """Whether an event waits for room."""
        return bool(self._held)

    def go_on(self) -> None:
        """Place events that are now due, and those that had no room."""
        self._enqueue(self.delayed.due(self._clock()), are_due=True)
        self._place_held()

    def place(self, events: Iterable[Event]) -> None:
        """Put events in their queues, in order; events without room are held, and may pause their partition."""
        self._enqueue(events, are_due=False)

    def _is_delayed(self, event: Event) -> bool:
        """Put an event in the delay queue if it is not due yet or an earlier one of its key is there; return whether that happened.

        The due time is fixed now on the monotonic clock: a jump of the wall clock changes nothing.
        """
        pool = self._processors.pool_for(event.type)
        if pool is None:
            return False
        wait = 0.0 if event.delay_until_ms is None else event.delay_until_ms / 1000 - self._wall_clock()
        key = (pool.name, event.lane)
        if wait <= 0 and not self.delayed.has(key):
            return False
        due = self._clock() + min(max(0.0, wait), self._delay_max_seconds)
        if not self.delayed.admit(event, key=key, due=due):
            self._hold(self.delayed, event)
        return True

    def _enqueue(self, events: Iterable[Event], *, are_due: bool) -> None:
        batches: dict[Slot, list[Event]] = {}
        others_are_delayed = self.delayed.is_on_the_way  # read once: every event takes this path
        pool_for, held = self._processors.pool_for, self._held
        for event in events:
            if not are_due and (event.delay_until_ms is not None or others_are_delayed) and self._is_delayed(event):
                others_are_delayed = True
                continue
            pool = pool_for(event.type)
            if pool is None:  # an event type without a processor must not block the partition
                self._metrics.undecodable.labels(self._group, event.record.topic).inc()
                self._give_up(event, "no_processor")
                continue
            slot = pool.slot_for(event.lane)
            if slot in held:
                self._hold(slot, event)  # behind the other events without room, or it would overtake one of its key
            elif (batch := batches.get(slot)) is not None:
                batch.append(event)
            else:
                batches[slot] = [event]
        for slot, batch in batches.items():
            refused = slot.take_in(batch)
            self._observe_entry(batch, refused)
            for event in refused:
                self._hold(slot, event)

    def _observe_entry(self, batch: Sequence[Event], refused: Sequence[Event]) -> None:
        now = self._clock()
        if refused:
            batch = batch[: len(batch) - len(refused)]  # rejected events are always the end of a batch
        for owner, events in groupby(batch, key=attrgetter("owner")):
            owner.enqueue_time.observe([now - event.decoded_at for event in events])

    def _place_held(self) -> None:
        for target, waiting in list(self._held.items()):
            batch = list(islice(waiting, target.room()))
            if not batch:
                continue
            refused = target.take_in(batch)
            for _ in range(len(batch) - len(refused)):
                waiting.popleft().owner.held_events -= 1
            if target is not self.delayed:
                self._observe_entry(batch, refused)
            if not waiting:
                del self._held[target]

    def _hold(self, target: EventTarget, event: Event) -> None:
        """Hold an event for which `target` has no room, behind the others of that target, across partitions: first in, first out.
        Otherwise a partition that is always last would look stuck."""
        self._held.setdefault(target, deque()).append(event)
        event.owner.held_events += 1
        event.owner.blocked_by.add(target)

    def discard_revoked(self) -> None:
        """Drop the events of revoked partitions, here and in the queues."""
        for target, waiting in list(self._held.items()):
            kept = deque(event for event in waiting if not event.owner.revoked)
            self._held[target] = kept
            if not kept:
                del self._held[target]
        self.delayed.discard(lambda event: event.owner.revoked)
        for pool in self._processors:
            for slot in pool.slots:
                slot.queue.discard(lambda event: event.owner.revoked)
