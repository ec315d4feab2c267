"""Commits that passed what waited in one step: was it read, however fast, or skipped?

Offsets alone show a pace. Two things say more: what the handlers have counted meanwhile, and whether a partition is new.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.history.handled_counts import Handled
from workbench.history.partition_series import (
    FEW_MOVES,
    Aged,
    BoolArray,
    Bounds,
    FloatArray,
    IntArray,
    PartitionHistory,
    Track,
    pace_of,
)
from workbench.judgement_numbers import APART, COMMIT_SECONDS, COUNTED, FAR, FEW_SAMPLES, MOST, NOISE, PART, SLACK
from workbench.quantiles import median, quantile


def _was_read(read: Track, first: float, passed: float, until: float) -> bool:
    """Whether a client's position has gone through all of what a commit passed, most of it in smaller steps."""
    seen = Track(read.at[read.at <= until], np.clip(read.value[read.at <= until], first, first + passed))
    whole = len(seen) > 1 and seen.value[0] == first and seen.value[-1] == first + passed
    return whole and float(np.max(np.diff(seen.value))) < MOST * passed


def skip(found: PartitionHistory, it: Aged) -> None:
    """Add the largest step of a commit that was late, if it was faster than the others, before or since, and than its reader."""
    end, limits, spacing = it.end, it.limits, found.interval or 0.0
    if not len(end) or not len(it.changed):
        return
    # What was committed once is not passed again: a lower commit was set back, or misread.
    highest = it.committed.value >= np.maximum.accumulate(it.committed.value)
    committed, age = Track(it.committed.at[highest], it.committed.value[highest]), it.age[highest]
    at, offset = committed.at, committed.value
    # A sample finds a commit at any age up to the time between two: that is how the ages of what is not late are spread, unless
    # samples come as fast as commits do.
    late = limits.objective + limits.commit_every
    usual_age = it.age[it.age <= late]
    hidden = spacing
    if len(usual_age) and spacing > COMMIT_SECONDS:
        hidden = min(spacing, (quantile(usual_age, MOST) - quantile(usual_age, PART)) / (MOST - PART))
    forward, took, unseen, reading = _steps(committed, end, spacing, hidden)
    if not len(forward):
        return
    step = offset[forward] - offset[forward - 1]
    most = int(np.argmax(step))
    jump = int(forward[most])
    # Its next message only gets older while a commit stands: ages by another clock may come too soon, or too late.
    moved = int(np.flatnonzero(offset[:jump] == offset[jump - 1])[0])
    waited = float(np.max(age[moved:jump]))
    if waited + (took[most] if unseen[most] else 0.0) <= late:
        return
    every, _, _, read_in = _steps(it.committed, end, spacing, 0.0)
    others = (np.diff(it.committed.value)[every - 1] / read_in)[it.committed.at[every] != at[jump]]
    pace, arriving = float(step[most] / reading[most]), pace_of(end)
    usual = max(float(np.max(others)) if len(others) else 0.0, arriving)
    if usual <= 0 or pace < APART * usual or _was_read(it.read, offset[jump - 1], step[most], at[jump] + spacing):
        return
    landed = np.interp(at[jump], end.at, end.value) - offset[jump]
    if unseen[most] and landed > FEW_SAMPLES * spacing * arriving + SLACK:
        return
    found.note_skip(offset[jump - 1], step[most], at[-1] - at[jump], pace)
    found.skip_waited = float(waited + took[most])
    # A group that reads the whole time to the next sample, and is still behind, shows all the room that it has.
    after = forward[most + 1 : most + 2]
    left = np.interp(at[after], end.at, end.value) - offset[after] > spacing * arriving + SLACK
    found.skip_outran = bool(left.any())
    # A batch reads an hour's records at once, each time.
    if len(others) >= FEW_MOVES:
        found.skip_pace = pace / usual


