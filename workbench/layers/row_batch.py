"""Rows on their way to where an audit reads them."""

from __future__ import annotations

import threading


class RowBatch:
    """Some rows; over when each was delivered or given up.

    Attributes:
        failed: whether one was given up.
    """

    __slots__ = ("_left", "_lock", "failed")

    def __init__(self, rows: int) -> None:
        self._left, self._lock, self.failed = rows, threading.Lock(), False

    @property
    def is_over(self) -> bool:
        """Whether none is on its way any more."""
        return self._left <= 0

    def one_less(self, *, failed: bool = False) -> None:
        """One row is delivered, or given up; any thread may call it."""
        with self._lock:
            self._left -= 1
            self.failed = self.failed or failed
