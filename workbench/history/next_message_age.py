"""How old the next message is at each sample of a commit, by the moments at which the log's end passed it."""

from __future__ import annotations

import numpy as np

from workbench.history.partition_series import BoolArray, FloatArray, Track, step_of
from workbench.judgement_numbers import APART, FAR, FEW_SAMPLES, MISSED, MOST, SEVERAL, SLACK


def ages(committed: Track, end: Track, time_lag: Track, step: float) -> tuple[FloatArray | None, BoolArray]:
    """Age of the oldest waiting message at each commit's sample, and whether its production was observed; None without a log."""
    at, offset = committed.at, committed.value
    known = np.ones(len(at), dtype=bool)
    age: FloatArray | None = None
    if len(end):
        rising = np.maximum.accumulate(end.value)
        after = np.searchsorted(rising, offset, side="right")
        seen = np.minimum(after, len(rising) - 1)
        before = np.maximum(seen - 1, 0)
        span = rising[seen] - rising[before]
        # The first of several messages between two samples: half a message after the commit, so that a single one is in the middle.
        part = np.divide(offset + 0.5 - rising[before], span, out=np.full(len(at), 0.5), where=span > 0)
        produced = end.at[before] + np.clip(part, 0, 1) * (end.at[seen] - end.at[before])
        # When the end is measured no more, a commit that has reached its last value may have any number of messages before it.
        known = (after > 0) & ((after < len(rising)) | is_measured(end, at, step))
        produced = np.where(after > 0, produced, end.at[0])
        waits = (after < len(rising)) & (produced < at)
        age = np.where(waits, at - produced, 0.0)
    if len(time_lag) and len(time_lag) >= MOST * len(at):
        # The latest one, and nothing between two: a commit makes a step. A process that is gone shows none, and what waits grows older.
        latest = np.maximum(np.searchsorted(time_lag.at, at, side="right") - 1, 0)
        exact = time_lag.value[latest]
        near = np.abs(at - time_lag.at[latest]) <= MISSED * max(step, step_of(time_lag.at))
        age = np.where(near, exact, age if age is not None else exact)
        known = known | near
    return age, known


def told_by_another_clock(committed: Track, end: Track, time_lag: Track, step: float) -> float | None:
    """The latest age that a source tells of messages that were not there yet so long ago, several times; None if its ages may be true.

    A record's own timestamp is what its producer says: hours ago, of a device that was offline. The log's end, at or below the commit
    then and above it later, shows when the record came.
    """
    if not len(end) or not len(time_lag):
        return None
    rising = np.maximum.accumulate(end.value)
    latest = np.searchsorted(committed.at, time_lag.at, side="right") - 1
    after = np.searchsorted(rising, committed.value[np.maximum(latest, 0)], side="right")
    seen = (latest >= 0) & (after > 0) & (after < len(rising))
    at_most = time_lag.at - end.at[np.clip(after, 1, len(rising)) - 1] + MISSED * max(step, step_of(end.at))
    wrong = np.flatnonzero(seen & (time_lag.value > FAR * at_most))
    return float(time_lag.value[wrong[-1]]) if len(wrong) >= SEVERAL else None


def oldest_at_most(lag: Track, seconds: float) -> float | None:
    """The lowest bound of a partition's age in its last seconds, by nothing but its lag; None if the lag never fell enough.

    Commits have moved at least as far as the lag has fallen, each time that it fell. When they have moved as far as a lag of before,
    all that had been produced by then is read. Where it has not fallen for far longer than ever before, that is over.
    """
    if not len(lag):
        return None
    fell = lag.at[1:][np.diff(lag.value) < 0]
    if len(fell) and lag.value[-1] > 0 and lag.at[-1] - fell[-1] > APART * np.max(np.diff(fell, prepend=lag.at[0])):
        return None
    fallen = np.concatenate([[0.0], np.cumsum(np.maximum(0.0, -np.diff(lag.value)))])
    recent = np.flatnonzero(lag.at >= lag.at[-1] - seconds)
    read = (lag.at[: now + 1][fallen[: now + 1] + lag.value[: now + 1] <= fallen[now]] for now in recent)
    return min((float(lag.at[now] - at[-1]) for now, at in zip(recent, read, strict=True) if len(at)), default=None)


def without_glitches(at: FloatArray, age: FloatArray) -> FloatArray:
    """Replace single samples that cannot be: in a second, an age grows by a second at most."""
    if len(age) < FEW_SAMPLES:
        return age
    step = np.diff(at)
    most = MISSED * step + 1.0
    before, here, after = age[:-2], age[1:-1], age[2:]
    dip = (after > here + most[1:]) & (before > here + most[:-1])
    spike = (here > before + most[:-1]) & (here > after + most[1:])
    cleaned = age.copy()
    cleaned[1:-1] = np.where(dip | spike, (before + after) / 2, here)
    return cleaned


def from_lag(lag: Track, end: Track) -> Track:
    """Commits where only the lag is exported."""
    if not len(lag) or not len(end):
        return Track()
    both = is_measured(end, lag.at, step_of(lag.at))
    at, value = lag.at[both], lag.value[both]
    return Track(at, np.round(np.interp(at, end.at, end.value)) - value)


def is_measured(end: Track, at: FloatArray, step: float) -> BoolArray:
    """Whether the log's end is still measured at the samples of another series, `step` seconds apart.

    Behind its last sample it stands still only in the data: a commit that moves on is no longer compared with it.
    """
    return np.asarray(at <= end.at[-1] + MISSED * max(step, step_of(end.at)))


def newest_log(end: Track) -> tuple[Track, float | None]:
    """The log since it last began anew, and when that was: a topic that was deleted and created again."""
    if len(end) < 2:
        return end, None
    fallen = np.diff(end.value)
    lowest = int(np.argmin(fallen))
    if fallen[lowest] >= 0:
        return end, None
    pace = float(np.max(fallen, initial=0.0))
    # Two sources that take turns differ by no more than some samples' arrivals.
    anew = np.flatnonzero((fallen < -(FAR * pace + SLACK)) | (end.value[1:] < 0.5 * end.value[:-1])) + 1
    if not len(anew):
        return end, None
    return Track(end.at[anew[-1] :], end.value[anew[-1] :]), float(end.at[anew[-1]])
