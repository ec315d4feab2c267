"""Rules of child processes: none outlives its parent, whatever the parent dies of, and only our own are ever ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from workbench.errors import SetupError
from workbench.lab import process

PARENT = """
import sys, time
from pathlib import Path
from workbench.lab import process
child = process.start("sleeper", ["sleep", "300"], folder=Path(sys.argv[1]))
print(child.pid, flush=True)
time.sleep(300)
"""


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether a process ends in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def test_a_child_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    """The kernel sends the parent-death signal when the *thread* ends that made the child."""
    children: list[process.Child] = []
    asking = threading.Thread(
        target=lambda: children.append(process.start("sleeper", ["sleep", "60"], folder=tmp_path))
    )
    asking.start()
    asking.join(10)
    time.sleep(1.0)
    assert children[0].alive
    children[0].stop()
    with pytest.raises(FileNotFoundError):
        process._launch(["/no/such/program"])


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux'")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_child_dies_with_its_parent(tmp_path: Path, how: signal.Signals) -> None:
    """Also with one that is killed and can clean up nothing."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup would have it ignored
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert psutil.pid_exists(child)
    parent.send_signal(how)
    parent.wait(10)
    assert gone(child)
    # What a kill has left in the register is swept without harm.
    process.sweep(tmp_path)
    assert not list(tmp_path.rglob("pids/*.json"))


def test_a_sweep_ends_what_is_registered_and_nothing_else(tmp_path: Path) -> None:
    """A number that another process has got meanwhile is told from ours by its start time."""
    ours = process.start("ours", ["sleep", "300"], folder=tmp_path)
    other = subprocess.Popen(["sleep", "300"])
    try:
        stale = {"name": "stale", "pid": other.pid, "started": psutil.Process(other.pid).create_time() - 100}
        (tmp_path / "pids" / "stale.json").write_text(json.dumps(stale))
        (tmp_path / "pids" / "broken.json").write_text("{")
        assert process.sweep(tmp_path) == ["ours"]
        assert gone(ours.pid)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
        ours.popen.wait()


def test_a_child_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    """The reason stands in the error, not in a log that somebody would have to find."""
    child = process.start("broken", [sys.executable, "-c", "raise SystemExit('no disk')"], folder=tmp_path)
    with pytest.raises(SetupError, match="no disk"):
        process.wait_until(lambda: False, child=child, seconds=20, what="The broken one")
    slow = process.start("slow", ["sleep", "300"], folder=tmp_path)
    try:
        with pytest.raises(SetupError, match="not ready"):
            process.wait_until(lambda: False, child=slow, seconds=0.3, what="The slow one")
    finally:
        slow.stop()
    assert gone(slow.pid)


def test_an_orphaned_folder_is_known_by_its_owner(tmp_path: Path) -> None:
    """Ours is not orphaned; one whose owner has gone is, and so is one without an owner."""
    process.claim(tmp_path)
    assert not process.orphaned(tmp_path)
    (tmp_path / "owner.json").write_text(json.dumps({"pid": os.getpid(), "started": 1.0}))
    assert process.orphaned(tmp_path)
    (tmp_path / "owner.json").unlink()
    assert process.orphaned(tmp_path)
