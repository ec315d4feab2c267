"""What happened to the offsets: commits that went back or are above the end, and records that nobody read."""

from __future__ import annotations

import numpy as np

from workbench.history.partition_series import (
    FEW_MOVES,
    Aged,
    Bounds,
    FloatArray,
    PartitionHistory,
    Track,
    pace_of,
    stretches,
)
from workbench.judgement_numbers import FAR, MOST, NOISE, SEVERAL, SKIP_RATE, SLACK
from workbench.quantiles import median


def back_and_above(found: PartitionHistory, committed: Track, end: Track, limits: Bounds) -> None:
    """Add commits that went back, and those above the log's end."""
    at, offset = committed.at, committed.value
    pace, spacing = pace_of(end), found.interval or 0.0
    below = np.maximum.accumulate(offset) - offset
    worst = int(np.argmax(below))
    # Where both offsets have stood for longer than anything may wait, it was not done again, and is exact, but for the marks of a
    # transaction.
    stands = min(found.moved_ago or 0.0, np.inf if found.quiet is None else found.quiet)
    if below[worst] > _done_twice(pace, spacing, limits):
        _note_back(found, committed, below, worst)
    elif below[-1] > 2 and len(end) >= 2 and stands > limits.objective:
        _note_back(found, committed, below, len(at) - 1)
    # Not behind the last end that was measured: a commit that moves on passes it.
    recent = np.flatnonzero(at <= end.at[-1])[-FEW_MOVES:] if len(end) >= 2 else ()
    if len(recent):
        over = offset[recent] - np.interp(at[recent], end.at, end.value)
        # An exporter reads the two at different moments.
        if np.min(over) > 2 * spacing * pace + SLACK:
            found.above_end = float(over[-1])


def _done_twice(pace: float, spacing: float, limits: Bounds) -> float:
    """Messages that a member which hands over commits less than its successor, at most: some seconds of work, done twice."""
    return pace * max(2 * spacing, limits.objective / 2) + SLACK


def times_to_and_fro(shown: Track, end: Track, spacing: float, limits: Bounds) -> int:
    """How often a commit went back in the window by more than a late commit does, and then leapt over most of that in one step.

    An exporter that starts, a reset or a late commit does so once or twice. `shown` are the commits with all that is odd in them.
    """
    step, least = np.diff(shown.value), _done_twice(pace_of(end), spacing, limits)
    odd = np.flatnonzero((np.abs(step) > least) & (shown.at[1:] > limits.window_start))
    steps = step[odd]
    return int(((steps[:-1] < 0) & (steps[1:] >= MOST * -steps[:-1])).sum())


def has_swung(shown: Track, end: Track, spacing: float, limits: Bounds) -> bool:
    """Whether commits went back, moved on there, and then leapt over most of that in one step, far faster than meanwhile.

    Who reads again from a lower place shows there how fast it reads: another reader's, or another cluster's position is what moved on.
    One that has leapt before the window counts if the commits are lower now.
    """
    at, offset = shown.at, shown.value
    below, least = np.maximum.accumulate(offset) - offset, _done_twice(pace_of(end), spacing, limits)
    step, pace = np.diff(offset), np.diff(offset) / np.diff(at)
    for begin, until in zip(*stretches(below > least), strict=True):
        if until == len(at) or (at[until] <= limits.window_start and below[-1] <= least):
            continue
        inside = pace[begin : until - 1]
        moved_on = np.count_nonzero(inside > 0) >= FEW_MOVES
        over = step[until - 1] >= MOST * np.max(below[begin:until])
        if moved_on and over and pace[until - 1] > FAR * np.max(inside):
            return True
    return False


