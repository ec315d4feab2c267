"""A PostgreSQL of the tests, from the system's package manager; it listens on loopback, and is removed at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from workbench.lab.process import free_port

_USER = "postgres"


@dataclass
class Cluster:
    """A server with its data in a folder of its own."""

    programs: Path
    folder: Path
    port: int
    server: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres") -> str:
        """How to reach a database of it."""
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = [
            str(self.programs / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder), "-p", str(self.port),
            "-c", "listen_addresses=127.0.0.1",
        ]  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            self.server = subprocess.Popen(words, stdout=log, stderr=log, user=_as())
        deadline = time.monotonic() + 120  # to recover, on a busy machine
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self.folder / "log").read_text()[-2000:]
                time.sleep(0.1)
            else:
                return

    def stop(self) -> None:
        """Stop it at once, as a crash does: no connection is closed in order."""
        if self.server is not None:
            subprocess.run(
                [self.programs / "pg_ctl", "stop", "-m", "immediate", "-D", self.folder / "data"],
                check=False, capture_output=True, user=_as(),
            )  # fmt: skip
            self.server.wait(30)

    def database(self, name: str) -> str:
        """Make a database; its URL."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.url(name)


def _as() -> str | None:
    """PostgreSQL does not run as root."""
    return _USER if os.geteuid() == 0 else None


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda it: float(it.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    return Path(on_path).resolve().parent if on_path else None


@contextmanager
def postgresql() -> Iterator[Cluster]:
    """A running server."""
    programs = _programs()
    if programs is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"capture_output": True, "check": False, "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}}
        subprocess.run(["apt-get", "-qq", "update"], **quiet)  # type: ignore[call-overload]
        subprocess.run(["apt-get", "-qq", "install", "-y", "--no-install-recommends", "postgresql"], **quiet)  # type: ignore[call-overload]
        programs = _programs()
    if programs is None:
        pytest.fail("There is no PostgreSQL, and none was to be had: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    if _as():
        shutil.chown(folder, _USER)
    made = subprocess.run(
        [programs / "initdb", "-D", folder / "data", "-U", _USER, "-A", "trust", "-E", "UTF8", "--locale", "C.UTF-8"],
        check=False, capture_output=True, text=True, user=_as(),
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    found = Cluster(programs, folder, free_port())
    try:
        found.start()
        yield found
    finally:
        found.stop()
        shutil.rmtree(folder, ignore_errors=True)
