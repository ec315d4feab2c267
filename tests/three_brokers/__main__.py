"""Start three secured brokers, print how to reach them, and end them at Ctrl-C: `python -m tests.three_brokers`."""

from __future__ import annotations

import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from tests.three_brokers.access import ONCALL
from tests.three_brokers.secured import PASSWORD_VARIABLE, start_secured
from workbench.lab.process import ending_on_signals
from workbench.safe_output import tell, tell_page


def main() -> None:
    """Until Ctrl-C."""
    with tempfile.TemporaryDirectory() as room, ending_on_signals(), start_secured(Path(room) / "lab") as lab:
        tell(", ".join(f"{name} {pid}" for name, pid in lab.pids().items()))
        tell_page(f"read -r {PASSWORD_VARIABLE} < {lab.password_file(ONCALL)}; export {PASSWORD_VARIABLE}\n")
        tell_page(lab.settings())
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
