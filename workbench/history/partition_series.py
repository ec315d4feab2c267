"""What the story of a partition is told from, and what it says.

Everything is in seconds before the window's end (so ≤ 0) and in messages. "Age" is the time since the oldest message that waits was
produced: 0 when none waits. Commits at intervals make a sawtooth of it; its usual height is the partition's `cadence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workbench.equal_row_runs import runs_of
from workbench.judgement_numbers import FEW_SAMPLES
from workbench.quantiles import median
from workbench.window import Window

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_EMPTY: FloatArray = np.empty(0)
_SAME_SECONDS = 1e-3  # two exporters, or a sample that came twice
FEW_MOVES = int(FEW_SAMPLES)  # fewer changes of a commit make no rhythm


@dataclass(frozen=True, slots=True)
class Track:
    """One series: times in seconds before the end, ascending, and values without NaN."""

    at: FloatArray = field(default_factory=lambda: _EMPTY)
    value: FloatArray = field(default_factory=lambda: _EMPTY)

    def __len__(self) -> int:
        return len(self.at)

    def once(self) -> Track:
        """One value for each instant, the last one."""
        if len(self.at) < 2 or (np.diff(self.at) > _SAME_SECONDS).all():
            return self
        last = np.append(np.diff(self.at) > _SAME_SECONDS, True)
        return Track(self.at[last], self.value[last])

    def without_outliers(self) -> Track:
        """Offsets without single samples that go there and back: an offset that is real does not return within two scrapes."""
        return self._without(lambda before, here, _after: here < before)._without(
            lambda _before, here, after: here > after
        )

    def _without(self, is_odd: Callable[[FloatArray, FloatArray, FloatArray], BoolArray]) -> Track:
        if len(self.at) < FEW_MOVES:
            return self
        before, here, after = self.value[:-2], self.value[1:-1], self.value[2:]
        odd = (after >= before) & is_odd(before, here, after)
        if not odd.any():
            return self
        kept = np.concatenate([[True], ~odd, [True]])
        return Track(self.at[kept], self.value[kept])


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPartition:
    """The series of one partition and group; any of them may be empty.

    `shown` are the commits with samples that are odd, `read` the positions of clients that tell them.
    """

    committed: Track = field(default_factory=Track)
    read: Track = field(default_factory=Track)
    shown: Track = field(default_factory=Track)
    log_end: Track = field(default_factory=Track)
    log_start: Track = field(default_factory=Track)
    lag: Track = field(default_factory=Track)
    time_lag: Track = field(default_factory=Track)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is expected of the group, and the window: seconds, `window_start` before the end."""

    objective: float
    commit_every: float
    window_start: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Aged:
    """Commits of a partition, `step` seconds apart, and the age of the oldest waiting message at each of them.

    `changed` are the places of commits that differ from the one before. An age that is not `known` is a lower bound. `end` is the log
    since it last began anew, `lag` None if it is not exported, `read` its client's position.
    """

    committed: Track
    changed: IntArray
    step: float
    end: Track
    lag: Track | None
    age: FloatArray
    known: BoolArray
    limits: Bounds
    read: Track = field(default_factory=Track)

    def waits(self, at: FloatArray, offset: FloatArray) -> FloatArray:
        """Messages that wait: as exported, or else by the two offsets, which may be read at different moments."""
        if self.lag is not None:
            return np.interp(at, self.lag.at, self.lag.value)
        return np.interp(at, self.end.at, self.end.value) - offset