def without_misread(committed: Track) -> Track:
    """Commits without stretches that are lower, and in one step at or above where they had been, faster than anybody reads.

    An exporter that has just started shows what it had stored: nothing was set back, nothing is read again, and nothing was passed.
    """
    at, offset = committed.at, committed.value
    below = np.maximum.accumulate(offset) - offset
    kept = np.ones(len(at), dtype=bool)
    for begin, end in zip(*stretches(below > 0), strict=True):
        if end < len(at):
            leap = offset[end] - offset[end - 1]
            kept[begin:end] = leap < max(MOST * np.max(below[begin:end]), SKIP_RATE * (at[end] - at[end - 1]))
    return committed if kept.all() else Track(at[kept], offset[kept])


def _note_back(found: PartitionHistory, committed: Track, below: FloatArray, worst: int) -> None:
    """Add by how much a commit went back, when it was first seen lower, and whether it leapt over most of that, or is made good."""
    at, offset = committed.at, committed.value
    first = int(np.flatnonzero(below[: worst + 1] == 0)[-1]) + 1
    found.back, found.back_ago = float(below[worst]), float(at[-1] - at[first])
    found.back_unseen, found.back_over = float(at[first] - at[first - 1]), bool(below[-1] == 0)
    step, took = np.diff(offset), np.diff(at)
    usual = median(step[step > 0] / took[step > 0])
    made_good = -np.diff(below)[worst:]
    found.back_leapt = bool(((made_good >= MOST * found.back) & (made_good > 2 * usual * took[worst:])).any())


def unread_before(start: Track, committed: Track) -> FloatArray:
    """How many messages between each sample of a commit and the log's start are deleted: 0 where none is, or no start is known.

    A start only rises: what is higher than a later one is a mistake, or that of a log before this one.
    """
    if not len(start):
        return np.zeros(len(committed))
    begin = np.minimum.accumulate(start.value[::-1])[::-1]
    return np.maximum(_as_of(start.at, begin, committed.at) - committed.value, 0.0)


def rests_short(committed: Track, end: Track) -> tuple[FloatArray, bool]:
    """1 where what lies between a commit and the log's end is the mark of a transaction, else 0; and whether it may be a record.

    It rests there where each commit goes at once to one before the end, time after time, and never anywhere else: a record that
    waits besides would be one more. Where whatever arrives is more than one offset (records and their mark), it is the mark, which
    no consumer is given. Else who commits the offset of the last record instead of the next one does that, and has read everything;
    so does who handles a record when the next one comes.
    """
    last = np.maximum(_as_of(end.at, end.value, committed.at), end.value[0]) if len(end) else np.zeros(len(committed))
    short, grown = last - committed.value, np.diff(last, prepend=last[:1])
    rests = grown == 0
    times = np.count_nonzero(rests[1:] & ~rests[:-1])
    known = bool(times >= SEVERAL and (short[rests] == 1).all())
    marks = (short == 1).astype(float) if known and (grown[~rests] >= 2).all() else np.zeros(len(committed))
    return marks, known and not marks.any()


def _as_of(times: FloatArray, values: FloatArray, at: FloatArray) -> FloatArray:
    """The latest value at each moment; -inf before the first one."""
    index = np.searchsorted(times, at, side="right") - 1
    return np.where(index >= 0, values[np.maximum(index, 0)], -np.inf)


def deleted(found: PartitionHistory, start: Track, committed: Track, end: Track) -> FloatArray | None:
    """Add what retention deleted before it was read.

    Returns the log's start as of each sample of the commit, -inf before its own first one; None if it is not measured.
    """
    if not len(start):
        return None
    at, offset = committed.at, committed.value
    begin = np.maximum.accumulate(start.value)
    low = _as_of(start.at, begin, at)
    # What was read once is not lost when it is read again.
    gone = low - np.maximum.accumulate(offset)
    # Deleted while the commit stands before it. What was so all the time is a leftover, of a group or of a log that ended.
    over = np.flatnonzero(gone > 0)
    if len(over) < len(at):
        is_new = len(over) and (not len(end) or end.value[-1] > offset[over[-1]])
    else:
        is_new = begin[-1] > begin[0] and len(end) and end.value[-1] > end.value[0]
    if is_new:
        found.lost, found.lost_from = float(gone[over[-1]]), float(offset[over[-1]])
        found.lost_ago = float(at[-1] - at[over[0]])
    elif len(over) == len(at):
        found.lost_before = float(gone[-1])
    return low