def skip_by_lag(found: PartitionHistory, lag: Track, limits: Bounds) -> None:
    """Add the largest step where only the lag is measured: commits have moved by as much as it fell, from nobody knows where."""
    fell = np.maximum(0.0, -np.diff(lag.value))
    if not fell.any():
        return
    pace = fell / np.diff(lag.at)
    jump = int(np.argmax(pace)) + 1
    passed, before = float(fell[jump - 1]), lag.value[jump - 1]
    # An exporter that starts anew may tell nothing of a backlog for a moment.
    if np.any(lag.value[jump : jump + FEW_MOVES] > before - MOST * passed):
        return
    low = np.flatnonzero(lag.value[:jump] < MOST * passed)
    waited = float(lag.at[jump - 1] - lag.at[low[-1] + 1 if len(low) else 0])
    others = np.delete(pace, jump - 1)
    usual = float(np.max(others, initial=0.0))
    if waited <= limits.objective + limits.commit_every or pace[jump - 1] < APART * usual:
        return
    found.skipped, found.skipped_ago = passed, float(lag.at[-1] - lag.at[jump])
    found.skip_rate, found.skip_waited = float(pace[jump - 1]), waited
    if np.count_nonzero(others) >= FEW_MOVES:
        found.skip_pace = float(pace[jump - 1]) / usual


def _steps(
    committed: Track, end: Track, spacing: float, hidden: float
) -> tuple[IntArray, FloatArray, BoolArray, FloatArray]:
    """Steps forward: places after them, time between the two samples, whether no sample saw it, and how long it may have been read.

    That is since the commit before it, unless it stood, and at least the usual time between two commits; `hidden`: for how much longer
    than from sample to sample, as two commits may lie between two samples.
    """
    forward = np.flatnonzero(np.diff(committed.value) > 0) + 1
    begin, until = committed.at[forward - 1], committed.at[forward]
    took = until - begin
    # While the log's end was measured, and the commits were not: a group that was deleted, and begins at the end when it is back. One
    # that reads what waits shows that, too.
    unseen = (spacing > 0) & (took > FEW_SAMPLES * spacing) & (_between(end, begin, until) >= FEW_SAMPLES)
    reading = np.where(unseen, 2 * spacing, took)
    since = np.diff(until)
    if len(since) < FEW_MOVES:
        return forward, took, unseen, reading
    usual = median(since)
    reading[1:] = np.where(~unseen[1:] & (since <= FAR * usual), since, reading[1:])
    return forward, took, unseen, np.maximum(reading, max(usual, spacing + hidden))


def _between(line: Track, after: FloatArray, until: FloatArray) -> IntArray:
    """How many samples lie between two times."""
    return np.searchsorted(line.at, until, side="left") - np.searchsorted(line.at, after, side="right")


def _spacing(parts: Mapping[int, PartitionHistory]) -> float:
    """Between two samples of any commit; of a partition that was found a moment ago, it is not known yet."""
    return max((it.interval or 0.0 for it in parts.values()), default=0.0)


def slower_beside(parts: Mapping[int, PartitionHistory], lines: Mapping[int, Mapping[str, Track]]) -> None:
    """Add, to each step that was noted, whether partitions that had stood as long show that nobody read so fast just then.

    They moved on at the same moment, and were still behind after a sample: that is all that their members can read.
    """
    steps = {number: it for number, it in parts.items() if it.skipped is not None and not it.skip_new}
    noted = {number: _when(it, lines[number]["committed"]) for number, it in steps.items()}
    for number, story in steps.items():
        own, spacing = lines[number]["committed"], story.interval or 0.0
        jump = _place(story, own)
        begin, until = float(own.at[jump - 1]), noted[number] + FEW_SAMPLES * spacing
        moves = own.at[1:jump][np.diff(own.value[:jump]) != 0]
        halfway = (float(moves[-1] if len(moves) else own.at[0]) + begin) / 2
        full = max(_full_pace(it, noted.get(other), (halfway, begin, until)) for other, it in lines.items())
        story.skip_beside = 0 < APART * full <= (story.skip_rate or 0.0)


def _full_pace(line: Mapping[str, Track], noted: float | None, times: tuple[float, float, float]) -> float:
    """The highest pace of a partition that stood between the first two of these times, and then moved and was still behind; 0: none.

    A step that is `noted` itself shows none.
    """
    committed, end, (halfway, begin, until) = line.get("committed", Track()), line.get("log_end", Track()), times
    at, offset = committed.at, committed.value
    inside = np.flatnonzero((at > begin) & (at <= until))
    inside = inside[inside > 0]
    if not len(end) or not len(inside) or np.ptp(np.interp([halfway, begin], at, offset)) > 0:
        return 0.0
    took = at[inside] - at[inside - 1]
    left = np.interp(at[inside], end.at, end.value) - offset[inside]
    shown = left > took * pace_of(end) + SLACK
    if noted is not None:
        shown &= np.abs(at[inside] - noted) > took / 2
    return float(np.max(((offset[inside] - offset[inside - 1]) / took)[shown], initial=0.0))


