"""Limit on bytes per second, so that a replay does not use the bandwidth of live consumers."""

from __future__ import annotations

import threading
from collections.abc import Callable

_MOST_WAIT_SECONDS = 1.0  # longest wait, so that polls stay frequent
_LONGEST_WITHOUT_POLL_SECONDS = 5.0
_STEP_SECONDS = 0.02
_BURST_SECONDS = 0.25  # largest burst after an idle time, as a share of the rate


class ByteBudget:
    """A token bucket that several consumer threads share; thread-safe.

    A consumer calls `wait_seconds` before a poll and `spent` after it. A batch may overdraw the budget; the next one then waits until
    that is paid back, so the mean stays at the limit for any batch size.
    """

    def __init__(self, bytes_per_second: float, *, clock: Callable[[], float]) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = bytes_per_second * _BURST_SECONDS
        self._at = clock()
        self._mean_record_bytes = 1000.0

    def wait_seconds(self) -> float:
        """Seconds to wait before the next read; 0 if the budget allows a batch."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._rate * _BURST_SECONDS, self._tokens + (now - self._at) * self._rate)
            self._at = now
            return 0.0 if self._tokens > 0 else min(_MOST_WAIT_SECONDS, -self._tokens / self._rate)

    def holds_off(self, wait: Callable[[float], object], *, since_poll: float) -> bool:
        """Wait briefly if the budget forbids reading; but one record may exceed it, and a member must poll now and then."""
        seconds = self.wait_seconds()
        if seconds <= 0 or since_poll > _LONGEST_WITHOUT_POLL_SECONDS:
            return False
        wait(min(seconds, _STEP_SECONDS))
        return True

    def records(self, limit: int) -> int:
        """Number of records to ask for, so that one batch is not much larger than a burst."""
        return max(1, min(limit, int(self._rate * _BURST_SECONDS / self._mean_record_bytes)))

    def spent(self, records: int, size: int) -> None:
        """Subtract a batch from the budget."""
        if records == 0:
            return
        with self._lock:
            self._tokens -= size
            self._mean_record_bytes += 0.2 * (size / records - self._mean_record_bytes)
