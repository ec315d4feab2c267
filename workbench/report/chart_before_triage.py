"""First chart: lag of the subscriptions that are furthest behind, directly from the samples, before the triage."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.collect.capture import Capture
from workbench.features.chart_series import SeriesLine, series_of, total
from workbench.humanize import counted, printable
from workbench.report.charts import Chart, chart_of
from workbench.window import Window

_LINES = 5


def first_look(capture: Capture, window: Window, *, group: str = "", topic: str = "") -> Chart | None:
    """Total lag over time of at most five subscriptions; None if there is no lag at all."""
    lines, series = [], None
    for name, of in _furthest_behind(capture.samples, group, topic):
        series = series_of(capture.samples, window, group=name, topic=of)
        whole = total(series.lag, f"{printable(name)} ← {printable(of)}")
        if whole is not None and not np.isnan(whole.values).all():
            lines.append(SeriesLine(name=whole.name, values=whole.values))
    if series is None or not lines:
        return None
    size = len(series.times)
    lines = [line for line in lines if len(line.values) == size]
    worst = max(lines, key=lambda line: float(np.nanmax(line.values)))
    title = f"Not judged yet: {worst.name} was up to {counted(float(np.nanmax(worst.values)), 'message')} behind"
    return chart_of("first", title, "messages", lines, series, window)


def _furthest_behind(samples: pa.Table, group: str, topic: str) -> list[tuple[str, str]]:
    lag = samples.filter(pc.and_(pc.equal(samples["signal"], "consumer_lag"), pc.is_valid(samples["value"])))
    for column, wanted in (("group", group), ("topic", topic)):
        if wanted:
            lag = lag.filter(pc.equal(lag[column], wanted))
    highest = lag.group_by(["group", "topic", "partition"]).aggregate([("value", "max")])
    sums = highest.group_by(["group", "topic"]).aggregate([("value_max", "sum")])
    rows = sorted(sums.to_pylist(), key=lambda row: -row["value_max_sum"])[:_LINES]
    return [(row["group"], row["topic"]) for row in rows if row["group"] is not None and row["topic"] is not None]
