"""The bounded delay queue: events that must not be handled before an instant (seed 000, at most a minute)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence

from workbench.runtime.event import Event

_Entry = tuple[float, int, Hashable, Event]  # due instant, number (breaks ties), key, event


class DelayQueue:
    """A bounded heap by due time. Its consumer thread alone uses it; any thread may ask for its length.

    It knows the keys of all events on their way through it: those it holds, and those that stand in line outside while it is full.
    Whoever is of such a key must go through it, too, or it would overtake.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._heap: list[_Entry] = []
        self._line: dict[int, _Entry] = {}  # of events outside, by identity
        self._number = 0  # events that are due at the same instant come out as they came in
        # The latest instant of each key's events, and how many they are: event times may jump back, the order of a key may not.
        self._keys: dict[Hashable, tuple[float, int]] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def fill(self) -> float:
        """How full it is, 0 to 1."""
        return len(self._heap) / self.capacity

    def room(self) -> int:
        """See `Target`."""
        return self.capacity - len(self._heap)

    @property
    def is_on_the_way(self) -> bool:
        """Whether any event is on its way through it."""
        return bool(self._keys)

    def has(self, key: Hashable) -> bool:
        """Whether an event of this key is on its way through it."""
        return key in self._keys

    def admit(self, event: Event, *, key: Hashable, due: float) -> bool:
        """Take an event until `due` (an instant of the caller's clock), or until the last one of its key is due.

        False if there is no room, or others stand in line: the event stands in line from now on, and is handed in by `take_in`.
        """
        latest, waiting = self._keys.get(key, (due, 0))
        due = max(latest, due)
        self._keys[key] = (due, waiting + 1)
        self._number += 1
        entry = (due, self._number, key, event)
        if self._line or not self.room():
            self._line[id(event)] = entry
            return False
        heapq.heappush(self._heap, entry)
        return True

    def take_in(self, events: Sequence[Event]) -> Sequence[Event]:
        """See `Target`: the events that stand in line, in its order."""
        for taken, event in enumerate(events):
            if not self.room():
                return events[taken:]
            heapq.heappush(self._heap, self._line.pop(id(event)))
        return ()

    def due(self, now: float) -> list[Event]:
        """The events whose instant has come, earliest first; those of one key in the order in which they were admitted."""
        ready = []
        while self._heap and self._heap[0][0] <= now:
            _, _, key, event = heapq.heappop(self._heap)
            latest, waiting = self._keys.pop(key)
            if waiting > 1:
                self._keys[key] = (latest, waiting - 1)
            ready.append(event)
        return ready

    def discard(self, unwanted: Callable[[Event], bool]) -> None:
        """Drop events (of a partition that was taken away), also those that stand in line."""
        self._heap = [entry for entry in self._heap if not unwanted(entry[3])]
        heapq.heapify(self._heap)
        self._line = {number: entry for number, entry in self._line.items() if not unwanted(entry[3])}
        self._keys.clear()
        for due, _, key, _ in (*self._heap, *self._line.values()):
            latest, waiting = self._keys.get(key, (due, 0))
            self._keys[key] = (max(latest, due), waiting + 1)
