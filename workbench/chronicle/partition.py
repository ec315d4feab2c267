"""The story of one partition as a group reads it: how old the next message was at each commit, since when it is behind, what was lost.

Everything is in seconds before the window's end (so ≤ 0) and in messages. "Age" is the time since the oldest message that waits was
produced: 0 when none waits. Commits at intervals make a sawtooth of it; its usual height is the partition's `cadence`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_EMPTY: FloatArray = np.empty(0)
_FEW_MOVES = 3  # fewer changes of a commit make no rhythm
_STEADY_SPREAD = 0.1  # of an age that does not change, besides the cadence
_SKIP_PACE = 5.0  # less is catching up
_TAIL_MESSAGES = 2  # a transaction leaves its marker behind the last record
_COVERED = 0.5
_GLITCH = 2.5  # seconds per second: the moments of production are known to a sample


@dataclass(frozen=True, slots=True)
class Line:
    """One series: times in seconds before the end, ascending, and values without NaN."""

    at: FloatArray = field(default_factory=lambda: _EMPTY)
    value: FloatArray = field(default_factory=lambda: _EMPTY)

    def __len__(self) -> int:
        return len(self.at)

    def since(self, start: float) -> Line:
        """The samples from an instant on."""
        first = int(np.searchsorted(self.at, start))
        return Line(self.at[first:], self.value[first:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The series of one partition and group; any of them may be empty."""

    committed: Line = field(default_factory=Line)
    log_end: Line = field(default_factory=Line)
    log_start: Line = field(default_factory=Line)
    lag: Line = field(default_factory=Line)
    time_lag: Line = field(default_factory=Line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is expected of the group, and the window: seconds, `window_start` before the end."""

    objective: float
    commit_every: float
    window_start: float


@dataclass(slots=True, kw_only=True)
class Story:
    """Facts about one partition; None: not known. Times in seconds before the window's end.

    Attributes:
        interval: between two samples of the commit.
        cadence: usual height of the sawtooth of ages: how long a message waits for its commit in good times.
        rhythm: usual time between two commits while something waits.
        moved_ago: time from the last change of the commit to the last sample.
        silent_before: how long the data show it standing still before its first commit, while messages waited: a batch, perhaps.
        waiting: age of the oldest waiting message at the last sample; `at_least` if its production was not observed.
        onset: when it fell behind, negative; None if it is not behind, or was so from the first sample on (`sick_from_start`).
        steady: whether it has been equally late all the time, while its commits moved.
        idle: nothing arrives, and what waits are at most the marks of transactions.
        age_slope: of the age over the last half of the window, in seconds per second.
        late: whether it waits for longer than the objective and its cadence explain.
        pauses, pause_share: of the window, in how many stretches it was half an objective behind, and their share of the time.
        drain_in: until nothing waits, at the pace since the lag was highest; None if it does not shrink.
        late_from, late_to, late_peak: the latest stretch in which it was late, if it ended in the window, and the highest age.
        lost, lost_from, lost_ago: messages that retention deleted before they were committed, the first of them, and when.
        skipped, skipped_from, skipped_ago: messages that a commit passed in one step; `skip_pace` times the usual pace, at `skip_rate`.
        back, back_ago: messages by which the commit went back, and when.
        above_end: messages by which the commit is above the log's end.
        recreated_ago: when the log began anew.
        loss_in: time until retention deletes a message that waits.
        quiet, usual_gap: time since the last arrival, and the longest time between two arrivals before.
    """

    interval: float | None = None
    cadence: float | None = None
    rhythm: float | None = None
    moved_ago: float | None = None
    silent_before: float | None = None
    waiting: float | None = None
    at_least: bool = False
    onset: float | None = None
    sick_from_start: bool = False
    steady: bool = False
    idle: bool = False
    late: bool | None = None
    age_slope: float | None = None
    pauses: int = 0
    pause_share: float | None = None
    drain_in: float | None = None
    late_from: float | None = None
    late_to: float | None = None
    late_peak: float | None = None
    lost: float | None = None
    lost_from: float | None = None
    lost_ago: float | None = None
    skipped: float | None = None
    skipped_from: float | None = None
    skipped_ago: float | None = None
    skip_pace: float | None = None
    skip_rate: float | None = None
    back: float | None = None
    back_ago: float | None = None
    above_end: float | None = None
    recreated_ago: float | None = None
    loss_in: float | None = None
    quiet: float | None = None
    usual_gap: float | None = None


def told(it: Measured, limits: Limits) -> Story:
    """Tell the story of one partition from its series."""
    found = Story()
    end, recreated = _newest_log(it.log_end)
    if recreated is not None:
        found.recreated_ago = -recreated
    committed = it.committed if len(it.committed) else _from_lag(it.lag, it.log_end)
    _arrivals(found, end)
    if not len(committed):
        return found
    at, offset = committed.at, committed.value
    found.interval = float(np.median(np.diff(at))) if len(at) > 2 else None
    step = found.interval or 0.0
    changed = np.flatnonzero(np.diff(offset) != 0) + 1
    found.moved_ago = float(at[-1] - at[changed[-1]]) if len(changed) else None
    _back_and_above(found, committed, end, limits)
    age, known = ages(committed, end, it.time_lag, step)
    age = None if age is None else _without_glitches(at, age)
    _losses(found, it, committed, end, age, changed, limits)
    if age is None:
        return found
    by_offsets, _ = ages(committed, end, Line(), step)
    if len(age) > 1:
        # One odd sample at the end changes nothing, unless the offsets say the same: an age grows by a second in a second.
        slack = _GLITCH * step + 1.0
        odd = abs(float(age[-1]) - float(age[-2])) > slack
        if odd and (by_offsets is None or abs(float(age[-1]) - float(by_offsets[-1])) > slack):
            age = np.append(age[:-1], age[-2])
    found.waiting, found.at_least = float(age[-1]), not bool(known[-1])
    if len(changed) and age[changed[0] - 1] > 0 and not known[changed[0] - 1]:
        found.silent_before = float(at[changed[0]] - at[0])
    found.idle = _idle(committed, end)
    lag = it.lag if len(it.lag) else None
    _episode(found, committed, age, changed, limits, step, lag, end)
    _drain(found, committed, lag, end, changed)
    return found


def ages(committed: Line, end: Line, time_lag: Line, step: float) -> tuple[FloatArray | None, npt.NDArray[np.bool_]]:
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
        known = after > 0
        produced = np.where(known, produced, end.at[0])
        waits = (after < len(rising)) & (produced < at)
        age = np.where(waits, at - produced, 0.0)
    if len(time_lag) and len(time_lag) >= _COVERED * len(at):
        near = (at >= time_lag.at[0] - step) & (at <= time_lag.at[-1] + 2 * step)
        exact = np.interp(at, time_lag.at, time_lag.value)
        age = np.where(near, exact, age if age is not None else exact)
        known = known | near
    return age, known


def _without_glitches(at: FloatArray, age: FloatArray) -> FloatArray:
    """Replace single samples that cannot be: in a second, an age grows by a second at most."""
    if len(age) < 3:
        return age
    step = np.diff(at)
    most = _GLITCH * step + 1.0
    before, here, after = age[:-2], age[1:-1], age[2:]
    dip = (after > here + most[1:]) & (before > here + most[:-1])
    spike = (here > before + most[:-1]) & (here > after + most[1:])
    cleaned = age.copy()
    cleaned[1:-1] = np.where(dip | spike, (before + after) / 2, here)
    return cleaned


def _from_lag(lag: Line, end: Line) -> Line:
    """Commits where only the lag is exported."""
    if not len(lag) or not len(end):
        return Line()
    return Line(lag.at, np.round(np.interp(lag.at, end.at, end.value)) - lag.value)


def _newest_log(end: Line) -> tuple[Line, float | None]:
    """The log since it last began anew, and when that was: a topic that was deleted and created again."""
    if len(end) < 2:
        return end, None
    fallen = np.diff(end.value)
    lowest = int(np.argmin(fallen))
    if fallen[lowest] >= 0:
        return end, None
    pace = float(np.max(fallen, initial=0.0))
    # Two sources that take turns differ by no more than some samples' arrivals.
    anew = np.flatnonzero((fallen < -5 * pace - 5) | (end.value[1:] < 0.5 * end.value[:-1])) + 1
    if not len(anew):
        return end, None
    return Line(end.at[anew[-1] :], end.value[anew[-1] :]), float(end.at[anew[-1]])


def _arrivals(found: Story, end: Line) -> None:
    if len(end) < 2:
        return
    grown = np.flatnonzero(np.diff(end.value) > 0) + 1
    if len(grown):
        found.quiet = float(end.at[-1] - end.at[grown[-1]])
        edges = np.concatenate([[end.at[0]], end.at[grown]])
        found.usual_gap = float(np.max(np.diff(edges)))


def _idle(committed: Line, end: Line) -> bool:
    """Nothing has arrived all the time, and what waits may be the mark of a transaction."""
    if len(end) < 2 or end.value[-1] != end.value[0] or committed.value[-1] != committed.value[0]:
        return False
    return bool(0 <= end.value[-1] - committed.value[-1] <= _TAIL_MESSAGES)


def _back_and_above(found: Story, committed: Line, end: Line, limits: Limits) -> None:
    at, offset = committed.at, committed.value
    high = np.maximum.accumulate(offset)
    below = high - offset
    span = float(end.at[-1] - end.at[0]) if len(end) >= 2 else 0.0
    pace = max(0.0, float(end.value[-1] - end.value[0])) / span if span > 0 else 0.0
    worst = int(np.argmax(below))
    # A member that hands over commits a little less than its successor: some seconds of work, done twice.
    if below[worst] > pace * max(2 * float(np.median(np.diff(at))) if len(at) > 2 else 0.0, limits.objective / 2) + 10:
        found.back = float(below[worst])
        found.back_ago = float(at[-1] - at[np.flatnonzero(below[: worst + 1] == 0)[-1]])
    if len(end) >= 2:
        recent = slice(-3, None)
        over = offset[recent] - np.interp(at[recent], end.at, end.value)
        spacing = float(np.median(np.diff(at))) if len(at) > 2 else 0.0
        # An exporter reads the two at different moments.
        if len(over) and np.min(over) > 2 * spacing * pace + 10:
            found.above_end = float(over[-1])


def _losses(
    found: Story, it: Measured, committed: Line, end: Line, age: FloatArray | None, changed: IntArray, limits: Limits
) -> None:
    at, offset = committed.at, committed.value
    start = it.log_start
    if len(start):
        # The log's start as of each sample of the commit; before its first sample it is not known.
        begin = np.maximum.accumulate(start.value)
        index = np.searchsorted(start.at, at, side="right") - 1
        low = np.where(index >= 0, begin[np.maximum(index, 0)], -np.inf)
        # What was read once is not lost when it is read again.
        gone = low - np.maximum.accumulate(offset)
        # Deleted while the commit stands before it. What was so all the time is a leftover, of a group or of a log that ended.
        over = np.flatnonzero(gone > 0)
        if len(over) and len(over) < len(at) and (not len(end) or end.value[-1] > offset[over[-1]]):
            found.lost, found.lost_from = float(gone[over[-1]]), float(offset[over[-1]])
            found.lost_ago = float(at[-1] - at[over[0]])
        elif len(over) == len(at) and begin[-1] > begin[0] and len(end) and end.value[-1] > end.value[0]:
            found.lost, found.lost_from = float(gone[-1]), float(offset[-1])
            found.lost_ago = float(at[-1] - at[0])
        if found.lost is None and age is not None:
            _passed(found, committed, low, age, changed, limits)
        _loss_in(found, committed, start)
    _skips(found, committed, end, age, changed, limits)


def _passed(found: Story, committed: Line, low: FloatArray, age: FloatArray, changed: IntArray, limits: Limits) -> None:
    """A commit that was late jumped, within one sample, over what had been deleted: more than the group reads in that time."""
    at, offset = committed.at, committed.value
    forward = changed[np.diff(offset)[changed - 1] > 0]
    if len(forward) < _FEW_MOVES:
        return
    took = np.diff(at)[forward - 1]
    usual = float(np.median((offset[forward] - offset[forward - 1]) / took))
    reached = np.minimum(low[forward], offset[forward]) - np.maximum.accumulate(offset)[forward - 1]
    hit = (age[forward - 1] > limits.objective + limits.commit_every) & (reached > 2 * usual * took)
    if hit.any():
        found.lost = float(reached[hit].sum())
        first = int(forward[hit][0])
        found.lost_from, found.lost_ago = float(offset[first - 1]), float(at[-1] - at[int(forward[hit][-1])])


def _skips(found: Story, committed: Line, end: Line, age: FloatArray | None, changed: IntArray, limits: Limits) -> None:
    """A commit that reached the end in one step, many times faster than the group ever moved."""
    at, offset = committed.at, committed.value
    if age is None or not len(end) or not len(changed):
        return
    step = np.diff(offset)
    forward = changed[step[changed - 1] > 0]
    if not len(forward):
        return
    pace = step[forward - 1] / np.diff(at)[forward - 1]
    most = int(np.argmax(step[forward - 1]))
    jump = int(forward[most])
    others = np.delete(pace, most)
    arriving = max(0.0, float(end.value[-1] - end.value[0])) / max(1e-9, float(end.at[-1] - end.at[0]))
    usual = max(float(np.max(others)) if len(others) else 0.0, arriving)
    landed = np.interp(at[jump], end.at, end.value) - offset[jump]
    spacing = float(np.median(np.diff(at)))
    was_late = age[jump - 1] > limits.objective + limits.commit_every
    # A batch reads an hour's records at once, each time.
    if most < _FEW_MOVES or usual <= 0 or not was_late or landed > 3 * spacing * arriving + 10:
        return
    if pace[most] < _SKIP_PACE * usual:
        return
    found.skip_pace = float(pace[most] / usual)
    found.skipped, found.skipped_from = float(step[jump - 1]), float(offset[jump - 1])
    found.skipped_ago = float(at[-1] - at[jump])
    found.skip_rate = float(pace[most])


def _loss_in(found: Story, committed: Line, start: Line) -> None:
    """Retention deletes whole segments: when will it delete the one that holds the next message?"""
    jumps = np.flatnonzero(np.diff(start.value) > 0) + 1
    room = float(committed.value[-1] - start.value[-1])
    if len(jumps) < 2 or room < 0:
        return
    # Where the start follows the commits, it never passes them.
    then = np.searchsorted(committed.at, start.at[jumps], side="right") - 1
    usable = then >= 0
    if usable.any():
        behind = committed.value[np.maximum(then, 0)][usable] - start.value[jumps][usable]
        moved = committed.value[-1] - committed.value[0]
        if moved > 0 and np.median(behind) < 0.02 * moved:
            return
    sizes = np.diff(np.concatenate([[start.value[jumps[0] - 1]], start.value[jumps]]))
    every = float(np.median(np.diff(start.at[jumps])))
    size = float(np.median(sizes))
    span = float(committed.at[-1] - committed.at[0])
    own = max(0.0, float(committed.value[-1] - committed.value[0]) / span) if span > 0 else 0.0
    closing = size / every - own if every > 0 else 0.0
    if closing <= 0:
        return
    # A segment that is reached in part goes as a whole.
    found.loss_in = max(0.0, (room - size) / closing)


def _episode(
    found: Story,
    committed: Line,
    age: FloatArray,
    changed: IntArray,
    limits: Limits,
    step: float,
    lag: Line | None,
    end: Line,
) -> None:
    """Cadence, onset, and the stretches in which it was late."""
    at, offset = committed.at, committed.value
    bound = limits.objective
    noise = 2 * step + 0.02 * limits.objective
    cadence = _cadence(age, changed, len(age))
    low = float(np.quantile(age, 0.25))
    band = min(4 * low + noise, bound + (limits.commit_every or cadence or 0.0))
    well = np.flatnonzero(age <= band)
    if len(well):
        # Again with what lies before: the incident itself says nothing about good times.
        last = int(well[-1]) + 1
        cadence = _cadence(age, changed, last)
        before = age[:last]
        usual = float(np.quantile(before, 0.98))
        rhythm = limits.commit_every or cadence or 0.0
        band = min(max(1.25 * usual, rhythm) + noise, bound + rhythm)
        well = np.flatnonzero(age <= band)
    found.cadence = cadence
    found.rhythm = (
        None if not len(changed) else _rhythm(at, age, changed, len(at) if not len(well) else int(well[-1]) + 1)
    )
    # What is expected of a group counts more than what it did.
    late = age > bound + (limits.commit_every or cadence or 0.0)
    found.late = bool(late[-1])
    recent = at > limits.window_start / 2
    if recent.sum() >= _FEW_MOVES:
        found.age_slope = float(np.polyfit(at[recent], age[recent], 1)[0])
    _stretches(found, at, age, late, limits)
    pauses = age > max(bound / 2, step) + (limits.commit_every or cadence or 0.0)
    found.pauses, found.pause_share = _counted(at, pauses, limits)
    if age[-1] <= band:
        return
    if not len(well):
        found.sick_from_start = True
        spread = float(np.max(age) - np.min(age))
        found.steady = (
            bool(len(changed) >= _FEW_MOVES)
            and spread <= _STEADY_SPREAD * float(np.median(age)) + 2 * (cadence or 0.0) + noise
        )
        return
    found.onset = _hinge(at, age, int(well[-1]))
    # It caught up with something, and then stood still: what matters began when it stopped.
    if (
        len(changed)
        and at[changed[-1]] > found.onset
        and age[-1] - age[changed[-1]] > 0.9 * (at[-1] - at[changed[-1]]) > 2 * step
    ):
        since = slice(int(np.searchsorted(at, found.onset)), int(changed[-1]) + 1)
        waits = _lag_at(at[since], offset[since], lag, end)
        if len(waits) and waits[-1] < _CAUGHT_UP * np.max(waits):
            found.onset = float(at[changed[-1]])


def _cadence(age: FloatArray, changed: IntArray, until: int) -> float | None:
    """Usual drop of the age at a commit, up to a sample; None without commits."""
    inside = changed[changed < until]
    if not len(inside):
        return None
    drops = age[inside - 1] - age[inside]
    drops = np.sort(drops[drops > 0])
    if not len(drops):
        return 0.0
    middle = float(drops[(len(drops) - 1) // 2])
    high = float(np.quantile(drops, 0.95))
    # One long pause among many short ones is no rhythm.
    return min(high, 3 * middle) if len(drops) >= _FEW_MOVES else middle


def _rhythm(at: FloatArray, age: FloatArray, changed: IntArray, until: int) -> float | None:
    """Usual time between two commits while something waits, up to a sample: of a group that is late, too."""
    inside = changed[changed < until] if until > changed[0] else changed
    gaps = np.diff(at[inside])
    busy = age[inside[1:] - 1] > 0
    gaps = np.sort(gaps[busy])
    if not len(gaps):
        return None
    return min(float(np.quantile(gaps, 0.95)), 3 * float(gaps[(len(gaps) - 1) // 2]))


def _stretches(found: Story, at: FloatArray, age: FloatArray, late: npt.NDArray[np.bool_], limits: Limits) -> None:
    if len(at) < 2:
        return
    edges = np.diff(np.concatenate([[0], late.astype(np.int8), [0]]))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    over = ends < len(at)
    if over.any() and at[ends[over][-1]] > limits.window_start:
        begin, end = int(begins[over][-1]), int(ends[over][-1])
        first = max(begin - 1, 0)
        found.late_peak = float(np.max(age[begin:end]))
        found.late_from, found.late_to = float(at[begin] - age[begin] if begin else at[first]), float(at[end])


def _counted(at: FloatArray, there: npt.NDArray[np.bool_], limits: Limits) -> tuple[int, float | None]:
    """In how many stretches of the window something was so, and its share of the window's samples."""
    seen = there[at > limits.window_start]
    if not len(seen):
        return 0, None
    return int(seen[0]) + int((np.diff(seen.astype(np.int8)) == 1).sum()), float(seen.mean())


def _drain(found: Story, committed: Line, lag: Line | None, end: Line, changed: IntArray) -> None:
    """The lag right after each commit, from where it was highest: a line that reaches 0 at some time."""
    if (lag is None and not len(end)) or (found.onset is None and not found.sick_from_start):
        return
    from_at = found.onset if found.onset is not None else committed.at[0]
    at = committed.at[changed]
    whole = _lag_at(np.append(at, committed.at[-1]), np.append(committed.value[changed], committed.value[-1]), lag, end)
    last = float(whole[-1])
    seen = at >= from_at
    at, waits = at[seen], whole[:-1][seen]
    if len(at) < _FEW_MOVES:
        return
    peak = int(np.argmax(waits))
    x, y = at[peak:], waits[peak:]
    if len(x) < _FEW_MOVES or y[-1] > _SHRUNK * y[0]:
        return
    recent = slice(-max(_FEW_MOVES, len(x) // 2), None)
    slopes = [float(np.polyfit(x[part], y[part], 1)[0]) for part in (slice(None), recent)]
    if max(slopes) < 0:
        found.drain_in = last / -max(slopes)


def _lag_at(at: FloatArray, offset: FloatArray, lag: Line | None, end: Line) -> FloatArray:
    """Messages that wait: as exported, or else by the two offsets, which may be read at different moments."""
    return np.interp(at, lag.at, lag.value) if lag is not None else np.interp(at, end.at, end.value) - offset


_CAUGHT_UP = 0.7  # of the highest lag
_SHRUNK = 0.95  # of the highest lag: less is noise
_HINGE_BEFORE, _HINGE_AFTER = 24, 12


def _hinge(at: FloatArray, age: FloatArray, last_well: int) -> float:
    """Where a flat line turns into a rising one, by least squares over the turn; not later than the first sample that is behind."""
    first = max(0, last_well - _HINGE_BEFORE)
    to = min(len(at), last_well + 1 + _HINGE_AFTER)
    # Not beyond a peak: after it the age falls again.
    to = last_well + 1 + int(np.argmax(age[last_well + 1 : to])) + 1
    x, y = at[first:to], age[first:to]
    if len(x) < 3:
        return float(at[last_well])
    turns = np.linspace(x[0], x[min(last_well + 1 - first, len(x) - 1)], 4 * len(x))
    best, chosen = np.inf, float(at[last_well])
    for turn in turns:
        rise = np.maximum(0.0, x - turn)
        mean_r, mean_y = rise.mean(), y.mean()
        spread = float(((rise - mean_r) ** 2).sum())
        slope = float(((rise - mean_r) * (y - mean_y)).sum()) / spread if spread > 0 else 0.0
        wrong = float(((y - mean_y - slope * (rise - mean_r)) ** 2).sum())
        if wrong < best and slope > 0:
            best, chosen = wrong, float(turn)
    return chosen
