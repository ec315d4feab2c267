"""Offset tracker of one partition: which offsets are finished, and which commit is safe.

Two min-heaps hold the offsets in flight and the finished ones; comparing their tops has three cases. A commit never passes an
unfinished offset, so a crash repeats work but loses none.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field


@dataclass(slots=True)
class OffsetTracker:
    """Tracks one assignment of one partition. Not thread-safe: only its consumer thread calls it.

    Only received offsets count, so gaps (compaction, transaction markers) do not block a commit.
    """

    # (offset, record timestamp in ms, monotonic time at which it was read)
    _processing: list[tuple[int, int, float]] = field(default_factory=list)
    _finished: list[int] = field(default_factory=list)
    _committable: int | None = None
    _highest: int = -1
    _passed: int = 0
    anomalies: int = 0

    def begin(self, offset: int) -> None:
        """Set the start offset; it may be committed before anything is read."""
        self._committable = offset

    def started(self, offset: int, timestamp_ms: int, now: float) -> None:
        """An offset was read and its processing begins."""
        entry = (offset, timestamp_ms, now)
        if offset > self._highest:  # behind all others a heap just grows
            self._highest = offset
            self._processing.append(entry)
        else:
            heapq.heappush(self._processing, entry)

    def finished(self, offset: int) -> None:
        """Note that an offset is finished: processed or dead-lettered."""
        heapq.heappush(self._finished, offset)

    def passed(self, offset: int) -> None:
        """Everything below `offset` was read: offsets without a record of their own here count as finished."""
        self._passed = max(self._passed, offset)

    def committable(self) -> int | None:
        """Offset to commit: one past the last finished offset without a hole before it, or the start offset. None: nothing yet."""
        processing, finished = self._processing, self._finished
        while finished:
            if processing and processing[0][0] < finished[0]:
                break  # the oldest is still in flight: later offsets must wait
            if processing and processing[0][0] == finished[0]:
                offset = heapq.heappop(processing)[0]
                heapq.heappop(finished)
                self._committable = offset + 1 if self._committable is None else max(self._committable, offset + 1)
            else:
                # Finished, but not in flight: a replay to an earlier state, or a second report. Drop it.
                heapq.heappop(finished)
                self.anomalies += 1
        if (
            self._passed
            and self._passed > (self._committable or 0)
            and (not processing or processing[0][0] >= self._passed)
        ):
            self._committable = self._passed
        return self._committable

    @property
    def committable_so_far(self) -> int | None:
        """Last result of `committable`; any thread may read it."""
        return self._committable

    @property
    def highest_finished(self) -> int:
        """Highest finished offset, or the one before the start offset; -1 if there is neither."""
        below = -1 if self._committable is None else self._committable - 1
        return max(below, max(self._finished, default=-1))

    @property
    def uncommitted(self) -> int:
        """Number of offsets that were read and are not committable."""
        return len(self._processing)

    @property
    def oldest(self) -> tuple[int, int, float] | None:
        """(offset, record timestamp in ms, monotonic time of reading) of the oldest offset in flight; it blocks the commit.

        Any thread may read it (a scrape does): it is as recent as the last `committable`.
        """
        try:
            return self._processing[0]
        except IndexError:
            return None