def unread_beginnings(
    parts: Mapping[int, PartitionHistory], lines: Mapping[int, Mapping[str, Track]], limits: Bounds
) -> None:
    """Add new partitions whose first commit is beyond all that had waited: read at once, or passed by `auto.offset.reset=latest`."""
    ends = {partition: own["log_end"] for partition, own in lines.items() if len(own.get("log_end", ()))}
    commits = {partition: own["committed"] for partition, own in lines.items() if len(own.get("committed", ()))}
    if len(ends) < 2 or not commits:
        return
    began = min(float(it.at[0]) for it in ends.values())
    spacing = _spacing(parts)
    for partition, story in parts.items():
        end, committed = ends.get(partition), commits.get(partition)
        if end is None or committed is None or story.skipped is not None or not spacing:
            continue
        start = lines[partition].get("log_start")
        first = float(start.value[0]) if start is not None and len(start) else 0.0
        born, read = float(end.at[0]), float(committed.at[0])
        older = any(it.at[0] < born for other, it in commits.items() if other != partition)
        # It was there, at the earliest, since the sample before.
        if born <= began + 2 * spacing or not older or read - born + spacing <= limits.objective + limits.commit_every:
            continue
        waited = float(end.value[np.searchsorted(end.at, read, side="left") - 1]) - first
        if waited <= 0 or committed.value[0] < first + waited:
            continue
        story.note_skip(first, waited, committed.at[-1] - read, (float(committed.value[0]) - first) / spacing)
        story.skip_new = True


def explained(
    parts: Mapping[int, PartitionHistory],
    lines: Mapping[int, Mapping[str, Track]],
    handled: Handled,
    others: Mapping[int, Mapping[str, Track]] | None = None,
) -> None:
    """Add, to each step that was noted, what the handlers say of it; `others` are series of topics that the same counters count."""
    every = [*lines.values(), *(others or {}).values()]
    counted = [own["committed"] for own in every if len(own.get("committed", ()))]
    steps = {partition: it for partition, it in parts.items() if it.skipped is not None}
    for partition, story in steps.items():
        own = lines[partition]["committed"]
        after, spacing = _when(story, own), story.interval or _spacing(parts)
        # In the same sample, or in its neighbour: members commit at different moments.
        together = [
            other for other, it in steps.items() if abs(_when(it, lines[other]["committed"]) - after) <= APART * spacing
        ]
        # A first commit is no movement.
        moved = sum(steps[it].skipped or 0.0 for it in together if not steps[it].skip_new)
        total = sum(steps[it].skipped or 0.0 for it in together)
        read, each = _read(story, own, after, counted, handled, total, moved)
        if read is not None and read < MOST:
            # What is lost is claimed from the most that the handlers can have counted; a filter, or handlers of whole batches, may
            # not count those that were passed.
            begin = min(_before(steps[it], lines[it]["committed"], spacing) for it in together)
            until = max(_when(steps[it], lines[it]["committed"]) for it in together)
            most = _read_at_most(begin, until, counted, handled, each, total, moved) if each >= MOST else None
            end = lines[partition].get("log_end", Track())
            unread = most is not None and most < PART and (story.skip_new or not _is_burst(story, own, end))
            read = most if unread else None
            story.skip_uncounted = each >= MOST and read is None
        story.skip_read = read


def _is_burst(story: PartitionHistory, committed: Track, end: Track) -> bool:
    """Whether far more was passed than arrives in that time otherwise: then most of it may have no record.

    So does a transaction end that was aborted: its records wait like others, and no consumer is given them. What else arrives meanwhile
    is read: where no more than usual has come, the handlers would have counted most of it.
    """
    waited, jump = story.skip_waited, _place(story, committed)
    if waited is None or len(end) < 2:
        return False
    until, first, last = float(committed.at[jump]), float(end.at[0]), float(end.at[-1])
    begin = max(first, until - waited)
    elsewhere = (begin - first) + (last - until)
    before, after = (float(np.diff(np.interp(it, end.at, end.value))[0]) for it in ((first, begin), (until, last)))
    return (story.skipped or 0.0) * elsewhere > FAR * (before + after) * waited


