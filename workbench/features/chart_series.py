"""Time series behind a finding, binned for sparklines and charts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workbench.samples import codes_of, rises
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
        members=total(rows.by("group_members", "group"), "members") or SeriesLine(name="members", values=rows.nothing),
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
        self._own, self._edges, self._bins = own, edges, len(edges) - 1
        self.nothing: FloatArray = np.full(self._bins, np.nan)

    def _each(
        self, signal: str, stat: str, *labels: str
    ) -> Iterator[tuple[tuple[Any, ...], npt.NDArray[np.int64], FloatArray]]:
        """Yield (label values, bins, values) of each series of a signal, in order of time."""
        rows = self._own.filter(pc.and_(pc.equal(self._own["signal"], signal), pc.equal(self._own["stat"], stat)))
        if not rows.num_rows:
            return
        micros, values = pc.cast(rows["ts"], pa.int64()).to_numpy(), rows["value"].to_numpy()
        bins = np.clip(np.searchsorted(self._edges, micros / 1e6, side="left") - 1, 0, self._bins - 1)
        codes = codes_of(rows, labels)
        order = np.lexsort((micros, codes))
        each = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
        firsts = rows.select(labels).take(pa.array([at[0] for at in each])).to_pylist()
        keyed = [(tuple(first.values()), at) for first, at in zip(firsts, each, strict=True)]
        for key, at in sorted(keyed, key=lambda it: [(label is None, label) for label in it[0]]):
            yield key, bins[at], values[at]

    def by(self, signal: str, label: str) -> tuple[SeriesLine, ...]:
        """Last value of each bin, by one label; of several members the highest."""
        found: dict[Any, FloatArray] = {}
        for (key, _member), at, values in self._each(signal, "value", label, "member"):
            line = self.nothing.copy()
            line[at] = values  # later samples overwrite earlier ones of the same bin
            found[key] = np.fmax(found[key], line) if key in found else line
        return tuple(SeriesLine(name=str(key), values=values) for key, values in found.items())

    def waiting(self) -> tuple[SeriesLine, ...]:
        """The lag of each partition, without what lies before its log's start: that is deleted."""
        starts = {it.name: it.values for it in self.by("log_start_offset", "partition")}
        commits = {it.name: it.values for it in self.by("committed_offset", "partition")}
        found = []
        for it in self.by("consumer_lag", "partition"):
            deleted = starts.get(it.name, self.nothing) - commits.get(it.name, self.nothing)
            found.append(SeriesLine(name=it.name, values=np.maximum(it.values - np.fmax(deleted, 0.0), 0.0)))
        return tuple(found)

    def growth(self, signal: str) -> FloatArray:
        """Growth per second of the sum of a signal that only grows, (bins,)."""
        grown = np.zeros(self._bins)
        seen = np.zeros(self._bins, dtype=bool)
        for _, at, values in self._each(signal, "value", "partition"):
            np.add.at(grown, at[1:], np.maximum(np.diff(values), 0))
            seen[at[1:]] = True
        return np.where(seen, grown / (self._edges[1] - self._edges[0]), np.nan)

    def process_time(self) -> tuple[SeriesLine, ...]:
        """Mean time of an attempt in each bin, by processor."""
        sums, batches = self._increases("process_time", "sum"), self._averages("batch")
        # What clients tell themselves is of a call with a batch of records.
        told = {key: mean / batches.get(key, 1.0) for key, mean in self._averages("mean").items()}
        counted = {key: _ratio(sums[key], of) for key, of in self._increases("process_time", "count").items()}
        lines = told | {key: values for key, values in counted.items() if key not in told}
        return tuple(SeriesLine(name=str(key), values=values) for key, values in lines.items())

    def _averages(self, stat: str) -> Mapping[Any, FloatArray]:
        """Mean of the members in each bin, by processor."""
        sums, counts = self._zeros(), self._zeros()
        for (key, *_), at, values in self._each("process_time", stat, "processor", "member", "topic"):
            np.add.at(sums[key], at, values)
            np.add.at(counts[key], at, 1)
        return {key: _ratio(sums[key], of) for key, of in counts.items()}

    def _zeros(self) -> defaultdict[Any, FloatArray]:
        return defaultdict(lambda: np.zeros(self._bins))

    def share_failing(self) -> FloatArray:
        """Share of the attempts of all processors that failed, timed out or went to dead letters, (bins,)."""
        ended = {it: self._increases("processed", it) for it in ProcessingOutcome}
        total = {it: np.sum([*lines.values(), np.zeros(self._bins)], axis=0) for it, lines in ended.items()}
        return _ratio(np.sum([total[it] for it in FAILURES], axis=0), np.sum(list(total.values()), axis=0))

    def _increases(self, signal: str, stat: str) -> Mapping[Any, FloatArray]:
        found = self._zeros()
        for (key, *_), at, values in self._each(signal, stat, "processor", "member", "topic", "queue", "partition"):
            np.add.at(found[key], at[1:], rises(values))
        return found

    def fill(self) -> tuple[SeriesLine, ...]:
        """Fill of the fullest queue of each processor."""
        queue = ("processor", "member", "queue")
        capacity = {key: values[-1] for key, _, values in self._each("queue_capacity", "value", *queue)}
        found: dict[str, FloatArray] = {}
        for key, at, values in self._each("queue_length", "value", *queue):
            if capacity.get(key):
                line = self.nothing.copy()
                line[at] = values / capacity[key]
                found[str(key[0])] = np.fmax(found.get(str(key[0]), self.nothing), line)
        return tuple(SeriesLine(name=name, values=values) for name, values in found.items())


def _ratio(part: FloatArray, of: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(of > 0, part / of, np.nan)
