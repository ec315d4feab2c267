"""The database in one file: of several processes that use it, one leads."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from workbench.errors import GuardError, OutputError
from workbench.files import exclusive_lock
from workbench.serve.database_migrations import VERSION, newer, statements
from workbench.serve.server_database import Clock, Database, Result, Store, answering, fit

_log = logging.getLogger(__name__)


class FileStore(Store):
    """A file of SQLite.

    Args:
        path: the file; it is made if it is not there.
        clock: seconds since 1970.

    Raises:
        UsageError: if the file is of a newer version. OutputError: if it cannot be written, or is something else.
    """

    def __init__(self, path: Path, *, clock: Clock = time.time) -> None:
        super().__init__(clock=clock)
        prepare(path)
        self.path = path
        self._writer = connect(path)
        self._lock = threading.RLock()
        self._readers: list[sqlite3.Connection] = []  # idle ones: threads come and go, and connections would stay
        self._opened: list[sqlite3.Connection] = []
        self._leading: ExitStack | None = None
        self._waits = False

    @contextmanager
    def _transaction(self) -> Iterator[Database]:
        """See `Store`."""
        with self._lock, answering(sqlite3.Error, str(self.path), unfit=_is_unfit):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield _Connection(self._writer)
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # a full disk has ended it already
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """See `Store`."""
        with answering(sqlite3.Error, str(self.path), unfit=_is_unfit):
            try:
                reader = self._readers.pop()
            except IndexError:
                reader = connect(self.path)
                self._opened.append(reader)
            try:
                yield _Connection(reader)
            finally:
                self._readers.append(reader)

    def leads(self) -> bool:
        """See `Store`. The lock is a file beside the database, and is free when its process ends."""
        with self._lock:
            if self._leading is None:
                stack = ExitStack()
                refusal = GuardError(f"Another process leads with the database {self.path}.")
                try:
                    stack.enter_context(exclusive_lock(self.path.with_name(f"{self.path.name}.lead"), refusal))
                except GuardError as refused:
                    if not self._waits:
                        _log.warning("%s %s", refused.message, "This one leads when that one has ended.")
                    self._waits = True
                    return False
                except OSError as error:
                    raise OutputError(f"The lock beside {self.path} cannot be made: {error.strerror}.") from None
                with stack:
                    with self.writing() as db:
                        db.execute("UPDATE lead SET number = number + 1")
                        self.lead = db.execute("SELECT number FROM lead").fetchone()[0]
                    self._leading = stack.pop_all()
            return True

    def resign(self) -> None:
        """See `Store`."""
        with self._lock:
            if self._leading is not None:
                self._leading.close()
            self._leading = None

    def close(self) -> None:
        """See `Store`."""
        with self._lock:
            self.resign()
            for connection in (*self._opened, self._writer):
                connection.close()


class _Connection:
    """A connection that is given values which it can hold."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, query: str, values: Sequence[Any] = (), /) -> Result:
        return self._connection.execute(query, [fit(it) for it in values])

    def executemany(self, query: str, values: Iterable[Sequence[Any]], /) -> object:
        return self._connection.executemany(query, ([fit(it) for it in row] for row in values))


def _is_unfit(error: Exception) -> bool:
    if isinstance(error, sqlite3.ProgrammingError):  # a value of a type that it does not know
        return "closed" not in str(error)
    return isinstance(error, sqlite3.DataError | sqlite3.IntegrityError | sqlite3.InterfaceError)


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection; every commit is on the disk before it returns.

    Raises:
        OutputError: if the file cannot be opened.
    """
    try:
        found = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
        found.execute("PRAGMA journal_mode = WAL")
        found.execute("PRAGMA synchronous = FULL")
        found.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error as error:
        raise OutputError(f"The database {path} cannot be opened: {error}.") from None
    found.row_factory = sqlite3.Row
    return found


def prepare(path: Path) -> None:
    """Create the file, readable by its owner only, and its tables.

    Raises:
        UsageError: if the file is of a newer version. OutputError: if it cannot be written, or is something else.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        raise OutputError(f"The database {path} cannot be written: {error.strerror}.") from None
    with_tables = connect(path)
    try:
        with_tables.execute("BEGIN IMMEDIATE")
        found = with_tables.execute("PRAGMA user_version").fetchone()[0]
        if found > VERSION:
            raise newer(str(path))
        for statement in statements(found):
            with_tables.execute(statement)
        with_tables.execute(f"PRAGMA user_version = {VERSION}")
        with_tables.execute("COMMIT")
    except sqlite3.Error as error:
        raise OutputError(
            f"The database {path} cannot be used: {error}.", hint="Name another file: [serve] store."
        ) from None
    finally:
        with_tables.close()
