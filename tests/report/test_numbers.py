"""Rules of the table beside a chart: the same numbers, no more and no less, and names that stay text."""

from __future__ import annotations

import re

import numpy as np

from evaluation.stories import WINDOW, Story, lagging, steps
from tests.widgets.test_panel import HOSTILE
from workbench.features.chart_series import SeriesLine, series_of
from workbench.humanize import printable
from workbench.report.chart_as_table import chart_numbers, instants_table, summary_table
from workbench.report.charts import chart_of

STORY = lagging(Story(group="g", topic="t"))
SERIES = series_of(STORY.samples(), WINDOW, group="g", topic="t")


def chart(*lines: SeriesLine) -> object:
    """A chart of lines over the story's times."""
    return chart_of("x", "title", "messages", lines, SERIES, WINDOW)


def cells(html: str) -> list[list[str]]:
    """Rows of a table."""
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]


def test_a_line_is_told_by_its_ends_and_extremes() -> None:
    """With the chart's unit; what was not measured is nothing, never 0."""
    values = np.full(len(SERIES.times), np.nan)
    values[3:6] = [7.0, 2.0, 1200.0]
    table = cells(
        summary_table(chart(SeriesLine(name="one", values=values), SeriesLine(name="none", values=values * np.nan)))
    )  # type: ignore[arg-type]
    assert table[0][0] == "Line (messages)"
    assert table[1] == ["one", "7", "2", "1,200", "1,200"]
    assert table[2] == ["none"]


def test_every_instant_is_there_or_it_is_said_which() -> None:
    """The last instant always; thinned evenly where there are many."""
    lines = [SeriesLine(name="a", values=np.arange(len(SERIES.times), dtype=float))]
    whole = cells(instants_table(chart(*lines), most=10_000))  # type: ignore[arg-type]
    assert len(whole) == 1 + len(SERIES.times)
    assert [row[1] for row in whole[1:]] == [f"{n}" for n in range(len(SERIES.times))]
    thinned = instants_table(chart(*lines), most=10)  # type: ignore[arg-type]
    assert "One timestamp in" in thinned
    assert len(cells(thinned)) <= 11
    assert cells(thinned)[-1] == whole[-1]


def test_names_stay_text() -> None:
    """Once escaped, not twice, and not at all unescaped."""
    story = Story(group="g", topic="t").processor(HOSTILE, seconds=steps(0.01, 0.4))
    series = series_of(story.samples(), WINDOW, group="g", topic="t")
    line = SeriesLine(name=printable(series.process_time[0].name), values=series.process_time[0].values)
    html = chart_numbers(chart_of("x", HOSTILE, "seconds", [line], series, WINDOW))
    assert "<img" not in html
    assert "&lt;img src=x onerror" in html
    assert "&amp;lt;" not in html
