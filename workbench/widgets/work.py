"""Long work beside the notebook: one thread at a time, progress, and a Cancel that takes effect at once.

Callbacks of widgets run on the kernel's main thread and block each other, so a Cancel button would wait for the very work that it
is to end (measured with JupyterLab 4.6 and ipykernel 7.4). Work that is cancelled may still be inside of a call that cannot be broken
off; its results are then dropped. Work that changes something calls `disable_cancel` before it does, and cannot be cancelled any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from workbench.errors import GuardError


class CancelledError(Exception):
    """The work was cancelled; raised inside of its own thread."""


class Work:
    """One run of something long."""

    def __init__(self, tell: Callable[[int, str], None]) -> None:
        self._tell = tell
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._held = False
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

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than it is wanted.

        Raises:
            CancelledError: if it is not wanted any more.
        """
        if self._cancelled.wait(max(0.0, seconds)):
            raise CancelledError

    def disable_cancel(self, update: Callable[[], Any] = lambda: None) -> None:
        """From here on it is carried through, and `cancel` does nothing.

        Raises:
            CancelledError: if it was cancelled before.
        """

        def held() -> None:
            self._held = True
            update()

        self.show(held)

    def cancel(self) -> bool:
        """Not wanted any more; False if it is too late for that."""
        with self._lock:
            if not self._held:
                self._cancelled.set()
            return not self._held


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
        """Begin; `ended` is called with the error, or None. Neither it nor anything else is called once the work was cancelled.

        Raises:
            GuardError: if something runs that cannot be broken off.
        """
        if self._work is not None and not self.cancel():
            raise GuardError("What runs now cannot be broken off.", hint="Wait until it is done.")
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
                work.disable_cancel(finish)  # so that a Cancel in this very moment does not say that it came in time
            except CancelledError:
                return

        self._thread = threading.Thread(target=body, name="workbench-panel", daemon=True)
        self._thread.start()

    def cancel(self) -> bool:
        """Drop what runs; True if there was something, and it was not too late."""
        work = self._work
        if work is None or not work.cancel():
            return False
        self._work = None
        return True

    def wait(self, seconds: float) -> None:
        """Wait for the thread; for tests and for notebooks that run without anybody there."""
        if self._thread is not None:
            self._thread.join(seconds)
