"""The border between Spark and Python: a row is what is declared, or one error names all that is not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from evaluation.stories import THRESHOLDS, WINDOW, Story
from workbench.errors import EvidenceError, WorkbenchError
from workbench.features.subscription_measurements import PartitionFeatures
from workbench.settings_of_groups import NOTHING_EXPECTED
from workbench.triage.measured_from_spark_rows import measured_of
from workbench.triage.triage_engine import condensed, measured

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def table(spark: Any) -> pa.Table:
    """Two subscriptions: one with everything, one of which only the lag is known."""
    stories = [
        Story(group="all", topic="all").all_partitions().people().fetch_queue().enqueue().processor("order"),
        Story(group="few", topic="few").all_partitions(),
    ]
    samples = pa.concat_tables([story.samples() for story in stories])
    rows = condensed(samples, WINDOW, THRESHOLDS, NOTHING_EXPECTED)
    return measured(spark, rows, THRESHOLDS).toArrow()


def changed(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    """The table with another column of this name."""
    return table.set_column(table.column_names.index(name), name, column)


def test_rows_become_what_is_declared(table: pa.Table) -> None:
    """Numbers as Spark has them, structs and arrays as their own classes."""
    rows = {row.group: row for row in measured_of(table)}
    plain = {row["group"]: row for row in table.to_pylist()}
    for name, row in rows.items():
        assert row.lag_messages == plain[name]["lag_messages"]
        assert all(isinstance(it, PartitionFeatures) for it in row.partitions)
        assert [it.committed for it in row.partitions] == [it["committed"] for it in plain[name]["partitions"]]
        assert row.oldest is not None
        assert row.oldest.time_lag_method == plain[name]["oldest"]["time_lag_method"]
    assert [it.processor for it in rows["all"].processors] == ["order"]
    assert len(rows["all"].members) == 4
    assert rows["few"].members == rows["few"].queues == ()


def test_all_that_does_not_fit_is_named_at_once(table: pa.Table) -> None:
    """A column too few, one too many, and one of another type, also inside of arrays."""
    partitions = [{**it, "age": 1.0} for it in table["partitions"][0].as_py()]
    for it in partitions:
        del it["log_end"]
        it["story"] = None  # a map cannot be inferred from its items
        it["committed"] = "12"
    wrong = changed(table.slice(0, 1).drop_columns(["lag_messages", "queues"]), "partitions", pa.array([partitions]))
    wrong = changed(wrong, "lag_slope", pa.array(["fast"])).append_column("later", pa.array([True]))
    with pytest.raises(WorkbenchError) as caught:
        measured_of(wrong)
    for told in (
        "lag_messages is missing", "queues is missing", "later is not declared", "lag_slope is string and not float",
        "partitions[].log_end is missing", "partitions[].age is not declared", "partitions[].committed is string",
    ):  # fmt: skip
        assert told in str(caught.value)


def test_a_measurement_that_does_not_say_what_it_is_of_is_no_evidence(table: pa.Table) -> None:
    """A topic that a foreign capture leaves out; numbers that are not known are null and no error."""
    with pytest.raises(EvidenceError, match="no topic"):
        measured_of(changed(table, "topic", pa.nulls(table.num_rows, pa.string())))
    unknown = changed(table, "lag_slope", pa.nulls(table.num_rows, pa.float64()))
    assert {row.lag_slope for row in measured_of(unknown)} == {None}
