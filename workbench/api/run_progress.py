"""Progress of long work: commands print it, panels draw it, programs usually ignore it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class StepNote:
    """A running step.

    Attributes:
        note: its result in a few words.
        limit: how long it may take, such as "at most 30 s for each answer"; None if nobody knows.
    """

    def __init__(self) -> None:
        self.note: str | None = None
        self.limit: str | None = None


class Progress(Protocol):
    """Receives progress reports."""

    def step(self, title: str) -> AbstractContextManager[StepNote]:
        """Enter a step; leave it when it is done."""

    def say(self, text: str) -> None:
        """Report one line outside of the steps."""


class Silent:
    """Ignores progress reports."""

    @contextmanager
    def step(self, title: str) -> Iterator[StepNote]:
        """See `Progress`."""
        del title
        yield StepNote()

    def say(self, text: str) -> None:
        """See `Progress`."""


SILENT = Silent()
