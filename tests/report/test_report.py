"""Rules of what people read: nothing in it is dangerous, nothing is loaded, and the numbers are those of the finding."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from evaluation.stories import THRESHOLDS, WINDOW, Story, lagging, steps
from workbench.collect.capture import Capture, new_info
from workbench.errors import UsageError
from workbench.report.html_report import render_html, write_html
from workbench.report.terminal import detail, show, sparkline
from workbench.samples import concat
from workbench.terminal_tables import SafeConsole
from workbench.triage.triage_engine import Triage, triage

pytestmark = pytest.mark.jvm

HOSTILE_GROUP = "<img src=x onerror=alert(1)>\"'&\n\x1b[31mred</script><script>alert(2)</script>"
HOSTILE_TOPIC = "'; DROP TABLE x; -- <b>\u202e"
HOSTILE_TYPE = "</script><svg onload=alert(3)>"


def make(spark: Any, group: str, topic: str, kind: str) -> tuple[Triage, Capture]:
    """A slow processor with these names, and a healthy neighbour."""
    story = lagging(Story(group=group, topic=topic)).people().fetch_queue().enqueue().processor("order")
    story.processor(kind, seconds=steps(0.01, 0.4, at=-80.0), fill=steps(0.05, 0.95, at=-80.0))
    calm = Story(group="calm", topic="calm").all_partitions().calm()
    info = new_info(
        cluster="test<i>",
        source="test",
        profiles=["runtime"],
        window=WINDOW,
        thresholds=THRESHOLDS,
        incomplete=["part <b>missing"],
    )
    capture = Capture(info=info, samples=concat([story.samples(), calm.samples()]))
    return triage(capture, spark), capture


@pytest.fixture(scope="module")
def hostile(spark: Any) -> tuple[Triage, Capture]:
    """Names that would like to be markup, a shell or a terminal's commands."""
    return make(spark, HOSTILE_GROUP, HOSTILE_TOPIC, HOSTILE_TYPE)


@pytest.fixture(scope="module")
def page(hostile: tuple[Triage, Capture]) -> str:
    """Its report."""
    return render_html(*hostile)


class Elements(HTMLParser):
    """Collects tags with their attributes, and the texts of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._script: dict[str, str | None] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self._script = dict(attrs)
            self.scripts.append((self._script, ""))

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            attributes, text = self.scripts.pop()
            self.scripts.append((attributes, text + data))

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None


def test_hostile_names_stay_text(page: str) -> None:
    """No element and no attribute comes from a name."""
    elements = Elements(page)
    tags = {tag for tag, _ in elements.tags}
    assert not tags & {"img", "b", "i", "iframe", "object", "link"}
    assert sum(tag == "script" for tag, _ in elements.tags) == 5
    for _, attributes in elements.tags:
        assert not any(name.startswith("on") for name in attributes)
    assert "&lt;img src=x onerror=alert(1)&gt;" in page


def test_only_our_two_scripts_may_run(page: str) -> None:
    """The policy names the hash of each script that stands in the page, and lets nothing be loaded or sent."""
    elements = Elements(page)
    [policy] = [
        a["content"] for tag, a in elements.tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    runnable = [text for attributes, text in elements.scripts if attributes.get("type") != "application/json"]
    assert len(runnable) == 2
    for text in runnable:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_nothing_refers_to_another_place(page: str) -> None:
    """No source, no link, no form; the plotly bundle's own strings apart, which the policy keeps from being fetched."""
    for tag, attributes in Elements(page).tags:
        assert not {"src", "href", "action", "srcset"} & set(attributes), (tag, attributes)


def test_the_data_block_is_json_without_markup(page: str) -> None:
    """Charts come as data that can end no element; the upload button is off."""
    blocks = {a.get("id"): text for a, text in Elements(page).scripts if a.get("type") == "application/json"}
    assert "<" not in str(blocks["charts"])
    charts, config = json.loads(str(blocks["charts"])), json.loads(str(blocks["config"]))
    assert config["showSendToCloud"] is False
    assert {name.split("-", 2)[2] for name in charts} >= {"time-lag", "lag", "queue-fill", "process-time", "flow"}
    names = [trace["name"] for figure in charts.values() for trace in figure["data"]]
    assert not any("<" in name for name in names)


