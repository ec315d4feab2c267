"""Rules of the report, in a real Chromium: it works offline, hostile names are inert, nothing leaves this computer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation.stories import THRESHOLDS, WINDOW, Story, lagging
from tests.browser.devtools import Page, chromium
from tests.browser.looking import FITS, PICTURES, SHARE, inert, within
from tests.widgets.test_panel import hostile_capture
from workbench.collect.capture import Capture, new_info
from workbench.report import health_report
from workbench.report.html_report import write_html
from workbench.samples import concat
from workbench.triage.triage_engine import triage

pytestmark = [pytest.mark.jvm, pytest.mark.apt]


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A browser."""
    with chromium(tmp_path / "chromium") as opened:
        yield opened


def test_the_report_opens_from_a_file_with_the_network_off(page: Page, spark: Any, tmp_path: Path) -> None:
    """Charts are drawn under the strict policy; wide, narrow and dark; a health report's links lead to its findings."""
    capture = hostile_capture()
    result = triage(capture, spark)
    write_html(tmp_path / "triage.html", result, capture)
    start, end = capture.window.baseline_start, capture.window.end
    health_report.publish(health_report.assess(capture, result, {}, start=start, end=end, run_id="r"), str(tmp_path))
    page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    for name in ("triage.html", "report.html"):
        page.resize(1280, 900)
        page.open((tmp_path / name).as_uri())
        page.wait("document.querySelectorAll('.plot .main-svg').length >= 5")
        page.wait("document.querySelectorAll('svg.tree .node.taken').length >= 2")
        page.screenshot(PICTURES / f"{name.removesuffix('.html')}-1280.png")
        assert page.run(SHARE) is None
        page.resize(1280, 900, dark=True)
        page.screenshot(PICTURES / f"{name.removesuffix('.html')}-dark.png")
        page.resize(390, 844)
        page.wait(FITS)
        page.screenshot(PICTURES / f"{name.removesuffix('.html')}-390.png")
    assert page.run("document.querySelector('#overview a').getAttribute('href')") == "#finding-0"
    assert page.run("!!document.getElementById('finding-0')")
    assert page.errors == []
    inert(page)


def test_every_chart_has_its_numbers_and_the_page_can_be_printed(page: Page, spark: Any, tmp_path: Path) -> None:
    """By keyboard: the table opens with Enter, has each instant of each line, and names are text; on paper it is open and light."""
    capture = hostile_capture()
    write_html(tmp_path / "triage.html", triage(capture, spark), capture)
    page.resize(1280, 900, dark=True)
    page.open((tmp_path / "triage.html").as_uri())
    page.wait("document.querySelectorAll('.plot .main-svg').length >= 5")
    plots = page.run("document.querySelectorAll('.plot').length")
    assert page.run("document.querySelectorAll('.chart details.numbers table').length") == plots
    assert page.run("[...document.querySelectorAll('.chart h4')].every(it => it.textContent.length > 10)")
    page.run("document.querySelector('#finding-0-process-time ~ details summary').focus()")
    page.press("Enter", 13)
    page.wait("document.querySelector('#finding-0-process-time ~ details .instants table')")
    drawn = page.run(
        "JSON.parse(document.getElementById('charts').textContent)['finding-0-process-time'].data.map(it => it.y)"
    )
    shown = page.run(
        "[...document.querySelectorAll('#finding-0-process-time ~ details .instants tr')].slice(1)"
        ".map(row => [...row.cells].slice(1).map(it => it.textContent === '' ? null : Number(it.textContent)))"
    )
    assert len(shown) == len(drawn[0])
    for at, row in enumerate(shown):
        assert row == [None if line[at] is None else pytest.approx(line[at], rel=1e-3) for line in drawn]
    page.screenshot(PICTURES / "numbers-dark.png")
    assert "<img src=x onerror" in page.run("document.querySelector('#finding-0-process-time ~ details').innerText")
    paper = page.paper()
    assert paper.startswith(b"%PDF")
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / "report.pdf").write_bytes(paper)
    assert page.errors == []
    inert(page)


def test_a_large_report_opens_at_once(page: Page, spark: Any, tmp_path: Path) -> None:
    """15 sick subscriptions, the worst with all their charts: the first is drawn within 2 s, on two quiet cores; then the others."""
    sick = [lagging(Story(group=f"g{n}", topic="t", partitions=2, members=1)).calm() for n in range(15)]
    info = new_info(cluster="test", source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS)
    capture = Capture(info=info, samples=concat([story.samples() for story in sick]))
    result = triage(capture, spark)
    start, end = capture.window.baseline_start, capture.window.end
    health_report.publish(health_report.assess(capture, result, {}, start=start, end=end, run_id="r"), str(tmp_path))
    assert (tmp_path / "report.html").stat().st_size <= 1_500_000
    page.resize(1280, 900)
    page.open((tmp_path / "report.html").as_uri())
    # The first finding is drawn before the page counts as loaded, the others follow by themselves.
    seconds = page.run("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000
    assert page.run("document.querySelectorAll('.plot .main-svg').length") >= 5
    page.wait("[...document.querySelectorAll('.plot')].every(it => it.querySelector('.main-svg'))")
    assert page.run("document.querySelectorAll('.plot').length") >= 5 * 5
    within(seconds, 2.0, "the report opened")
