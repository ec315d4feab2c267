"""Partitions that take turns: a member that is behind works through what it has fetched of one partition before it takes the next.

Kafka's clients hand out a whole fetch (up to 1 MiB of one partition) before the next one, so with a backlog each partition stands still
for as long as the others take. Such a stop is no freeze: it has an end, and others move meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.history.series import FloatArray, Track
from workbench.numbers import PART


def longest_turn(lines: Mapping[int, Mapping[str, Track]], since: float) -> float | None:
    """How long a partition with waiting messages stood still while others moved, and then moved on; the longest time, in seconds.

    Args:
        lines: for each partition its `committed`, and `log_end` or `lag`.
        since: stops that ended before are not counted (seconds before the window's end, negative).

    Returns:
        None if no partition did.
    """
    moves: dict[int, tuple[FloatArray, FloatArray]] = {}
    for partition, own in lines.items():
        committed = own.get("committed")
        if committed is not None and len(committed) > 1:
            changed = np.flatnonzero(np.diff(committed.value) != 0) + 1
            moves[partition] = committed.at[changed], committed.value[changed]
    if len(moves) < 2:
        return None
    all_moves = np.sort(np.concatenate([at for at, _ in moves.values()]))
    longest = 0.0
    for partition, (at, offset) in moves.items():
        recent = np.flatnonzero(at[1:] > since)
        if not len(recent):
            continue
        begin, end = at[recent], at[recent + 1]
        margin = PART * (end - begin)
        others = np.searchsorted(all_moves, end - margin) > np.searchsorted(all_moves, begin + margin)
        counted = others & _waited(lines[partition], begin + margin, offset[recent])
        if counted.any():
            longest = max(longest, float(np.max((end - begin)[counted])))
    return longest or None


def _waited(own: Mapping[str, Track], at: FloatArray, committed: FloatArray) -> np.ndarray:
    """Whether messages were there at these times; not if it is not known."""
    end, lag = own.get("log_end"), own.get("lag")
    if end is not None and len(end):
        return np.asarray(np.interp(at, end.at, end.value) >= committed + 1)
    if lag is not None and len(lag):
        return np.asarray(np.interp(at, lag.at, lag.value) >= 1)
    return np.zeros(len(at), dtype=bool)