def _place(story: PartitionHistory, committed: Track) -> int:
    """Place of the sample with the step; 0: a first commit, before which there is none."""
    return 0 if story.skip_new else int(np.searchsorted(committed.at, _when(story, committed) - 1e-6))


def _before(story: PartitionHistory, committed: Track, spacing: float) -> float:
    """When the commit that made a step was last seen before it."""
    jump = _place(story, committed)
    return float(committed.at[jump - 1]) if jump else _when(story, committed) - spacing


def _read_at_most(
    begin: float, until: float, counted: list[Track], handled: Handled, each: float, passed: float, moved: float
) -> float | None:
    """Largest share of what was passed between two times that the handlers can account for; None if counters were not measured.

    All that was committed meanwhile was handled by its end, and not long before its beginning: what of it no handler has counted
    was passed unread.
    """
    first = begin - max(until - begin, handled.every, COMMIT_SECONDS)
    last = until + (1 - NOISE) * handled.every  # a counter may be told a period late
    most = sum(count for begun, ended, count in handled.unseen if begun <= last and ended >= first)
    for line in handled.lines:
        if line.at[-1] < first - handled.every:
            continue
        end = int(np.searchsorted(line.at, last))
        if end == len(line):
            return None
        most += float(line.value[end] - line.value[max(0, int(np.searchsorted(line.at, first, side="right")) - 1)])
    # Of all the data, with the step: were it skipped, fewer would be counted for each record that was passed, and more be read.
    every = _moved(counted, handled.first, handled.last)
    each = min(each, handled.between(handled.first, handled.last) / every) if every else each
    least = passed - moved
    for it in counted:
        inside = np.maximum.accumulate(it.value)[(it.at >= begin - 1e-6) & (it.at <= until + 1e-6)]
        least += float(np.ptp(inside)) if len(inside) else 0.0
    return max(0.0, 1 - (least - (1 + NOISE) * most / each) / passed)


def _when(story: PartitionHistory, committed: Track) -> float:
    return float(committed.at[-1]) - (story.skipped_ago or 0.0)


def _moved(committed: list[Track], begin: float, until: float) -> float:
    """Records that commits have passed between two times."""
    highest = (np.interp([begin, until], it.at, np.maximum.accumulate(it.value)) for it in committed)
    return sum((float(high - low) for low, high in highest), 0.0)


def _read(
    story: PartitionHistory,
    own: Track,
    after: float,
    counted: list[Track],
    handled: Handled,
    passed: float,
    moved: float,
) -> tuple[float | None, float]:
    """Share of what a step has passed that the handlers account for (None: they do not tell), and how many they usually count for each.

    `passed` are the records that were passed at that moment, by this partition and others, `moved` those by a movement of commits.
    """
    # What is handled is committed some seconds later, and an exporter sees that later still.
    spacing = max(story.interval or 0.0, handled.every, COMMIT_SECONDS)
    jump, before = _place(story, own), _before(story, own, spacing)
    moves = own.at[1:jump][np.diff(own.value[:jump]) != 0]
    stood = float(moves[-1] if len(moves) else own.at[0]) if jump > 1 else before
    until = max(after, min(after + spacing, handled.last))
    # How many the counters count for each record that is committed, in all other time.
    first = handled.first
    usual = handled.between(first, stood - spacing) + handled.between(until, handled.last)
    committed = _moved(counted, first, stood - spacing) + _moved(counted, until, handled.last)
    if usual < COUNTED or committed < COUNTED:
        return None, 0.0
    each = usual / committed

    def share(begin: float) -> float:
        rest = _moved(counted, begin, until) - moved
        return (handled.between(begin, until) / each - rest) / passed

    others = _moved(counted, before - spacing, until) - moved
    usually = committed / max(stood - spacing - first + handled.last - until, 1.0) * (until - before + spacing)
    # What others catch up with at that moment is measured less exactly than what they usually read.
    if PART * max(0.0, others - usually) + NOISE * others > PART * passed:
        return None, each
    at_once = share(before - spacing)
    if at_once >= MOST:
        return min(1.0, at_once), each
    # Handled while it stood, and committed at last.
    meanwhile = share(stood - spacing)
    if meanwhile > APART:
        return None, each
    return max(0.0, min(1.0, max(at_once, meanwhile))), each
