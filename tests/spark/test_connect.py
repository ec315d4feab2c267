"""Where there is no Spark Connect, or too much for it: an error that names the server, and no token. (With a server: tests/lab.)"""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from workbench.errors import SetupError
from workbench.extras import how_to_install
from workbench.lab.process import free_port
from workbench.spark import session
from workbench.spark.spark_connect import connected

VARIABLE = session.MASTER_VARIABLE


@pytest.mark.parametrize("path", ["", "/;token=hidden-token"])
def test_a_server_that_is_not_there_is_named_at_once_and_without_its_token(path: str) -> None:
    """pyspark's client would try for minutes."""
    port = free_port()
    with pytest.raises(SetupError, match=f"no Spark Connect server at 127.0.0.1:{port}") as caught:
        connected(f"sc://127.0.0.1:{port}{path}", {}, variable=VARIABLE)
    assert VARIABLE in str(caught.value.hint)
    assert "hidden-token" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("url", ["sc://", "sc://host:99999", "sc://host:port"])
def test_what_is_no_address_is_said(url: str) -> None:
    """Without a host, or with a port that is none."""
    with pytest.raises(SetupError, match="Spark Connect server"):
        connected(url, {}, variable=VARIABLE)


def test_without_the_packages_it_names_the_extra(tmp_path: Path) -> None:
    """In a process of its own: pyspark remembers that it was asked for Connect."""
    script = tmp_path / "asks.py"
    script.write_text(
        "import sys; sys.modules['grpc'] = None\n"
        "from workbench.spark.session import session\n"
        "from workbench.errors import SetupError\n"
        "try: session()\n"
        "except SetupError as error: print(error, '|', error.hint)\n"
    )
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        url = f"sc://127.0.0.1:{server.getsockname()[1]}"
        run = subprocess.run(
            [sys.executable, script],
            env={"PATH": "/usr/bin:/bin", VARIABLE: url, "HOME": str(Path.home())},
            capture_output=True,
            text=True,
            check=True,
        )
    assert "needs packages that are not installed" in run.stdout
    assert how_to_install("connect") in run.stdout


def test_a_capture_is_triaged_nowhere_else_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 5 and two lines, not a local session behind the user's back."""
    from workbench.cli import main

    monkeypatch.setenv(VARIABLE, f"sc://127.0.0.1:{free_port()}")
    monkeypatch.setattr(session, "_starting", None)
    monkeypatch.setattr(session, "_active", lambda: None)
    monkeypatch.setattr(sys, "argv", ["workbench", "triage", "--capture", "notebooks/captures/incident-1", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 5


def test_more_samples_than_a_server_holds_are_not_sent() -> None:
    """Such a server ends with "Java heap space", for all of its users."""

    class Session:
        def createDataFrame(self, samples: Any) -> Any:  # noqa: N802 - Spark's name
            return samples

    few, many = (pa.table({"value": pa.nulls(rows, pa.float64())}) for rows in (200_000, 200_001))
    local: Any = Session()
    assert session.frame_of(local, many) is many
    remote: Any = type("Session", (Session,), {"__module__": "pyspark.sql.connect.session"})()
    assert session.frame_of(remote, few) is few
    with pytest.raises(SetupError, match="200,001 samples are too many"):
        session.frame_of(remote, many)
