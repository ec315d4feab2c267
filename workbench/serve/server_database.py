"""The database: one writer at a time, readers beside it; a file of SQLite, or a database of PostgreSQL for several instances."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from numbers import Integral, Real
from typing import Any, Protocol

from workbench.errors import SourceUnreachableError, WorkbenchError
from workbench.humanize import one_line

Clock = Callable[[], float]
_MOST = 2**63  # integers of both kinds of database have 64 bits


class StoreError(SourceUnreachableError):
    """The database does not answer, or cannot be written: what was asked of it has not happened, or nobody knows."""


class LeadLostError(StoreError):
    """Another instance has taken the lead since this step began: what it found is not written."""


class UnfitError(WorkbenchError):
    """The database works, and refuses this value or row: another one may be fit."""


@contextmanager
def answering(errors: type[Exception], where: str, *, unfit: Callable[[Exception], bool]) -> Iterator[None]:
    """Turn a driver's errors into `StoreError`, or into `UnfitError` if they are about what was to be written."""
    try:
        yield
    except errors as error:
        kind = UnfitError if unfit(error) else StoreError
        raise kind(f"The database {where} cannot be used: {one_line(str(error))}.") from error


def fit_text(text: str) -> str:
    """A text that both kinds can hold: a lone surrogate and NUL become escapes. An enum's member is written by its value."""
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def fit(value: Any) -> Any:
    """A value that both kinds can hold. A number that is none, or that nothing can have, is not known: NULL."""
    if isinstance(value, str):
        return fit_text(value)
    if value is None or isinstance(value, bool | bytes):
        return value
    kind = type(value)  # a statement has ten values: to ask plain ones what numbers they are is slow
    if kind is int or (kind is not float and isinstance(value, Integral)):  # of numpy, too
        number = int(value)
        return number if -_MOST <= number < _MOST else None
    if kind is float or isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    return value


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
    """Connections to the database of one process; any thread may use them.

    Args:
        clock: seconds since 1970.
    """

    def __init__(self, *, clock: Clock = time.time) -> None:
        self.clock = clock
        self.lead: int | None = None

    @contextmanager
    def writing(self, *, lead: int | None = None) -> Iterator[Database]:
        """A transaction, after those of all others: on the disk when the block ends, and without effect if it raises.

        Args:
            lead: number of the lead under which the step began; each take-over raises it. None: whoever leads may write this.

        Raises:
            LeadLostError: if another instance has taken the lead since. StoreError: if the database does not answer.
            UnfitError: if it cannot hold a value.
        """
        with self._transaction() as db:
            if lead is not None and db.execute("SELECT number FROM lead").fetchone()[0] != lead:
                raise LeadLostError("Another instance leads now: what this one found before is not written.")
            yield db

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Database]:
        """A transaction, after those of all others."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Database]:
        """A connection for reading, which waits for no writer.

        Raises:
            StoreError: if the database does not answer.
        """

    def leads(self) -> bool:
        """Whether this process is the one that judges and sends; of several with one database it is one, until it ends.

        `lead` is then the number of its lead: one more than that of the lead before.
        """
        return True

    @abstractmethod
    def resign(self) -> None:
        """Let another process lead; `leads` asks for the lead again."""

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
