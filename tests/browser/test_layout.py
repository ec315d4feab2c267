"""Rules of the layout, in a real Chromium: at every width, and after every change of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.devtools import Page, chromium
from tests.browser.jupyter import ROOT, click, jupyterlab, opened
from tests.browser.layout import WIDTHS, problems
from tests.browser.looking import FITS, PICTURES
from workbench.collect.capture import read_capture
from workbench.report.html_report import write_html
from workbench.triage.triage_engine import triage

pytestmark = [pytest.mark.jvm, pytest.mark.apt]
INCIDENT = ROOT / "notebooks" / "captures" / "incident-1"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A browser."""
    with chromium(tmp_path / "chromium") as made:
        yield made


@pytest.fixture
def report(spark: Any, tmp_path: Path) -> Path:
    """The report of a recorded incident."""
    capture = read_capture(INCIDENT)
    write_html(tmp_path / "report.html", triage(capture, spark), capture)
    return tmp_path / "report.html"


@pytest.mark.parametrize("dark", [False, True])
def test_a_report_keeps_its_layout_when_the_window_is_resized(page: Page, report: Path, dark: bool) -> None:
    """No chart under 120 px, no word broken, nothing beyond the screen: smaller, and larger again."""
    page.resize(WIDTHS[0], 900, dark=dark)
    page.open(report.as_uri())
    page.wait("document.querySelectorAll('.plot .main-svg').length >= 5")
    for width in WIDTHS:
        page.resize(width, 900, dark=dark)
        time.sleep(0.5)
        page.wait(FITS)
        assert problems(page) == [], width
        page.screenshot(PICTURES / f"layout-report-{width}{'-dark' if dark else ''}.png")
    onset = "[...document.querySelectorAll('.plot .annotation-text')].find((it) => it.textContent === 'onset')"
    assert page.run(f"getComputedStyle({onset}).fill") == ("rgb(255, 138, 128)" if dark else "rgb(220, 55, 46)")
    assert page.errors == []


def test_a_report_is_small_and_says_what_it_is_about(page: Page, report: Path) -> None:
    """At most 1.5 MB; the tab has the incident's name; the onset is on every chart; the tree has the numbers."""
    assert report.stat().st_size <= 1_500_000
    page.resize(1280, 900)
    page.open(report.as_uri())
    page.wait("document.querySelectorAll('.plot .main-svg').length >= 5")
    assert page.run("document.title") == "payments ← orders: slow processor · lab"
    charts = page.run("JSON.parse(document.getElementById('charts').textContent)")
    with_onset = [name for name, it in charts.items() if any(s.get("name") == "onset" for s in it["layout"]["shapes"])]
    assert {name for name in charts if not name.endswith("-events")} == set(with_onset)
    assert "baseline 4" in str(charts["finding-0-process-time"]["layout"]["annotations"])
    assert "231 ms" in page.run("document.querySelector('ol.path .decided').innerText")
    assert page.run("document.querySelectorAll('.multiples svg').length") == 6
    page.run("document.querySelector('ol.path .decided details').open = true")
    text = page.run("document.body.innerText")
    assert "12.4 ms" in text
    assert "3 × its baseline" in text
    assert "needed to keep up: 13 threads" in text


def test_a_command_is_copied_by_keyboard_and_one_crosshair_crosses_all_charts(page: Page, report: Path) -> None:
    """Enter on Copy selects and copies the whole command; a hover in one chart shows in the others."""
    page.resize(1280, 900)
    page.open(report.as_uri())
    page.wait("document.querySelectorAll('.plot .main-svg').length >= 5")
    page.run("document.querySelector('button.copy').focus()")
    page.press("Enter", 13)
    page.wait("document.querySelector('button.copy').textContent === 'Copied'")
    whole = page.run("document.querySelector('button.copy').parentElement.querySelector('code').textContent")
    assert page.run("getSelection().toString()") == whole
    assert whole.startswith("workbench ")
    page.run(
        "(() => { const plot = document.querySelector('.plot'); plot.emit('plotly_hover', {xvals: [plot._fullLayout.xaxis.range"
        ".map((it) => new Date(it + 'Z').getTime()).reduce((a, b) => (a + b) / 2)], points: []}); })()"
    )
    page.wait(
        "[...document.querySelectorAll('.plot')].slice(1).some((it) => it.querySelector('.hoverlayer .legend, .hoverlayer .hovertext'))"
    )


def test_a_hover_tells_the_time_once_and_the_largest_first(page: Page, report: Path) -> None:
    """Numbers are rounded and grouped as in the rest of the page."""
    page.resize(1280, 900)
    page.open(report.as_uri())
    page.wait("document.querySelectorAll('.plot .main-svg').length >= 5")
    page.run(
        "(() => { window.lines = [...document.querySelectorAll('.plot')].find((it) => it.data.length >= 4); "
        "const end = new Date(lines._fullLayout.xaxis.range[1] + 'Z').getTime(); "
        "Plotly.Fx.hover(lines, { xval: end - 3000 }); })()"
    )
    page.wait("lines.querySelectorAll('.hoverlayer .legendtext').length >= 4")
    shown = page.run("[...lines.querySelectorAll('.hoverlayer .legendtext')].map((it) => it.textContent)")
    page.screenshot(PICTURES / "layout-hover.png")
    values = [float(line.rpartition(" : ")[2].replace(",", "")) for line in shown]
    assert values == sorted(values, reverse=True), shown
    assert re.fullmatch(r"\d\d:\d\d:\d\d", page.run("lines.querySelector('.hoverlayer .legendtitletext').textContent"))


def test_the_charts_of_a_panel_survive_a_resize(page: Page, tmp_path: Path) -> None:
    """They do not collapse when the window gets smaller, and come back when it gets larger."""
    with jupyterlab(tmp_path / "room", environment={"WORKBENCH_CAPTURE": str(INCIDENT)}) as address:
        page.resize(WIDTHS[0], 900)
        opened(page, address("lag_triage"))
        click(page, "wb-find")
        page.wait("document.querySelectorAll('.wb-charts .js-plotly-plot .main-svg').length >= 5")
        for width in WIDTHS:
            page.resize(width, 900)
            time.sleep(1.5)
            found = problems(page, ".wb-panel")
            page.screenshot(PICTURES / f"layout-panel-{width}.png")
            assert found == [], (width, found)
        page.run("document.querySelector('.wb-panel button.copy').focus()")
        page.press("Enter", 13)
        page.wait("document.querySelector('.wb-panel button.copy').textContent === 'Copied'")
        top = "document.querySelector('{}').getBoundingClientRect().top"
        assert page.run(f"{top.format('.wb-save-html')} < {top.format('.wb-answer')}")
