"""What is written beside an answer: its failure does not hide the answer."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.running import run_here
from workbench.api import load_measurements, triages
from workbench.collect import capture
from workbench.errors import ExitCode, OutputError, UsageError


def test_a_verdict_is_shown_although_its_report_and_its_capture_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full; the first error is told behind the verdict, with its exit code."""

    def full(*_args: Any) -> None:
        raise OutputError("The capture cannot be written: No space left on device.")

    def no_report(path: Path) -> None:
        raise UsageError(f"The report {path} cannot be written: No space left on device.")

    result = SimpleNamespace(
        to_json=lambda: {"verdict": "slow_processor"}, write_html=no_report, findings=(), exit_code=ExitCode.FINDINGS
    )
    monkeypatch.setattr(load_measurements, "measure", lambda *_args, **_options: SimpleNamespace(capture=None))
    monkeypatch.setattr(triages, "judge", lambda *_args, **_options: result)
    monkeypatch.setattr(capture, "write_capture", full)
    (tmp_path / "kept").mkdir()
    words = ["triage", "--capture", str(tmp_path / "kept"), "--json", "--html", str(tmp_path / "r.html")]
    shown = run_here(*words, cwd=tmp_path)
    assert json.loads(shown.stdout) == {"verdict": "slow_processor"}
    assert (shown.returncode, "r.html cannot be written" in shown.stderr) == (2, True)
    words = ["triage", "--cluster", "c", "--json", "--html", str(tmp_path / "r.html"), "--save", str(tmp_path / "new")]
    shown = run_here(*words, cwd=tmp_path)
    assert json.loads(shown.stdout) == {"verdict": "slow_processor"}
    assert "The capture cannot be written" in shown.stderr and shown.returncode not in (0, ExitCode.FINDINGS)
