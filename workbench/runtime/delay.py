"""The bounded delay queue: events that must not be handled before an instant (seed 000, at most a minute)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from workbench.runtime.event import Event


class DelayQueue:
    """A bounded heap by due time. Its consumer thread alone uses it; any thread may ask for its length."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._heap: list[tuple[int, int, Event]] = []
        self._sequence = 0  # events that are due at the same instant come out as they came in
        # The latest instant of each key's waiting events, and how many they are: event times may jump back, the order of a key may not.
        self._keys: dict[tuple[str, bytes], tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def fill(self) -> float:
        """How full it is, 0 to 1."""
        return len(self._heap) / self.capacity

    def room(self) -> int:
        """See `Target`."""
        return self.capacity - len(self._heap)

    def take_in(self, events: Sequence[Event]) -> Sequence[Event]:
        """See `Target`."""
        for taken, event in enumerate(events):
            if not self.put(event):
                return events[taken:]
        return ()

    def put(self, event: Event) -> bool:
        """Take an event until its `delay_until_ms`; False if the queue is full."""
        if len(self._heap) >= self.capacity or event.delay_until_ms is None:
            return False
        self._sequence += 1
        latest, waiting = self._keys.get((event.type, event.key), (event.delay_until_ms, 0))
        due = max(latest, event.delay_until_ms)
        self._keys[event.type, event.key] = (due, waiting + 1)
        heapq.heappush(self._heap, (due, self._sequence, event))
        return True

    def has(self, event: Event) -> bool:
        """Whether another event of the same type and key waits here."""
        return (event.type, event.key) in self._keys

    def due(self, now_ms: float) -> list[Event]:
        """The events whose instant has come, earliest first."""
        ready = []
        while self._heap and self._heap[0][0] <= now_ms:
            event = heapq.heappop(self._heap)[2]
            latest, waiting = self._keys.pop((event.type, event.key))
            if waiting > 1:
                self._keys[event.type, event.key] = (latest, waiting - 1)
            event.delay_until_ms = None  # its time has come; it must not be sent back behind a later one of its key
            ready.append(event)
        return ready

    def discard(self, unwanted: Callable[[Event], bool]) -> None:
        """Drop events (of a partition that was taken away)."""
        self._heap = [entry for entry in self._heap if not unwanted(entry[2])]
        heapq.heapify(self._heap)
        self._keys.clear()
        for due, _, event in self._heap:
            latest, waiting = self._keys.get((event.type, event.key), (due, 0))
            self._keys[event.type, event.key] = (max(latest, due), waiting + 1)
