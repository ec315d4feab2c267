"""The bounded queue between consumer threads and the processor threads that share it.

FIFO, with one exception: a key is *parked* while one of its events waits for a retry, is in flight in another thread, or is held by a
handler that exceeded its timeout. Later events of a parked key wait; events of other keys pass. An event without a key has its
partition as its key: `Event.lane`, which no handler changes.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Sequence

from workbench.runtime.event import Event, Lane


class KeyedQueue:
    """Bounded, keyed queue for many writers and one or more readers; two events of one key are never out at once.

    Waiting, parked and retrying events all count towards `capacity`. Parked events of one key may fill at most half of it, so a
    poison record cannot block the other keys.
    """

    def __init__(self, capacity: int, *, clock: Callable[[], float], readers: int = 1) -> None:
        self.capacity = capacity
        self._parked_limit = max(1, capacity // 2)
        self._clock = clock
        self._lock = threading.Lock()
        self._readable = threading.Condition(self._lock)
        self._waiting: deque[Event] = deque()
        # What the only reader has taken over at once, and goes through without the lock; whoever parks a key gives it back. It counts
        # as waiting. Empty with several readers: a slow event would hold up those behind it.
        self._run: deque[Event] = deque()
        self._parked: dict[Lane, deque[Event]] = {}
        self._parked_events = 0
        self._retries: list[tuple[float, int, Event]] = []
        self._sequence = 0  # breaks ties between retries with the same due time
        self._closed = False
        # Keys that are out, only with several readers; with a single reader no conflict is possible.
        self._out: set[Lane] | None = set() if readers > 1 else None

    def __len__(self) -> int:
        """Number of events in the queue."""
        return len(self._run) + len(self._waiting) + self._parked_events + len(self._retries)

    def fill(self) -> float:
        """Waiting events as a share of the capacity that parked events leave."""
        room = self.capacity - self._parked_events - len(self._retries)
        return (len(self._run) + len(self._waiting)) / room if room > 0 else 1.0

    def put(self, events: Sequence[Event]) -> list[Event]:
        """Add events in order while there is room; return the rest, in order.

        After the first rejected event all later ones are rejected, to keep the order.
        """
        refused: list[Event] = []
        with self._lock:
            room = self.capacity - len(self)
            if len(events) <= room and not self._parked:
                self._waiting.extend(events)
                events = ()  # the usual case
            for event in events:
                line = self._parked.get(event.lane) if self._parked else None
                if refused or room <= 0 or (line is not None and len(line) >= self._parked_limit):
                    refused.append(event)
                    continue
                room -= 1
                if line is None:
                    self._waiting.append(event)
                else:
                    line.append(event)
                    self._parked_events += 1
            if self._out is None:
                self._readable.notify()
            else:
                self._readable.notify_all()
        return refused

    def take(self, timeout: float) -> Event | None:
        """Remove and return the next event: a due retry, or else the oldest event of a key that is not parked.

        Returns None after `timeout` seconds without one, or immediately if the queue is closed and has no ready events.
        """
        if self._run:  # the usual case
            return self._run.popleft()
        with self._lock:
            if self._waiting and not self._retries and self._out is None:
                self._run, self._waiting = self._waiting, self._run
                return self._run.popleft()
            deadline = self._clock() + timeout
            while True:
                event = self._next()
                if event is not None or self._closed:
                    return event
                now = self._clock()
                wake = min(deadline, self._retries[0][0]) if self._retries else deadline
                if now >= deadline:
                    return None
                self._readable.wait(max(0.0, wake - now))

    def _next(self) -> Event | None:
        if self._retries and self._retries[0][0] <= self._clock():
            return heapq.heappop(self._retries)[2]
        if self._out is None:
            return self._waiting.popleft() if self._waiting else None
        while self._waiting:
            event = self._waiting.popleft()
            if event.lane not in self._out:
                self._out.add(event.lane)
                return event
            self._parked.setdefault(event.lane, deque()).append(event)
            self._parked_events += 1
        return None

    def park(self, event: Event, *, after: float | None) -> None:
        """Park the key of `event`; with `after`, the event itself is retried after this number of seconds.

        Without `after`, the key stays parked until `release` (a handler that exceeded its timeout still holds it).
        """
        with self._lock:
            # No reader is about to take from it: the only one parks its own event, or is still in the handler of this one.
            self._waiting.extendleft(reversed(self._run))
            self._run.clear()
            if event.lane not in self._parked:
                # Earlier events of the key must stay before later ones, so move them to the parked ones now.
                line = deque(waiting for waiting in self._waiting if waiting.lane == event.lane)
                if line:
                    self._waiting = deque(waiting for waiting in self._waiting if waiting.lane != event.lane)
                    self._parked_events += len(line)
                self._parked[event.lane] = line
            if after is not None:
                self._sequence += 1
                heapq.heappush(self._retries, (self._clock() + after, self._sequence, event))
            self._readable.notify()

    def release(self, key: Lane) -> None:
        """Release the events of a parked key, before later ones."""
        if self._out is None and not self._parked:  # the caller has parked the key, so an empty result is reliable
            return
        with self._lock:
            if self._out is not None:
                self._out.discard(key)
            line = self._parked.pop(key, None)
            if line:
                self._parked_events -= len(line)
                self._waiting.extendleft(reversed(line))
                self._readable.notify()

    def discard(self, unwanted: Callable[[Event], bool]) -> int:
        """Drop events (of a revoked partition), except those that the only reader goes through; return their number."""
        with self._lock:
            before = len(self)
            self._waiting = deque(event for event in self._waiting if not unwanted(event))
            retried = {entry[2].lane for entry in self._retries if unwanted(entry[2])}
            self._retries = [entry for entry in self._retries if not unwanted(entry[2])]
            heapq.heapify(self._retries)
            for key, line in list(self._parked.items()):
                kept = deque(event for event in line if not unwanted(event))
                self._parked_events -= len(line) - len(kept)
                self._parked[key] = kept
                if key in retried:  # nothing would release it later
                    if self._out is not None:
                        self._out.discard(key)
                    del self._parked[key]
                    self._parked_events -= len(kept)
                    self._waiting.extendleft(reversed(kept))
            return before - len(self)

    def close(self) -> None:
        """Close the queue and wake its readers."""
        with self._lock:
            self._closed = True
            self._readable.notify_all()
