"""Since when a partition is behind, what its rhythm is, and whether it catches up."""

from __future__ import annotations

import numpy as np

from workbench.history.partition_series import (
    FEW_MOVES,
    Aged,
    BoolArray,
    Bounds,
    FloatArray,
    IntArray,
    PartitionHistory,
    slope,
    stretches,
)
from workbench.judgement_numbers import APART, FAR, FEW_SAMPLES, LESS, MORE, MOST, NOISE, PART, TENTH
from workbench.quantiles import median, quantile

_HINGE_BEFORE, _HINGE_AFTER = 24, 12
_TURNS = 48


def episode(found: PartitionHistory, it: Aged) -> None:
    """Cadence, onset, and the stretches in which it was late."""
    at, offset, age, known, changed = it.committed.at, it.committed.value, it.age, it.known, it.changed
    limits, step = it.limits, it.step
    bound = limits.objective
    noise = 2 * step + NOISE * limits.objective
    cadence = _cadence(age, changed, len(age))
    low = quantile(age, PART)
    band = min(FAR * low + noise, bound + (limits.commit_every or cadence or 0.0))
    well = np.flatnonzero(age <= band)
    if len(well):
        # Again with what lies before: the incident itself says nothing about good times.
        last = int(well[-1]) + 1
        # What comes and goes in the window is no rhythm yet, if there is time before it to learn from.
        learned = int(np.searchsorted(at, limits.window_start))
        if (changed < learned).sum() >= FEW_MOVES:
            last = min(last, learned)
        cadence = _cadence(age, changed, last)
        before = age[:last]
        usual = quantile(before, 1 - NOISE)
        rhythm = limits.commit_every or cadence or 0.0
        band = min(max(MORE * usual, rhythm) + noise, bound + rhythm)
        well = np.flatnonzero(age <= band)
    found.cadence = cadence
    gaps = np.diff(at[changed])
    # One interval without a change: it has stood still in between.
    stops = np.flatnonzero(gaps > max(limits.objective, APART * step, 2 * (cadence or 0.0)))
    if len(changed):
        until = len(at) if not len(well) else int(well[-1]) + 1
        found.rhythm = max([gap for gap in (_rhythm(at, age, changed, until), _next_gap(it)) if gap], default=None)
    # What is expected of a group counts more than what it did.
    explained = limits.commit_every or cadence or 0.0
    late = age > bound + explained
    # A bound that is low because the data are young is no proof of being in time.
    found.late = bool(late[-1]) if late[-1] or known[-1] else None
    recent = at > limits.window_start / 2
    if recent.sum() >= FEW_MOVES:
        found.age_slope = slope(at[recent], age[recent])
    _latest(found, at, age, late, limits)
    inside = at > limits.window_start
    begins, ends = stretches(late[inside])
    found.lateness = tuple(zip(at[inside][begins].tolist(), at[inside][ends - 1].tolist(), strict=True))
    found.outages = _outages(at, late, changed, stops)
    if age[-1] <= band:
        return
    if not len(well):
        found.sick_from_start = True
        found.steady = _is_steady(age, changed, cadence, noise)
        return
    # It only looked well as long as the data did not show how late it was.
    if not known[well].any():
        seen = known & (at > at[well[-1]])
        found.steady = bool(2 * seen.sum() > len(age)) and _is_steady(age[seen], changed, cadence, noise)
        found.sick_from_start = True
        return
    found.onset = _hinge(at, age, int(well[-1]))
    # It caught up with something, and then stood still: what matters began when it stopped. Between two commits all stands still.
    if (
        len(changed)
        and at[changed[-1]] > found.onset
        and age[-1] - age[changed[-1]] > LESS * (at[-1] - at[changed[-1]]) > 2 * max(step, found.rhythm or 0.0)
    ):
        since = slice(int(np.searchsorted(at, found.onset)), int(changed[-1]) + 1)
        waits = it.waits(at[since], offset[since])
        if len(waits) and waits[-1] < LESS * np.max(waits):
            found.onset = float(at[changed[-1]])


def _is_steady(age: FloatArray, changed: IntArray, cadence: float | None, noise: float) -> bool:
    """Equally late all the time, while commits move."""
    return len(changed) >= FEW_MOVES and float(np.ptp(age)) <= TENTH * median(age) + 2 * (cadence or 0.0) + noise


