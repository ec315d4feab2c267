"""Condense the samples of time slots to one row per series, column by column in numpy, without a shuffle.

A slot is as long as a window, or as a quarter of a baseline. A condensed slot need not be read again: this sweep's window becomes
part of the next sweep's baseline. One sample costs about 50 ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workbench.equal_row_runs import codes_in, encoded, is_one, runs_of
from workbench.features.summary_schema import BAD_FLAGS, CUMULATIVE, EACH_MEMBERS, MEMBERLESS, TOLD
from workbench.judgement_numbers import RECENT
from workbench.samples import SERIES_ORDER

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_KEYS = ("cluster", *SERIES_ORDER)
NAMES = tuple(name for name in _KEYS if name != "partition")  # all of them text
COLUMNS = ("ts", "value", "flag", *_KEYS)
_PIECE_ROWS = 65_536

# One row per series and slot. Gauges: per entity, whichever member reports it (`member` and `source` are null then), with all columns
# of `features.summary_schema`. Counters: per series, because growth between two slots is only known once both are there.
# Times in µs since the epoch, or from an origin on; `slot_us` is the slot's end.
SUMMARY_SCHEMA = pa.schema(
    [
        *((name, pa.int32() if name == "partition" else pa.string()) for name in _KEYS),
        ("slot_us", pa.int64()),
        ("samples", pa.int64()),
        ("bad_samples", pa.int64()),
        *((name, pa.float64()) for name in ("first", "last", "low", "high", "mean")),
        ("first_us", pa.int64()),
        ("last_us", pa.int64()),
        ("increase", pa.float64()),
        ("resets", pa.int64()),
        *((name, pa.float64()) for name in ("slope", "recent_slope", "recent_low", "recent_lowest", "last_two_high")),
        ("starts", pa.int32()),
        # Of commits and rebalances: the time of the last change, and the longest time between two changes.
        ("moved_us", pa.int64()),
        ("longest_gap", pa.float64()),
        ("history", pa.list_(pa.struct([("us", pa.int64()), ("value", pa.float64())]))),
    ]
)


def condense(samples: pa.Table, edges_us: Sequence[int], *, origin_us: int = 0) -> pa.Table:
    """Aggregate samples to `SUMMARY_SCHEMA`, one row per series (or entity) and slot that has samples.

    Args:
        samples: the columns of `COLUMNS`, in the order of `SERIES_ORDER`; text may be dictionary-encoded.
        edges_us: the bounds of the slots in µs since the epoch; slot i is `(edges[i], edges[i + 1]]`.
        origin_us: what the times of the rows begin at.
    """
    cuts = _cuts(samples)
    if len(cuts) > 2:
        return pa.concat_tables(_condense(samples.slice(at, to - at), edges_us, origin_us) for at, to in pairwise(cuts))
    return _condense(samples, edges_us, origin_us)


def _cuts(samples: pa.Table) -> list[int]:
    """Where to divide long tables between two entities: numpy is several times faster on data that fit into the CPU cache."""
    rows = samples.num_rows
    if rows < 2 * _PIECE_ROWS:
        return [0, rows]
    starts, _ = runs_of(samples, ("group", "topic", "signal", "stat", "partition"))
    borders = starts[1:]
    wanted = np.searchsorted(borders, np.arange(_PIECE_ROWS, rows, _PIECE_ROWS))
    inner = sorted({int(borders[at]) for at in wanted if at < len(borders)})
    return [0, *inner, rows]


def _condense(samples: pa.Table, edges_us: Sequence[int], origin_us: int) -> pa.Table:
    edges = np.asarray(edges_us, dtype=np.int64) - origin_us
    stamps = pc.cast(samples["ts"], pa.int64()).to_numpy() - origin_us
    inside = (stamps > edges[0]) & (stamps <= edges[-1])
    # Buckets are for charts; the tree needs sums and counts, which are exact.
    inside &= ~_is_in(encoded(samples["stat"]), ("bucket",))
    if not inside.all():
        samples, stamps = samples.filter(pa.array(inside)), stamps[inside]
    if not len(stamps):
        return SUMMARY_SCHEMA.empty_table()
    return _table(_rows(samples, stamps, edges), edges)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Samples in the order of runs; run i begins at row `starts[i]`."""

    columns: dict[str, pa.Array]
    stamps: IntArray
    values: FloatArray  # NaN where there is none
    bad: BoolArray
    starts: IntArray
    slots: IntArray  # of each run
    counters: BoolArray  # of each run

    @property
    def counts(self) -> IntArray:
        return np.diff(np.append(self.starts, len(self.stamps)))

    def of(self, signal: str) -> BoolArray:
        """Whether each run is of this signal."""
        return _is_in(self.columns["signal"], (signal,))[self.starts]