def test_the_terminal_view_is_harmless_and_complete(hostile: tuple[Triage, Capture]) -> None:
    """No control character of a broker's text reaches the terminal; the verdict and the sentence stand first."""
    result, capture = hostile
    console = SafeConsole(width=120, force_terminal=False, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    show(console, result, capture.samples)
    text = console.export_text()
    assert "\x1b[31mred" not in text
    assert "\u202e" not in text
    assert "slow_processor" in text
    assert text.index("LAGGING") < text.index("data usable?") < text.index("What to do")


def test_commands_survive_hostile_names(hostile: tuple[Triage, Capture]) -> None:
    """A copied command is one line, and names the group and nothing else."""
    result, _ = hostile
    commands = [action.command for finding in result.findings for action in finding.actions if action.command]
    assert commands
    for command in commands:
        assert "\n" not in command
        assert not re.search(r"(?<!\\)<img", command.replace("'<img", "").replace("$'<img", ""))


def test_the_numbers_in_the_page_are_the_findings(spark: Any) -> None:
    """The sentence, the time lag and every partition."""
    result, capture = make(spark, "payments", "orders", "refund")
    page = render_html(result, capture)
    worst = result.findings[0]
    assert worst.headline.replace("“", "“") in page
    for part in worst.partitions:
        assert f"{part.committed:,}" in page
        assert f"{part.log_end:,}" in page


def test_what_is_not_read_stands_in_page_terminal_and_json(hostile: tuple[Triage, Capture], page: str) -> None:
    """The slow handler, whatever it is called, explains the most; its share is drawn."""
    result, capture = hostile
    [sick] = [it for it in result.findings if it.shortfall is not None]
    assert sick.shortfall is not None
    first = sick.shortfall.parts[0]
    assert first.cause == "slow_processor"
    console = SafeConsole(record=True, width=80, file=io.StringIO())
    show(console, result, capture.samples)
    text = console.export_text()
    assert f"{sick.shortfall.words}" in " ".join(text.split())
    assert "█" in text
    assert "What is not read, and why" in page
    widths = [float(of["width"] or 0) for tag, of in Elements(page).tags if tag == "rect" and of.get("class") == "part"]
    assert widths == [round(part.share * 100, 1) for part in sick.shortfall.parts]
    [told] = [it for it in result.to_json()["findings"] if it["shortfall"] is not None]
    assert [part["cause"] for part in told["shortfall"]["parts"]] == [part.cause for part in sick.shortfall.parts]


def test_what_is_wrapped_goes_on_below_its_beginning(hostile: tuple[Triage, Capture]) -> None:
    """In a narrow terminal no sentence goes on in the first column, as if it were another thing."""
    result, capture = hostile
    [sick] = [it for it in result.findings if it.shortfall is not None]
    long = ("members that joined, left or restarted in the window, one after the other, and each of them twice",)
    sick = replace(sick, contributing=long, also_seen=long, not_ruled_out=long)
    console = SafeConsole(record=True, width=60, file=io.StringIO())
    console.print(detail(sick, capture.samples, result.window, pictures=False))
    ends = [line for line in console.export_text().splitlines() if line.rstrip().endswith("twice")]
    assert len(ends) == 3
    assert all(line.startswith("  ") and "joined" not in line for line in ends)


def test_a_report_appears_whole_or_not_at_all(hostile: tuple[Triage, Capture], tmp_path: Path) -> None:
    """A folder that cannot be written to is a user's mistake, told in one line."""
    result, capture = hostile
    with pytest.raises(UsageError, match="cannot be written"):
        write_html(tmp_path / "missing" / "report.html", result, capture)
    write_html(tmp_path / "report.html", result, capture)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["report.html"]


def test_a_sparkline_shows_gaps_and_peaks() -> None:
    """A blank is "not measured", the lowest block is 0."""
    import numpy as np

    assert sparkline(np.array([0.0, 1.0, np.nan, 2.0])) == "▁▅ █"
    assert sparkline(np.full(5, np.nan)) == ""
    assert sparkline(np.zeros(3)) == "▁▁▁"
