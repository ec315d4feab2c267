"""Warnings about peers: some for each kind and minute, then their number. Whoever asks often fills no disk with our log."""

from __future__ import annotations

import logging
import threading
import time

_EACH_MINUTE = 30
_lock = threading.Lock()
_said: dict[str, tuple[float, int]] = {}  # by kind and words: since when, and how often


def warn(log: logging.Logger, words: str, *values: object, kind: str = "") -> None:
    """Log a warning.

    Args:
        words: from our source only.
        kind: counted apart from others with the same words; of a small number.
    """
    key = kind + words
    now = time.monotonic()
    with _lock:
        since, number = _said.get(key, (now, 0))
        left_out = 0
        if now - since >= 60.0:
            left_out, since, number = max(0, number - _EACH_MINUTE), now, 0
        _said[key] = (since, number + 1)
    if left_out:
        log.warning("%d more like the next one are not in this log", left_out)
    if number < _EACH_MINUTE:
        log.warning(words, *values)