def _rows(samples: pa.Table, stamps: IntArray, edges: IntArray) -> _Rows:
    columns = {name: encoded(samples[name]) for name in NAMES}
    columns["partition"] = samples["partition"].combine_chunks()
    counters = _is_in(columns["signal"], CUMULATIVE)
    memberless = _is_in(columns["signal"], MEMBERLESS)
    # A counter has a row per series; a gauge has a row per entity, whichever member reports it; of `EACH_MEMBERS`, one per member.
    merged = memberless & ~counters & ~_is_in(columns["signal"], EACH_MEMBERS)
    codes = {name: codes_in(columns[name]) for name in _KEYS if not is_one(columns[name])}
    if "member" in codes:
        codes["member"] = np.where(merged, -1, codes["member"])
    if "source" in codes:
        codes["source"] = np.where(counters, codes["source"], -1)
    slots = np.searchsorted(edges, stamps, side="left") - 1
    changed = np.zeros(len(stamps), dtype=bool)
    changed[0] = True
    for code in codes.values():
        changed[1:] |= code[1:] != code[:-1]
    values = samples["value"].to_numpy()
    bad = _is_in(encoded(samples["flag"]), BAD_FLAGS)
    if ((stamps[1:] < stamps[:-1]) & ~changed[1:]).any():  # several members reported one entity
        order = np.lexsort((stamps, np.cumsum(changed)))
        stamps, values, bad, slots = stamps[order], values[order], bad[order], slots[order]
        # The runs stay in place: only rows within them have moved.
    changed[1:] |= slots[1:] != slots[:-1]
    starts = np.flatnonzero(changed)
    return _Rows(columns, stamps, values, bad, starts, slots[starts], counters[starts])


def _table(rows: _Rows, edges: IntArray) -> pa.Table:
    valid = ~np.isnan(rows.values)
    runs = len(rows.starts)
    run_of_row = np.repeat(np.arange(runs), rows.counts)
    at = np.arange(len(valid))
    first = np.minimum.reduceat(np.where(valid, at, len(valid)), rows.starts)
    last = np.maximum.reduceat(np.where(valid, at, -1), rows.starts)
    number = np.add.reduceat(valid, rows.starts, dtype=np.int64)
    some = number > 0
    first, last = np.where(some, first, 0), np.where(some, last, 0)
    numbers = _numbers(rows, valid, run_of_row, edges)
    gauge, nothing = ~rows.counters, np.full(runs, np.nan)
    representative = pa.array(rows.starts)
    labels = {name: rows.columns[name].take(representative) for name in _KEYS}
    # What a client tells of all its partitions together stays its own.
    whole = _is_in(labels["signal"], EACH_MEMBERS) & labels["partition"].is_null().to_numpy(zero_copy_only=False)
    memberless = _is_in(labels["signal"], MEMBERLESS) & ~whole
    built: dict[str, pa.Array] = {}
    for name, column in labels.items():
        column = column if name == "partition" else pc.cast(column, pa.string())
        if name == "member":
            column = pc.if_else(pa.array(memberless & gauge), None, column)
        if name == "source":
            column = pc.if_else(pa.array(gauge), None, column)
        built[name] = column
    members = (rows.of("group_members") | rows.of("group_state")) & some
    lag = rows.of("consumer_lag")
    before = np.maximum.reduceat(np.where(valid & (at < last[run_of_row]), at, -1), rows.starts)
    two = np.fmax(rows.values[last], np.where(before >= 0, rows.values[before], np.nan))
    built |= {
        "slot_us": pa.array(edges[rows.slots + 1]),
        "samples": pa.array(number),
        "bad_samples": pa.array(np.add.reduceat(rows.bad, rows.starts, dtype=np.int64)),
        "first": pa.array(rows.values[first], mask=~some),
        "last": pa.array(rows.values[last], mask=~some),
        "first_us": pa.array(rows.stamps[first], mask=~some),
        "last_us": pa.array(rows.stamps[last], mask=~some),
        "increase": _maybe(numbers.get("increase", nothing), rows.counters),
        "resets": pa.array(np.nan_to_num(numbers.get("resets", nothing)).astype(np.int64), mask=gauge),
        "recent_low": _maybe(numbers["recent_low"], lag),
        "last_two_high": _maybe(two, members),
        "starts": _starts(rows, valid, run_of_row),
        **_moves(rows, valid, run_of_row),
        "history": _history(rows, valid, number),
    }
    built |= {name: _maybe(numbers[name]) for name in ("low", "high", "mean", "slope", "recent_slope", "recent_lowest")}
    return pa.table([built[name] for name in SUMMARY_SCHEMA.names], schema=SUMMARY_SCHEMA)


