"""Progress for people, on stderr: what is being done, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.status import Status
from rich.text import Text


class Step:
    """A step under way; `note` says what came of it."""

    def __init__(self) -> None:
        self.note: str | None = None


class Steps:
    """Announces steps; silent when `quiet`. On a terminal a step under way has a spinner, elsewhere each leaves one plain line."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False)
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
    def step(self, title: str) -> Iterator[Step]:
        """Announce a step, and say how long it took once it is done."""
        step, started = Step(), time.monotonic()
        if self._console.is_terminal:
            self._status = self._console.status(Text(title))
            self._status.start()
        try:
            yield step
        finally:
            self._stop()
        note = f"  {step.note}" if step.note else ""
        took = f"{time.monotonic() - started:.1f} s{note}"
        self._console.print(Text.assemble(("✓ ", "green"), f"{title}  ", (took, "dim")), soft_wrap=True)

    @contextmanager
    def bar(self, title: str) -> Iterator[Progress]:
        """A progress bar; the caller adds the task."""
        with Progress(
            TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=self._console
        ) as progress:
            yield progress

    def say(self, text: str) -> None:
        """A line of its own."""
        self._console.print(Text(text), soft_wrap=True)
