"""Whose turn on Spark it is: one triage at a time, in the order in which they came.

So alerts wait for the few triages that may wait with them (`asked_triages`), and who asks for one waits for a part of a storm,
not for all of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from workbench.errors import DeadlineError


class SparkTurns:
    """Turns of the threads of one server."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._line: deque[object] = deque()

    @contextmanager
    def turn(self, *, seconds: float | None = None) -> Iterator[None]:
        """Wait for a turn, and have it until the end of the block.

        Args:
            seconds: to wait at most; None: as long as it takes.

        Raises:
            DeadlineError: if it did not come in that time.
        """
        mine = object()
        with self._changed:
            self._line.append(mine)
            if not self._changed.wait_for(lambda: self._line[0] is mine, seconds):
                self._line.remove(mine)
                raise DeadlineError(f"The server has judged other groups for {seconds:g} s.")
        try:
            yield
        finally:
            with self._changed:
                self._line.popleft()
                self._changed.notify_all()