def _numbers(rows: _Rows, valid: BoolArray, run_of_row: IntArray, edges: IntArray) -> dict[str, FloatArray]:
    """Statistics over all usable values of a run; NaN where there are none."""
    runs = len(rows.starts)
    ends = edges[rows.slots + 1]
    recent_from = ends - RECENT * np.diff(edges)[rows.slots]
    # Seconds before the slot's end, so that squares stay small; computed as in Spark, to the same last digit.
    seconds = rows.stamps / 1e6 - ends[run_of_row] / 1e6
    values, of_run, late = rows.values, run_of_row, rows.stamps > recent_from[run_of_row]
    if not valid.all():
        seconds, values, of_run, late = seconds[valid], values[valid], of_run[valid], late[valid]
    all_of_them, recent = _Runs(of_run, runs), _Runs(of_run[late], runs)
    recent_values = values[late]
    lowest = recent.low(recent_values)
    at_lowest = recent_values == lowest[recent.of_row]
    others = recent.low(np.where(at_lowest, np.inf, recent_values))
    alone = recent.sum(at_lowest.astype(np.float64)) < 2
    second = np.where(alone & np.isfinite(others), others, lowest)
    numbers = {} if not rows.counters.any() else _growth(values, all_of_them)
    return numbers | {
        "low": all_of_them.low(values),
        "high": -all_of_them.low(-values),
        "mean": _means(rows, all_of_them.mean(values), recent.mean(recent_values)),
        "slope": all_of_them.slope(seconds, values),
        "recent_slope": recent.slope(seconds[late], recent_values),
        "recent_lowest": lowest,
        "recent_low": second,
    }


def _means(rows: _Rows, whole: FloatArray, recent: FloatArray) -> FloatArray:
    """Means over the slot; of what is a mean of the last minute already, over its last third: the first third is of the time before."""
    told = _is_in(rows.columns["stat"], TOLD)[rows.starts]
    return np.where(told & ~np.isnan(recent), recent, whole) if told.any() else whole


