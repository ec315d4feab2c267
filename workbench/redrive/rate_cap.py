"""Cap on records and bytes per second."""

from __future__ import annotations

import time
from collections.abc import Callable

_CATCH_UP_SECONDS = 0.25  # a pause of this length is made up for, so commits do not lower the mean; a longer one is not
_SLICE_SECONDS = 0.01


class SendPace:
    """Keeps the mean rate at a cap. Records and bytes are two schedules; the later one counts."""

    def __init__(
        self,
        records_per_second: float | None,
        bytes_per_second: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_record = 1 / records_per_second if records_per_second else 0.0
        self._per_byte = 1 / bytes_per_second if bytes_per_second else 0.0
        self._clock, self._sleep = clock, sleep
        self._record_due = self._byte_due = 0.0
        self._has_begun = False

    @property
    def is_capped(self) -> bool:
        """Whether there is a cap at all."""
        return bool(self._per_record or self._per_byte)

    def sent(self, size: int) -> None:
        """Count one record."""
        if not self.is_capped:
            return
        now = self._clock()
        if not self._has_begun:
            self._has_begun = True
            self._record_due = self._byte_due = now
        oldest = now - _CATCH_UP_SECONDS
        self._record_due = max(self._record_due, oldest) + self._per_record
        self._byte_due = max(self._byte_due, oldest) + self._per_byte * size

    def debt(self) -> float:
        """Seconds until the next record may be sent; 0 for a time that is too short to wait for."""
        if not self._has_begun:
            return 0.0
        ahead = max(self._record_due, self._byte_due) - self._clock()
        return ahead if ahead > _SLICE_SECONDS else 0.0

    def pay(self) -> None:
        """Wait for that time."""
        if (ahead := self.debt()) > 0:
            self._sleep(ahead)
