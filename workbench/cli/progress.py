"""Progress on stderr: steps, and their duration."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, count
from types import TracebackType
from typing import TYPE_CHECKING

from rich.text import Text

from workbench.api.run_progress import StepNote
from workbench.humanize import duration, one_line
from workbench.masking import masked
from workbench.terminal_tables import SafeConsole, print_done, step_bar

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.status import Status


_FIRST_LINE_SECONDS = 1.0  # nothing is silent for longer
_LATER_LINES_SECONDS = (10.0, 30.0)  # then once a minute
_MINUTE = 60.0


class PlainLines:
    """Lines for a log or a pipe: what is awaited after one second, then rarely for how long already, and at most."""

    def __init__(
        self,
        title: str,
        tell: Callable[[str], None],
        *,
        limit: Callable[[], str | None] = lambda: None,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self._title, self._tell, self._limit, self._wait = title, tell, limit, wait
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="workbench-waiting", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        passed = 0.0
        for at in chain((_FIRST_LINE_SECONDS, *_LATER_LINES_SECONDS), count(_MINUTE, _MINUTE)):
            if self._wait(self._over, at - passed):
                return
            passed = at
            parts = (self._title, "" if at == _FIRST_LINE_SECONDS else f"{at:.0f} s already", self._limit() or "")
            self._tell("… " + ", ".join(filter(None, parts)))


class UnderWay:
    """Text beside a spinner: what is awaited, and after a second for how long already, and at most."""

    def __init__(
        self, title: str, *, limit: Callable[[], str | None] = lambda: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._title, self._limit, self._clock = one_line(masked(title)), limit, clock
        self._began = clock()

    def __rich__(self) -> Text:
        passed = self._clock() - self._began
        limit = self._limit()
        words = f"  {int(passed)} s{f', {limit}' if limit else ''}" if passed >= 1 else ""
        return Text.assemble(self._title, (words, "dim"))


class Steps:
    """Announces steps, each of which leaves one line, unless `quiet`.

    What takes longer than a second is announced in any case: on a terminal by a spinner, which leaves nothing behind, and
    elsewhere by plain lines.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = SafeConsole(stderr=True, quiet=quiet)
        self._waits = SafeConsole(stderr=True)
        self._status: Status | None = None

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    @contextmanager
    def step(self, title: str) -> Iterator[StepNote]:
        """Announce a step, and say how long it took once it is done."""
        step, started = StepNote(), time.monotonic()
        with self._under_way(title, lambda: step.limit):
            yield step
        print_done(self._console, title, time.monotonic() - started, step.note)

    @contextmanager
    def waiting(self, title: str, *, at_most_seconds: float | None = None) -> Iterator[None]:
        """Show what is awaited, for how long already and at most; on a terminal it leaves nothing behind."""
        most = f"at most {duration(at_most_seconds)}" if at_most_seconds is not None else None
        with self._under_way(title, lambda: most):
            yield

    @contextmanager
    def _under_way(self, title: str, limit: Callable[[], str | None]) -> Iterator[None]:
        shown: AbstractContextManager[None] = PlainLines(title, self._waits.line_of, limit=limit)
        if self._waits.is_terminal:
            self._status = self._waits.status(UnderWay(title, limit=limit))
            self._status.start()
            shown = nullcontext()
        try:
            with shown:
                yield
        finally:
            self._stop()

    @contextmanager
    def bar(self, title: str) -> Iterator[Progress]:
        """A progress bar; the caller adds the task."""
        with step_bar(self._console, title) as progress:
            yield progress

    def say(self, text: str) -> None:
        """A line of its own."""
        self._console.line_of(text)
