"""The wheel alone, installed into an environment of its own, far from any checkout: what people do first works there.

The environment sees the libraries of the one that runs the tests (a .pth file), but not the project: its editable install is
a .pth file itself, and those are read in an environment's own folder only.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import requests

from tests.wheel import ROOT, built
from workbench import __version__

pytestmark = pytest.mark.slow

TRUTH = json.loads((ROOT / "tests" / "truth.json").read_text())


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and an empty folder to work in."""

    home: Path
    work: Path

    @property
    def package(self) -> Path:
        """Where the wheel's package lies."""
        [folder] = self.home.glob("lib/python*/site-packages/workbench")
        return folder

    def environment(self) -> dict[str, str]:
        """Nothing that leads to another Python or to the checkout."""
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        return {**kept, "VIRTUAL_ENV": str(self.home), "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}"}

    def run(self, program: str, *words: str | Path, seconds: float = 300) -> subprocess.CompletedProcess[str]:
        """One of its programs, to its end."""
        return subprocess.run(
            [self.home / "bin" / program, *words],
            cwd=self.work,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in a new environment."""
    room = tmp_path_factory.mktemp("installed")
    wheel = built(room / "dist")
    print(f"\n{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
    home = room / "venv"
    venv.create(home, symlinks=True)
    # Before the libraries are seen: pip shall find nothing of this project.
    pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, wheel], check=True, timeout=120)
    new = Installed(home=home, work=room / "work")
    new.work.mkdir()
    (new.package.parent / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    # JupyterLab's pages are data files of an environment, which a .pth file does not show.
    (home / "share").mkdir(exist_ok=True)
    (home / "share" / "jupyter").symlink_to(Path(sys.prefix) / "share" / "jupyter")
    return new


def test_nothing_of_it_comes_from_a_checkout(installed: Installed) -> None:
    """The package, what ships with it, and the version are those of the wheel."""
    probe = (
        "import sys, workbench, importlib.metadata as m; from workbench import assets;"
        "print(workbench.__file__, assets.shipped('runbooks'), assets.notebook('lag_triage'), m.version('lag-workbench'),"
        " *sys.path, sep='\\n')"
    )
    shown = installed.run("python", "-c", probe)
    assert shown.returncode == 0, shown.stderr
    module, runbooks, notebook, version, *path = shown.stdout.splitlines()
    assert Path(module) == installed.package / "__init__.py"
    for place in (runbooks, notebook):
        assert Path(place).is_relative_to(installed.package / "_shipped")
    assert version == __version__
    assert not [entry for entry in path if entry and (Path(entry) / "workbench" / "__init__.py").exists()][1:]
    assert installed.run("workbench", "--version").stdout == f"workbench, version {__version__}\n"


def test_the_locked_libraries_are_what_the_wheel_asks_for(installed: Installed) -> None:
    """Each requirement by name and version; pip itself is one of the libraries."""
    shown = installed.run("python", "-m", "pip", "check")
    assert (shown.returncode, shown.stdout) == (0, "No broken requirements found.\n"), shown.stdout + shown.stderr


def test_triage_of_a_shipped_capture(installed: Installed) -> None:
    """Its verdict is the truth, and a report is written."""
    capture = installed.package / "_shipped" / "notebooks" / "captures" / "incident-1"
    shown = installed.run("workbench", "triage", "--capture", capture, "--json", "--html", "report.html")
    assert shown.returncode == 3, shown.stderr
    [finding] = json.loads(shown.stdout)["findings"]
    assert finding["verdict"] == TRUTH["incident-1"]["verdict"]
    assert "</html>" in (installed.work / "report.html").read_text(encoding="utf-8")


def test_the_health_report_runs_in_a_kernel_of_this_environment(installed: Installed) -> None:
    """As the CronJob does it: papermill, a kernel, and the package that the kernel finds."""
    capture = installed.package / "_shipped" / "notebooks" / "captures" / "incident-1"
    shown = installed.run("workbench", "report", "run", "health", "--capture", capture, "--out", "reports")
    assert shown.returncode == 3, shown.stderr
    [run] = (installed.work / "reports").glob("health-*/run.json")
    assert (run.parent / "report.html").exists()
    assert json.loads(run.read_text())["versions"]["workbench"] == __version__


def test_the_runbooks_are_whole(installed: Installed) -> None:
    """One for one with verdicts and alerts."""
    shown = installed.run("workbench", "runbooks", "check")
    assert shown.returncode == 0, shown.stderr


def test_the_demo(installed: Installed) -> None:
    """A real Kafka and a real incident; its processes are started from the wheel, too."""
    shown = installed.run("workbench", "demo", "--out", "demo", seconds=540)
    assert shown.returncode == 0, shown.stderr[-3000:]
    assert "which is what was done to it" in shown.stdout + shown.stderr
    assert (installed.work / "demo" / "report.html").exists()


def test_the_notebook_opens_and_ends(installed: Installed) -> None:
    """JupyterLab answers with the triage notebook, and Ctrl-C ends it and all it has started."""
    log = installed.work / "notebook.log"
    with log.open("w") as out:
        child = subprocess.Popen(
            [installed.home / "bin" / "workbench", "notebook", "--no-browser"],
            cwd=installed.work,
            env=installed.environment(),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    started: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + 240
        while (found := re.search(r"(http://127\.0\.0\.1:\d+)/lab\S*\?token=(\w+)", log.read_text())) is None:
            assert child.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.3)
        server, token = found.groups()
        answer = requests.get(f"{server}/api/contents/lag_triage.ipynb?token={token}", timeout=60)
        assert answer.json()["content"]["cells"]
        assert requests.get(f"{server}/lab?token={token}", timeout=60).status_code == 200
        kernel = requests.post(f"{server}/api/kernels?token={token}", timeout=120)
        assert kernel.status_code == 201
        started = psutil.Process(child.pid).children(recursive=True)
        assert len(started) >= 2  # the server and the kernel
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 0
        assert psutil.wait_procs(started, timeout=30)[1] == []
    finally:
        for process in [*started, child]:
            if process.is_running() if isinstance(process, psutil.Process) else process.poll() is None:
                process.kill()


CONSUMER = """\
from datetime import UTC, datetime, timedelta

from workbench.runtime import Dead, Event, processor
from workbench.window import Window


@processor("refund")
def refund(event: Event) -> Dead | None:
    return Dead("empty") if event.payload is None else None


def length(window: Window) -> float:
    return (window.end - window.start).total_seconds()


end = datetime.now(UTC)
hour = timedelta(hours=1)
length(Window(baseline_start=end - 2 * hour, start=end - hour, end=end))
"""


def test_types_reach_who_uses_them(installed: Installed) -> None:
    """A program that uses the package rightly passes mypy --strict; one that passes a text for a window does not."""
    mypy = [
        Path(sys.executable).with_name("mypy"),
        "--strict",
        "--python-executable",
        installed.home / "bin" / "python",
    ]

    def checked(name: str, text: str) -> subprocess.CompletedProcess[str]:
        (installed.work / name).write_text(text, encoding="utf-8")
        return subprocess.run(
            [*mypy, name],
            cwd=installed.work,
            env=installed.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=550,
        )

    right = checked("right.py", CONSUMER)
    assert right.returncode == 0, right.stdout
    wrong = checked("wrong.py", CONSUMER + 'length("an hour")\nDead(7)\n')
    assert wrong.returncode == 1
    assert wrong.stdout.count("[arg-type]") == 2, wrong.stdout
