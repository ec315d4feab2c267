"""Programs of the system that tests need, installed by its package manager where that needs no asking."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from workbench.errors import GuardError
from workbench.files import exclusive_lock

_SECONDS = 600  # of a slow line


def found_or_installed(find: Callable[[], str | None], package: str) -> str | None:
    """What `find` finds, before or after its package was installed; None if neither finds it.

    Parts of the tests that run beside each other take turns: of two package managers at once, one gives up.
    """
    if (found := find()) is not None or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return found
    busy = GuardError(f"Another process has been installing packages for over {_SECONDS} s.", hint="Stop it.")
    with exclusive_lock(Path(tempfile.gettempdir()) / "workbench-tests-apt.lock", busy, wait_seconds=2 * _SECONDS):
        for words in (("update",), ("install", "-y", "--no-install-recommends", package)):
            if find() is None:
                command = ["apt-get", "-qq", "-o", f"DPkg::Lock::Timeout={_SECONDS}", *words]
                subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=_SECONDS)
    return find()
