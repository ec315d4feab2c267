"""The bounded delay queue: holds events until their due time, at most a minute."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence

from workbench.runtime.event import Event

_Entry = tuple[float, int, Hashable, Event]  # due time, number (breaks ties), key, event


class DelayQueue:
    """Bounded heap by due time. Only its consumer thread uses it; any thread may read its length.

    It knows the keys of the events it holds, and of those that wait outside while it is full. Later events of such a key must go
    through it as well; otherwise they would overtake.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._heap: list[_Entry] = []
        self._line: dict[int, _Entry] = {}  # of waiting events outside, by identity
        self._number = 0  # events with the same due time keep their order
        # Latest due time and number of each key's events: event times may go back, the order of a key must not.
        self._keys: dict[Hashable, tuple[float, int]] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def fill(self) -> float:
        """Fill, 0 to 1."""
        return len(self._heap) / self.capacity

    def room(self) -> int:
        """See `Target`."""
        return self.capacity - len(self._heap)

    @property
    def is_on_the_way(self) -> bool:
        """Whether any event is in it or waits for it."""
        return bool(self._keys)

    def has(self, key: Hashable) -> bool:
        """Whether an event of this key is in it or waits for it."""
        return key in self._keys

    def admit(self, event: Event, *, key: Hashable, due: float) -> bool:
        """Hold an event until `due` (of the caller's clock), or until the last one of its key is due.

        Returns False if there is no room or others wait already: the event then waits, and `take_in` adds it later.
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
        """See `Target`: adds waiting events, in their order."""
        for taken, event in enumerate(events):
            if not self.room():
                return events[taken:]
            heapq.heappush(self._heap, self._line.pop(id(event)))
        return ()

    def due(self, now: float) -> list[Event]:
        """Remove and return the events that are due, earliest first; events of one key keep their order."""
        ready = []
        while self._heap and self._heap[0][0] <= now:
            _, _, key, event = heapq.heappop(self._heap)
            latest, waiting = self._keys.pop(key)
            if waiting > 1:
                self._keys[key] = (latest, waiting - 1)
            ready.append(event)
        return ready

    def discard(self, unwanted: Callable[[Event], bool]) -> None:
        """Drop events (of a revoked partition), including waiting ones."""
        self._heap = [entry for entry in self._heap if not unwanted(entry[3])]
        heapq.heapify(self._heap)
        self._line = {number: entry for number, entry in self._line.items() if not unwanted(entry[3])}
        self._keys.clear()
        for due, _, key, _ in (*self._heap, *self._line.values()):
            latest, waiting = self._keys.get(key, (due, 0))
            self._keys[key] = (max(latest, due), waiting + 1)
