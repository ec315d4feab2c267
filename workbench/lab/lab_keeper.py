"""The process that keeps a lab up after `workbench lab up` has returned, and its counterpart `lab down`.

Run as `python -m workbench.lab.lab_keeper FOLDER TTL_SECONDS PROMETHEUS`. It owns the broker, the exporter and Prometheus; if it is
killed, the kernel ends them with it, and `lab down` sweeps what is left.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import psutil

from workbench.errors import GuardError, SetupError, WorkbenchError
from workbench.files import exclusive_lock, write_text
from workbench.lab import process
from workbench.lab.lab import Lab, lab_dir, remove_folder, start_lab
from workbench.safe_output import tell
from workbench.settings import lab_cluster_file

_UP_SECONDS = 180.0
_DOWN_SECONDS = 40.0
_CHECK_SECONDS = 1.0
_KEEPER = (sys.executable, "-m", "workbench.lab.lab_keeper")


def _state_file() -> Path:
    return lab_dir() / "keeper.json"


def running() -> dict[str, Any] | None:
    """The state of the lab that is up: folder, bootstrap, prometheus_url, pids; None if there is none."""
    try:
        state: dict[str, Any] = json.loads(_state_file().read_text(encoding="utf-8"))
        keeper = psutil.Process(state["keeper"])
        alive = abs(keeper.create_time() - state["started"]) < 1.0 and keeper.status() != psutil.STATUS_ZOMBIE
    except (OSError, ValueError, KeyError, psutil.Error):
        return None
    return state if alive and state.get("bootstrap") else None


def attach(state: dict[str, Any]) -> Lab:
    """A handle on the lab that the keeper keeps; stopping it stops nothing."""
    return Lab(Path(state["directory"]), state["bootstrap"], state["prometheus_url"])


def up(*, ttl_seconds: float, with_prometheus: bool = True) -> dict[str, Any]:
    """Bring a lab up that outlives this process. One at a time: a second call waits until the first has ended, and finds its lab.

    Args:
        ttl_seconds: then it ends by itself.
        with_prometheus: whether to start one.

    Raises:
        GuardError: if one is up already, or another call takes too long.
        SetupError: if it does not come up; nothing is left behind then.
    """
    busy = GuardError(
        "Another `workbench lab up` is running.", hint="Wait for it, or stop it with: workbench lab down."
    )
    with exclusive_lock(lab_dir() / "up.lock", busy, wait_seconds=_UP_SECONDS + _DOWN_SECONDS):
        if running() is not None:
            raise GuardError(
                "A lab is already running.",
                hint="Show it with: workbench lab status. Stop it with: workbench lab down.",
            )
        down()  # what a killed keeper left
        return _bring_up(ttl_seconds, with_prometheus)


def _bring_up(ttl_seconds: float, with_prometheus: bool) -> dict[str, Any]:
    folder = lab_dir() / f"up-{os.getpid()}"
    folder.mkdir(parents=True)
    with (folder / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(
            [*_KEEPER, str(folder), str(ttl_seconds), str(int(with_prometheus))],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + _UP_SECONDS
        while (state := running()) is None:
            if keeper.poll() is not None:
                raise SetupError(_last_words(folder) or "The lab stopped immediately.")
            if time.monotonic() > deadline:
                raise SetupError(f"The lab was not up after {_UP_SECONDS:.0f} s.", hint=f"Its log: {folder}/keeper.log")
            time.sleep(0.1)
    except BaseException:  # also Ctrl-C: nothing stays behind
        keeper.terminate()
        with suppress(subprocess.TimeoutExpired):
            keeper.wait(_DOWN_SECONDS)
        down()
        raise
    return state


def _last_words(folder: Path) -> str | None:
    """The last line of a keeper's log; none if `lab down` has removed it meanwhile."""
    with suppress(OSError):
        said = (folder / "keeper.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return said[-1] if said else None
    return None


def down() -> list[str]:
    """End the lab, in order if its keeper lives, else by sweeping what it left; returns what was ended."""
    ended: list[str] = []
    with suppress(OSError, ValueError, KeyError, psutil.Error):
        state = json.loads(_state_file().read_text(encoding="utf-8"))
        keeper = psutil.Process(state["keeper"])
        if abs(keeper.create_time() - state["started"]) < 1.0:
            ended += [name for name in state["pids"] if name != "keeper"]
            keeper.terminate()
            with suppress(psutil.TimeoutExpired):
                keeper.wait(_DOWN_SECONDS)
            if keeper.is_running():
                keeper.kill()
    for folder in [*lab_dir().glob("up-*"), *lab_dir().glob("own-*")]:
        if folder.name.startswith("own-") and not process.orphaned(folder):
            continue  # a scenario or a demo that runs right now
        ended += process.sweep(folder)
        remove_folder(folder)
    lab_cluster_file().unlink(missing_ok=True)
    _state_file().unlink(missing_ok=True)
    return list(dict.fromkeys(ended))


def _keep(folder: Path, ttl_seconds: float, with_prometheus: bool) -> None:
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _signal, _frame: stop.set())
    started = psutil.Process().create_time()
    state: dict[str, Any] = {"keeper": os.getpid(), "started": started, "pids": {}, "directory": str(folder)}
    write_text(_state_file(), json.dumps(state))
    try:
        with start_lab(folder, with_prometheus=with_prometheus, say=tell) as lab:
            state |= {
                "cluster": "lab",
                "cluster_id": lab.cluster_id,
                "bootstrap": lab.bootstrap,
                "prometheus_url": lab.prometheus_url,
                "pids": {**lab.pids(), "keeper": os.getpid()},
                "until": time.time() + ttl_seconds,
            }
            write_text(lab_cluster_file(), lab.cluster().model_dump_json(indent=1), private=True)
            write_text(_state_file(), json.dumps(state))
            deadline = time.monotonic() + ttl_seconds
            while not stop.wait(_CHECK_SECONDS) and time.monotonic() < deadline:
                if (name := lab.failed()) is not None:
                    tell(f"{name} has died; the lab stops.")
                    break
    finally:
        lab_cluster_file().unlink(missing_ok=True)
        _state_file().unlink(missing_ok=True)


def main() -> int:
    """Keep a lab until SIGTERM or the end of its time."""
    try:
        _keep(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "1")
    except WorkbenchError as error:
        tell(error.message + (f" {error.hint}" if error.hint else ""))
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
