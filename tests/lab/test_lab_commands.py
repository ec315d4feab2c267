"""Rules of `workbench lab`: up, used, down; and nothing left behind, whatever ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.lab.conftest import workbench
from tests.waiting import wait_for

pytestmark = pytest.mark.lab

PROGRAM = Path(sys.executable).with_name("workbench")


def ours(folder: Path) -> list[psutil.Process]:
    """Processes whose command line or working folder is in this test's state folder."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        if process.pid != os.getpid() and (str(folder) in words(process) or str(folder) in (process.info["cwd"] or "")):
            found.append(process)
    return found


def words(process: psutil.Process) -> str:
    """The command line as it was when the process was listed: asking again would fail on one that has ended since."""
    return " ".join(process.info["cmdline"] or ())


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """The state folder of this test; in the end nothing may run out of it."""
    folder = tmp_path / "state"
    yield folder
    left = [process for process in ours(folder) if process.is_running()]
    for process in left:
        process.kill()
    assert left == []


def test_up_status_use_and_down(state: Path) -> None:
    """The contract's JSON; every command takes --cluster lab while it is up; after down there is nothing."""
    shown = workbench("lab", "up", "--json")
    assert shown.returncode == 0, shown.stderr
    up = json.loads(shown.stdout)
    assert {"cluster", "bootstrap", "prometheus_url", "directory", "pids"} <= set(up)
    assert all(psutil.pid_exists(pid) for pid in up["pids"].values())
    assert json.loads(workbench("lab", "status", "--json").stdout)["bootstrap"] == up["bootstrap"]

    again = workbench("lab", "up")
    assert again.returncode == 6
    assert "already running" in again.stderr

    snapshot = workbench("snapshot", "--cluster", "lab", "--json")
    assert snapshot.returncode == 0, snapshot.stderr
    assert json.loads(snapshot.stdout)["groups"] == []
    unknown = workbench("snapshot", "--cluster", "lab", "--group", "nobody")
    assert (unknown.returncode, "nobody" in unknown.stderr) == (2, True)

    ended = workbench("lab", "down", "--json")
    assert ended.returncode == 0
    assert "kafka" in json.loads(ended.stdout)["ended"]
    assert ours(state) == []
    assert workbench("lab", "status").returncode == 5
    assert workbench("snapshot", "--cluster", "lab").returncode == 2
    assert not list((state / "lag-workbench" / "lab").glob("up-*"))


def test_a_killed_keeper_takes_its_processes_along(state: Path) -> None:
    """`kill -9` of the one process that looks after the others; `lab down` then cleans what is left, and up works again."""
    up = json.loads(workbench("lab", "up", "--no-prometheus", "--json").stdout)
    os.kill(up["pids"]["keeper"], signal.SIGKILL)
    wait_for(lambda: not any(psutil.pid_exists(pid) and _alive(pid) for pid in up["pids"].values()))
    assert workbench("lab", "status").returncode == 5
    again = workbench("lab", "up", "--no-prometheus", "--json")
    assert again.returncode == 0, again.stderr
    assert workbench("lab", "down").returncode == 0
    assert ours(state) == []


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    # A hang-up takes the way of SIGTERM (test_process), and Ctrl-C does without a handler of ours.
    "how",
    [
        signal.SIGTERM,
        signal.SIGKILL,
        *(pytest.param(it, marks=pytest.mark.slow) for it in (signal.SIGINT, signal.SIGHUP)),
    ],
)
def test_a_run_that_is_ended_leaves_nothing(state: Path, how: signal.Signals) -> None:
    """Ctrl-C, a kill, a closed terminal and `kill -9` in the middle of a scenario."""
    run = subprocess.Popen(
        [PROGRAM, "lab", "run", "healthy", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: (
            signal.signal(how, signal.SIG_DFL) if how != signal.SIGKILL else None
        ),  # a shell's & has it ignored
    )
    try:
        wait_for(lambda: any("workbench.lab.consumer_instance" in words(process) for process in ours(state)), 90)
        run.send_signal(how)
        run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode != 0
    wait_for(lambda: not ours(state))
    workbench("lab", "down", "--quiet")
    assert not list((state / "lag-workbench" / "lab").glob("own-*"))


def test_a_lab_ends_by_itself(state: Path) -> None:
    """A forgotten lab does not run for ever."""
    up = json.loads(workbench("lab", "up", "--no-prometheus", "--ttl", "3s", "--json").stdout)
    began = time.monotonic()
    wait_for(lambda: not _alive(up["pids"]["keeper"]), 40)
    assert time.monotonic() - began < 40
    assert ours(state) == []
