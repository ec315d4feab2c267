"""Rules of `workbench notebook`: whoever ends it ends JupyterLab in order, with its kernels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workbench.cli.notebook import _capture
from workbench.extras import how_to_install

# As JupyterLab: it asks nobody on SIGTERM, ends its kernels, which takes a while, and then itself. An interrupt ends it at once.
LAB = """
import pathlib, signal, sys, time
room = pathlib.Path(sys.argv[1])
def end(number, frame):
    time.sleep(1.0)
    (room / "kernels-ended").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, end if sys.argv[2] == "ends" else signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_DFL)
(room / "up").touch()
time.sleep(60)
"""
OURS = (
    "import sys; from workbench.cli.notebook import supervised;"
    "sys.exit(supervised(sys.argv[1:], {}, patience_seconds=0.5 if sys.argv[-1] == 'hangs' else 30))"
)


def started(room: Path, how: str) -> subprocess.Popen[bytes]:
    """The command with a JupyterLab that is up, in a process group of its own, as a shell starts it."""
    words = [sys.executable, "-c", LAB, str(room), how]
    child = subprocess.Popen([sys.executable, "-c", OURS, *words], start_new_session=True, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (room / "up").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return child


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_ctrl_c_waits_until_the_kernels_are_ended(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """A terminal sends its signal to all processes of the group, again and again if somebody is impatient."""
    child = started(tmp_path, "ends")
    for _ in range(3):
        os.killpg(child.pid, number)
        time.sleep(0.05)
    assert child.wait(30) == code
    assert (tmp_path / "kernels-ended").exists()


def test_one_that_does_not_end_is_killed(tmp_path: Path) -> None:
    """And that is said."""
    child = started(tmp_path, "hangs")
    os.killpg(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=30)
    assert child.returncode == 0
    assert b"does not stop" in said


def test_without_jupyterlab_it_names_the_extra(tmp_path: Path) -> None:
    """Exit code 5, and no folder is made."""
    without = "import sys; sys.modules['jupyterlab'] = None; sys.argv = ['workbench', 'notebook']"
    shown = subprocess.run(
        [sys.executable, "-c", f"{without}\nfrom workbench.cli import main\nmain()"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert shown.returncode == 5, shown.stderr
    assert "JupyterLab is not installed." in shown.stderr
    assert how_to_install("notebook") in shown.stderr
    assert list(tmp_path.iterdir()) == []


def test_its_own_end_is_ours() -> None:
    """With its exit status."""
    words = [sys.executable, "-c", "import sys; sys.exit(3)"]
    assert subprocess.run([sys.executable, "-c", OURS, *words], check=False, timeout=60).returncode == 3


def test_without_a_cluster_each_notebook_opens_a_recording_that_it_has_something_to_say_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one about brokers opens brokers, also where a demo has left a capture of a group."""
    monkeypatch.chdir(tmp_path)
    assert [str(_capture(None, name)).rsplit("/", 1)[1] for name in ("lag_triage", "impact")] == [
        "incident-1",
        "neighbours-1",
    ]
    (tmp_path / "build" / "demo" / "capture").mkdir(parents=True)
    assert _capture(None, "lag_triage") == tmp_path / "build" / "demo" / "capture"
    assert str(_capture(None, "impact")).endswith("neighbours-1")
