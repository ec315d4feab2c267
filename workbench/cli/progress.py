"""Progress on stderr: steps, and their duration."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from rich.text import Text

from workbench.api.progress import StepNote
from workbench.console import SafeConsole, step_bar
from workbench.humanize import duration, one_line
from workbench.masking import masked

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.status import Status


class UnderWay:
    """Text beside a spinner: what is awaited, and after a second for how long already, and at most."""

    def __init__(
        self, title: str, *, at_most_seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._title, self._most, self._clock = one_line(masked(title)), at_most_seconds, clock
        self._began = clock()

    def __rich__(self) -> Text:
        passed = self._clock() - self._began
        most = f" of at most {duration(self._most)}" if self._most is not None else ""
        return Text.assemble(self._title, (f"  {int(passed)} s{most}" if passed >= 1 else "", "dim"))


class Steps:
    """Announces steps; silent when `quiet`. On a terminal a step under way has a spinner, elsewhere each leaves one plain line."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = SafeConsole(stderr=True, quiet=quiet)
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
        if self._console.is_terminal:
            self._status = self._console.status(UnderWay(title))
            self._status.start()
        try:
            yield step
        finally:
            self._stop()
        note = f"  {step.note}" if step.note else ""
        took = f"{time.monotonic() - started:.1f} s{note}"
        words = one_line(masked(title)), one_line(masked(took))
        self._console.print(Text.assemble(("✓ ", "green"), f"{words[0]}  ", (words[1], "dim")), soft_wrap=True)

    @contextmanager
    def waiting(self, title: str, *, at_most_seconds: float | None = None) -> Iterator[None]:
        """Show on a terminal what is awaited, for how long already and at most, and leave nothing behind."""
        if self._console.is_terminal and not self._console.quiet:
            self._status = self._console.status(UnderWay(title, at_most_seconds=at_most_seconds))
            self._status.start()
        try:
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
