"""Many rows go to tasks as they are: the same rows, and the same answers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from evaluation.stories import THRESHOLDS, WINDOW, Story, lagging
from workbench.features.condense_by_subscription import condense_each, features_of, summary_of
from workbench.features.subscription_features import of_summary
from workbench.samples import concat
from workbench.spark.session import frame_of
from workbench.spark.upload_rows import spread

pytestmark = pytest.mark.jvm
NAMES = ("spark.sql.execution.arrow.localRelationThreshold", "spark.sql.execution.arrow.maxRecordsPerBatch")


def test_rows_are_no_part_of_the_plan_and_the_session_stays_as_it_was(spark: Any) -> None:
    """Of many small pieces, as condensed rows come, there are few tasks."""
    before = [spark.conf.get(name) for name in NAMES]
    pieces = [pa.table({"number": pa.array([at], pa.int64()), "name": [f"n{at}"]}) for at in range(50)]
    found = spread(spark, pa.concat_tables(pieces))
    assert "LocalTableScan" not in found._jdf.queryExecution().executedPlan().toString()
    assert found.rdd.getNumPartitions() <= spark.sparkContext.defaultParallelism
    assert sorted(found.toArrow()["number"].to_pylist()) == list(range(50))
    assert [spark.conf.get(name) for name in NAMES] == before


def test_features_of_many_rows_are_those_of_few(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the signals of a lag exporter alone, and with those of the runtime: what is not asked is as if nobody had told it."""
    lag = [Story(group="exporter", topic="t").all_partitions(), lagging(Story(group="late", topic="t"))]
    runtime = [Story(group="runtime", topic="t").all_partitions().calm().processor("order")]
    for stories in (lag, [*lag, *runtime]):
        rows = condense_each(concat([it.samples() for it in stories]), WINDOW, lambda _group: THRESHOLDS)
        with monkeypatch.context() as patched:
            patched.setattr("workbench.features.condense_by_subscription._ONE_TASK_ROWS", 0)
            many = features_of(spark, rows, stale_after_seconds=10.0)
        summary = summary_of(frame_of(spark, rows), few=True, counters=True)
        few = of_summary(summary, stale_after_seconds=10.0)
        found, wanted = (frame.toArrow().sort_by("group") for frame in (many, few))
        assert found.num_rows == len(stories)
        assert found.equals(wanted)


def test_a_piece_without_rows_ends_nothing(spark: Any) -> None:
    """Spark reads no further than it: the rows after it would be missing, and nobody would be told."""
    pieces = [pa.table({"number": pa.array(rows, pa.int64())}) for rows in ([], [1], [], [2, 3], [])]
    rows = pa.concat_tables(pieces)
    for frame in (frame_of(spark, rows), spread(spark, rows), frame_of(spark, rows.slice(0, 0))):
        assert set(frame.toArrow()["number"].to_pylist()) <= {1, 2, 3}
    assert frame_of(spark, rows).count() == spread(spark, rows).count() == 3
