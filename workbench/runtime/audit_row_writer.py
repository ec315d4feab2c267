"""Port to where an audit's rows are written, and to what positions are in them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from workbench.runtime.event import TopicPartition


class RowsUnderWay(Protocol):
    """Rows on their way."""

    @property
    def is_over(self) -> bool:
        """Whether they are safe, or given up."""


class RowWriter(Protocol):
    """Writes rows where an audit reads them. Any thread may call it."""

    def put(self, lines: Sequence[str]) -> RowsUnderWay:
        """Write texts of rows (`texts_of`), each whole or not at all, in order; never waits."""

    def claim(self) -> Future[int] | None:
        """Ask for a number larger than all that were given before; None: commits keep it (`CommitNote.audit`)."""

    def close(self, seconds: float) -> None:
        """Wait for those on their way."""


class RowPlaces(Protocol):
    """Positions in rows, where they are not the runtime's offsets. The consumer thread asks."""

    def of(self, offset: int) -> int | None:
        """Position of a record; None: it is too large for a row."""

    def begin(self, start: int, first: int) -> int:
        """Where reading begins, behind what is acknowledged, if this record comes first."""

    def ends(self, partition: TopicPartition, offset: int) -> Sequence[int]:
        """Where rows end for a commit at an offset: where reading may begin again after it, and behind the last record."""
