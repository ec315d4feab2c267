"""The memory: one writer at a time, readers beside it; a file of SQLite, or a database of PostgreSQL for several instances."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from workbench.errors import SourceUnreachableError
from workbench.humanize import one_line

Clock = Callable[[], float]


class StoreError(SourceUnreachableError):
    """The memory does not answer, or cannot be written: what was asked of it has not happened, or nobody knows."""


@contextmanager
def answering(errors: type[Exception], where: str) -> Iterator[None]:
    """Turn a driver's errors into `StoreError`."""
    try:
        yield
    except errors as error:
        raise StoreError(f"The memory {where} cannot be used: {one_line(str(error))}.") from error


class Row(Protocol):
    """Columns by name or by number."""

    def __getitem__(self, key: Any, /) -> Any: ...

    def keys(self) -> Iterable[str]:
        """Names of the columns."""


class Result(Protocol):
    """What a statement has given."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> list[Any]:
        """All rows."""

    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """A connection; statements are of the SQL that both know, with `?` for values."""

    def execute(self, query: str, values: Sequence[Any] = (), /) -> Result:
        """Run a statement."""

    def executemany(self, query: str, values: Iterable[Sequence[Any]], /) -> object:
        """Run a statement for each of the values."""


class Store(ABC):
    """Connections to the memory of one process; any thread may use them.

    Args:
        clock: seconds since 1970.
    """

    def __init__(self, *, clock: Clock = time.time) -> None:
        self.clock = clock

    @abstractmethod
    def writing(self) -> AbstractContextManager[Database]:
        """A transaction, after those of all others: on the disk when the block ends, and without effect if it raises.

        Raises:
            StoreError: if the memory does not answer.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Database]:
        """A connection for reading, which waits for no writer.

        Raises:
            StoreError: if the memory does not answer.
        """

    def leads(self) -> bool:
        """Whether this process is the one that judges and sends; of several with one memory it is one, until it ends."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Row]:
        """Read, without waiting for a writer."""
        with self.reading() as db:
            return db.execute(query, values).fetchall()

    def row(self, query: str, values: Sequence[Any] = ()) -> Row | None:
        """Read the first row."""
        return next(iter(self.rows(query, values)), None)

    def number(self, query: str, values: Sequence[Any] = ()) -> float:
        """Read a single number; 0 for NULL."""
        [row] = self.rows(query, values)
        return row[0] or 0
