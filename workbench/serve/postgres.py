"""The database as one of PostgreSQL, for several instances: each takes alerts and shows pages, one of them judges and sends."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from workbench.errors import SetupError, UsageError
from workbench.extras import how_to_install
from workbench.humanize import one_line
from workbench.serve.database_migrations import VERSION, newer, statements
from workbench.serve.server_database import Clock, Database, Result, Store, answering, fit

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg_pool import ConnectionPool
except ImportError as _error:
    raise SetupError("A database in PostgreSQL needs psycopg.", hint=f"Try: {how_to_install('postgres')}") from _error

_log = logging.getLogger(__name__)
# Advisory locks belong to a database; the second key keeps instances apart that use schemas of their own.
_PREPARING, _WRITING, _LEADING = 0x5742_0001, 0x5742_0002, 0x5742_0003
_MOST_CONNECTIONS = 10
_WAIT_SECONDS = 10.0
# A server that nobody can reach any more is given up by both sides in time, so its locks are free for the other instance.
_PATIENCE: dict[str, Any] = {
    "connect_timeout": 5, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000,
    "application_name": "workbench serve",
}  # fmt: skip
_SESSION = (
    "synchronous_commit = on", "lock_timeout = '30s'", "idle_in_transaction_session_timeout = '30s'",
    "tcp_keepalives_idle = 5", "tcp_keepalives_interval = 2", "tcp_keepalives_count = 3",
)  # fmt: skip
_FROZEN_SECONDS = 30
_END_OF_FROZEN = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_locks, workbench_serve
    WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = %s AND objid = hashtext(current_schema())::oid
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND NOT awake BETWEEN clock_timestamp() - make_interval(secs => %s) AND clock_timestamp() + interval '1 minute'
"""
_TYPES = {
    r"\bINTEGER PRIMARY KEY\b": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    r"\bINTEGER\b": "BIGINT",
    r"\bREAL\b": "DOUBLE PRECISION",
    r"\bBLOB\b": "BYTEA",
}


class DatabaseStore(Store):
    """A database of PostgreSQL; its user may create tables in the first schema of its search path.

    Args:
        url: `postgresql://user@host/database`; what it leaves out comes from libpq's variables and files (`PGPASSWORD`, `~/.pgpass`).
        clock: seconds since 1970.

    Raises:
        UsageError: if the URL cannot be read, or the tables are of a newer version. StoreError: if the server does not answer, or
            refuses.
    """

    def __init__(self, url: str, *, clock: Clock = time.time) -> None:
        super().__init__(clock=clock)
        try:
            given = conninfo_to_dict(url)
        except psycopg.Error as error:
            raise UsageError(f"[serve] store is no URL of PostgreSQL: {one_line(str(error))}") from None
        self.name = f"at {given.get('host', 'localhost')}/{given.get('dbname', '')}"
        self._connection = {**_PATIENCE, **given}
        self._leading: psycopg.Connection[Any] | None = None
        self._leading_lock = threading.Lock()
        with answering(psycopg.Error, self.name, unfit=_is_unfit):
            with self._connect() as connection:
                _prepare(connection, self.name)
            self._pool = ConnectionPool(
                kwargs={**self._connection, "autocommit": True, "row_factory": _rows},
                configure=_configure,
                check=ConnectionPool.check_connection,
                min_size=1,
                max_size=_MOST_CONNECTIONS,
                timeout=_WAIT_SECONDS,
                open=True,
            )

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(**self._connection, autocommit=True)
        _configure(connection)
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[Database]:
        """See `Store`."""
        with (
            answering(psycopg.Error, self.name, unfit=_is_unfit),
            self._pool.connection() as connection,
            connection.transaction(),
        ):
            _lock(connection, "pg_advisory_xact_lock", _WRITING)
            yield _Connection(connection)

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """See `Store`."""
        with answering(psycopg.Error, self.name, unfit=_is_unfit), self._pool.connection() as connection:
            yield _Connection(connection)

    def leads(self) -> bool:
        """See `Store`. The lock belongs to a connection of its own, so it is free when this process, or the way to it, is gone.

        A process that is frozen keeps its connections; so the one that leads shows that it is awake, and loses the lock if it does not.
        """
        with self._leading_lock:
            try:
                if self._leading is None:
                    self._leading = self._connect()
                    if not self._taken(self._leading):
                        self._let_go()
                        return False
                    # By the connection that holds the lock: one that has lost it cannot raise the number after its successor has.
                    raised = self._leading.execute("UPDATE lead SET number = number + 1 RETURNING number").fetchone()
                    self.lead = raised[0] if raised is not None else None
                self._leading.execute("UPDATE workbench_serve SET awake = clock_timestamp()")
                return True
            except psycopg.Error:
                self._let_go()
            return False

    def _taken(self, connection: psycopg.Connection[Any]) -> bool:
        if _lock(connection, "pg_try_advisory_lock", _LEADING):
            return True
        frozen = connection.execute(_END_OF_FROZEN, (_LEADING, _FROZEN_SECONDS)).fetchall()
        if frozen:
            _log.warning("the instance that led has not shown for %d s that it is awake", _FROZEN_SECONDS)
        return bool(frozen) and _lock(connection, "pg_try_advisory_lock", _LEADING)

    def _let_go(self) -> None:
        if self._leading is not None:
            with suppress(psycopg.Error):
                self._leading.close()
        self._leading = None

    def resign(self) -> None:
        """See `Store`."""
        with self._leading_lock:
            self._let_go()

    def close(self) -> None:
        """See `Store`."""
        self.resign()
        self._pool.close()


