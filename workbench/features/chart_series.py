"""Time series behind a finding, binned for sparklines and charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workbench.samples import rises
from workbench.signals import FAILURES, ProcessingOutcome
from workbench.window import Window

BINS = 120
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesLine:
    """One line of a chart: values of shape (bins,), NaN without a sample."""

    name: str
    values: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Lines over the same time axis.

    Attributes:
        times: end of each bin, seconds since the epoch, (bins,).
        lag: messages, by partition. time_lag: s, by partition. fill: 0 to 1, by processor (its fullest queue).
        process_time: s, mean by processor. arrivals, commits: messages/s. members: count. failing: share of the attempts, 0 to 1.
    """

    times: FloatArray
    lag: tuple[SeriesLine, ...]
    time_lag: tuple[SeriesLine, ...]
    fill: tuple[SeriesLine, ...]
    process_time: tuple[SeriesLine, ...]
    arrivals: SeriesLine
    commits: SeriesLine
    members: SeriesLine
    failing: SeriesLine


def series_of(samples: pa.Table, window: Window, *, group: str, topic: str) -> Series:
    """Compute the series of one subscription, over baseline and window.

    A bin is at least twice as wide as the sampling interval: so no bin is empty by chance, and a rate does not jump because two samples
    fall into one bin.
    """
    own = samples.filter(
        pc.and_(
            pc.or_kleene(pc.equal(samples["group"], group), pc.is_null(samples["group"])),
            pc.or_kleene(pc.equal(samples["topic"], topic), pc.is_null(samples["topic"])),
        )
    )
    own = own.filter(pc.and_(pc.is_valid(own["value"]), pc.not_equal(own["stat"], "bucket")))
    first, last = window.baseline_start.timestamp(), window.end.timestamp()
    count = int(max(2, min(BINS, (last - first) / (2 * spacing(own)))))
    edges = np.linspace(first, last, count + 1)
    rows = _Rows(own, edges)
    return Series(
        times=edges[1:],
        lag=rows.waiting(),
        time_lag=rows.by("time_lag", "partition"),
        fill=rows.fill(),
        process_time=rows.process_time(),
        arrivals=SeriesLine(name="arriving", values=rows.growth("log_end_offset")),
        commits=SeriesLine(name="committed", values=rows.growth("committed_offset")),
        members=total(rows.by("group_members", "group"), "members") or SeriesLine(name="members", values=rows.empty()),
        failing=SeriesLine(name="failing", values=rows.share_failing()),
    )


def total(lines: Sequence[SeriesLine], name: str) -> SeriesLine | None:
    """Sum of lines; NaN only where all are."""
    if not lines:
        return None
    stacked = np.stack([line.values for line in lines])
    return SeriesLine(name=name, values=np.where(np.isnan(stacked).all(axis=0), np.nan, np.nansum(stacked, axis=0)))


def highest(lines: Sequence[SeriesLine], name: str) -> SeriesLine | None:
    """Maximum of lines; NaN only where all are."""
    if not lines:
        return None
    return SeriesLine(name=name, values=np.fmax.reduce([line.values for line in lines]))


