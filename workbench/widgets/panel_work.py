"""Long work in the background of a notebook: one thread at a time, progress, and an immediate Cancel.

Callbacks of widgets run on the kernel's main thread and block each other, so a Cancel button would wait for the work that it should
cancel (measured with JupyterLab 4.6 and ipykernel 7.4). Cancelled work may still be inside a call that cannot be interrupted; its
results are then dropped. Work that changes something first calls `disable_cancel`, and can then no longer be cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from workbench.errors import GuardError


class CancelledError(Exception):
    """The work was cancelled; raised inside its thread."""


class PanelWork:
    """One run of a long task."""

    def __init__(self, tell: Callable[[int, str], None]) -> None:
        self._tell = tell
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._held = False
        self._done = 0

    def step(self, title: str) -> None:
        """Announce the next step.

        Raises:
            CancelledError: if the work was cancelled.
        """
        self.show(lambda: self._tell(self._done, title))
        self._done += 1

    def show(self, update: Callable[[], Any]) -> None:
        """Update the display, unless the work was cancelled: never after `cancel` has returned.

        Raises:
            CancelledError: if the work was cancelled.
        """
        with self._lock:
            if self._cancelled.is_set():
                raise CancelledError
            update()

    def pause(self, seconds: float) -> None:
        """Sleep, but wake up when the work is cancelled.

        Raises:
            CancelledError: if the work was cancelled.
        """
        if self._cancelled.wait(max(0.0, seconds)):
            raise CancelledError

    def disable_cancel(self, update: Callable[[], Any] = lambda: None) -> None:
        """Mark the point of no return: from here on, `cancel` does nothing.

        Raises:
            CancelledError: if the work was cancelled before.
        """

        def held() -> None:
            self._held = True
            update()

        self.show(held)

    def cancel(self) -> bool:
        """Cancel the work; return False if it is too late."""
        with self._lock:
            if not self._held:
                self._cancelled.set()
            return not self._held


class PanelWorker:
    """Runs one piece of work at a time in a separate thread."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._work: PanelWork | None = None

    @property
    def busy(self) -> bool:
        """Whether work runs that was not cancelled."""
        return self._work is not None

    def start(
        self,
        run: Callable[[PanelWork], None],
        *,
        tell: Callable[[int, str], None],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        """Start; `ended` is called with the error or None. After a cancel, no callback is called.

        Raises:
            GuardError: if work runs that cannot be cancelled any more.
        """
        if self._work is not None and not self.cancel():
            raise GuardError("The current work cannot be cancelled any more.", hint="Wait until it is done.")
        work = self._work = PanelWork(tell)

        def body() -> None:
            error: BaseException | None = None
            try:
                run(work)
            except CancelledError:
                return
            except BaseException as raised:  # nothing else would report an error of this thread
                error = raised

            def finish() -> None:
                self._work = None
                ended(error)

            try:
                work.disable_cancel(finish)  # so a Cancel at this moment does not report success
            except CancelledError:
                return

        self._thread = threading.Thread(target=body, name="workbench-panel", daemon=True)
        self._thread.start()

    def cancel(self) -> bool:
        """Cancel the current work; return True if there was some and it was not too late."""
        work = self._work
        if work is None or not work.cancel():
            return False
        self._work = None
        return True

    def wait(self, seconds: float) -> None:
        """Wait for the thread; for tests and for notebooks that run unattended."""
        if self._thread is not None:
            self._thread.join(seconds)
