"""The samples frame: what every collector hands over, as Arrow, whatever its source.

One row is one measurement. Values that are no measurements (NaN, ±Inf, an exporter's -1 for "none", staleness markers) become
NULL with a flag *here*, at the border, because Spark sorts NaN above every number and would call it lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workbench.signals import SENTINELS, SIGNALS

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

LABEL_COLUMNS = ("group", "topic", "partition", "member", "broker", "processor", "queue")

# In this order every series, and every thing that several members report, is one run of rows (in order of time within it).
SERIES_ORDER = ("group", "topic", "signal", "stat", "partition", "processor", "queue", "broker", "member", "source")

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


def clean_values(signal: str, values: FloatArray) -> tuple[FloatArray, npt.NDArray[np.object_]]:
    """Split raw values into usable ones and flags.

    Args:
        signal: canonical name; decides whether a negative value is a sentinel or a skew.
        values: shape (n,), in the signal's unit.

    Returns:
        values with NaN where there is none (to be stored as NULL), and flags (n,) of `Flag` or None.
    """
    clean = values.astype(np.float64, copy=True)
    flags = np.full(clean.shape, None, dtype=object)
    nan = np.isnan(clean)
    if nan.any():
        flags[nan] = Flag.NAN.value
        flags[clean.view(np.uint64) == STALE_NAN_BITS] = Flag.STALE.value
    infinite = np.isinf(clean)
    if infinite.any():
        flags[infinite] = Flag.INF.value
        clean[infinite] = np.nan
    if SIGNALS[signal].sentinel:
        sentinel = np.isin(clean, SENTINELS)
        flags[sentinel] = Flag.SENTINEL.value
        clean[sentinel] = np.nan
        negative = clean < 0
        flags[negative] = Flag.SKEW.value
        clean[negative] = 0.0
    return clean, flags


class _Series(NamedTuple):
    signal: str
    stat: str
    labels: Mapping[str, object]
    le: float | None
    ts_us: IntArray
    values: FloatArray
    scale: float


@dataclass(slots=True)
class SampleBatch:
    """Collects series and turns them into one Arrow table in one go; appending is cheap, no object per sample."""

    cluster: str
    source: str
    _parts: list[_Series] = field(default_factory=list)

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
    ) -> None:
        """Append one series: `ts_us` in µs since the epoch, `values` as the source gave them, both of shape (n,).

        `scale` brings them to the signal's unit; sentinels are recognised before.
        """
        times, raw = np.asarray(ts_us, dtype=np.int64), np.asarray(values, dtype=np.float64)
        self._parts.append(_Series(signal, stat, labels, le, times, raw, scale))

    def to_arrow(self) -> pa.Table:
        """All samples so far, in `SAMPLES_SCHEMA`."""
        if not self._parts:
            return SAMPLES_SCHEMA.empty_table()
        lengths = np.array([len(part.ts_us) for part in self._parts], dtype=np.int64)
        rows = pa.array(np.repeat(np.arange(len(self._parts)), lengths))
        cleaned = [clean_values(part.signal, part.values) for part in self._parts]
        values = np.concatenate([value * part.scale for part, (value, _) in zip(self._parts, cleaned, strict=True)])
        flags = np.concatenate([flag for _, flag in cleaned])
        total = int(lengths.sum())

        def per_series(items: Iterable[object], kind: pa.DataType) -> pa.Array:
            return pa.array(list(items), kind).take(rows)

        columns: dict[str, pa.Array] = {
            "ts": pa.array(np.concatenate([part.ts_us for part in self._parts])).cast(pa.timestamp("us", tz="UTC")),
            "signal": per_series((part.signal for part in self._parts), pa.string()),
            "cluster": pa.repeat(pa.scalar(self.cluster), total),
            "stat": per_series((part.stat for part in self._parts), pa.string()),
            "le": per_series((part.le for part in self._parts), pa.float64()),
            "value": pa.array(values, mask=np.isnan(values)),
            "flag": pa.array(flags, pa.string()),
            "source": pa.repeat(pa.scalar(self.source), total),
        }
        for name in LABEL_COLUMNS:
            kind = SAMPLES_SCHEMA.field(name).type
            columns[name] = per_series((part.labels.get(name) for part in self._parts), kind)
        return pa.table([columns[name] for name in SAMPLES_SCHEMA.names], schema=SAMPLES_SCHEMA)


def concat(tables: Iterable[pa.Table]) -> pa.Table:
    """One samples table out of several; an empty one out of none."""
    present = [table for table in tables if table.num_rows]
    # In one piece: Spark makes a task of every chunk, which was 8,500 tasks for a table of as many series.
    return pa.concat_tables(present).combine_chunks() if present else SAMPLES_SCHEMA.empty_table()


def most_trusted(tables: Sequence[pa.Table]) -> pa.Table:
    """Samples of several profiles, in order of trust: a signal of a subscription comes from the first one that has it.

    Two exporters may well measure the same lag; mixed into one series, their small differences would look like movement.
    """
    kept: list[pa.Table] = []
    taken: set[tuple[object, ...]] = set()
    for table in tables:
        keys = list(zip(*(table[name].to_pylist() for name in ("signal", "group", "topic")), strict=True))
        fresh = pa.array([key not in taken for key in keys], pa.bool_())
        taken.update(keys)
        kept.append(table.filter(fresh))
    return concat(kept)
