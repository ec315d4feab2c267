"""What happened to the offsets: commits that went back or are above the end, and records that nobody read."""

from __future__ import annotations

import numpy as np

from workbench.chronicle.series import FEW_MOVES, FloatArray, IntArray, Limits, Line, Measured, Story, pace_of

_SKIP_PACE = 5.0  # times the usual pace: less is catching up
_SILENCE = 3  # samples


def back_and_above(found: Story, committed: Line, end: Line, limits: Limits) -> None:
    """Add commits that went back, and those above the log's end."""
    at, offset = committed.at, committed.value
    high = np.maximum.accumulate(offset)
    below = high - offset
    pace, spacing = pace_of(end), found.interval or 0.0
    worst = int(np.argmax(below))
    # A member that hands over commits a little less than its successor: some seconds of work, done twice.
    if below[worst] > pace * max(2 * spacing, limits.objective / 2) + 10:
        found.back = float(below[worst])
        found.back_ago = float(at[-1] - at[np.flatnonzero(below[: worst + 1] == 0)[-1]])
    if len(end) >= 2:
        recent = slice(-3, None)
        over = offset[recent] - np.interp(at[recent], end.at, end.value)
        # An exporter reads the two at different moments.
        if len(over) and np.min(over) > 2 * spacing * pace + 10:
            found.above_end = float(over[-1])


def losses(
    found: Story, it: Measured, committed: Line, end: Line, age: FloatArray | None, changed: IntArray, limits: Limits
) -> None:
    """Add what retention deleted before it was read, what a commit skipped, and when retention reaches what waits."""
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
    if len(forward) < FEW_MOVES:
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
    """A commit that passed what waited in one step, many times faster than the group ever moved, before or since."""
    at, offset = committed.at, committed.value
    if age is None or not len(end) or not len(changed):
        return
    step = np.diff(offset)
    forward = changed[step[changed - 1] > 0]
    if not len(forward):
        return
    spacing = found.interval or 0.0
    took = np.diff(at)[forward - 1]
    # While the log's end was measured, and the commits were not: a group that was deleted, and begins at the end when it is back. One
    # that reads what waits shows that, too.
    unseen = (took > _SILENCE * spacing) & (_between(end, at[forward - 1], at[forward]) >= _SILENCE)
    pace = step[forward - 1] / np.where(unseen, 2 * spacing, took)
    most = int(np.argmax(step[forward - 1]))
    jump = int(forward[most])
    others = np.delete(pace, most)
    arriving = pace_of(end)
    usual = max(float(np.max(others)) if len(others) else 0.0, arriving)
    landed = np.interp(at[jump], end.at, end.value) - offset[jump]
    was_late = age[jump - 1] > limits.objective + limits.commit_every
    # A batch reads an hour's records at once, each time.
    if len(others) < FEW_MOVES or usual <= 0 or not was_late:
        return
    if unseen[most] and landed > 3 * spacing * arriving + 10:
        return
    if pace[most] < _SKIP_PACE * usual:
        return
    found.skip_pace = float(pace[most] / usual)
    found.skipped, found.skipped_from = float(step[jump - 1]), float(offset[jump - 1])
    found.skipped_ago = float(at[-1] - at[jump])
    found.skip_inside = bool(at[jump - 1] > limits.window_start)
    found.skip_rate = float(pace[most])


def _between(line: Line, after: FloatArray, until: FloatArray) -> IntArray:
    """How many samples lie between two times."""
    return np.searchsorted(line.at, until, side="left") - np.searchsorted(line.at, after, side="right")


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
    closing = size / every - pace_of(committed) if every > 0 else 0.0
    if closing <= 0:
        return
    # A segment that is reached in part goes as a whole.
    found.loss_in = max(0.0, (room - size) / closing)
