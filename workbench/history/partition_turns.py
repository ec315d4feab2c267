"""Partitions that take turns: a member that is behind works through what it has fetched of one partition before it takes the next.

Kafka's clients hand out a whole fetch (up to 1 MiB of one partition) before the next one, so with a backlog each partition stands still
for as long as the others take. Such a stop is no freeze: it has an end, and where it ends, that of another partition begins. A client
that is throttled stops, too, again and again. One that is far longer than all others may be a partition that was stuck, and was helped.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from workbench.history.partition_series import FloatArray, Track
from workbench.judgement_numbers import FAR, FEW_SAMPLES, MISSED, PART
from workbench.quantiles import median

_NONE: FloatArray = np.empty(0)


class _Stop(NamedTuple):
    """One with messages that wait; `near` is how exactly its ends are known, in seconds."""

    begin: float
    end: float
    near: float
    partition: int
    goes_on: bool


def longest_turn(lines: Mapping[int, Mapping[str, Track]], since: float) -> float | None:
    """How long partitions with waiting messages stand still usually while others move; the longest time, in seconds; None if none did.

    Usual is a stop at whose end another partition's begins, and one that is not far longer than all the others. Those that ended before
    `since` (seconds before the window's end, negative) are not counted. Of each partition `committed` is read, and `log_end` or `lag`.
    """
    moves = {partition: _moves(own) for partition, own in lines.items()}
    stops = sorted(stop for partition, own in lines.items() for stop in _stops(partition, own, moves[partition]))
    begins = [it.begin for it in stops]
    apart = max((it.near for it in stops), default=0.0)
    ended = [it for it in stops if not it.goes_on and it.end > since]
    all_moves = np.sort(np.concatenate([*moves.values()])) if ended else _NONE
    alone = [it for it in sorted(ended, key=lambda it: it.begin - it.end) if _others_move(it, all_moves)]
    for mine, next_one in zip_longest(alone, alone[1:]):
        around = slice(bisect_left(begins, mine.end - apart), bisect_right(begins, mine.end + apart))
        known = next_one is not None and FAR * (next_one.end - next_one.begin) >= mine.end - mine.begin
        if known or any(_hands_over(mine, other) for other in stops[around]):
            return mine.end - mine.begin
    return None


def _others_move(mine: _Stop, moves: FloatArray) -> bool:
    margin = PART * (mine.end - mine.begin)
    return int(np.ptp(np.searchsorted(moves, [mine.begin + margin, mine.end - margin]))) > 0


def _moves(own: Mapping[str, Track]) -> FloatArray:
    """When the commit of a partition moved."""
    committed = own.get("committed")
    return _NONE if committed is None else committed.at[1:][np.diff(committed.value) != 0]


def _hands_over(mine: _Stop, other: _Stop) -> bool:
    """Whether another partition waits from then on: as long, or not yet as long."""
    long = other.end - other.begin >= PART * (mine.end - mine.begin)
    return other.partition != mine.partition and long and abs(other.begin - mine.end) <= max(mine.near, other.near)


def _stops(partition: int, own: Mapping[str, Track], begin: FloatArray) -> list[_Stop]:
    if len(begin) < FEW_SAMPLES:
        return []
    committed = own["committed"]
    end = np.append(begin[1:], committed.at[-1])
    near = MISSED * median(np.diff(begin))
    stood = end - begin > near
    stood &= _waited(own, begin + PART * (end - begin), committed.value[np.searchsorted(committed.at, begin)])
    return [
        _Stop(float(begin[it]), float(end[it]), near, partition, it == len(begin) - 1) for it in np.flatnonzero(stood)
    ]


def _waited(own: Mapping[str, Track], at: FloatArray, committed: FloatArray) -> np.ndarray:
    """Whether messages were there at these times; not if it is not known."""
    end, lag = own.get("log_end", Track()), own.get("lag", Track())
    if len(end):
        return np.asarray(np.interp(at, end.at, end.value) >= committed + 1)
    return np.interp(at, lag.at, lag.value) >= 1 if len(lag) else np.zeros(len(at), dtype=bool)