class _Runs:
    """Reduces rows to runs: `of_row` is the run of each row, ascending; results have one number per run, NaN without rows."""

    def __init__(self, of_row: IntArray, runs: int) -> None:
        self.of_row, self.runs = of_row, runs
        self.starts = np.flatnonzero(np.diff(of_row, prepend=-1))
        self.present = of_row[self.starts]

    def _reduced(self, values: FloatArray, by: np.ufunc) -> FloatArray:
        result = np.full(self.runs, np.nan)
        if len(values):
            result[self.present] = by.reduceat(values, self.starts)
        return result

    def low(self, values: FloatArray) -> FloatArray:
        return self._reduced(values, np.minimum)

    def sum(self, values: FloatArray) -> FloatArray:
        return self._reduced(values, np.add)

    def mean(self, values: FloatArray) -> FloatArray:
        return self.sum(values) / self.sum(np.ones(len(values)))

    def slope(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Least-squares slope, centred on the means: offsets are large compared with their changes."""
        from_mean = x - self.mean(x)[self.of_row]
        spread = self.sum(from_mean * from_mean)
        moved = self.sum(from_mean * (y - self.mean(y)[self.of_row]))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(spread > 0, moved / spread, np.nan)


def _growth(values: FloatArray, runs: _Runs) -> dict[str, FloatArray]:
    """Growth from value to value, and the number of counter resets; after a reset to 0, the value is the growth."""
    grown = np.diff(values, prepend=np.nan)
    later = np.diff(runs.of_row, prepend=-1) == 0
    fell = later & (grown < 0)
    grown = np.where(fell, values, grown)
    return {
        "increase": _Runs(runs.of_row[later], runs.runs).sum(grown[later]),
        "resets": runs.sum(fell.astype(np.float64)),
    }


def _starts(rows: _Rows, valid: BoolArray, run_of_row: IntArray) -> pa.Array:
    """Number of different start times in each run of that signal; 0 for others."""
    counted = np.zeros(len(rows.starts), dtype=np.int32)
    mask = rows.of("start_time")[run_of_row] & valid
    if mask.any():
        pairs = np.unique(np.stack([run_of_row[mask].astype(np.float64), rows.values[mask]]), axis=1)
        run, times = np.unique(pairs[0].astype(np.int64), return_counts=True)
        counted[run] = times
    return pa.array(counted)


def _moves(rows: _Rows, valid: BoolArray, run_of_row: IntArray) -> dict[str, pa.Array]:
    """When each commit or count of rebalances last changed, and the longest time between two of its changes, in seconds, or null."""
    runs = len(rows.starts)
    moved_us, longest = np.full(runs, np.nan), np.full(runs, np.nan)
    mask = (rows.of("committed_offset") | rows.of("rebalances"))[run_of_row] & valid
    if mask.any():
        of_run, stamps = run_of_row[mask], rows.stamps[mask]
        changed = np.append(False, (np.diff(rows.values[mask]) != 0) & (np.diff(of_run) == 0))
        of_run, stamps = of_run[changed], stamps[changed]
        moved_us[of_run] = stamps  # of several the last one
        same = np.diff(of_run) == 0
        longest = -_Runs(of_run[1:][same], runs).low(-np.diff(stamps)[same] / 1e6)
    whole = np.nan_to_num(moved_us).astype(np.int64)
    return {"moved_us": pa.array(whole, mask=np.isnan(moved_us)), "longest_gap": _maybe(longest)}


def _history(rows: _Rows, valid: BoolArray, number: IntArray) -> pa.Array:
    """All samples of log end offsets: they tell when an offset was produced."""
    wanted = rows.of("log_end_offset")
    mask = np.repeat(wanted, rows.counts) & valid
    offsets = np.concatenate([[0], np.cumsum(np.where(wanted, number, 0))]).astype(np.int32)
    flat = pa.StructArray.from_arrays([pa.array(rows.stamps[mask]), pa.array(rows.values[mask])], ["us", "value"])
    return pa.ListArray.from_arrays(pa.array(offsets), flat)


def _maybe(numbers: FloatArray, where: BoolArray | None = None) -> pa.Array:
    absent = np.isnan(numbers)
    return pa.array(numbers, mask=absent if where is None else absent | ~where)


def _is_in(column: pa.DictionaryArray, names: Sequence[str]) -> BoolArray:
    wanted = np.array([value in names for value in column.dictionary.to_pylist()] + [False], dtype=bool)
    if not wanted.any():
        return np.zeros(len(column), dtype=bool)
    if wanted[:-1].all() and not column.null_count:
        return np.ones(len(column), dtype=bool)
    return wanted[codes_in(column)]
