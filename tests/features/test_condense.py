"""Condensing in numpy gives what the summary in Spark gives: on stories, on random series, and on recorded incidents."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.stories import END, TIMES, WINDOW, Story, growing, lagging, steps
from workbench.features import condense as module
from workbench.features.condense import SUMMARY_SCHEMA, condense
from workbench.samples import SampleBatch, concat
from workbench.sweep.fleet_store import ORDER
from workbench.window import Window

END_US = round(END.timestamp() * 1e6)


def edges_of(window: Window) -> list[int]:
    """The quarters of a baseline, and the window."""
    quarter = (window.start - window.baseline_start) / 4
    bounds = [*(window.baseline_start + number * quarter for number in range(5)), window.end]
    return [round(bound.timestamp() * 1e6) for bound in bounds]


def in_order(samples: pa.Table) -> pa.Table:
    """As a store lands them."""
    return samples.sort_by([(name, "ascending") for name in ORDER])


def one(times: Iterable[float], values: Iterable[float], signal: str = "consumer_lag", **labels: Any) -> pa.Table:
    """One series in one slot of a minute before `END`."""
    batch = SampleBatch("test", "runtime")
    stamps = [END_US + round(second * 1e6) for second in times]
    batch.add(signal, {"group": "g", "topic": "t", "partition": 0, **labels}, stamps, list(values))
    return batch.to_arrow()


def condensed(*tables: pa.Table) -> list[dict[str, Any]]:
    """Rows of one slot of a minute."""
    return condense(in_order(concat(tables)), [END_US - 60_000_000, END_US]).to_pylist()


def test_a_slot_is_open_at_its_beginning_and_closed_at_its_end() -> None:
    """So every sample belongs to exactly one slot."""
    [row] = condensed(one([-60, -30, 0, 1], [1, 2, 3, 4]))
    assert (row["samples"], row["first"], row["last"]) == (2, 2.0, 3.0)


def test_what_is_no_measurement_counts_as_bad_and_nowhere_else() -> None:
    """NaN, infinities and an exporter's word for "none"."""
    [row] = condensed(one([-40, -30, -20, -10], [float("nan"), 5.0, float("inf"), -1.0]))
    assert (row["samples"], row["bad_samples"], row["low"], row["high"], row["mean"]) == (1, 3, 5.0, 5.0, 5.0)
    assert row["slope"] is None
    [empty] = condensed(one([-40, -30], [float("nan")] * 2))
    assert (empty["samples"], empty["first"], empty["last_us"], empty["recent_low"]) == (0, None, None, None)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=40))
def test_slope_and_lows_are_those_of_a_naive_reckoning(lags: list[int]) -> None:
    """Least squares over the slot; lowest and second lowest over its last third."""
    times = np.linspace(-59, 0, len(lags))
    [row] = condensed(one(times.tolist(), lags))
    assert row["slope"] == pytest.approx(np.polyfit(times, lags, 1)[0], abs=1e-6)
    recent = sorted(lag for second, lag in zip(times, lags, strict=True) if second > -20)
    assert row["recent_lowest"] == recent[0]
    assert row["recent_low"] == (recent[1] if len(recent) > 1 else recent[0])


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30))
def test_a_counter_that_begins_anew_has_grown_by_its_value(values: list[int]) -> None:
    """Since its reset, that is; before it nobody knows."""
    rows = condensed(
        one(np.linspace(-59, 0, len(values)), values, "rebalances", topic=None, partition=None, member="m")
    )
    grown = [b - a if b >= a else b for a, b in pairwise(values)]
    assert rows[0]["resets"] == sum(b < a for a, b in pairwise(values))
    assert (rows[0]["increase"] or 0) == sum(grown)


def test_a_partition_that_moved_between_members_is_one_thing() -> None:
    """The last word is the later one's, whoever's name sorts first."""
    early, late = one([-50, -40], [7, 8], member="z"), one([-30, -20], [9, 10], member="a")
    [row] = condensed(early, late)
    assert (row["samples"], row["first"], row["last"], row["member"]) == (4, 7.0, 10.0, None)


