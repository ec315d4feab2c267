"""Values of a chart as a table, for accessibility and for copying."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape, unescape
from typing import Any

from markupsafe import Markup

from workbench.humanize import significant
from workbench.report.charts import Chart

_MOST_ROWS = 60  # instants; more than that is read off the chart, or taken from the capture


def summary_table(chart: Chart) -> Markup:
    """A row for each line: first, lowest, highest and last value; for marks, a row for each. Empty for a chart without data."""
    traces = chart.figure["data"]
    if traces and traces[0]["mode"] == "markers":
        if chart.figure["layout"]["xaxis"].get("type") == "category":  # things in places, without a time
            head = _row(["Who", "Where", "What"], "th")
            marks = [
                _row([unescape(str(who)), unescape(str(where)), f"{unescape(trace['name'])}: {unescape(str(text))}"])
                for trace in traces
                for who, where, text in zip(trace["y"], trace["x"], trace["text"], strict=True)
            ]
            return _table(head, marks[:_MOST_ROWS])
        head = _row(["Time (UTC)", "What", "Details"], "th")
        rows = [
            _row([str(x)[:23], unescape(trace["name"]), unescape(str(text))])
            for trace in traces
            if trace["mode"] == "markers"
            for x, text in zip(trace["x"], trace["text"], strict=True)
        ]
        return _table(head, rows[:_MOST_ROWS])
    unit = _unit(chart)
    head = _row([f"Line ({unit})" if unit else "Line", "First", "Lowest", "Highest", "Last"], "th")
    rows = []
    for trace in traces:
        known = [value for value in trace["y"] if value is not None]
        values = [known[0], min(known), max(known), known[-1]] if known else []
        rows.append(_row([unescape(trace["name"]), *(significant(value) for value in values)]))
    return _table(head, rows)


def instants_table(chart: Chart, *, most: int = _MOST_ROWS) -> Markup:
    """A row for each instant with all lines' values, thinned evenly to so many rows; empty for marks."""
    traces = chart.figure["data"]
    if not traces or traces[0]["mode"] == "markers":
        return Markup("")
    times = traces[0]["x"]
    every = -(-len(times) // most) or 1
    head = _row(["Time (UTC)", *(unescape(trace["name"]) for trace in traces)], "th")
    rows = [
        _row([str(times[n])[11:19], *("" if trace["y"][n] is None else significant(trace["y"][n]) for trace in traces)])
        for n in range(len(times) - 1, -1, -every)
    ][::-1]
    note = f'<p class="soft">One timestamp in {every} is shown.</p>' if every > 1 else ""
    return Markup(note) + _table(head, rows)  # noqa: S704 - our own words and a number


def chart_numbers(chart: Chart) -> Markup:
    """Both tables, collapsed."""
    body = summary_table(chart) + instants_table(chart)
    return Markup(f'<details class="numbers"><summary>The values as a table</summary>{body}</details>')  # noqa: S704 - escaped above


def _unit(chart: Chart) -> str:
    return str(chart.figure["layout"]["yaxis"].get("title", {}).get("text", "")).removesuffix(" (log)")


def _row(cells: Sequence[Any], kind: str = "td") -> str:
    parts = [f"<{kind}{' class=n' if n else ''}>{escape(str(cell))}</{kind}>" for n, cell in enumerate(cells)]
    return f"<tr>{''.join(parts)}</tr>"


def _table(head: str, rows: Sequence[str]) -> Markup:
    return Markup(f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>')  # noqa: S704 - cells are escaped