def passed(found: PartitionHistory, it: Aged, low: FloatArray) -> None:
    """A commit that was late jumped, within one sample, over what had been deleted: more than the group reads in that time."""
    at, offset, changed = it.committed.at, it.committed.value, it.changed
    forward = changed[np.diff(offset)[changed - 1] > 0]
    if len(forward) < FEW_MOVES:
        return
    took = np.diff(at)[forward - 1]
    usual = median((offset[forward] - offset[forward - 1]) / took)
    reached = np.minimum(low[forward], offset[forward]) - np.maximum.accumulate(offset)[forward - 1]
    late = it.age[forward - 1] > it.limits.objective + it.limits.commit_every
    hit = late & (reached > 2 * usual * took)
    if hit.any():
        found.lost, found.lost_ago = float(reached[hit].sum()), float(at[-1] - at[int(forward[hit][-1])])
        found.lost_from = float(offset[int(forward[hit][0]) - 1])


def leapt(found: PartitionHistory, it: Aged, offset: FloatArray, low: FloatArray) -> None:
    """Add what commits passed to the log's end after their place had been deleted, far faster than they moved just before, late.

    A consumer whose place is deleted goes on at the log's start or at its end (`auto.offset.reset`): nobody has read what lies between.
    `offset` are the commits themselves, also where they lie before the log's start, and `low` is that start as of each of them.
    """
    at, step = it.committed.at, np.diff(offset, prepend=offset[0])
    took, late = np.diff(at, prepend=np.nan), it.age > it.limits.objective + it.limits.commit_every
    was_late = np.append(False, late[:-1])
    # All that it can read, as something was left.
    read = np.flatnonzero((step > 0) & late & was_late)
    from_at = np.maximum(np.append(low[0], offset[:-1]), low)
    gone = (step > 0) & (low > np.append(np.inf, offset[:-1])) & was_late
    at_end = np.interp(at, it.end.at, it.end.value) - offset <= pace_of(it.end) * took + SLACK
    for place in np.flatnonzero(gone & at_end):
        before, unread = read[read < place][-FEW_MOVES:], float(offset[place] - from_at[place])
        moving = len(before) == FEW_MOVES and at[place - 1] - at[before[-1]] <= it.limits.objective
        if not moving or unread <= FAR * float(np.max(step[before] / took[before])) * took[place]:
            continue
        found.leapt, found.lost_ago = (found.leapt or 0.0) + unread, float(at[-1] - at[place])
        if found.lost is None:
            found.lost, found.lost_from = float(low[place] - offset[place - 1]), float(offset[place - 1])
        if found.skipped_ago == found.lost_ago:
            found.skipped = None  # it is no step that may have been read


def reached(found: PartitionHistory, committed: Track, start: Track) -> None:
    """Add when retention will delete the next message: it deletes whole segments, and so the one that holds it."""
    if not len(start):
        return
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
        if moved > 0 and median(behind) < NOISE * moved:
            return
    sizes = np.diff(np.concatenate([[start.value[jumps[0] - 1]], start.value[jumps]]))
    every = median(np.diff(start.at[jumps]))
    size = median(sizes)
    # What it read before it fell behind does not keep the distance now.
    since = committed.at >= (found.onset if found.onset is not None else committed.at[0])
    lately = Track(committed.at[since], committed.value[since])
    closing = size / every - pace_of(lately) if every > 0 else 0.0
    if closing <= 0:
        return
    # A segment that is reached in part goes as a whole.
    within = max(0.0, (room - size) / closing)
    found.loss_in = within if np.isfinite(within) else None
