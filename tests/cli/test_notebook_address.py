"""Rules of what `workbench notebook` prints: one line to open, everything else in a file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import requests

from tests.cli.running import PROGRAM


def test_no_browser_prints_the_address_of_the_notebook(tmp_path: Path) -> None:
    """stdout has one line, the address that opens the notebook itself; the log of JupyterLab is in a file."""
    words = [str(PROGRAM), "notebook", "explore", "--no-browser", "--dir", "mine"]
    child = subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")},
    )  # fmt: skip
    assert child.stdout is not None
    line = child.stdout.readline().strip()
    try:
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/lab/tree/explore\.ipynb\?token=([0-9a-f]{48})", line)
        assert found, line
        page = requests.get(line, timeout=60)
        assert page.status_code == 200
        assert requests.get(f"{found[1]}/api/contents", timeout=60).status_code == 403
    finally:
        child.send_signal(signal.SIGINT)
        rest, said = child.communicate(timeout=60)
    assert rest == ""
    assert len(said.splitlines()) == 1, said
    assert "token" not in said
    assert "Jupyter Server" in (tmp_path / "mine" / ".lab" / "jupyter.log").read_text(encoding="utf-8")