class _Row:
    """As `sqlite3.Row`."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: dict[str, int], values: Sequence[Any]) -> None:
        self._names, self._values = names, values

    def __getitem__(self, key: int | str, /) -> Any:
        return self._values[key if isinstance(key, int) else self._names[key]]

    def keys(self) -> list[str]:
        return list(self._names)


def _rows(cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], _Row]:
    names = {it.name: number for number, it in enumerate(cursor.description or ())}
    return lambda values: _Row(names, values)


class _Connection:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, query: str, values: Sequence[Any] = (), /) -> Result:
        return self._connection.execute(_translated(query), [fit(it) for it in values])

    def executemany(self, query: str, values: Iterable[Sequence[Any]], /) -> object:
        with self._connection.cursor() as cursor:
            cursor.executemany(_translated(query), [[fit(it) for it in row] for row in values])
        return None


@lru_cache(maxsize=256)
def _translated(query: str) -> bytes:
    return query.replace("%", "%%").replace("?", "%s").encode()


def _is_unfit(error: Exception) -> bool:
    """Cardinality, data, constraints, limits: about what was to be written, not about the server."""
    if not isinstance(error, psycopg.Error):
        return False
    if (
        isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None
    ):  # a value of a type that it does not know
        return True
    return (error.sqlstate or "")[:2] in ("21", "22", "23", "54")


def _configure(connection: psycopg.Connection[Any]) -> None:
    for setting in _SESSION:
        connection.execute(f"SET {setting}".encode())


def _lock(connection: psycopg.Connection[Any], function: str, key: int) -> bool:
    row = connection.execute(f"SELECT {function}(%s, hashtext(current_schema()))".encode(), (key,)).fetchone()
    return bool(row is not None and row[0])


def _prepare(connection: psycopg.Connection[Any], name: str) -> None:
    with connection.transaction():
        _lock(connection, "pg_advisory_xact_lock", _PREPARING)
        connection.execute("CREATE TABLE IF NOT EXISTS workbench_serve (version BIGINT NOT NULL, awake TIMESTAMPTZ)")
        row = connection.execute("SELECT max(version) FROM workbench_serve").fetchone()
        found = row[0] if row is not None else None
        if found is not None and found > VERSION:
            raise newer(name)
        for statement in statements(found or 0):
            for mine, theirs in _TYPES.items():
                statement = re.sub(mine, theirs, statement)
            connection.execute(statement.encode())
        if found is None:
            connection.execute("INSERT INTO workbench_serve (version) VALUES (%s)", (VERSION,))
        elif found < VERSION:
            connection.execute("UPDATE workbench_serve SET version = %s", (VERSION,))