def _cadence(age: FloatArray, changed: IntArray, until: int) -> float | None:
    """Usual drop of the age at a commit, up to a sample; None without commits."""
    commits = int((changed < until).sum())
    if not commits:
        return None
    # Measured ages and commits come from different scrapes, so a drop may be seen a sample after its commit.
    drops = -np.diff(age[:until])
    drops = drops[drops > 0]
    if not len(drops):
        return 0.0
    # Nothing waited at the other commits: two long pauses among a hundred commits are no rhythm.
    drops = np.sort(np.concatenate([np.zeros(max(0, commits - len(drops))), drops]))
    middle = float(drops[(len(drops) - 1) // 2])
    high = quantile(drops, 1 - NOISE)
    # One long pause among many short ones is no rhythm.
    return min(high, FAR * middle) if len(drops) >= FEW_MOVES else middle


def _rhythm(at: FloatArray, age: FloatArray, changed: IntArray, until: int) -> float | None:
    """Usual time between two commits while something waits: up to a sample, or since then, if they are rarer now.

    A handler that has become slow, or a group that is late since the data begin, has no other rhythm than that since.
    """
    gaps, busy = np.diff(at[changed]), age[changed[1:] - 1] > 0
    before, since = gaps[busy & (changed[1:] < until)], gaps[busy & (changed[:-1] >= until)]
    least = FEW_MOVES - 1 if len(before) else 1
    return max([_usual(it) for it in (before, since if len(since) >= least else before) if len(it)], default=None)


def _next_gap(it: Aged) -> float:
    """How long the next commit takes a consumer that reads all that waits at once, and ever more; 0 where the last was no such."""
    if len(it.changed) < FEW_MOVES or (it.lag is None and not len(it.end)):
        return 0.0
    last = it.changed[-2:]
    at, offset = it.committed.at[last], it.committed.value[last]
    before, read = np.diff(it.committed.value[it.changed[-FEW_MOVES:]])
    waited = it.waits(at, offset)
    if not (read >= MORE * before > 0 and LESS * waited[0] <= read <= waited[0] / LESS):
        return 0.0
    # It reads only while something waits.
    took = min(float(at[1] - at[0]), float(it.age[last[1] - 1]) + it.step)
    return max(0.0, took * float(waited[1] / read))


def _usual(gaps: FloatArray) -> float:
    """The longest one, but for those far longer than the middle one: a single pause is no rhythm."""
    gaps = np.sort(gaps)
    return min(quantile(gaps, 1 - NOISE), FAR * float(gaps[(len(gaps) - 1) // 2]))


def _latest(found: PartitionHistory, at: FloatArray, age: FloatArray, late: BoolArray, limits: Bounds) -> None:
    begins, ends = stretches(late)
    over = ends < len(at)
    if over.any() and at[ends[over][-1]] > limits.window_start:
        begin, end = int(begins[over][-1]), int(ends[over][-1])
        first = max(begin - 1, 0)
        found.late_peak = float(np.max(age[begin:end]))
        found.late_from, found.late_to = float(at[begin] - age[begin] if begin else at[first]), float(at[end])


def _outages(at: FloatArray, late: BoolArray, changed: IntArray, stops: IntArray) -> int:
    """In how many stretches it was late and stood still.

    0 if it does so most of the time, as a batch does between its runs, or has not done so for longer than usual.
    """
    begins, ends = at[changed[stops]], at[changed[stops + 1]]
    if not len(stops) or float((ends - begins).sum()) > MOST * (at[-1] - at[0]):
        return 0
    from_at, until = stretches(late)
    first, last = at[from_at], at[until - 1]
    down = ((begins[None, :] <= last[:, None]) & (ends[None, :] >= first[:, None])).any(axis=1)
    first, last = first[down], last[down]
    # They are over if the next one would have come by now.
    if len(first) > 1 and at[-1] - last[-1] > MORE * median(np.diff(first)):
        return 0
    return len(first)


def drain(found: PartitionHistory, it: Aged) -> None:
    """The lag right after each commit, from where it was highest: a line that reaches 0 at some time."""
    committed, changed = it.committed, it.changed
    if (it.lag is None and not len(it.end)) or (found.onset is None and not found.sick_from_start):
        return
    from_at = found.onset if found.onset is not None else committed.at[0]
    at = committed.at[changed]
    whole = it.waits(np.append(at, committed.at[-1]), np.append(committed.value[changed], committed.value[-1]))
    last = float(whole[-1])
    seen = at >= from_at
    at, waits = at[seen], whole[:-1][seen]
    if len(at) < FEW_MOVES:
        return
    peak = int(np.argmax(waits))
    x, y = at[peak:], waits[peak:]
    if len(x) < FEW_MOVES:
        return
    # What goes up and down says nothing of an end, until it has gone down by more than ever before; by far more, as long as that is a
    # small part of it.
    fell = y[0] - last
    if fell <= (APART if fell > NOISE * y[0] else FAR) * _regained(waits):
        return
    recent = slice(-max(FEW_MOVES, len(x) // 2), None)
    slopes = [slope(x[part], y[part]) for part in (slice(None), recent)]
    if max(slopes) < 0:
        found.drain_in, found.drain_seen = last / -max(slopes), float(x[-1] - x[0])


def course(found: PartitionHistory, it: Aged) -> None:
    """How fast the lag has changed in the last few samples, of one that is behind or on the way to it; it may have turned a moment ago.

    Where commits are rarer than samples, right after each of the last few: in between, every lag grows.
    """
    committed, changed = it.committed, it.changed
    behind = found.onset is not None or found.sick_from_start or (found.waiting or 0.0) > it.limits.objective / 2
    if (it.lag is None and not len(it.end)) or not behind:
        return
    rhythm = found.rhythm or 0.0
    at, offset = committed.at, committed.value
    if rhythm > 2 * it.step and at[-1] - at[changed[-1]] <= FAR * rhythm:
        at, offset = at[changed], offset[changed]
    if len(at) < FEW_MOVES:
        return
    # The middle one of the slopes between any two of them: one odd sample, wherever it is, turns nothing.
    last, waits = at[-FEW_MOVES - 2 :], it.waits(at, offset)[-FEW_MOVES - 2 :]
    one, other = np.triu_indices(len(last), k=1)
    found.lag_course = median((waits[other] - waits[one]) / (last[other] - last[one]))


def _regained(waits: FloatArray) -> float:
    """The most that a lag grew again after it had shrunk."""
    shrunk = np.maximum.accumulate(waits) - waits
    grew_again = np.maximum.accumulate(waits[::-1])[::-1] - waits
    return float(np.max(np.minimum(shrunk, grew_again)))


def _hinge(at: FloatArray, age: FloatArray, last_well: int) -> float:
    """Where a flat line turns into a rising one, by least squares over the turn; not later than the first sample that is behind."""
    # Back to where it was as low as in good times, and some samples more: a slow rise takes long to be seen.
    low = np.flatnonzero(age[: last_well + 1] <= quantile(age[: last_well + 1], PART) + 1.0)
    first = max(0, min(last_well, int(low[-1])) - _HINGE_BEFORE)
    to = min(len(at), last_well + 1 + _HINGE_AFTER)
    # Not beyond a peak: after it the age falls again.
    to = last_well + 1 + int(np.argmax(age[last_well + 1 : to])) + 1
    x, y = at[first:to], age[first:to]
    if len(x) < FEW_SAMPLES:
        return float(at[last_well])
    latest = x[min(last_well + 1 - first, len(x) - 1)]
    coarse = np.linspace(x[0], latest, _TURNS)
    best = _best_turn(x, y, coarse)
    if best is None:
        return float(at[last_well])
    apart = coarse[1] - coarse[0]
    fine = np.linspace(max(x[0], best - apart), min(latest, best + apart), _TURNS)
    return _best_turn(x, y, fine) or best


def _best_turn(x: FloatArray, y: FloatArray, turns: FloatArray) -> float | None:
    """The turn from which a rising line leaves the least squares; None if nothing rises."""
    rise = np.maximum(0.0, x[None, :] - turns[:, None])
    rise -= rise.mean(axis=1, keepdims=True)
    spread = (rise * rise).sum(axis=1)
    moved = (rise * (y - y.mean())[None, :]).sum(axis=1)
    # What the line explains of the squares: the more, the less is left.
    explained = np.where((moved > 0) & (spread > 0), moved * moved / np.where(spread > 0, spread, 1.0), -1.0)
    best = int(np.argmax(explained))
    return float(turns[best]) if explained[best] > 0 else None
