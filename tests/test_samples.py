"""Rules of the border: what is no measurement becomes null with a flag."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from workbench.samples import SAMPLES_SCHEMA, Flag, SampleBatch, clean_values, concat, most_trusted

STALE = np.array([0x7FF0000000000002], dtype=np.uint64).view(np.float64)[0]


def test_nan_infinity_and_staleness_become_null_with_a_flag() -> None:
    """Spark sorts NaN above every number, so none may pass."""
    values, flags = clean_values("process_time", np.array([1.0, np.nan, np.inf, -np.inf, STALE]))
    assert np.isnan(values).tolist() == [False, True, True, True, True]
    assert flags.tolist() == [None, Flag.NAN, Flag.INF, Flag.INF, Flag.STALE]


@pytest.mark.parametrize("signal", ["consumer_lag", "committed_offset", "log_end_offset", "time_lag"])
def test_an_exporters_word_for_none_is_not_a_number(signal: str) -> None:
    """-1 (kafka_exporter) and -1001 (librdkafka) are unknown, never a lag of -1 and never 0."""
    values, flags = clean_values(signal, np.array([-1.0, -1001.0, 0.0]))
    assert np.isnan(values).tolist() == [True, True, False]
    assert flags.tolist() == [Flag.SENTINEL, Flag.SENTINEL, None]


def test_a_negative_lag_is_a_skew_of_the_reading() -> None:
    """The end was read before the commit: nothing waits, and the flag says why."""
    values, flags = clean_values("consumer_lag", np.array([-7.0]))
    assert values.tolist() == [0.0]
    assert flags.tolist() == [Flag.SKEW]


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


def test_the_most_trusted_profile_gives_a_signal() -> None:
    """Two exporters that measure the same lag are not mixed into one series."""

    def table(source: str, group: str, value: float) -> pa.Table:
        batch = SampleBatch("c", source)
        batch.add("consumer_lag", {"group": group, "topic": "t", "partition": 0}, [1], [value])
        return batch.to_arrow()

    first, second = table("a", "g1", 1.0), concat([table("b", "g1", 2.0), table("b", "g2", 3.0)])
    merged = most_trusted([first, second])
    assert sorted(zip(merged["source"].to_pylist(), merged["group"].to_pylist(), strict=True)) == [
        ("a", "g1"),
        ("b", "g2"),
    ]
