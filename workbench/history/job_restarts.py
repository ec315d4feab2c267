"""Restarts of jobs that keep their positions in checkpoints (Flink, Spark): since when one stood, and what it then read again.

A job tells when it last began from a checkpoint. What it had read behind that checkpoint is read again: bounds, because nobody saw the
position at which it fell. Of several restarts between two samples only the last one is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.history.partition_series import Track, tracks_of
from workbench.job_signals import READ_AS_COMMITTED
from workbench.quantiles import median
from workbench.window import Window

RESTORED = "restore_time"
_POSITIONS = {"read_offset": "read", "committed_offset": "committed", "batch_start_offset": "batch"}
_EVER = float("inf")
# Of samples from an instant on: the first may be older, as exporters keep what they tell, up to the next scrape.
_CURRENT = slice(1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRestart:
    """One restart; instants in seconds since the epoch, and None what cannot be told.

    Attributes:
        restored: when it began from its checkpoint, by the job's own clock.
        since: when it was last seen to get on before that: it has stood since then at the earliest.
        until: when it was first seen to read again; None: not yet, or its position is not measured.
        read_again_low, read_again_high: records read a second time since the last completed checkpoint, at least and at most.
        passed: records that it got through since the restart before, or since the data begin.
        missing: signals without which a bound or a time is not known.
    """

    group: str
    restored: float
    since: float | None
    until: float | None
    read_again_low: int | None
    read_again_high: int | None
    passed: int | None
    missing: tuple[str, ...] = ()

    @property
    def outage_seconds(self) -> float | None:
        """How long it stood at most: samples show only when it still moved and when it moved again."""
        return None if self.since is None or self.until is None else self.until - self.since

    @property
    def replay_ratio(self) -> tuple[float | None, float | None]:
        """Records read again for each one that it got through, at least and at most."""
        low, high = (
            None if it is None or not self.passed else it / self.passed
            for it in (self.read_again_low, self.read_again_high)
        )
        return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRestarts:
    """All of a window.

    Attributes:
        restarts: in the order of time.
        told: groups that tell when they were restored, or that they never were.
        untold: groups with positions of their own that do not tell when they were restored: whether they restarted cannot be told.
    """

    restarts: tuple[JobRestart, ...] = ()
    told: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()


@dataclass(slots=True)
class _Partition:
    read: Track = field(default_factory=Track)
    committed: Track = field(default_factory=Track)
    batch: Track = field(default_factory=Track)
    end: Track = field(default_factory=Track)

    @property
    def position(self) -> Track:
        """What is nearest to the record that it is at."""
        return self.read if len(self.read) else self.committed


def job_restarts(samples: pa.Table, window: Window) -> JobRestarts:
    """Find the restarts of a window, of samples in the order of `SERIES_ORDER`, then time; the baseline shows what was before."""
    wanted = pa.array([RESTORED, "log_end_offset", *_POSITIONS])
    is_known = pc.and_(pc.is_valid(samples["value"]), pc.equal(samples["stat"], "value"))
    # Where a job commits nothing, what it has read says nothing of its checkpoint.
    is_told = pc.not_equal(samples["source"], READ_AS_COMMITTED)
    known = samples.filter(pc.and_(pc.is_in(samples["signal"], wanted), pc.and_(is_known, is_told)))
    ends: dict[tuple[str, int], Track] = {}
    jobs: dict[str, dict[tuple[str, int], _Partition]] = {}
    begun: dict[str, list[float]] = {}  # what each group told of that, in the order of time
    for label, line in tracks_of(known, ("cluster", "group", "topic", "signal", "partition"), window):
        group, signal, where = label["group"], label["signal"], (label["topic"], label["partition"])
        if signal == RESTORED and group is not None:
            begun[group] = line.value.tolist()
        elif signal == "log_end_offset" and None not in where:
            ends[where] = line.once()
        elif signal in _POSITIONS and group is not None and None not in where:
            part = jobs.setdefault(group, {}).setdefault(where, _Partition())
            setattr(part, _POSITIONS[signal], line.once())
    for parts in jobs.values():
        for where, part in parts.items():
            part.end = ends.get(where, Track())
    end = window.end.timestamp()
    found = [
        it
        for group, told in sorted(begun.items())
        for it in _restarts(group, [at - end for at in told if at > 0], told[0] - end, jobs.get(group, {}), window)
    ]
    untold = {group for group, parts in jobs.items() if any(len(it.read) for it in parts.values())} - begun.keys()
    in_order = tuple(sorted(found, key=lambda it: it.restored))
    return JobRestarts(restarts=in_order, told=tuple(sorted(begun)), untold=tuple(sorted(untold)))


def _restarts(
    group: str, times: list[float], told: float, parts: Mapping[tuple[str, int], _Partition], window: Window
) -> list[JobRestart]:
    """Those in the window; times in seconds before its end. What a job `told` first is its first start, unless it had read before."""
    first = min((float(it.position.at[0]) for it in parts.values() if len(it.position)), default=_EVER)
    found, start = [], -_EVER
    for at in sorted(set(times)):
        was_there = at != told or first < at
        if was_there and -window.seconds <= at <= 0:
            found.append(_restart(group, start, at, parts, window.end.timestamp()))
        start = at
    return found


def _restart(
    group: str, start: float, at: float, parts: Mapping[tuple[str, int], _Partition], end: float
) -> JobRestart:
    missing: set[str] = set() if parts else {"read_offset"}
    since, until = list[float](), list[float]()
    low = high = passed = 0
    is_bounded = bool(parts)
    for part in parts.values():
        line = part.position
        before, after = _between(line, start, at), _between(line, at, _EVER)
        checkpoint = _between(part.committed, -_EVER, at)
        if not len(part.read):
            missing.add("read_offset")
        if not len(checkpoint):
            missing.add("committed_offset")
        if len(before):  # else it fell again before it was seen to read of this partition
            since.append(_last_well(before, part.end))
            passed += int(before.value[-1] - before.value[0])
        # A checkpoint that stands says nothing: the job is at work again once it moves.
        if len(checkpoint) and not len(part.read) and not len(part.batch):
            later = after.value != checkpoint.value[-1]
            after = Track(after.at[later], after.value[later])
        until += after.at[:1].tolist()
        if len(before) and len(after):
            low += max(0, int(before.value[-1] - after.value[0]))
        ends = _between(part.end, _fell_before(before, at), _EVER).value[_CURRENT].tolist()
        if len(part.batch):  # the batch in which it fell is run again as a whole, and ends no later than this one
            ends += after.value[:1].tolist()
        if not ends:
            missing.add("log_end_offset")
        # From a checkpoint before the last one.
        is_older = len(after) and len(checkpoint) and after.value[0] < checkpoint.value[-1]
        if len(checkpoint) and ends and not is_older:
            high += max(0, int(min(ends) - checkpoint.value[-1]))
        else:
            is_bounded = False
    return JobRestart(
        group=group,
        restored=end + at,
        since=end + max(since) if since else None,
        until=end + min(until) if until else None,
        read_again_low=low if parts else None,
        read_again_high=high if is_bounded else None,
        passed=passed if since else None,
        missing=tuple(sorted(missing)),
    )


def _last_well(before: Track, end: Track) -> float:
    """When it was last seen to get on, or to have nothing left to read."""
    ended = end.value[end.at <= before.at[-1]]
    if len(ended) and before.value[-1] >= ended[-1]:
        return float(before.at[-1])
    moved = np.flatnonzero(np.diff(before.value) != 0)
    return float(before.at[moved[-1] + 1] if len(moved) else before.at[0])


def _between(line: Track, start: float, stop: float) -> Track:
    """Samples in [start, stop)."""
    inside = (line.at >= start) & (line.at < stop)
    return Track(line.at[inside], line.value[inside])


def _fell_before(before: Track, at: float) -> float:
    """When it surely did not read any more: the next sample is missing. It has read no further than the log's end from then on."""
    steps = np.diff(before.at)
    return min(at, float(before.at[-1] + median(steps))) if len(steps) else at
