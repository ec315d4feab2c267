"""The memory in one file, for one instance."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.errors import OutputError
from workbench.serve.schema import TABLES, VERSION, newer
from workbench.serve.store import Clock, Database, Store, answering


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
        self._readers = threading.local()
        self._opened: list[sqlite3.Connection] = []

    @contextmanager
    def writing(self) -> Iterator[Database]:
        """See `Store`."""
        with self._lock, answering(sqlite3.Error, str(self.path)):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # a full disk has ended it already
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """See `Store`."""
        with answering(sqlite3.Error, str(self.path)):
            reader: sqlite3.Connection | None = getattr(self._readers, "connection", None)
            if reader is None:
                reader = self._readers.connection = connect(self.path)
                self._opened.append(reader)
            yield reader

    def close(self) -> None:
        """See `Store`."""
        with self._lock:
            for connection in (*self._opened, self._writer):
                connection.close()


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
        raise OutputError(f"The memory {path} cannot be opened: {error}.") from None
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
        raise OutputError(f"The memory {path} cannot be written: {error.strerror}.") from None
    with_tables = connect(path)
    try:
        with_tables.execute("BEGIN IMMEDIATE")
        found = with_tables.execute("PRAGMA user_version").fetchone()[0]
        if found > VERSION:
            raise newer(str(path))
        if found == 0:
            for statement in TABLES:
                with_tables.execute(statement)
            with_tables.execute(f"PRAGMA user_version = {VERSION}")
        with_tables.execute("COMMIT")
    except sqlite3.Error as error:
        raise OutputError(
            f"The memory {path} cannot be used: {error}.", hint="Name another file: [serve] store."
        ) from None
    finally:
        with_tables.close()
