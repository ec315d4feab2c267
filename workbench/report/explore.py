"""The samples of a capture as a Spark view, for ad-hoc questions in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.collect.capture import read_capture
from workbench.humanize import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VIEW = "samples"


def open_samples(capture: str | Path) -> DataFrame:
    """Read a capture and register its samples as the SQL view `samples`; the frame has `workbench.samples.SAMPLES_SCHEMA`.

    Raises:
        NotACaptureError, DamagedCaptureError: as `read_capture` does.
    """
    from workbench.spark.session import frame_of, session

    frame = frame_of(session(), read_capture(Path(capture)).samples)
    frame.createOrReplaceTempView(VIEW)
    return frame


def show_sql(query: str, *, most: int = 500) -> Any:
    """The first rows of a query as a pandas table; text from brokers is shown with its control characters escaped."""
    from workbench.spark.session import session

    table: Any = session().sql(query).limit(most).toPandas()
    for name in table.columns:
        if table[name].dtype == object:
            table[name] = table[name].map(lambda it: printable(it) if isinstance(it, str) else it)
    return table
