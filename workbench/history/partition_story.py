"""The story of one partition as a group reads it: how old its next message was, since when it is behind, what was lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from workbench.history.commit_skips import skip, skip_by_lag
from workbench.history.episode import course, drain, episode
from workbench.history.next_message_age import (
    ages,
    from_lag,
    newest_log,
    oldest_at_most,
    told_by_another_clock,
    without_glitches,
)
from workbench.history.offset_jumps import (
    back_and_above,
    deleted,
    has_swung,
    leapt,
    passed,
    reached,
    rests_short,
    times_to_and_fro,
    unread_before,
    without_misread,
)
from workbench.history.partition_series import Aged, Bounds, MeasuredPartition, PartitionHistory, Track
from workbench.judgement_numbers import MISSED, RECENT
from workbench.quantiles import median


def told(it: MeasuredPartition, limits: Bounds) -> PartitionHistory:
    """Tell the story of one partition from its series."""
    found = PartitionHistory()
    end, recreated = newest_log(it.log_end)
    if recreated is not None:
        found.recreated_ago = -recreated
    committed = without_misread(it.committed if len(it.committed) else from_lag(it.lag, it.log_end))
    lag, time_lag = it.lag, it.time_lag
    _arrivals(found, end)
    if not len(committed):
        found.age_at_most = oldest_at_most(it.lag, -RECENT * limits.window_start)
        skip_by_lag(found, it.lag, limits)
        return found
    at, offset = committed.at, committed.value
    found.interval = median(np.diff(at)) if len(at) > 2 else None
    step = found.interval or 0.0
    changed = np.flatnonzero(np.diff(offset) != 0) + 1
    found.moved_ago = float(at[-1] - at[changed[-1]]) if len(changed) else None
    found.to_and_fro = times_to_and_fro(it.shown, end, step, limits)
    found.ahead = _ahead(it.read, committed, step)
    found.swung = has_swung(it.shown, end, step, limits)
    low = deleted(found, it.log_start, committed, end)
    found.other_clock = told_by_another_clock(committed, end, time_lag, step)
    if found.other_clock is not None:
        time_lag = Track()
    marks, found.short = rests_short(committed, end)
    found.mark = bool(marks[-1])
    gone = unread_before(it.log_start, committed) + marks + found.short
    if gone.any():
        # What was deleted does not wait, nor does a mark, whatever is exported of them; a last record that may wait is told apart.
        committed, time_lag = Track(at, offset + gone), Track()
        lag = Track(lag.at, np.maximum(lag.value - np.interp(lag.at, at, gone), 0.0))
    back_and_above(found, committed, end, limits)
    age, known = ages(committed, end, time_lag, step)
    if age is None:
        reached(found, Track(at, offset), it.log_start)
        return found
    age = without_glitches(at, age)
    aged = Aged(
        committed=committed,
        changed=changed,
        step=step,
        end=end,
        lag=lag if len(lag) else None,
        age=age,
        known=known,
        limits=limits,
        read=it.read,
    )
    if found.lost is None and low is not None:
        passed(found, aged, low)
    skip(found, aged)
    if low is not None and len(end):
        leapt(found, aged, offset, low)
    slack = MISSED * step + 1.0
    if len(age) > 1 and abs(float(age[-1]) - float(age[-2])) > slack:
        # One odd sample at the end changes nothing, unless the offsets say the same: an age grows by a second in a second.
        by_offsets, _ = ages(committed, end, Track(), step)
        if by_offsets is None or abs(float(age[-1]) - float(by_offsets[-1])) > slack:
            age = np.append(age[:-1], age[-2])
    found.waiting = float(age[-1])
    if len(changed):
        stood = np.diff(at[changed], prepend=at[0])
        found.stood_before = float(np.max(np.minimum(stood, age[changed - 1])))
    found.idle, found.unmoved = is_idle(committed, end), unmoved(committed, end)
    aged = replace(aged, age=age)
    episode(found, aged)
    drain(found, aged)
    course(found, aged)
    reached(found, Track(at, offset), it.log_start)
    return found


def _ahead(read: Track, committed: Track, step: float) -> float | None:
    if not len(read) or read.at[-1] < committed.at[-1] - MISSED * step:
        return None
    return max(0.0, float(read.value[-1] - committed.value[-1]))


def _arrivals(found: PartitionHistory, end: Track) -> None:
    if len(end) < 2:
        return
    grown = np.flatnonzero(np.diff(end.value) > 0) + 1
    if len(grown):
        found.quiet = float(end.at[-1] - end.at[grown[-1]])
        edges = np.concatenate([[end.at[0]], end.at[grown]])
        found.usual_gap = float(np.max(np.diff(edges)))


def unmoved(committed: Track, end: Track) -> float | None:
    """How long more than marks have lain between a commit and an end that have both stood as long as the data show.

    A record that blocks the partition looks like that, and so do the records of an aborted transaction, which no consumer is given.
    """
    if len(end) < 2 or len(committed) < 2 or np.ptp(end.value) or np.ptp(committed.value):
        return None
    waits = end.value[-1] - committed.value[-1]
    # A transaction leaves its marker behind the last record.
    return float(min(committed.at[-1] - committed.at[0], end.at[-1] - end.at[0])) if waits > 2 else None


def is_idle(committed: Track, end: Track) -> bool:
    """Nothing has arrived all the time, and what waits may be the mark of a transaction."""
    if len(end) < 2 or end.value[-1] != end.value[0] or committed.value[-1] != committed.value[0]:
        return False
    return bool(0 <= end.value[-1] - committed.value[-1] <= 2)
