"""Long work beside the notebook: one thread at a time, progress, and a Cancel that takes effect at once.

Callbacks of widgets run on the kernel's main thread and block each other, so a Cancel button would wait for the very work that it
is to end (measured with JupyterLab 4.6 and ipykernel 7.4). Work that is cancelled may still be inside of a call that cannot be broken
off; its results are then dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class CancelledError(Exception):
    """The work was cancelled; raised inside of its own thread."""


class Work:
    """One run of something long.

    Attributes:
        steps: how many steps it announces in all.
    """

    def __init__(self, tell: Callable[[int, str], None]) -> None:
        self._tell = tell
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._done = 0

    def step(self, title: str) -> None:
        """Announce the next step.

        Raises:
            CancelledError: if it is not wanted any more.
        """
        self.show(lambda: self._tell(self._done, title))
        self._done += 1

    def show(self, update: Callable[[], Any]) -> None:
        """Change what is shown, unless the work has been cancelled: never after `cancel` has returned.

        Raises:
            CancelledError: if it has.
        """
        with self._lock:
            if self._cancelled.is_set():
                raise CancelledError
            update()

    def cancel(self) -> None:
        """Not wanted any more."""
        with self._lock:
            self._cancelled.set()


class Worker:
    """Runs one piece of work at a time in a thread of its own."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._work: Work | None = None

    @property
    def busy(self) -> bool:
        """Whether something runs that has not been cancelled."""
        return self._work is not None

    def start(
        self,
        run: Callable[[Work], None],
        *,
        tell: Callable[[int, str], None],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        """Begin; `ended` is called with the error, or None. Neither it nor anything else is called once the work was cancelled."""
        self.cancel()
        work = self._work = Work(tell)

        def body() -> None:
            error: BaseException | None = None
            try:
                run(work)
            except CancelledError:
                return
            except BaseException as raised:  # a thread has nobody else to tell
                error = raised

            def finish() -> None:
                self._work = None
                ended(error)

            try:
                work.show(finish)
            except CancelledError:
                return

        self._thread = threading.Thread(target=body, name="workbench-panel", daemon=True)
        self._thread.start()

    def cancel(self) -> bool:
        """Drop what runs; True if there was something."""
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
        return work is not None

    def wait(self, seconds: float) -> None:
        """Wait for the thread; for tests and for notebooks that run without anybody there."""
        if self._thread is not None:
            self._thread.join(seconds)
