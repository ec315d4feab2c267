"""Waiting for what has been set going."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], seconds: float = 30.0, *, pause_seconds: float = 0.05) -> None:
    """Look again and again until something holds; an error if it does not in that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(pause_seconds)
