"""The command: what it refuses, what it tells, and TLS by files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import requests

from tests.certificates import certificate
from tests.serve.test_live import until
from workbench.errors import OutputError, UsageError
from workbench.lab.process import free_port, start
from workbench.serve.server import Options, serve
from workbench.serve.sqlite import FileStore, connect

WORDS = [sys.executable, "-c", "from workbench.cli import main; main()"]


def test_others_are_served_over_tls_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond loopback a token would be readable; a proxy in front has to be named. Half of a certificate is refused."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="unencrypted"):
        serve(Options(host="0.0.0.0"), say=print)
    with pytest.raises(UsageError, match="certificate and its key"):
        serve(Options(certificate=tmp_path / "a.pem"), say=print)


def test_a_short_token_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word is guessed in a night."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_SERVE_TOKEN", "secret")
    with pytest.raises(UsageError, match="fewer than 16"):
        serve(Options(), say=print)


def test_a_memory_that_is_none_is_refused(tmp_path: Path) -> None:
    """A file of something else stays as it is; one of a newer version, too."""
    path = tmp_path / "serve.sqlite"
    path.write_bytes(b"not a database, but long enough to be looked at " * 100)
    with pytest.raises(OutputError):
        FileStore(path)
    assert path.read_bytes().startswith(b"not a database")
    newer = tmp_path / "newer.sqlite"
    FileStore(newer).close()
    connection = connect(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(UsageError, match="newer version"):
        FileStore(newer)


def test_the_command_serves_by_tls_and_ends_in_order(tmp_path: Path) -> None:
    """It says where the token is, never what it is; the generated one is readable by its owner only."""
    certificate(tmp_path, "server")
    (tmp_path / "run").mkdir()
    trusted = str(tmp_path / "server.pem")
    port = free_port()
    environment = {key: value for key, value in os.environ.items() if key != "WORKBENCH_SERVE_TOKEN"}
    words = [*WORDS, "serve", "--port", str(port), "--certificate", trusted, "--key", str(tmp_path / "server.key")]
    child = start("serve", words, folder=tmp_path / "run", env=environment)
    try:
        until(f"https://127.0.0.1:{port}/healthz", lambda it: it.ok, seconds=60, verify=trusted)
        token = Path(os.environ["XDG_STATE_HOME"]) / "lag-workbench" / "serve.token"
        assert token.stat().st_mode & 0o077 == 0
        headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
        answer = requests.get(f"https://127.0.0.1:{port}/api/fleet", headers=headers, timeout=10, verify=trusted)
        assert answer.status_code == 200
        assert str(token) in child.tail(50) and token.read_text().strip() not in child.tail(50)
    finally:
        child.stop()
