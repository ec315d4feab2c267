"""Measurements as a Spark view, for ad-hoc questions in a notebook: SQL as a table, or as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.api.load_measurements import samples
from workbench.errors import UsageError
from workbench.humanize import listed, plural, printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW = "samples"
_MOST_POINTS = 20_000  # of one chart; a browser draws them at once
_MOST_LINES = 20


def open_samples(
    capture: str | Path | None = None,
    *,
    cluster: str | None = None,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
) -> DataFrame:
    """Read a capture or a cluster, and register its samples as the SQL view `samples`.

    Returns:
        The frame of `api.samples`, with `workbench.samples.SAMPLES_SCHEMA`.

    Raises:
        WorkbenchError: as `api.samples`.
    """
    frame = samples(cluster=cluster, capture=capture, groups=groups, topics=topics, since=since, until=until)
    frame.createOrReplaceTempView(VIEW)
    return frame


def show_sql(query: str, *, most: int = 500, of: DataFrame | None = None) -> Any:
    """The first rows of a query as a pandas table; text from brokers is shown with its control characters escaped.

    Args:
        of: the query is about views of this frame's session.
    """
    table: Any = _session(of).sql(query).limit(most).toPandas()
    for name in table.columns:
        if table[name].dtype == object:
            table[name] = table[name].map(lambda it: printable(it) if isinstance(it, str) else it)
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A chart that a notebook shows; `note` says what was left out."""

    figure: dict[str, Any]
    note: str

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, Any]:
        return {"application/vnd.plotly.v1+json": self.figure, "text/plain": self.note}


def _session(of: DataFrame | None) -> SparkSession:
    from workbench.spark.session import session

    return session() if of is None else of.sparkSession


def draw_sql(query: str, *, title: str = "", of: DataFrame | None = None) -> Drawn:
    """Draw a query: its first column along the axis (a time), the last one as the value, what stands between names the line.

    At most 20 lines are drawn, those with the highest values, and 20,000 points. `of`: as `show_sql`.

    Raises:
        UsageError: if the query has fewer than two columns.
    """
    found: Any = _session(of).sql(query)
    columns = list(found.columns)
    if len(columns) < 2:
        raise UsageError("A chart needs a time and a value: SELECT ts, …, value FROM samples …")
    rows = found.limit(_MOST_POINTS + 1).collect()
    lines: dict[str, tuple[list[Any], list[Any]]] = {}
    for row in sorted(rows[:_MOST_POINTS], key=lambda it: it[0]):
        name = " ".join(printable(str(it)) for it in row[1:-1]) or columns[-1]
        times, values = lines.setdefault(name, ([], []))
        times.append(row[0].isoformat() if hasattr(row[0], "isoformat") else row[0])
        values.append(row[-1])
    worst = sorted(lines, key=lambda name: -max((it for it in lines[name][1] if it is not None), default=0.0))
    left = [
        *([f"more than {_MOST_POINTS:,} points"] if len(rows) > _MOST_POINTS else []),
        *([plural(len(worst) - _MOST_LINES, "line")] if len(worst) > _MOST_LINES else []),
    ]
    note = f"Left out: {listed(left)}." if left else ""
    data = [
        {"type": "scatter", "mode": "lines", "name": name, "x": lines[name][0], "y": lines[name][1]}
        for name in worst[:_MOST_LINES]
    ]
    heading = f"{title}<br><sub>{note}</sub>" if title and note else title or note
    layout = {
        "title": {"text": heading},
        "yaxis": {"title": {"text": printable(columns[-1])}, "rangemode": "tozero"},
        "hovermode": "x unified",
    }
    # plotly 7 shows an upload to a public cloud by default; a chart of an incident must not leave this machine.
    config = {"showSendToCloud": False, "displaylogo": False, "responsive": True}
    return Drawn(figure={"data": data, "layout": layout, "config": config}, note=title or note)
