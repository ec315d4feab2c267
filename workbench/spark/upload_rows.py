"""Upload many rows for tasks to read, instead of keeping them in the plan."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from workbench.spark.session import frame_of
from workbench.spark.spark_connect import is_remote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ROWS = 32_000  # of a batch, and so of a task
_setting = threading.Lock()


def spread(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The same frame as `session.frame_of`, of which tasks read the batches.

    Up to 48 MB Spark takes rows into the plan by itself. Its planner then reads, filters and computes them in one thread, and writes
    each row as an object of Java for the tasks: more than half of the time that 60,000 rows of a triage took.

    Raises:
        SetupError: if they are too many for a Spark Connect server.
    """
    if is_remote(spark):
        return frame_of(spark, rows)
    with _setting:  # of the session, which other threads set as well
        before = {name: spark.conf.get(name) for name in (_THRESHOLD, _BATCH)}
        spark.conf.set(_THRESHOLD, "0")
        spark.conf.set(_BATCH, str(_ROWS))
        try:
            return frame_of(spark, rows.combine_chunks())  # each chunk has a batch of its own
        finally:
            for name, value in before.items():
                spark.conf.set(name, value or "")
