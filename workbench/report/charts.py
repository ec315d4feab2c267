"""Charts as plain Plotly figures (dictionaries): one message each, units on the axes, the judged window shaded, thresholds drawn.

Colours are Okabe and Ito's, which stay apart for colour-blind eyes; lines also differ in dash, so colour never stands alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np

from workbench.features.chart_series import FloatArray, Series, SeriesLine, highest, series_of, total
from workbench.humanize import counted, duration, percent, printable, rate
from workbench.report.timeline import happened
from workbench.thresholds import Thresholds
from workbench.triage.finding import Finding
from workbench.triage.verdict_names import State
from workbench.window import Window

Figure = dict[str, Any]

# Hues of Okabe and Ito, each as light as 4.5 : 1 to white allows, which is 4.1 : 1 to JupyterLab's dark page.
# Reports have lighter ones at night (report.js). Lines also differ by their dashes.
COLOURS = ("#007CC1", "#C25600", "#008762", "#BC4F8B", "#9D6D00", "#7F60D9", "#767676")
PLOTLY_CONFIG = {
    "showSendToCloud": False,
    "displaylogo": False,
    # Zooming works without it; it covers the legend, and is seven stops of the Tab key for each chart.
    "displayModeBar": False,
    "responsive": True,
}
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
_MAX_LINES = len(COLOURS)
_HEIGHT = 260
_WORST_PARTITIONS = 5
_LEGEND_ROW = 18  # a legend of many lines wraps; the curves keep their room


class Timed(Protocol):
    """What has a time axis."""

    @property
    def times(self) -> FloatArray:
        """Seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One figure with the sentence that it shows."""

    id: str
    title: str
    figure: Figure


_MOST_MARKS = 20  # more lines would hide the curves


def charts_of(
    finding: Finding,
    capture_samples: Any,
    window: Window,
    thresholds: Thresholds,
    *,
    events: Sequence[Mapping[str, Any]] = (),
) -> list[Chart]:
    """Charts of one finding, most informative first, with the same time axis; charts without values are left out."""
    series = series_of(capture_samples, window, group=finding.group, topic=finding.topic)
    marks = happened(capture_samples, events, window, group=finding.group)
    wanted = [
        _time_lag(series, window, thresholds),
        _lag(finding, series, window),
        _partitions(series, window),
        _fill(series, window, thresholds),
        _process_time(finding, series, window),
        _flow(finding, series, window),
    ]
    drawn = [_marked(chart, marks) for chart in wanted if chart is not None]
    if finding.since is not None:
        drawn = [with_begin(chart, _instant(finding.since.timestamp()), "onset", "onset") for chart in drawn]
    own = _events(marks, series, window)
    return drawn if own is None else [*drawn, own]


def with_begin(chart: Chart, x: str, name: str, text: str) -> Chart:
    """The chart with a red line where something began, in UTC."""
    line = {"color": "#DC372E", "width": 2}
    shape = {"type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": line}
    words = {"xref": "x", "yref": "paper", "x": x, "y": 1, "text": text, "showarrow": False}
    place = {"xanchor": "right", "yanchor": "top", "font": {"size": 11, "color": "#DC372E"}}
    chart.figure["layout"]["shapes"].append({**shape, "name": name})
    chart.figure["layout"]["annotations"].append({**words, **place})
    return chart


def _usual(line: SeriesLine, series: Series, window: Window, finding: Finding) -> float | None:
    """Median before the incident; None where too little was measured to call anything usual."""
    end = min(window.start, finding.since or window.start).timestamp()
    before = line.values[series.times <= end]
    before = before[~np.isnan(before)]
    return float(np.median(before)) if len(before) >= _ENOUGH_BEFORE else None


_ENOUGH_BEFORE = 5


def _marked(chart: Chart, marks: Mapping[str, Sequence[tuple[datetime, str]]]) -> Chart:
    """The chart with a thin line at each recorded event; rebalances are too many for that."""
    lines = [(at, kind, words) for kind, items in marks.items() if kind != "rebalance" for at, words in items]
    for at, kind, words in sorted(lines)[-_MOST_MARKS:]:
        x = _instant(at.timestamp())
        chart.figure["layout"]["shapes"].append(
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": x,
                "x1": x,
                "y0": 0,
                "y1": 1,
                "line": {"color": COLOURS[-1], "width": 1, "dash": "dash"},
            }
        )
        chart.figure["layout"]["annotations"].append(
            {
                "xref": "x",
                "yref": "paper",
                "x": x,
                "y": 1,
                "text": escape_plotly(kind),
                "hovertext": escape_plotly(words),
                "showarrow": False,
                "xanchor": "left",
                "yanchor": "top",
                "textangle": 90,
                "font": {"size": 10},
            }
        )
    return chart


def _time_lag(series: Series, window: Window, thresholds: Thresholds) -> Chart | None:
    line = highest(series.time_lag, "oldest uncommitted message")
    if line is None or np.isnan(line.values).all():
        return None
    objective = thresholds.time_lag_objective_seconds
    peak = float(np.nanmax(line.values))
    title = f"The oldest message waited up to {duration(peak)} (objective {duration(objective)})"
    return chart_of("time-lag", title, "seconds", [line], series, window, level=(objective, "objective"))


def _lag(finding: Finding, series: Series, window: Window) -> Chart | None:
    whole = total(series.lag, "all partitions")
    if whole is None:
        return None
    trend = "grows" if finding.state is State.LAGGING and (finding.lag_slope or 0) > 0.5 else "is"
    title = f"Lag {trend} {'to ' if trend == 'grows' else ''}{counted(finding.lag_messages, 'message')}"
    return chart_of("lag", title, "messages", [whole], series, window)


def _partitions(series: Series, window: Window) -> Chart | None:
    """Apart from their sum, beside which they would be one flat band."""
    lines = _most_important(series.lag, "partition ")
    if len(lines) < 2:
        return None
    worst = lines[:_WORST_PARTITIONS]
    others = len(series.lag) - len(worst)
    title = "Lag by partition" + (f", the worst {len(worst)} of {len(series.lag)}" if others else "")
    return chart_of("partitions", title, "messages", worst, series, window)


def _fill(series: Series, window: Window, thresholds: Thresholds) -> Chart | None:
    lines = _most_important(series.fill)
    if not lines:
        return None
    fullest = lines[0]
    title = f"Fullest queue: {fullest.name}, up to {percent(float(np.nanmax(fullest.values)))}"
    return chart_of(
        "queue-fill",
        title,
        "share of capacity",
        lines,
        series,
        window,
        level=(thresholds.queue_fill_ratio, "backed up"),
        percent_axis=True,
    )


def _process_time(finding: Finding, series: Series, window: Window) -> Chart | None:
    lines = _most_important(series.process_time)
    if not lines:
        return None
    slowest = lines[0]
    title = f"Slowest processor: {slowest.name}, up to {duration(float(np.nanmax(slowest.values)))} for one event"
    usual = _usual(slowest, series, window, finding)
    level = (usual, f"baseline {duration(usual)}") if usual else None
    return chart_of("process-time", title, "seconds (log)", lines, series, window, level=level, log=True)


def _flow(finding: Finding, series: Series, window: Window) -> Chart | None:
    lines = [line for line in (series.arrivals, series.commits) if not np.isnan(line.values).all()]
    if len(lines) < 2:
        return None
    inside = series.times > window.start.timestamp()
    arriving, committed = (float(np.nanmean(line.values[inside])) if inside.any() else 0.0 for line in lines)
    title = f"In the window {rate(arriving)} arrive and {rate(committed)} are committed"
    usual = _usual(series.arrivals, series, window, finding)
    level = (usual, f"baseline {rate(usual)}") if usual else None
    return chart_of("flow", title, "messages per second", lines, series, window, level=level)


def _events(marks: Mapping[str, Sequence[tuple[datetime, str]]], series: Series, window: Window) -> Chart | None:
    if not marks:
        return None
    counted = ", ".join(f"{len(items)} × {kind}" for kind, items in marks.items())
    chart = chart_of("events", f"Events in this period: {counted}", "", [], series, window)
    symbols = ("triangle-up", "diamond", "square", "circle", "x")
    chart.figure["data"] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": escape_plotly(kind),
            "x": [_instant(at.timestamp()) for at, _ in items],
            "y": [escape_plotly(kind)] * len(items),
            "text": [escape_plotly(words) for _, words in items],
            "marker": {"size": 10, "symbol": symbols[n % len(symbols)], "color": COLOURS[n % _MAX_LINES]},
            "hovertemplate": "%{x|%H:%M:%S}  %{text}<extra></extra>",
        }
        for n, (kind, items) in enumerate(marks.items())
    ]
    layout = chart.figure["layout"]
    layout["yaxis"] = {"type": "category", "automargin": True}
    layout["height"] = 120 + 26 * len(marks)
    layout["hovermode"] = "closest"
    layout["xaxis"]["range"] = [_instant(window.baseline_start.timestamp()), _instant(window.end.timestamp())]
    return chart


def _most_important(lines: Sequence[SeriesLine], prefix: str = "") -> list[SeriesLine]:
    """The lines with the highest peaks, at most as many as there are colours."""
    measured = [line for line in lines if not np.isnan(line.values).all()]
    measured.sort(key=lambda line: -float(np.nanmax(line.values)))
    return [SeriesLine(name=prefix + printable(line.name), values=line.values) for line in measured[:_MAX_LINES]]


def chart_of(
    chart_id: str,
    title: str,
    unit: str,
    lines: Sequence[SeriesLine],
    series: Timed,
    window: Window,
    *,
    level: tuple[float, str] | None = None,
    log: bool = False,
    percent_axis: bool = False,
) -> Chart:
    """Make a line chart: window shaded, threshold drawn, unit on the axis."""
    times = [_instant(seconds) for seconds in series.times]
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": escape_plotly(line.name),
            "x": times,
            "y": [_number(float(value)) for value in line.values],
            "line": {"color": COLOURS[n % _MAX_LINES], "dash": _DASHES[n % _MAX_LINES], "width": 2},
            "hovertemplate": f"%{{y:{'.1%' if percent_axis else ',.6~r'}}}<extra>%{{fullData.name}}</extra>",
        }
        for n, line in enumerate(lines)
    ]
    shapes: list[Figure] = [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": _instant(window.start.timestamp()),
            "x1": _instant(window.end.timestamp()),
            "y0": 0,
            "y1": 1,
            "fillcolor": "#D55E00",
            "opacity": 0.08,
            "line": {"width": 0},
            "layer": "below",
        }
    ]
    annotations: list[Figure] = []
    if level is not None:
        value, name = level
        shapes.append(
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": value,
                "y1": value,
                "line": {"color": COLOURS[-1], "dash": "dot", "width": 1.5},
            }
        )
        annotations.append(
            {
                "xref": "paper",
                "x": 0,
                "y": math.log10(value) if log else value,  # annotations of a log axis are in its own units
                "text": name,
                "showarrow": False,
                "xanchor": "left",
                "yanchor": "bottom",
            }
        )
    axis: Figure = {"title": {"text": unit}, "rangemode": "tozero", "automargin": True}
    if log:
        axis |= {"type": "log", "rangemode": "normal"}
    if percent_axis:
        axis |= {"tickformat": ".0%"}
    layout = {
        "height": _HEIGHT + _LEGEND_ROW * max(0, len(lines) - 3),
        "margin": {"l": 60, "r": 12, "t": 8, "b": 36},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": {
            "type": "date",
            "title": {"text": "time (UTC)"},
            "automargin": True,
            "hoverformat": "%H:%M:%S",
            "showspikes": True,
            "spikemode": "across",
            "spikethickness": 1,
        },
        "yaxis": axis,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        "showlegend": True,
        "shapes": shapes,
        "annotations": annotations,
        "hovermode": "x unified",
        "hoversort": "value descending",
    }
    return Chart(id=chart_id, title=title, figure={"data": traces, "layout": layout})


def _number(value: float) -> float | None:
    """Whole numbers as they are, others with six digits; null where nothing was measured."""
    if math.isnan(value):
        return None
    return int(value) if value.is_integer() else float(f"{value:.6g}")


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def escape_plotly(text: str) -> str:
    """Escape text for a Plotly label: a topic's name must not be interpreted as HTML (<b>, <a href>)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
