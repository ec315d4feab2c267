"""What an exporter tells in parts or as a rate, as one signal.

- A signal that is not a broker's own, with series by broker: these are parts of one measurement. Counts are added up; of ages and of
  members, which every broker knows, the largest counts. Where a broker that was there before is missing, the whole is not known: a sum
  without it would look as records that went away, or commits that were set back.
- All attempts, and those that failed: the others were ok.
- A rate where the signal is a counter: events per second times the seconds since the sample before.
- A last stable offset as of its observer's last look, whenever that was. One that stands while the same observer sees the log's end
  move on shows an open transaction; any other one shows nothing, and is left out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.collect.source_agreement import GAP_INTERVALS, ONE_SCRAPE_RATIO, Measured, measured, summed
from workbench.collect.source_join import by_name
from workbench.profiles import Profile
from workbench.profiles.mapping_rule import EVERY_OUTCOME
from workbench.samples import NAMES_SCHEMA, FloatArray, IntArray, SampleBatch, SeriesTable, codes_of, concat_series
from workbench.signals import GRAIN_LABELS, SIGNALS, Kind, ProcessingOutcome

_LARGEST_UNITS = ("seconds", "members")
_MEANS = ("mean", "batch")  # parts of a signal that are no count
# Rates are of about the last minute, and say nothing of a longer time without samples.
_TOLD_US = 150_000_000

_Key = tuple[Any, ...]


@dataclass(slots=True)
class Wholes:
    """Puts the series of one profile together; remembers what it has seen, for a source that is read one sample at a time."""

    profile: Profile
    _brokers: dict[_Key, set[str | None]] = field(default_factory=lambda: defaultdict(set))
    _totals: dict[_Key, tuple[int, float]] = field(default_factory=dict)
    # Last stable offset and log end, as they were seen last.
    _stable: dict[_Key, tuple[float, float]] = field(default_factory=dict)

    def of(self, series: SeriesTable) -> SeriesTable:
        """The series with rates counted up, one where there was one for each broker, and stable offsets where they show something."""
        return self._held_back(self._folded(_succeeded(self._counted(series)))) if len(series) else series

    def _counted(self, series: SeriesTable) -> SeriesTable:
        rates = {signal for signal, rule in self.profile.rules() if rule.per_second}
        if not rates:
            return series
        values = series.values.copy()
        names = zip(*(series.names[it].to_pylist() for it in NAMES_SCHEMA.names), strict=True)
        for key, start, length in zip(names, series.starts, series.lengths, strict=True):
            named = dict(zip(NAMES_SCHEMA.names, key, strict=True))
            if named["signal"] in rates and named["stat"] not in _MEANS:
                span = slice(start, start + length)
                values[span] = self._total(key, series.ts_us[span], values[span])
        return SeriesTable(series.names, series.lengths, series.ts_us, values, series.flags)

    def _total(self, key: _Key, ts_us: IntArray, rates: FloatArray) -> FloatArray:
        before_us, total = self._totals.get(key, (int(ts_us[0]), 0.0))
        gaps = np.diff(ts_us, prepend=before_us)
        usual = float(np.median(gaps[1:])) if len(gaps) > 1 else 0.0
        told = (gaps <= max(_TOLD_US, GAP_INTERVALS * usual)) & ~np.isnan(rates)
        found: FloatArray = total + np.cumsum(np.where(told, np.nan_to_num(rates) * gaps / 1e6, 0.0))
        self._totals[key] = int(ts_us[-1]), float(found[-1])
        return np.where(np.isnan(rates), np.nan, found)

    def _folded(self, series: SeriesTable) -> SeriesTable:
        signals, brokers = (series.names[it].to_pylist() for it in ("signal", "broker"))
        divided = {
            signal
            for signal, rule in self.profile.rules()
            if "broker" in rule.labels and "broker" not in GRAIN_LABELS[SIGNALS[signal].grain]
        }
        parts = np.array([signal in divided for signal in signals], bool)
        if not parts.any():
            return series
        others = [name for name in NAMES_SCHEMA.names if name != "broker"]
        codes = codes_of(series.names, others)
        by_code: dict[int, list[int]] = defaultdict(list)
        for at in np.flatnonzero(parts).tolist():
            by_code[int(codes[at])].append(at)
        batch = SampleBatch(series.names["cluster"][0].as_py(), series.names["source"][0].as_py())
        starts = series.starts
        for ats in by_code.values():
            named = series.names.slice(ats[0], 1).to_pylist()[0] | {"broker": None}
            key = tuple(named[name] for name in others)
            each: dict[str | None, list[Measured]] = defaultdict(list)
            for at in ats:
                span = slice(starts[at], starts[at] + series.lengths[at])
                each[brokers[at]].append((series.ts_us[span], series.values[span]))
            seen = self._brokers[key]
            seen.update(each)
            if each.keys() != seen:
                continue
            times, values = _whole([_in_time(it) for it in each.values()], largest=_is_largest(named["signal"]))
            if len(times):
                batch.add(named["signal"], named, times, values, stat=named["stat"], le=named["le"])
        return concat_series([series.where(pc.invert(pa.array(parts))), batch.to_series()])

    def _held_back(self, series: SeriesTable) -> SeriesTable:
        is_stable = pc.equal(series.names["signal"], "last_stable_offset")
        if not pc.any(is_stable).as_py():
            return series
        ends = by_name(series.where(pc.equal(series.names["signal"], "log_end_offset")), "topic", "partition")
        batch = SampleBatch(series.names["cluster"][0].as_py(), series.names["source"][0].as_py())
        for key, (times, offsets) in by_name(series.where(is_stable), "topic", "partition").items():
            if key not in ends:
                continue
            both, mine, of_ends = np.intersect1d(times, ends[key][0], return_indices=True)
            stable, end = offsets[mine], ends[key][1][of_ends]
            if not len(both):
                continue
            stable_before, end_before = self._stable.get(key, (np.nan, np.nan))
            holds = (np.diff(stable, prepend=stable_before) == 0) & (np.diff(end, prepend=end_before) > 0)
            self._stable[key] = float(stable[-1]), float(end[-1])
            batch.add("last_stable_offset", {"topic": key[0], "partition": key[1]}, both[holds], stable[holds])
        return concat_series([series.where(pc.invert(is_stable)), batch.to_series()])


def _succeeded(series: SeriesTable) -> SeriesTable:
    """Attempts of all outcomes, without those of the others that are told of the same processor: the rest was ok."""
    counts = pc.equal(series.names["signal"], "processed")
    every = pc.and_(counts, pc.equal(series.names["stat"], EVERY_OUTCOME))
    if not pc.any(every).as_py():
        return series
    codes, starts = codes_of(series.names, [name for name in NAMES_SCHEMA.names if name != "stat"]), series.starts
    others: dict[int, list[int]] = defaultdict(list)
    for at in np.flatnonzero(pc.and_not(counts, every).to_numpy()).tolist():
        others[int(codes[at])].append(at)
    batch = SampleBatch(series.names["cluster"][0].as_py(), series.names["source"][0].as_py())
    for at in np.flatnonzero(every.to_numpy()).tolist():
        less = ((times, -values) for times, values in (measured(series, starts, [it]) for it in others[int(codes[at])]))
        times, rest = summed([measured(series, starts, [at]), *less], intervals=ONE_SCRAPE_RATIO)
        labels = series.names.slice(at, 1).to_pylist()[0]
        batch.add("processed", labels, times, np.maximum(rest, 0.0), stat=ProcessingOutcome.OK)
    return concat_series([series.where(pc.invert(every)), batch.to_series()])


def _is_largest(signal: str) -> bool:
    return SIGNALS[signal].kind is Kind.GAUGE and SIGNALS[signal].unit in _LARGEST_UNITS


def _in_time(spans: list[Measured]) -> Measured:
    times, values = (np.concatenate([it[part] for it in spans]) for part in (0, 1))
    order = np.argsort(times, kind="stable")
    return times[order], values[order]


def _whole(parts: list[Measured], *, largest: bool) -> Measured:
    """Of parts by time, the whole wherever each part is known: it has a sample at that time, or not long before."""
    times = np.unique(np.concatenate([ts for ts, _ in parts]))
    if all(len(ts) == 1 for ts, _ in parts):  # read at one moment, one page after the other
        times = times[-1:]
    known, every = np.ones(len(times), bool), []
    for ts, values in parts:
        at = np.searchsorted(ts, times, side="right") - 1
        age = times - ts[np.maximum(at, 0)]
        known &= (at >= 0) & ((age <= GAP_INTERVALS * np.median(np.diff(ts))) if len(ts) > 1 else len(times) == 1)
        every.append(values[np.maximum(at, 0)])
    whole = np.max(every, axis=0) if largest else np.sum(every, axis=0)
    return times[known], whole[known]
