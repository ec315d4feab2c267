"""The command as its users call it: in a process of its own, or, where nothing depends on that, in this one."""

from __future__ import annotations

import atexit
import gc
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from workbench.cli import main
from workbench.spark import session

PROGRAM = Path(sys.executable).with_name("workbench")


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The installed command."""
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=120, check=False, cwd=cwd)


def run_here(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command's `main` in this process: a second less for each call. It must not leave a start of Spark behind.

    What the command changes in its process is put back: signals, hooks, and the modules that it loads from `cwd`.
    """
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    modules, threshold = set(sys.modules), gc.get_threshold()
    with pytest.MonkeyPatch.context() as patch, CliRunner().isolation() as (stdout, stderr, _):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["workbench", *words])
        patch.setattr(sys, "path", list(sys.path))
        patch.setattr(threading, "excepthook", threading.excepthook)
        patch.setattr(atexit, "register", lambda *_call, **_options: None)
        try:
            main()
        except SystemExit as leave:
            code = leave.code
        finally:
            gc.set_threshold(*threshold)
            for number, handler in signals.items():
                signal.signal(number, handler)
            for name in set(sys.modules) - modules:
                if str(getattr(sys.modules[name], "__file__", None)).startswith(str(cwd)):
                    del sys.modules[name]
        sys.stdout.flush()
        sys.stderr.flush()
        said = [stream.getvalue().decode("utf-8") for stream in (stdout, stderr)]
    assert session._starting is None, "it starts Spark: call it by `run`"
    assert gc.isenabled(), "it leaves the process without a garbage collector: Spark's frames are never let go"
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(list(words), code, *said)


def check(shown: subprocess.CompletedProcess[str], code: int, *named: str) -> None:
    """The code, a message and a hint, and no traceback; stdout is empty."""
    assert shown.returncode == code, shown.stderr
    lines = [line for line in shown.stderr.splitlines() if not line.startswith(("✓", "…"))]
    assert lines[0].startswith("Error: "), shown.stderr
    assert len(lines) <= 2, shown.stderr
    if len(lines) == 2:
        assert lines[1].startswith("Hint:")
    for text in named:
        assert text in shown.stderr
    assert "Traceback" not in shown.stderr
    assert shown.stdout == ""


def refused(words: list[str], code: int, *named: str, cwd: Path) -> None:
    """A mistake, told as `check` says. What is to reach a server has clients and a JVM beside it: a process of its own."""
    check((run if code == 5 else run_here)(*words, cwd=cwd), code, *named)
