"""The processors of a chaos run: each handled event becomes a line in a file, written before the handler returns."""

from __future__ import annotations

import os
import random
import time

from workbench.runtime import Event, processor

_FILE = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@processor("*")
def handle(event: Event) -> None:
    """Work for some milliseconds, then say what was done; one write, so that a kill leaves no half line."""
    began = time.monotonic_ns()  # one clock for all processes of a machine
    time.sleep(random.uniform(0.001, 0.008))
    record = event.record
    words = (event.key.decode(), record.partition, record.offset, began, time.monotonic_ns(), os.getpid())
    os.write(_FILE, (" ".join(map(str, words)) + "\n").encode())