def test_pieces_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long table is divided between things, never within one."""
    samples = in_order(lagging(Story(partitions=12)).calm().samples())
    whole = condense(samples, edges_of(WINDOW))
    monkeypatch.setattr(module, "_PIECE_ROWS", 500)
    assert condense(samples, edges_of(WINDOW)).to_pylist() == whole.to_pylist()
    assert condense(samples.slice(0, 0), edges_of(WINDOW)).schema == SUMMARY_SCHEMA


KEY = ("cluster", "group", "topic", "partition", "member", "broker", "processor", "queue", "signal", "stat", "period")
NOT_FOR_COUNTERS = (
    "slope",
    "recent_slope",
    "recent_low",
    "recent_lowest",
    "last_two_high",
    "starts",
    "history",
    "bad_samples",
)


@pytest.mark.jvm
def test_it_is_the_summary_that_spark_makes(spark: Any) -> None:
    """Every column of every row, of a story in which something of each kind happens."""
    from tests.features.reference import summarise
    from workbench.features.summary_of_slots import of_slots
    from workbench.features.summary_schema import CUMULATIVE

    story = lagging().calm().processor("slow", seconds=steps(0.01, 0.4), fill=0.9)
    story.add("rebalances", lambda times: np.where(times < -30, 5.0, 1.0), group=story.group, member="m-9")
    story.add("start_time", lambda times: np.where(times < -30, 100.0, 200.0), group=story.group, member="m-9")
    story.add(
        "consumer_lag", growing(1.0), group=story.group, topic="other", partition=0, member="m-1", keep=TIMES < -80
    )
    story.add(
        "consumer_lag", growing(2.0), group=story.group, topic="other", partition=0, member="m-2", keep=TIMES >= -80
    )
    samples = story.samples()
    # A triage takes a sample at the very beginning of its baseline, a slot leaves it to the one before.
    samples = samples.filter(pc.greater(samples["ts"], pa.scalar(WINDOW.baseline_start)))
    edges = edges_of(WINDOW)
    slots = spark.createDataFrame(condense(in_order(samples), edges))
    ends = [END.fromtimestamp(edge / 1e6, END.tzinfo) for edge in edges[1:]]
    ours = rows_by_key(of_slots(slots, ends).toArrow())
    theirs = rows_by_key(summarise(spark.createDataFrame(samples), WINDOW).toArrow())
    assert ours.keys() == theirs.keys()
    for key, row in theirs.items():
        for name, wanted in row.items():
            counter = key[8] in CUMULATIVE
            if (counter and name in NOT_FOR_COUNTERS) or (name.startswith("recent") and key[-1] != 4):
                continue  # neither is read by anything
            found = ours[key][name]
            if isinstance(wanted, list):
                flat = [[it["seconds"], it["value"]] for it in sorted(wanted, key=lambda it: it["seconds"])]
                assert [[it["seconds"], it["value"]] for it in found] == flat, (key, name)
            elif wanted is None or found is None:
                assert found is wanted, (key, name)
            else:
                assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9), (key, name)
    gauges = rows_by_key(of_slots(slots, ends, counters=False).toArrow())
    assert gauges == {key: row for key, row in ours.items() if key[8] not in CUMULATIVE}
    assert 0 < len(gauges) < len(ours)


def rows_by_key(table: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows by what they are about."""
    rows = table.to_pylist()
    found = {tuple(row[name] for name in KEY): {k: v for k, v in row.items() if k not in KEY} for row in rows}
    assert len(found) == len(rows)
    return found


def test_what_each_client_lists_of_a_partition_is_not_mixed() -> None:
    """librdkafka names every partition of the topic, with an empty fetch queue for those of other members."""
    times = np.arange(-50.0, 0.0, 10.0)
    rows = condensed(
        one(times, [400.0] * 5, "fetch_queue_length", member="a"),
        one(times + 1, [0.0] * 5, "fetch_queue_length", member="b"),
        one(times, [9.0] * 5, member="a"),
        one(times + 1, [7.0] * 5, member="b"),
    )
    assert {row["member"] for row in rows} == {None}
    found = sorted((row["signal"], row["mean"]) for row in rows)
    assert found == [("consumer_lag", 8.0), ("fetch_queue_length", 0.0), ("fetch_queue_length", 400.0)]
