"""The samples frame: the common Arrow format of all collectors.

One row is one measurement. During collection, samples are stored by series (`SeriesTable`): the labels of a series are stored once
instead of with each sample, and decisions by label (trust, groups of clients, order) are made once per series.

Values that are not measurements (NaN, ±Inf, an exporter's -1 for "none", staleness markers) become NULL with a flag *here*, at the
border, because Spark sorts NaN above every number and would treat it as lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workbench.signals import OF_BROKERS, SENTINELS, SIGNALS, Grain

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Columns: `ts` instant of the measurement (UTC, µs) · `signal` canonical name · the labels of its grain, else null ·
# `stat` what of the signal (value | count | sum | bucket | p50 | p99, or the outcome for `processed`) · `le` upper bound of a
# bucket, in the signal's unit · `value` in the signal's unit, null if unusable · `flag` why it is null or doubtful ·
# `source` profile or collector it came from.
SAMPLES_SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("signal", pa.string(), nullable=False),
        pa.field("cluster", pa.string(), nullable=False),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("member", pa.string()),
        ("broker", pa.string()),
        ("processor", pa.string()),
        ("queue", pa.string()),
        pa.field("stat", pa.string(), nullable=False),
        ("le", pa.float64()),
        ("value", pa.float64()),
        ("flag", pa.string()),
        pa.field("source", pa.string(), nullable=False),
    ]
)

# Signals of which each broker or process may have an exporter of another kind, by the label that names it.
_OWN = {
    label: [it.name for it in SIGNALS.values() if it.grain in grains]
    for label, grains in (("broker", OF_BROKERS), ("member", {Grain.GATEWAY}))
}
# Columns by which the versions of an exporter give way to each other: two members may run two of them.
OF_A_MEMBER = ("signal", "group", "topic", "member")
LABEL_COLUMNS = ("group", "topic", "partition", "member", "broker", "processor", "queue")

DERIVED = "derived"  # source of what was worked out from other series

# In this order every series, and every entity that several members report, is one run of rows (sorted by time).
SERIES_ORDER = ("group", "topic", "signal", "stat", "partition", "processor", "queue", "broker", "member", "source")

# Groups and their members: a row for each partition that a member has; one with nulls for a member without any, and for a group
# without members.
GROUPS_SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        ("state", pa.string()),
        ("protocol", pa.string()),
        ("coordinator", pa.int32()),
        ("member_id", pa.string()),
        ("client_id", pa.string()),
        ("host", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
    ]
)
# Columns that identify a series: those of a sample without time, value and flag.
NAMES_SCHEMA = pa.schema([field for field in SAMPLES_SCHEMA if field.name not in ("ts", "value", "flag")])

# Prometheus' staleness marker: one particular NaN (model/value in its source).
STALE_NAN_BITS = np.uint64(0x7FF0000000000002)


class Flag(StrEnum):
    """Why a value is null or was corrected."""

    STALE = "stale"
    NAN = "nan"
    INF = "inf"
    SENTINEL = "sentinel"
    SKEW = "skew"  # a negative lag: the end was read before the commit; the value is clamped to 0
    NULL = "null"
    MIXED = "mixed"  # sources contradict each other


_FLAGS = tuple(Flag)
FlagArray = npt.NDArray[np.int8]  # position in `_FLAGS`; -1 for none
_SENTINEL_SIGNALS = frozenset(name for name, signal in SIGNALS.items() if signal.sentinel)


def position_of(flag: Flag) -> int:
    """A flag as series have it."""
    return _FLAGS.index(flag)


def clean_values(values: FloatArray, sentinel: npt.NDArray[np.bool_] | bool) -> tuple[FloatArray, FlagArray]:
    """Separate raw values into usable values and flags.

    Args:
        values: shape (n,), in the source's unit.
        sentinel: for each value or for all: whether a negative value is a sentinel or a clock skew, by its signal.

    Returns:
        values with NaN where there is none (to be stored as NULL), and flags (n,) as positions in `Flag`, -1 for none.
    """
    clean = values.astype(np.float64, copy=True)
    flags = np.full(clean.shape, -1, dtype=np.int8)
    nan = np.isnan(clean)
    if nan.any():
        flags[nan] = _FLAGS.index(Flag.NAN)
        flags[clean.view(np.uint64) == STALE_NAN_BITS] = _FLAGS.index(Flag.STALE)
    infinite = np.isinf(clean)
    if infinite.any():
        flags[infinite] = _FLAGS.index(Flag.INF)
        clean[infinite] = np.nan
    negative = (clean < 0) & sentinel
    if negative.any():
        unknown = negative & np.isin(clean, SENTINELS)
        flags[negative] = _FLAGS.index(Flag.SKEW)
        flags[unknown] = _FLAGS.index(Flag.SENTINEL)
        clean[negative] = 0.0
        clean[unknown] = np.nan
    return clean, flags


@dataclass(frozen=True, slots=True)
class SeriesTable:
    """Samples by series.

    Attributes:
        names: a row for each of k series, in `NAMES_SCHEMA`.
        lengths: samples of each series, at least one, (k,).
        ts_us: µs since the epoch of all n samples, series after series, (n,).
        values: in the signal's unit, NaN where there is none, (n,).
        flags: position in `Flag`, -1 for none, (n,).
    """

    names: pa.Table
    lengths: IntArray
    ts_us: IntArray
    values: FloatArray
    flags: FlagArray

    def __len__(self) -> int:
        """Number of series."""
        return len(self.lengths)

    @property
    def starts(self) -> IntArray:
        """Where the samples of each series begin, (k,)."""
        return np.cumsum(self.lengths) - self.lengths

    def take(self, series: IntArray) -> SeriesTable:
        """These series, in this order."""
        lengths = self.lengths[series]
        at = np.repeat(self.starts[series] - (np.cumsum(lengths) - lengths), lengths)
        at += np.arange(len(at))
        return SeriesTable(self.names.take(pa.array(series)), lengths, self.ts_us[at], self.values[at], self.flags[at])

    def where(self, wanted: pa.Array | pa.ChunkedArray) -> SeriesTable:
        """Series for which this is true; null counts as false."""
        chosen = np.flatnonzero(pc.fill_null(wanted, False).to_numpy(zero_copy_only=False))
        return self if len(chosen) == len(self) else self.take(chosen)

    def between(self, after_us: int, until_us: int) -> SeriesTable:
        """Samples after one time and up to another; series without any are left out."""
        return self.with_samples((self.ts_us > after_us) & (self.ts_us <= until_us))

    def with_samples(self, wanted: npt.NDArray[np.bool_]) -> SeriesTable:
        """Samples for which this is true, (n,); series without any are left out."""
        if wanted.all():
            return self
        lengths = np.add.reduceat(wanted, self.starts, dtype=np.int64)
        left = lengths > 0
        return SeriesTable(
            self.names.filter(pa.array(left)),
            lengths[left],
            self.ts_us[wanted],
            self.values[wanted],
            self.flags[wanted],
        )

    def renamed(self, column: str, values: Sequence[str | None] | pa.Array | pa.ChunkedArray) -> SeriesTable:
        """The same samples, with these values in one column of the names, (k,)."""
        at = NAMES_SCHEMA.get_field_index(column)
        column_of = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values, pa.string())
        return replace(self, names=self.names.set_column(at, NAMES_SCHEMA.field(column), column_of))

    def merged(self) -> SeriesTable:
        """Merge series with equal labels, samples sorted by time: two exporters of one cluster, or a window queried in parts."""
        codes = codes_of(self.names, self.names.schema.names)
        order = np.argsort(codes, kind="stable")
        new = np.diff(codes[order], prepend=-1) > 0
        if new.all():
            return self
        found = self.take(order)
        lengths = np.add.reduceat(found.lengths, np.flatnonzero(new))
        at = np.lexsort((found.ts_us, np.repeat(np.arange(len(lengths)), lengths)))
        return SeriesTable(
            found.names.filter(pa.array(new)), lengths, found.ts_us[at], found.values[at], found.flags[at]
        )

    def to_samples(self) -> pa.Table:
        """Expand to one row per sample, in `SAMPLES_SCHEMA`."""
        rows = pa.array(np.repeat(np.arange(len(self)), self.lengths))
        flags = pa.DictionaryArray.from_arrays(
            pa.array(self.flags, mask=self.flags < 0), pa.array([str(flag) for flag in _FLAGS])
        )
        columns = {
            **{name: self.names[name].take(rows) for name in self.names.schema.names},
            "ts": pa.array(self.ts_us).cast(pa.timestamp("us", tz="UTC")),
            "value": pa.array(self.values, mask=np.isnan(self.values)),
            "flag": flags.cast(pa.string()),
        }
        table = pa.table([columns[name] for name in SAMPLES_SCHEMA.names], schema=SAMPLES_SCHEMA)
        return table.combine_chunks()  # Spark makes a task of every chunk

    @classmethod
    def of_samples(cls, samples: pa.Table) -> SeriesTable:
        """Convert a table in `SAMPLES_SCHEMA`, with one series per row."""
        flags = pc.index_in(samples["flag"], pa.array([str(flag) for flag in _FLAGS]))
        return cls(
            samples.select(NAMES_SCHEMA.names),
            np.ones(samples.num_rows, np.int64),
            pc.cast(samples["ts"], pa.int64()).to_numpy(),
            pc.fill_null(samples["value"], float("nan")).to_numpy(),
            pc.fill_null(flags, -1).to_numpy().astype(np.int8),
        )


def codes_of(table: pa.Table, columns: Sequence[str]) -> IntArray:
    """Number for each row, (k,): equal for rows that are equal in these columns, nulls included."""
    codes = np.zeros(table.num_rows, np.int64)
    for name in columns:
        found = pc.dictionary_encode(table[name].combine_chunks(), null_encoding="encode")
        found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        if len(found.dictionary) > 1:
            codes = codes * len(found.dictionary) + found.indices.to_numpy()
            codes = np.unique(codes, return_inverse=True)[1]
    return codes


@dataclass(slots=True)
class SampleBatch:
    """Collects series and converts them to one table at once; appending is cheap, without an object per sample."""

    cluster: str
    source: str
    _names: list[tuple[object, ...]] = field(default_factory=list)
    _scales: list[float] = field(default_factory=list)
    _plus: list[float] = field(default_factory=list)
    _twice: list[bool] = field(default_factory=list)
    _lengths: list[IntArray] = field(default_factory=list)
    _ts_us: list[IntArray] = field(default_factory=list)
    _values: list[FloatArray] = field(default_factory=list)

    def add(
        self,
        signal: str,
        labels: Mapping[str, object],
        ts_us: Sequence[int] | IntArray,
        values: Sequence[float] | FloatArray,
        *,
        stat: str = "value",
        le: float | None = None,
        scale: float = 1.0,
        plus: float = 0.0,
        counted_twice: bool = False,
    ) -> None:
        """Append one series: `ts_us` in µs since the epoch, raw `values`, both of shape (n,).

        `scale` converts them to the signal's unit, `plus` is added to that; sentinels are recognised first. The whole of a share
        that is `counted_twice` has its own part twice: r becomes r / (1 - r), at most 1.
        """
        times, raw = np.asarray(ts_us, dtype=np.int64), np.asarray(values, dtype=np.float64)
        self.name(signal, labels, stat=stat, le=le, scale=scale, plus=plus, counted_twice=counted_twice)
        self.fill(np.array([len(times)]), times, raw)

    def name(
        self,
        signal: str,
        labels: Mapping[str, object],
        *,
        stat: str = "value",
        le: float | None = None,
        scale: float = 1.0,
        plus: float = 0.0,
        counted_twice: bool = False,
    ) -> None:
        """Add the labels of one series; `fill` adds its samples."""
        self._names.append((signal, stat, le, *map(labels.get, LABEL_COLUMNS)))
        self._scales.append(scale)
        self._plus.append(plus)
        self._twice.append(counted_twice)

    def fill(self, lengths: IntArray, ts_us: IntArray, values: FloatArray) -> None:
        """Append the samples of the last k series, which have none yet: lengths (k,), the others (n,)."""
        self._lengths.append(lengths)
        self._ts_us.append(ts_us)
        self._values.append(values)

    def to_series(self) -> SeriesTable:
        """All samples so far; series without any are left out."""
        lengths = np.concatenate([np.zeros(0, np.int64), *self._lengths])
        raw = np.concatenate([np.zeros(0), *self._values])
        kept = np.flatnonzero(lengths)
        columns = list(zip(*self._names, strict=True)) or [()] * (3 + len(LABEL_COLUMNS))
        named: dict[str, Sequence[object]] = dict(zip(("signal", "stat", "le", *LABEL_COLUMNS), columns, strict=True))
        signals = named["signal"]
        sentinel = np.repeat(np.array([name in _SENTINEL_SIGNALS for name in signals], bool), lengths)
        values, flags = clean_values(raw, sentinel)
        scales = np.array(self._scales)
        if (scales != 1.0).any():
            values *= np.repeat(scales, lengths)
        if any(self._plus):
            values += np.repeat(np.array(self._plus), lengths)
        if any(self._twice):
            values = np.where(np.repeat(self._twice, lengths), values / np.maximum(values, 1 - values), values)
        named |= {"cluster": [self.cluster] * len(lengths), "source": [self.source] * len(lengths)}
        names = pa.table([pa.array(named[column.name], column.type) for column in NAMES_SCHEMA], schema=NAMES_SCHEMA)
        return SeriesTable(
            names if len(kept) == len(lengths) else names.take(pa.array(kept)),
            lengths[kept],
            np.concatenate([np.zeros(0, np.int64), *self._ts_us]),
            values,
            flags,
        )

    def to_arrow(self) -> pa.Table:
        """All samples so far, in `SAMPLES_SCHEMA`."""
        return self.to_series().to_samples()


def rises(counter: FloatArray) -> FloatArray:
    """What a counter has counted up to each sample since the one before; one that fell has begun anew, and counts from there."""
    steps = np.diff(counter)
    return np.where(steps < 0, counter[1:], steps)


def grown(counter: FloatArray) -> FloatArray:
    """What a counter has counted since its first sample, at each one."""
    return np.append(0.0, np.cumsum(rises(counter)))


def concat(tables: Iterable[pa.Table]) -> pa.Table:
    """Concatenate samples tables; an empty table for none."""
    present = [table for table in tables if table.num_rows]
    # In one chunk: Spark makes a task per chunk; that was 8,500 tasks for a table of 8,500 series.
    return pa.concat_tables(present).combine_chunks() if present else SAMPLES_SCHEMA.empty_table()


def concat_series(tables: Iterable[SeriesTable]) -> SeriesTable:
    """Concatenate tables of series; an empty table for none."""
    present = [table for table in tables if len(table)]
    if len(present) == 1:
        return present[0]
    if not present:
        return SeriesTable.of_samples(SAMPLES_SCHEMA.empty_table())
    arrays = (
        np.concatenate([getattr(table, name) for table in present]) for name in ("lengths", "ts_us", "values", "flags")
    )
    return SeriesTable(pa.concat_tables([table.names for table in present]).combine_chunks(), *arrays)


def most_trusted(tables: Sequence[SeriesTable], *, by: Sequence[str] = ("signal", "group", "topic")) -> SeriesTable:
    """Merge series of several profiles, in order of trust: a signal of a subscription comes from the first one that has it.

    Two exporters may measure the same lag; mixed in one series, their small differences would look like changes.

    Args:
        tables: the most trusted first.
        by: for each value of these columns, only the first table that has it counts; of brokers' and gateways' own signals, for each
            of them.
    """
    if len(tables) == 1:
        return tables[0]
    every = concat_series(tables)
    giver = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    # The first row of a code comes from its most trusted profile.
    codes = codes_of(every.names, by)
    for label, signals in _OWN.items():
        own = pc.is_in(every.names["signal"], pa.array(signals)).to_numpy(zero_copy_only=False)
        if own.any():
            named = codes_of(every.names, (label,)) + 1
            codes = codes * (int(named.max()) + 1) + np.where(own, named, 0)
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    return every.where(pa.array(giver[first][codes] == giver))
