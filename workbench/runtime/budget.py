"""A cap on bytes per second, for a replay that must not take the cluster's bandwidth from the others."""

from __future__ import annotations

import threading
from collections.abc import Callable

_MOST_WAIT_SECONDS = 1.0  # look again at least so often, so that a poll is never far away
_BURST_SECONDS = 0.25  # what may be taken at once after an idle time, as a share of the rate


class ByteBudget:
    """A token bucket that several consumer threads share; thread-safe.

    A consumer asks `wait_seconds` before it polls and tells `spent` after: a batch may overdraw the budget, and the next one waits
    until that is paid back, so the mean stays at the cap whatever the size of a batch.
    """

    def __init__(self, bytes_per_second: float, *, clock: Callable[[], float]) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = bytes_per_second * _BURST_SECONDS
        self._at = clock()
        self._mean_record_bytes = 1000.0

    def wait_seconds(self) -> float:
        """How long not to read; 0 if the budget allows a batch."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._rate * _BURST_SECONDS, self._tokens + (now - self._at) * self._rate)
            self._at = now
            return 0.0 if self._tokens > 0 else min(_MOST_WAIT_SECONDS, -self._tokens / self._rate)

    def records(self, limit: int) -> int:
        """How many records to ask for, so that one batch does not take much more than a burst."""
        return max(1, min(limit, int(self._rate * _BURST_SECONDS / self._mean_record_bytes)))

    def spent(self, records: int, size: int) -> None:
        """A batch was read."""
        if records == 0:
            return
        with self._lock:
            self._tokens -= size
            self._mean_record_bytes += 0.2 * (size / records - self._mean_record_bytes)
