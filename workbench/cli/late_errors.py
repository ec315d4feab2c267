"""Files beside an answer that cannot be written: the answer is shown first, then the error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from workbench.errors import WorkbenchError


class LateErrors:
    """Keeps the first error of what is written beside an answer: on a full disk, a verdict must not be lost with its report."""

    def __init__(self) -> None:
        self._first: WorkbenchError | None = None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """End the block at an error, and go on behind it."""
        try:
            yield
        except WorkbenchError as error:
            self._first = self._first or error

    def tell(self) -> None:
        """Raise the first error that was kept.

        Raises:
            WorkbenchError: if there was one.
        """
        if self._first is not None:
            raise self._first
