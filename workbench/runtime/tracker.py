"""Offset tracker of one partition: which offsets are finished, and which commit is safe.

Offsets in flight are kept in the order in which they were read. A commit never passes the first of them, so a crash repeats work but
loses none.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class OffsetTracker:
    """Tracks one assignment of one partition. Not thread-safe: only its consumer thread calls it.

    Only received offsets count, so gaps (compaction, transaction markers) do not block a commit.

    Attributes:
        anomalies: reports of offsets that were not in flight.
    """

    # By offset: record timestamp in ms, monotonic time at which it was read, the offset behind the record read before it, and how many
    # were read before it.
    _open: dict[int, tuple[int, float, int, int]] = field(default_factory=dict)
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

    def started(self, offset: int, timestamp_ms: int, now: float) -> None:
        """An offset was read and its processing begins.

        Raises:
            ValueError: if it is not above all others: the log has begun anew, and its offsets need a tracker of their own.
        """
        if offset < self._next:
            raise ValueError(f"offset {offset} was read after {self._next - 1}")
        self._open[offset] = (timestamp_ms, now, self._next, self._read)
        self._next = offset + 1
        self._read += 1

    def finished(self, offset: int) -> None:
        """Note that an offset is finished: processed or dead-lettered."""
        if self._open.pop(offset, None) is None:  # a second report
            self.anomalies += 1
        elif offset > self._highest:
            self._highest = offset

    def passed(self, offset: int) -> None:
        """Everything below `offset` was read: offsets without a record of their own here count as finished."""
        self._passed = max(self._passed, offset)

    def committable(self) -> int | None:
        """Offset to commit: one past the last finished offset without a hole before it, or the start offset. None: nothing yet."""
        safe, first = self._committable or 0, next(iter(self._open), None)
        if first is None:
            self._oldest, reach, self._below = None, self._next, self._read
        else:
            timestamp_ms, at, reach, self._below = self._open[first]
            self._oldest = first, timestamp_ms, at
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