def spacing(own: pa.Table, signal: str = "consumer_lag") -> float:
    """Typical sampling interval in seconds; 1 with too few samples."""
    lag = own.filter(pc.equal(own["signal"], signal))
    if lag.num_rows < 3:
        return 1.0
    times = np.unique(pc.cast(lag["ts"], pa.int64()).to_numpy() // 100_000) / 10
    return float(max(0.5, np.median(np.diff(times)))) if len(times) > 2 else 1.0


class _Rows:
    """Samples of one subscription with their bins."""

    def __init__(self, own: pa.Table, edges: FloatArray) -> None:
        self._edges = edges
        self._bins = len(edges) - 1
        self._width = edges[1] - edges[0]
        self._own = own

    def _each(
        self, signal: str, stat: str, labels: Sequence[str]
    ) -> Iterator[tuple[tuple[Any, ...], FloatArray, FloatArray]]:
        """Yield (label values, times, values) of each series of a signal, in order of time."""
        rows = self._own.filter(pc.and_(pc.equal(self._own["signal"], signal), pc.equal(self._own["stat"], stat)))
        if rows.num_rows == 0:
            return
        times = pc.cast(rows["ts"], pa.int64()).to_numpy() / 1e6
        values = rows["value"].to_numpy()
        keys = list(zip(*(rows[name].to_pylist() for name in labels), strict=True))
        positions: dict[tuple[Any, ...], list[int]] = {}
        for position, key in enumerate(keys):
            positions.setdefault(key, []).append(position)
        for key in sorted(positions, key=lambda items: tuple((item is None, item) for item in items)):
            at = np.array(positions[key])
            order = at[np.argsort(times[at], kind="stable")]
            yield key, times[order], values[order]

    def _bin(self, times: FloatArray) -> npt.NDArray[np.int64]:
        found = np.searchsorted(self._edges, times, side="left") - 1
        return np.clip(found, 0, self._bins - 1).astype(np.int64)

    def empty(self) -> FloatArray:
        """A line without a value."""
        return np.full(self._bins, np.nan)

    def by(self, signal: str, label: str) -> tuple[SeriesLine, ...]:
        """Last value of each bin, by one label; of several members the highest."""
        found: dict[Any, FloatArray] = {}
        for (key, _member), times, values in self._each(signal, "value", (label, "member")):
            line = self.empty()
            line[self._bin(times)] = values  # later samples overwrite earlier ones of the same bin
            found[key] = np.fmax(found[key], line) if key in found else line
        return tuple(SeriesLine(name=str(key), values=values) for key, values in found.items())

    def waiting(self) -> tuple[SeriesLine, ...]:
        """The lag of each partition, without what lies before its log's start: that is deleted."""
        starts = {it.name: it.values for it in self.by("log_start_offset", "partition")}
        commits = {it.name: it.values for it in self.by("committed_offset", "partition")}
        unknown = self.empty()
        return tuple(
            SeriesLine(
                name=it.name,
                values=np.maximum(
                    it.values - np.fmax(starts.get(it.name, unknown) - commits.get(it.name, unknown), 0.0), 0.0
                ),
            )
            for it in self.by("consumer_lag", "partition")
        )

    def growth(self, signal: str) -> FloatArray:
        """Growth per second of the sum of a signal that only grows, (bins,)."""
        grown = np.zeros(self._bins)
        seen = np.zeros(self._bins, dtype=bool)
        for _, times, values in self._each(signal, "value", ("partition",)):
            if len(times) > 1:
                at = self._bin(times[1:])
                np.add.at(grown, at, np.maximum(np.diff(values), 0))
                seen[at] = True
        return np.where(seen, grown / self._width, np.nan)

    def process_time(self) -> tuple[SeriesLine, ...]:
        """Mean time of an attempt in each bin, by processor."""
        sums = self._increases("process_time", "sum")
        counts = self._increases("process_time", "count")
        told = self._told()
        lines = [SeriesLine(name=str(key), values=values) for key, values in told.items()]
        for key, counted in counts.items():
            if key in told:
                continue
            summed = sums.get(key, np.zeros(self._bins))
            with np.errstate(invalid="ignore", divide="ignore"):
                lines.append(SeriesLine(name=str(key), values=np.where(counted > 0, summed / counted, np.nan)))
        return tuple(lines)

    def _told(self) -> Mapping[Any, FloatArray]:
        """Means that clients tell themselves, of a call with a batch of records: mean of the members in each bin, by processor."""
        batches = self._averages("batch")
        return {key: mean / batches.get(key, 1.0) for key, mean in self._averages("mean").items()}

    def _averages(self, stat: str) -> Mapping[Any, FloatArray]:
        found: dict[Any, tuple[FloatArray, FloatArray]] = {}
        for (key, *_), times, values in self._each("process_time", stat, ("processor", "member", "topic")):
            total, count = found.setdefault(key, (np.zeros(self._bins), np.zeros(self._bins)))
            at = self._bin(times)
            np.add.at(total, at, values)
            np.add.at(count, at, 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return {key: np.where(count > 0, total / count, np.nan) for key, (total, count) in found.items()}

    def share_failing(self) -> FloatArray:
        """Share of the attempts of all processors that failed, timed out or went to dead letters, (bins,)."""
        ended = {it: self._increases("processed", it) for it in ProcessingOutcome}
        total = {it: np.sum([*lines.values(), np.zeros(self._bins)], axis=0) for it, lines in ended.items()}
        every = np.sum(list(total.values()), axis=0)
        bad = np.sum([total[it] for it in FAILURES], axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(every > 0, bad / every, np.nan)

    def _increases(self, signal: str, stat: str) -> Mapping[Any, FloatArray]:
        found: dict[Any, FloatArray] = {}
        for (key, *_), times, values in self._each(
            signal, stat, ("processor", "member", "topic", "queue", "partition")
        ):
            np.add.at(found.setdefault(key, np.zeros(self._bins)), self._bin(times[1:]), rises(values))
        return found

    def fill(self) -> tuple[SeriesLine, ...]:
        """Fill of the fullest queue of each processor."""
        capacity = {
            key: values[-1]
            for key, _, values in self._each("queue_capacity", "value", ("processor", "member", "queue"))
        }
        found: dict[str, list[SeriesLine]] = {}
        for key, times, values in self._each("queue_length", "value", ("processor", "member", "queue")):
            if capacity.get(key):
                line = self.empty()
                line[self._bin(times)] = values / capacity[key]
                found.setdefault(str(key[0]), []).append(SeriesLine(name="", values=line))
        merged = ((name, highest(lines, name)) for name, lines in found.items())
        return tuple(line for _, line in merged if line is not None)
