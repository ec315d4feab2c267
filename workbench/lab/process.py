"""Child processes that never outlive the one who started them, and a register that finds those that a crash left.

Three nets: an orderly `stop`; on Linux the kernel's parent-death signal, which also works when the parent is killed with -9; and
the register on disk (pid with its start time, so that a reused pid is never hit), which `workbench lab down` sweeps.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

import psutil

from workbench.errors import SetupError
from workbench.files import atomic_folder, write_text

STOP_SECONDS = 10.0
# Systems give a client that connects a port above these for its own end (Linux from 32,768, others from 49,152): one of those may be
# taken between its choice and its use.
_NO_CLIENTS_PORTS = range(20_000, 32_768)


@dataclass(slots=True)
class Child:
    """A process of ours."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    record: Path

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.popen.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.popen.poll() is None

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.popen.kill()
        self.popen.wait()
        self.record.unlink(missing_ok=True)

    def suspend(self) -> None:
        """Let it hang: its connections stay open, and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self, *, seconds: float = STOP_SECONDS) -> None:
        """Ask it to end, and end it if it does not."""
        if self.alive:
            self.popen.terminate()
            try:
                self.popen.wait(seconds)
            except subprocess.TimeoutExpired:
                self.popen.kill()
        self.popen.wait()
        self.record.unlink(missing_ok=True)

    def tail(self, lines: int = 8) -> str:
        """The last lines of its log, for an error message."""
        with suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace", encoding="utf-8").splitlines()[-lines:])
        return ""


def start(name: str, command: Sequence[str | Path], *, folder: Path, env: dict[str, str] | None = None) -> Child:
    """Start a program in `folder`, with its output in `<name>.log` there, bound to the life of this process."""
    log = folder / f"{name}.log"
    with log.open("ab") as out:
        popen = _launch(
            [*_leash(), *(str(part) for part in command)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **(env or {})},
            start_new_session=True,  # a Ctrl-C in the terminal goes to us alone; we then stop them in order
        )
    record = folder / "pids" / f"{popen.pid}.json"
    record.parent.mkdir(exist_ok=True)
    with suppress(psutil.Error):
        started = psutil.Process(popen.pid).create_time()
        record.write_text(json.dumps({"name": name, "pid": popen.pid, "started": started}), encoding="utf-8")
    return Child(name, popen, log, record)


def run_within(
    seconds: float,
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    on_line: Callable[[str], None] | None = None,
) -> int:
    """Run a program to its end, bound to the life of this process; its exit status.

    The limit is one of the program and of all that it has started: what still holds its output open would keep the reader waiting long
    after the program itself was killed.

    Args:
        seconds: then all of them are killed.
        command: program and arguments.
        cwd: where.
        on_line: called with each line of its output.

    Raises:
        TimeoutError: if it has not ended in time.
    """
    popen = _launch(
        [*_leash(), *(str(part) for part in command)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        start_new_session=True,  # its group is its own, and so can be killed
    )
    late = threading.Event()

    def end() -> None:
        late.set()
        _kill_group(popen.pid)

    limit = threading.Timer(seconds, end)
    limit.daemon = True
    limit.start()
    try:
        for line in popen.stdout or ():
            if on_line is not None:
                on_line(line.decode(errors="replace"))
        status = popen.wait()
    except BaseException:  # also Ctrl-C
        _kill_group(popen.pid)
        raise
    finally:
        limit.cancel()
        popen.wait()
        if popen.stdout is not None:
            popen.stdout.close()
    if late.is_set():
        raise TimeoutError(f"{Path(command[0]).name} did not end within {seconds:g} s")
    return status


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # all of it has ended
        os.killpg(leader, signal.SIGKILL)


# The kernel takes the thread that started a child for its parent: with that thread's end the child would be killed, though this process
# lives on. So all children are started by one thread that never ends.
_orders: SimpleQueue[tuple[Future[subprocess.Popen[bytes]], list[str], dict[str, Any]]] = SimpleQueue()
_launcher: threading.Thread | None = None
_launcher_lock = threading.Lock()


def _launch(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    global _launcher
    with _launcher_lock:
        if _launcher is None:
            _launcher = threading.Thread(target=_take_orders, name="launcher", daemon=True)
            _launcher.start()
    done: Future[subprocess.Popen[bytes]] = Future()
    _orders.put((done, command, options))
    return done.result()


def _take_orders() -> None:
    while True:
        done, command, options = _orders.get()
        try:
            done.set_result(subprocess.Popen(command, **options))
        except BaseException as error:
            done.set_exception(error)


# Runs in a small Python of its own, which then becomes the program: code between fork and exec of a process with threads (Spark's
# gateway has several) could meet a lock that nobody will ever release.
_LEASH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):  # the parent died before the line above
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def _leash() -> list[str]:
    """Words in front of a command that bind its life to this process, where the system can do that."""
    if sys.platform != "linux":
        return []
    return [sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid())]


def sweep(folder: Path) -> list[str]:
    """End every registered process below `folder` that still runs; returns their names."""
    ended: list[str] = []
    doomed: list[psutil.Process] = []
    for record in sorted(folder.rglob("pids/*.json")):
        with suppress(OSError, ValueError, KeyError, psutil.Error):
            entry = json.loads(record.read_text(encoding="utf-8"))
            process = psutil.Process(entry["pid"])
            if abs(process.create_time() - entry["started"]) < 1.0:  # the same process, not one that got its number
                process.terminate()
                doomed.append(process)
                ended.append(entry["name"])
        record.unlink(missing_ok=True)
    _, stubborn = psutil.wait_procs(doomed, timeout=STOP_SECONDS)
    for process in stubborn:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(stubborn, timeout=STOP_SECONDS)
    return ended


def claim(folder: Path) -> None:
    """Say that this process looks after the processes in `folder`."""
    me = psutil.Process()
    # Who reads half of it would take the folder for an orphan.
    write_text(folder / "owner.json", json.dumps({"pid": me.pid, "started": me.create_time()}))


def claimed(folder: Path) -> None:
    """Make a folder that is looked after from its first moment on, or claim one that is there."""
    if folder.exists():
        claim(folder)
        return
    with atomic_folder(folder) as new:
        claim(new)


def orphaned(folder: Path) -> bool:
    """Whether the process that looked after `folder` has gone without cleaning up."""
    try:
        entry = json.loads((folder / "owner.json").read_text(encoding="utf-8"))
        return bool(abs(psutil.Process(entry["pid"]).create_time() - entry["started"]) >= 1.0)
    except (OSError, ValueError, KeyError, psutil.Error):
        return True


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP (a closed terminal) into an ordinary exit, so that what was started is ended in order."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {name: signal.signal(name, leave) for name in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def free_port() -> int:
    """A loopback port that is free at this moment."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Several of them, no two the same; none that a client that connects meanwhile is given for its own end.

    Raises:
        SetupError: if there are not so many.
    """
    with ExitStack() as stack:
        found: list[int] = []
        for port in random.sample(_NO_CLIENTS_PORTS, len(_NO_CLIENTS_PORTS)):
            probe = stack.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == count:
                return found
    raise SetupError(f"There are only {len(found)} free ports of {_NO_CLIENTS_PORTS[0]} to {_NO_CLIENTS_PORTS[-1]}.")


def wait_until(ready: Callable[[], bool], *, child: Child, seconds: float, what: str) -> None:
    """Wait for `ready`, watching the process.

    Raises:
        SetupError: if the process ends or the time runs out; with the end of its log.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        if not child.alive:
            raise SetupError(
                f"{what} stopped immediately (status {child.popen.returncode}): {child.tail()}",
                hint=f"Its log: {child.log}",
            )
        if time.monotonic() > deadline:
            raise SetupError(f"{what} was not ready after {seconds:.0f} s.", hint=f"Its log: {child.log}")
        time.sleep(0.1)
