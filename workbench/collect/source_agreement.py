"""Whether two sources measure the same thing, by what they measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from workbench.samples import FloatArray, IntArray, SeriesTable

_SLACK_US = 30_000_000  # exporters ask Kafka at their own times
_ALIKE_RATIO = 0.95  # of the samples of a partition
_ALIKE_LAG_RATIO = 0.6  # two exporters with lag alone: each measures at its own moment
GAP_INTERVALS = 2.5
ONE_SCRAPE_RATIO = 0.9  # of an interval: a sample that is older is of the scrape before

Measured = tuple[IntArray, FloatArray]  # µs since the epoch in order, and values, both (n,)


def compared_offsets(one: Measured, other: Measured) -> str | None:
    """Two sources of one offset: "alike", which of them is behind ("first", "second"), "contradict", or None if that is not known.

    An offset that one of them reports must lie between what the other one reported shortly before and shortly after.
    """
    if _tells_nothing(one, other):
        return None
    first, second = _inside(one, other), _inside(other, one)
    if first is None and second is None:
        return None  # not at the same time: one has followed the other
    if (first is None or first >= _ALIKE_RATIO) and (second is None or second >= _ALIKE_RATIO):
        return "alike"
    for name, late, ahead in (("first", one, other), ("second", other, one)):
        # A late or frozen exporter reports what was true before; how fast that changes is the other one's to say.
        span = max(1, int(ahead[0][-1] - ahead[0][0]))
        before = (ahead[1].max() - ahead[1].min()) * (_SLACK_US + max(0, int(ahead[0][0] - late[0][0]))) / span
        if late[1].min() >= ahead[1].min() - before and late[1].max() <= ahead[1].max() and late[1][-1] < ahead[1][-1]:
            steady = (np.diff(late[1]) >= 0).all()
            if steady:
                return name
    return "contradict"


def compared_lag(one: Measured, other: Measured) -> str | None:
    """The same for two sources of one lag, which goes up and down: "alike", "contradict" or None."""
    if _tells_nothing(one, other):
        return None
    shares = [share for share in (_inside(one, other, wide=True), _inside(other, one, wide=True)) if share is not None]
    if not shares:
        return None
    return "alike" if min(shares) >= _ALIKE_LAG_RATIO else "contradict"


def _tells_nothing(one: Measured, other: Measured) -> bool:
    """Whether one of them has no samples, or both are always 0."""
    return not len(one[0]) or not len(other[0]) or bool((one[1] == 0).all() and (other[1] == 0).all())


def _inside(one: Measured, other: Measured, *, wide: bool = False) -> float | None:
    """Share of the first's samples that lie between the second's nearest ones; None without samples at the same time."""
    times, values = one
    slack = _SLACK_US + 2 * max(_interval(times), _interval(other[0]))
    bounded = (times >= other[0][0] + slack) & (times <= other[0][-1] - slack)
    there = bounded if bounded.any() else (times >= other[0][0]) & (times <= other[0][-1])
    if not there.any():
        return None
    low = np.searchsorted(other[0], times[there] - slack, side="left")
    high = np.searchsorted(other[0], times[there] + slack, side="right")
    # Extremes of other[low - 1 .. high] for each: every second part of what lies between these bounds. One value more ends the last.
    bounds = np.stack([np.maximum(low - 1, 0), np.minimum(high + 1, len(other[0]))], axis=1).ravel()
    ended = np.append(other[1], other[1][-1])
    least, most = np.minimum.reduceat(ended, bounds)[::2], np.maximum.reduceat(ended, bounds)[::2]
    more = 0.25 * (most - least) if wide else 0.0
    return float(np.mean((least - more <= values[there]) & (values[there] <= most + more)))


def _interval(times: IntArray) -> int:
    return int(np.median(np.diff(times))) if len(times) > 1 else 0


def measured(series: SeriesTable, starts: IntArray, ats: Sequence[int]) -> Measured:
    """The values of some series of a table, whose first samples are at `starts`, in order of time."""
    if not ats:
        return np.empty(0, np.int64), np.empty(0)
    spans = [slice(starts[at], starts[at] + series.lengths[at]) for at in ats]
    times = np.concatenate([series.ts_us[span] for span in spans])
    values = np.concatenate([series.values[span] for span in spans])
    known = ~np.isnan(values)
    order = np.argsort(times[known], kind="stable")
    return times[known][order], values[known][order]


def summed(parts: Sequence[Measured], *, intervals: float) -> Measured:
    """Their sum at each time; each counts until its last sample is so many of its own intervals old."""
    times = np.unique(np.concatenate([ts for ts, _ in parts]))
    total = np.zeros(len(times))
    for ts, values in parts:
        known = ~np.isnan(values)
        mine, of_it = ts[known], values[known]
        if not len(mine):
            continue
        at = np.searchsorted(mine, times, side="right") - 1
        lasts = intervals * float(np.median(np.diff(mine))) if len(mine) > 1 else 0.0
        there = (at >= 0) & (times - mine[np.maximum(at, 0)] <= lasts)
        total += np.where(there, of_it[np.maximum(at, 0)], 0.0)
    return times, total


def longest_age(times: IntArray) -> float:
    """How old the last sample may be, in µs, while what it measures is still measured."""
    return max(_SLACK_US, GAP_INTERVALS * _interval(times))


def has_gap(times: IntArray) -> bool:
    """Whether samples are missing between these."""
    return len(times) > 2 and int(np.diff(times).max()) > GAP_INTERVALS * _interval(times)


def in_gaps(have: IntArray, times: IntArray) -> npt.NDArray[np.bool_]:
    """Whether each time lies in a gap of these."""
    if not len(have):
        return np.ones(len(times), bool)
    gap = int(GAP_INTERVALS * _interval(have))
    after = np.searchsorted(have, times, side="right")
    before = times - have[np.maximum(after - 1, 0)]
    before[after == 0] = np.iinfo(np.int64).max
    until = have[np.minimum(after, len(have) - 1)] - times
    until[after == len(have)] = np.iinfo(np.int64).max
    near = _interval(have) // 2
    return (before > near) & (until > near) & ((before > gap - until) | (until > gap))


def reaches(first: int, last: int, length: int, *, begin: int, end: int) -> bool:
    """Whether so many samples, evenly from first to last, leave no gap at the ends of this time."""
    if length < 2:
        return False
    near = GAP_INTERVALS * (last - first) / (length - 1)
    return first - begin <= near and end - last <= near


def surely_whole(ts_us: IntArray, values: FloatArray, lengths: IntArray) -> list[bool]:
    """Series, none without samples, that surely have no gap (`has_gap`), all at once; of the others it is not known yet."""
    if not len(lengths):
        return []
    last = np.cumsum(lengths) - 1
    starts = last - lengths + 1
    step = np.diff(ts_us, append=ts_us[-1])
    longest, shortest = step.copy(), step.copy()
    longest[last], shortest[last] = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    even = np.maximum.reduceat(longest, starts) <= GAP_INTERVALS * np.minimum.reduceat(shortest, starts).astype(float)
    whole: list[bool] = (even & ~np.logical_or.reduceat(np.isnan(values), starts)).tolist()
    return whole
