"""Rules of the border: what is no measurement becomes null with a flag."""

from __future__ import annotations

import json
import math
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.collect.source_join import with_derived_lag
from workbench.samples import SAMPLES_SCHEMA, Flag, SampleBatch, SeriesTable, clean_values, concat_series, most_trusted
from workbench.signals import SIGNALS

STALE = np.array([0x7FF0000000000002], dtype=np.uint64).view(np.float64)[0]


def test_nan_infinity_and_staleness_become_null_with_a_flag() -> None:
    """Spark sorts NaN above every number, so none may pass."""
    values, flags = clean_values(np.array([1.0, np.nan, np.inf, -np.inf, STALE]), False)
    assert np.isnan(values).tolist() == [False, True, True, True, True]
    assert named(flags) == [None, Flag.NAN, Flag.INF, Flag.INF, Flag.STALE]


@pytest.mark.parametrize("signal", ["consumer_lag", "committed_offset", "log_end_offset", "time_lag"])
def test_an_exporters_word_for_none_is_not_a_number(signal: str) -> None:
    """-1 (kafka_exporter) and -1001 (librdkafka) are unknown, never a lag of -1 and never 0."""
    values, flags = clean_values(np.array([-1.0, -1001.0, 0.0]), SIGNALS[signal].sentinel)
    assert np.isnan(values).tolist() == [True, True, False]
    assert named(flags) == [Flag.SENTINEL, Flag.SENTINEL, None]


def test_a_negative_lag_is_a_skew_of_the_reading() -> None:
    """The end was read before the commit: nothing waits, and the flag says why."""
    values, flags = clean_values(np.array([-7.0]), np.array([True]))
    assert values.tolist() == [0.0]
    assert named(flags) == [Flag.SKEW]


def test_a_batch_keeps_the_schema_and_the_units() -> None:
    """Sentinels are recognised before the scale is applied, or -1 ms would pass as -0.001 s."""
    batch = SampleBatch("c", "p")
    batch.add(
        "time_lag", {"group": "g", "topic": "t", "partition": 3}, [1_000_000, 2_000_000], [1500.0, -1.0], scale=0.001
    )
    table = batch.to_arrow()
    assert table.schema == SAMPLES_SCHEMA
    assert table["value"].to_pylist() == [1.5, None]
    assert table["flag"].to_pylist() == [None, "sentinel"]
    assert table["partition"].to_pylist() == [3, 3]
    assert SampleBatch("c", "p").to_arrow().schema == SAMPLES_SCHEMA


def drawn(rows: list[tuple[str, str | None, str | None, int, float]]) -> SeriesTable:
    """A table of (source, group, topic, second, value), in which any of the names may come again."""
    batches = []
    for source, group, topic, second, value in rows:
        batch = SampleBatch("c", source)
        batch.add("consumer_lag", {"group": group, "topic": topic, "partition": 0}, [second * 10**6], [value])
        batches.append(batch.to_series())
    return concat_series(batches)


ROWS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["g", "h", "", None]),
        st.sampled_from(["t", "u", None]),
        st.integers(0, 4),
        st.sampled_from([1.0, -1.0, math.nan]),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, max_size=3))
def test_the_most_trusted_profile_gives_a_signal(
    tables: list[list[tuple[str, str | None, str | None, int, float]]],
) -> None:
    """Two exporters that measure the same lag are not mixed into one series; held against the plain way, nulls and all."""
    taken: set[tuple[object, ...]] = set()
    wanted = []
    for table in tables:
        fresh = [row for row in table if (row[1], row[2]) not in taken]
        taken.update((row[1], row[2]) for row in table)
        wanted += fresh
    found = most_trusted([drawn(table) for table in tables]).to_samples()
    assert told(found) == told(drawn(wanted).to_samples())


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_series_of_one_name_become_one_in_time(rows: list[tuple[str, str | None, str | None, int, float]]) -> None:
    """Each name once, its samples in time, none lost; rows survive the way into series and back."""
    table = drawn(rows)
    merged = table.merged()
    names = merged.names.to_pylist()
    assert len({json.dumps(name) for name in names}) == len(names)
    for start, length in zip(merged.starts, merged.lengths, strict=True):
        assert (np.diff(merged.ts_us[start : start + length]) >= 0).all()
    assert sorted(told(merged.to_samples())) == sorted(told(table.to_samples()))
    assert SeriesTable.of_samples(table.to_samples()).to_samples().equals(table.to_samples())
    assert sorted(told(table.between(1_000_000, 3_000_000).to_samples())) == sorted(
        told(drawn([row for row in rows if 1 < row[3] <= 3]).to_samples())
    )


def told(table: pa.Table) -> list[str]:
    """Rows as text, which can be sorted though some hold nulls."""
    return [json.dumps(row, default=str, sort_keys=True) for row in table.to_pylist()]


def named(flags: np.ndarray) -> list[Flag | None]:
    """Flags by their positions."""
    return [None if at < 0 else tuple(Flag)[at] for at in flags.tolist()]


def test_a_fleet_is_put_in_order_of_trust_without_an_object_for_each_sample() -> None:
    """Python's own memory does not grow with the samples of a series: 430 bytes for each took 10 GB for one slot of a large fleet."""

    def peak(samples: int) -> int:
        batches = [SampleBatch("c", source) for source in "ab"]
        times, values = np.arange(samples), np.ones(samples)
        for batch in batches:
            for number in range(20):
                batch.add("consumer_lag", {"group": f"g{number}", "topic": "t", "partition": 0}, times, values)
        tables = [batch.to_series() for batch in batches]
        most_trusted(tables)  # what is made once
        tracemalloc.start()
        try:
            with_derived_lag(most_trusted(tables))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert (peak(20_000) - peak(2_000)) / (40 * 18_000) < 40