@dataclass(slots=True, kw_only=True)
class PartitionHistory:
    """Facts about one partition; None: not known. Times in seconds before the window's end.

    Attributes:
        interval: between two samples of the commit.
        cadence: usual height of the sawtooth of ages: how long a message waits for its commit in good times.
        rhythm: usual time between two commits while something waits.
        turn: longest time that a partition of this subscription waited for its turn while others moved, since it fell behind.
        best_pace: messages/s in those minutes in which all partitions together were read fastest, since they are behind.
        returned_ago: time since the first commit after all partitions had stood still together, while messages waited.
        moved_ago: time from the last change of the commit to the last sample.
        stood_before: how long at most it stood still, while messages waited, before one of its commits: a batch, perhaps.
        ahead: messages that its client has read behind the commit, where it tells its position: those wait for the commit alone.
        waiting: age of the oldest waiting message at the last sample, at least.
        onset: when it fell behind, negative; None if it is not behind, or was so from the first sample on (`sick_from_start`).
        age_at_most: the lowest bound of that age lately, where only the lag in messages is measured.
        steady: whether it has been equally late all the time, while its commits moved.
        by_client: whether its end and its lag are only known from the client that reads it: what that does not fetch, it does not see.
        idle: nothing arrives, and what waits are at most the marks of transactions.
        other_clock: the latest age that its source tells, where offsets show several times that the message cannot have waited so long.
        mark: what lies between its commit and its end is the mark of a transaction.
        short: its commits rest one before its end, each time, whatever arrives.
        unmoved: so long as the data show neither its commit nor its end has moved, and something lies between them; seconds.
        age_slope: of the age over the last half of the window, in seconds per second.
        lag_course: messages/s by which the lag of one that is behind has changed in the last few samples.
        late: whether it waits for longer than the objective and its cadence explain.
        lateness: the stretches of the window in which it was late, from and to; no fact by itself.
        drain_in: until nothing waits, at the pace since the lag was highest; None if it does not shrink.
        drain_seen: for how long it has shrunk.
        outages: stretches of all the data in which it stood still and was late; 0 if it stands still most of the time, or has not done
            so for longer than usual.
        late_from, late_to, late_peak: the latest stretch in which it was late, if it ended in the window, and the highest age.
        lost, lost_from, lost_ago: messages that retention deleted before they were committed, the first of them, and when.
        leapt: messages that the commit passed to the log's end after its place had been deleted.
        lost_before: those of a commit that the log's start had passed before the data begin.
        skipped, skipped_from, skipped_ago: messages that a commit passed in one step; `skip_pace` times the usual pace, at `skip_rate`.
        skip_outran: whether it then read on, slower, and was still behind: it cannot read at the pace of that step.
        skip_beside: whether partitions that had stood beside it then read far slower, and were still behind.
        skip_waited: how long the first of them had waited, at most.
        skip_read: share of these that the handlers account for, 0 to 1; None: not counted.
        skip_alone: whether the group had no members then, so that nobody read them.
        skip_uncounted: whether they seem not to have handled most, and may have: their counters are measured apart from the commits,
            or most was no record, as after an aborted transaction.
        skip_new: whether they are the first of a new partition, before its first commit.
        back, back_ago: messages by which the commit went back, and when; `back_unseen` seconds after the last commit that was higher,
            `back_leapt` if it leapt over most of them again: nobody reads so fast; `back_over` if it is again where it was.
            `back_amid_members` if the group had members all the
            while: Kafka lets no administrator reset offsets then; a consumer does.
        to_and_fro: how often in the window the commit went back, and then leapt over most of that in one step.
        swung: whether it went back, moved on there, and leapt over most of that in one step.
        above_end: messages by which the commit is above the log's end.
        recreated_ago: when the log began anew.
        loss_in: time until retention deletes a message that waits.
        quiet, usual_gap: time since the last arrival, and the longest time between two arrivals before.
    """

    interval: float | None = None
    cadence: float | None = None
    rhythm: float | None = None
    turn: float | None = None
    best_pace: float | None = None
    returned_ago: float | None = None
    moved_ago: float | None = None
    stood_before: float | None = None
    ahead: float | None = None
    waiting: float | None = None
    onset: float | None = None
    age_at_most: float | None = None
    sick_from_start: bool = False
    steady: bool = False
    by_client: bool = False
    idle: bool = False
    other_clock: float | None = None
    mark: bool = False
    short: bool = False
    unmoved: float | None = None
    late: bool | None = None
    age_slope: float | None = None
    lag_course: float | None = None
    lateness: tuple[tuple[float, float], ...] = ()
    outages: int = 0
    drain_in: float | None = None
    drain_seen: float | None = None
    late_from: float | None = None
    late_to: float | None = None
    late_peak: float | None = None
    lost: float | None = None
    lost_from: float | None = None
    lost_ago: float | None = None
    leapt: float | None = None
    lost_before: float | None = None
    skipped: float | None = None
    skipped_from: float | None = None
    skipped_ago: float | None = None
    skip_pace: float | None = None
    skip_rate: float | None = None
    skip_waited: float | None = None
    skip_outran: bool = False
    skip_beside: bool = False
    skip_read: float | None = None
    skip_alone: bool = False
    skip_uncounted: bool = False
    skip_new: bool = False
    back: float | None = None
    back_ago: float | None = None
    back_unseen: float | None = None
    back_leapt: bool = False
    back_over: bool = False
    back_amid_members: bool = False
    to_and_fro: int = 0
    swung: bool = False
    above_end: float | None = None
    recreated_ago: float | None = None
    loss_in: float | None = None
    quiet: float | None = None
    usual_gap: float | None = None

    def note_skip(self, first: float, passed: float, ago: float, rate: float | None) -> None:
        """Note what a commit passed in one step; None: at a rate that says nothing."""
        self.skipped_from, self.skipped, self.skipped_ago, self.skip_rate = (
            float(first),
            float(passed),
            float(ago),
            rate,
        )


def tracks_of(
    rows: pa.Table, names: Sequence[str], window: Window, *also: str
) -> Iterator[tuple[dict[str, Any], Track]]:
    """Yield each series of sorted rows that are equal in these columns: its labels (`also` of its first row), and its samples.

    Those outside of baseline and window are left out.
    """
    if not rows.num_rows:
        return
    seconds = pc.cast(rows["ts"], pa.int64()).to_numpy() / 1e6 - window.end.timestamp()
    values = rows["value"].to_numpy()
    inside = (seconds <= 1e-6) & (seconds >= -window.seconds - window.baseline_seconds - 1e-6)
    starts, ends = runs_of(rows, names)
    labels = rows.select([*names, *also]).take(pa.array(starts)).to_pylist()
    for label, begin, until in zip(labels, starts, ends, strict=True):
        mask = inside[begin:until]
        at, value = seconds[begin:until][mask], values[begin:until][mask]
        if (np.diff(at) < 0).any():  # several members, one after the other
            order = np.argsort(at, kind="stable")
            at, value = at[order], value[order]
        if len(at):
            yield label, Track(at, value)


def step_of(at: FloatArray) -> float:
    """Usual time between two samples; 0 for fewer than two."""
    return median(np.diff(at)) if len(at) > 1 else 0.0


def pace_of(end: Track) -> float:
    """Growth of a line per second, from its first to its last sample; 0 where it falls or has no length."""
    span = float(end.at[-1] - end.at[0]) if len(end) >= 2 else 0.0
    return max(0.0, float(end.value[-1] - end.value[0])) / span if span > 0 else 0.0


def stretches(there: BoolArray) -> tuple[IntArray, IntArray]:
    """Where something begins to be so, and the places after the last ones where it is."""
    edges = np.diff(np.concatenate([[0], there.astype(np.int8), [0]]))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)


def slope(x: FloatArray, y: FloatArray) -> float:
    """Least-squares slope; 0 without a spread of `x`."""
    from_mean = x - x.mean()
    spread = float((from_mean * from_mean).sum())
    return float((from_mean * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
