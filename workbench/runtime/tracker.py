"""The State Manager of one partition: which offsets are done, and up to where a commit is safe.

Source: seed document 000, "StateManager": two min-heaps, of what is being processed and of what is finished, and three cases of
their tops. A commit never passes an unfinished offset, so a crash repeats work and loses none.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field


@dataclass(slots=True)
class OffsetTracker:
    """Tracks one partition from one assignment to its end. Not thread-safe: its consumer thread alone calls it.

    Only offsets that were really received count, so gaps (compaction, transaction markers) hold nothing up.
    """

    # (offset, record timestamp in ms, monotonic time at which it was read)
    _processing: list[tuple[int, int, float]] = field(default_factory=list)
    _finished: list[int] = field(default_factory=list)
    _committable: int | None = None
    _highest: int = -1
    anomalies: int = 0

    def begin(self, offset: int) -> None:
        """Nothing before this offset is to be done, so it may be committed before anything is read."""
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
        """An offset is done, or has failed for good."""
        heapq.heappush(self._finished, offset)

    def committable(self) -> int | None:
        """The offset to commit: the one after the last that is done without a hole before it, or the beginning. None: nothing yet."""
        processing, finished = self._processing, self._finished
        while finished:
            if processing and processing[0][0] < finished[0]:
                break  # the oldest is still at work: what lies behind it must wait
            if processing and processing[0][0] == finished[0]:
                offset = heapq.heappop(processing)[0]
                heapq.heappop(finished)
                self._committable = offset + 1 if self._committable is None else max(self._committable, offset + 1)
            else:
                # Finished, but not (or no more) in processing: a replay to an earlier state, or a second report. Drop it.
                heapq.heappop(finished)
                self.anomalies += 1
        return self._committable

    @property
    def committable_so_far(self) -> int | None:
        """What `committable` last said; any thread may ask, since it changes nothing."""
        return self._committable

    @property
    def highest_finished(self) -> int:
        """The highest offset that is done, or the one before the beginning; -1 if there is neither."""
        below = -1 if self._committable is None else self._committable - 1
        return max(below, max(self._finished, default=-1))

    @property
    def uncommitted(self) -> int:
        """Offsets that were read and are not behind the committable one."""
        return len(self._processing)

    @property
    def oldest(self) -> tuple[int, int, float] | None:
        """(offset, record timestamp in ms, monotonic time of reading) of the oldest one at work; it holds the commit back.

        Any thread may look (a scrape does): it reads one element and changes nothing, and is as fresh as the last `committable`.
        """
        try:
            return self._processing[0]
        except IndexError:
            return None
