"""Offset tracker of one partition: which offsets are finished, and which commit is safe.

Offsets in flight are kept in the order in which they were read. A commit never passes the first of them, so a crash repeats work but
loses none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class OffsetTracker:
    """Tracks one assignment of one partition. Not thread-safe: only its consumer thread calls it.

    Only received offsets count, so gaps (compaction, transaction markers) do not block a commit.

    Attributes:
        anomalies: reports of offsets that were not in flight.
    """

    _open: dict[int, int] = field(default_factory=dict)  # record timestamp in ms by offset, in the order of the log
    # What was read together: its offsets, the monotonic time of that, the offset behind the record read before it, and how many were
    # read before it. One entry for many records: those of each record follow from its place.
    _runs: deque[tuple[Sequence[int], float, int, int]] = field(default_factory=deque)
    _read: int = 0
    _next: int = 0  # the offset behind the last one that was read
    _passed: int = 0
    _below: int = 0  # number of those read below the first in flight
    _committable: int | None = None
    _oldest: tuple[int, int, float] | None = None
    _highest: int = -1  # of those that are finished
    anomalies: int = 0

    def begin(self, offset: int) -> None:
        """Set the start offset; it may be committed before anything is read."""
        self._committable = offset

    def started(self, offsets: Sequence[int], timestamps_ms: Sequence[int], now: float) -> None:
        """Offsets were read together, in ascending order, and their processing begins.

        Raises:
            ValueError: if they are not above all others: the log has begun anew, and its offsets need a tracker of their own.
        """
        if offsets[0] < self._next:
            raise ValueError(f"offset {offsets[0]} was read after {self._next - 1}")
        self._open.update(zip(offsets, timestamps_ms, strict=True))
        self._runs.append((offsets, now, self._next, self._read))
        self._next = offsets[-1] + 1
        self._read += len(offsets)

    def finished(self, offsets: Sequence[int]) -> None:
        """Note that offsets are finished: processed or dead-lettered."""
        pop = self._open.pop
        found = [offset for offset in offsets if pop(offset, None) is not None]
        self.anomalies += len(offsets) - len(found)  # second reports
        self._highest = max(self._highest, max(found, default=-1))

    def passed(self, offset: int) -> None:
        """Everything below `offset` was read: offsets without a record of their own here count as finished."""
        self._passed = max(self._passed, offset)

    def committable(self) -> int | None:
        """Offset to commit: one past the last finished offset without a hole before it, or the start offset. None: nothing yet."""
        safe, first, runs = self._committable or 0, next(iter(self._open), None), self._runs
        while runs and (first is None or runs[0][0][-1] < first):
            runs.popleft()
        if first is None:
            self._oldest, reach, self._below = None, self._next, self._read
        else:
            offsets, at, reach, self._below = runs[0]
            if place := bisect_left(offsets, first):
                reach, self._below = offsets[place - 1] + 1, self._below + place
            self._oldest = first, self._open[first], at
        if first is None or first >= self._passed:
            reach = max(reach, self._passed)
        if reach > safe:
            self._committable = reach
        return self._committable

    @property
    def committable_so_far(self) -> int | None:
        """Last result of `committable`; any thread may read it."""
        return self._committable

    @property
    def highest_finished(self) -> int:
        """Highest finished offset, or the one before the offset to commit; -1 if there is neither."""
        return max(self._highest, (self._committable or 0) - 1)

    @property
    def uncommitted(self) -> int:
        """Number of offsets that were read and are not committable; any thread may read it."""
        return self._read - self._below

    @property
    def oldest(self) -> tuple[int, int, float] | None:
        """(offset, record timestamp in ms, monotonic time of reading) of the oldest offset in flight; it blocks the commit.

        Any thread may read it (a scrape does): it is as recent as the last `committable`.
        """
        return self._oldest
