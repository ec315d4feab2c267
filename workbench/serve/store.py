"""The memory: one file, one writer at a time, readers beside it."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.serve.schema import connect, prepare

Clock = Callable[[], float]


class Store:
    """Connections to the memory of one process.

    Args:
        path: the file; it is made if it is not there.
        clock: seconds since 1970.

    Raises:
        WorkbenchError: if it cannot be used.
    """

    def __init__(self, path: Path, *, clock: Clock = time.time) -> None:
        prepare(path)
        self.path, self.clock = path, clock
        self._writer = connect(path)
        self._lock = threading.RLock()
        self._readers = threading.local()
        self._opened: list[sqlite3.Connection] = []

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: on the disk when the block ends, and without effect if it raises."""
        with self._lock:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise

    def reader(self) -> sqlite3.Connection:
        """This thread's connection for reading, which waits for no writer."""
        reader: sqlite3.Connection | None = getattr(self._readers, "connection", None)
        if reader is None:
            reader = self._readers.connection = connect(self.path)
            self._opened.append(reader)
        return reader

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Read, without waiting for a writer."""
        return self.reader().execute(query, values).fetchall()

    def row(self, query: str, values: Sequence[Any] = ()) -> sqlite3.Row | None:
        """Read the first row."""
        return next(iter(self.rows(query, values)), None)

    def number(self, query: str, values: Sequence[Any] = ()) -> float:
        """Read a single number; 0 for NULL."""
        [row] = self.rows(query, values)
        return row[0] or 0

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for connection in (*self._opened, self._writer):
                connection.close()
