"""Partitions that take turns: a member that is behind works through what it has fetched of one partition before it takes the next.

Kafka's clients hand out a whole fetch (up to 1 MiB of one partition) before the next one, so with a backlog each partition stands still
for as long as the others take. Such a stop is no freeze: it has an end, and others move meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.chronicle.series import FloatArray, Line
from workbench.numbers import PART


def longest_turn(lines: Mapping[int, Mapping[str, Line]], since: float) -> float | None:
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


def passed_over(lines: Mapping[int, Mapping[str, Line]], members: float | None = None) -> dict[int, float]:
    """How often others have moved in the later part of a partition's present stop: the median of those that have, or 0.

    Where partitions take turns each other one has had one or two; a partition that is stuck is passed over again and again, by others
    of its own member: as many as a member has, of those that have moved least, may be these.

    Args:
        lines: for each partition its `committed`.
        members: how many the group has; None: not known.
    """
    moves: dict[int, FloatArray] = {}
    for partition, own in lines.items():
        committed = own.get("committed")
        if committed is not None and len(committed) > 0:
            changed = np.flatnonzero(np.diff(committed.value) != 0) + 1
            moves[partition] = committed.at[changed] if len(changed) else committed.at[:1]
    passed = {}
    mates = len(moves) // max(round(members), 1) - 1 if members else 0
    now = max((own["committed"].at[-1] for partition, own in lines.items() if partition in moves), default=0.0)
    for partition, at in moves.items():
        # Those that stopped with it may have made their last moves after its own.
        begun = at[-1] + PART * (now - at[-1])
        since = sorted(int(np.sum(other > begun)) for key, other in moves.items() if key != partition)
        if since:
            usual = float(np.median([it for it in since if it] or [0]))
            passed[partition] = min(usual, since[mates - 1]) if mates > 0 else usual
    return passed


def _waited(own: Mapping[str, Line], at: FloatArray, committed: FloatArray) -> np.ndarray:
    """Whether messages were there at these times; not if it is not known."""
    end, lag = own.get("log_end"), own.get("lag")
    if end is not None and len(end):
        return np.asarray(np.interp(at, end.at, end.value) >= committed + 1)
    if lag is not None and len(lag):
        return np.asarray(np.interp(at, lag.at, lag.value) >= 1)
    return np.zeros(len(at), dtype=bool)
