"""The processors of a chaos run: each handled event becomes a line in a file, written before the handler returns."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from workbench.runtime import Dead, Event, processor

_FILE = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
_PRESSED = Path(os.environ["LEDGER"]).with_suffix(".pressed")  # while it is there, everything is slow


@processor("*")
def handle(event: Event) -> object:
    """Work for some milliseconds, then say what was done; one write, so that a kill leaves no half line."""
    began = time.monotonic_ns()  # one clock for all processes of a machine
    time.sleep(0.25 if _PRESSED.exists() else random.uniform(0.001, 0.008))
    record = event.record
    number = bytes(event.payload[:12]).decode()
    words = (event.key.decode(), record.partition, int(number), began, time.monotonic_ns(), os.getpid())
    os.write(_FILE, (" ".join(map(str, words)) + "\n").encode())
    return Dead("chaos") if event.type == "dead" else None
