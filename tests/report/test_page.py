"""Rules of a report's page, word for word: where it leads, what can be copied, what its charts and its tree show, how large it is."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from evaluation.stories import THRESHOLDS, WINDOW, Story, lagging, steps
from workbench.collect.capture import Capture, new_info, read_capture
from workbench.report import health_report
from workbench.report.finding_fragment import fragment
from workbench.report.html_report import LARGEST_BYTES, render_html
from workbench.samples import concat
from workbench.settings_of_groups import GroupSettings
from workbench.triage.finding import Scope
from workbench.triage.triage_engine import Triage, triage

pytestmark = pytest.mark.jvm

INCIDENT = Path(__file__).parent.parent.parent / "notebooks" / "captures" / "incident-1"
SETTINGS = {
    "runbook_base": "https://wiki.example.com/books",
    "grafana": "https://grafana.example.com/d/lag?var-group={group}&from={from_ms}&to={to_ms}",
    "logs": "https://logs.example.com/search?app={group}",
}


def with_settings(capture: Capture, **settings: object) -> Capture:
    """The capture of a cluster whose groups have these settings."""
    own = {"*": GroupSettings.model_validate(settings)}
    return replace(capture, info=capture.info.model_copy(update={"expected": own}), own=own)


@pytest.fixture(scope="module")
def incident(spark: Any) -> tuple[Triage, Capture]:
    """A recorded incident, of a team with a wiki, Grafana and logs; something was deployed before the onset."""
    capture = with_settings(read_capture(INCIDENT), **SETTINGS)
    deployed = {"ts": "2026-11-21T13:17:40+00:00", "kind": "deploy", "text": "payments 2.4"}
    capture = replace(capture, events=(*capture.events, deployed))
    return triage(capture, spark), capture


@pytest.fixture(scope="module")
def page(incident: tuple[Triage, Capture]) -> str:
    """Its report."""
    return render_html(*incident)


def charts_in(page: str) -> dict[str, Any]:
    """Figures by the id of their place."""
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page)
    assert found is not None
    return dict(json.loads(found[1]))


def test_it_leads_to_runbook_grafana_logs_and_notebook(page: str) -> None:
    """Addresses of the settings are links; the notebook's command has recording, group and window filled in."""
    links = {
        unescape(name): unescape(to) for to, name in re.findall(r'<a href="([^"]+)" rel="noreferrer">(.*?)</a>', page)
    }
    assert links["Runbook"] == "https://wiki.example.com/books/SlowProcessor.md"
    assert re.fullmatch(
        r"https://grafana\.example\.com/d/lag\?var-group=payments&from=\d{13}&to=\d{13}", links["Grafana"]
    )
    assert links["Logs"] == "https://logs.example.com/search?app=payments"
    commands = [unescape(it) for it in re.findall(r"<code>(.*?)</code>", page)]
    window = " --group payments --since 2026-11-21T13:18:00Z --until 2026-11-21T13:18:18Z"
    assert any(
        it.startswith("workbench notebook --capture /") and it.endswith(f"/incident-1{window}") for it in commands
    )


def test_a_fleet_leads_to_a_finding_and_back(incident: tuple[Triage, Capture]) -> None:
    """The name in the overview is a link to the finding, which has a link back; a single triage has no fleet to go back to."""
    result, capture = incident
    found = health_report.assess(capture, result, {}, start=WINDOW.start, end=WINDOW.end)
    fleet = render_html(result, capture, health=found)
    assert '<a href="#finding-0">payments ← orders</a>' in fleet
    assert '<a href="#overview">Back to the fleet</a>' in fleet.partition('id="finding-0"')[2]
    assert "Back to the fleet" not in render_html(result, capture)


def test_every_command_can_be_copied(incident: tuple[Triage, Capture], page: str) -> None:
    """In the page and in a notebook: a Copy button beside each."""
    shipped = replace(incident[0].findings[0], runbook="runbooks/SlowProcessor.md")
    assert "<code>workbench runbooks show SlowProcessor</code>" in fragment(shipped)
    assert "<code>" in page
    for text in (page, fragment(incident[0].findings[0]), fragment(shipped)):
        assert text.count("<code>") == text.count('</code><button class="copy"')


def test_an_action_without_a_command_says_where_its_command_comes_from(page: str) -> None:
    """By the name of the setting and of the group."""
    shown = unescape(page)
    assert 'no command yet: set scale_processors in workbench.toml, [clusters.lab.groups."payments".actions]' in shown


def test_events_onset_and_baseline_are_on_the_charts(page: str) -> None:
    """A deploy and the onset are lines on every chart; process time and arrivals have their baseline."""
    drawn = {name.removeprefix("finding-0-"): figure["layout"] for name, figure in charts_in(page).items()}
    for name, layout in drawn.items():
        if name != "events":
            words = [it["text"] for it in layout["annotations"]]
            assert "deploy" in words, name
            assert "onset" in words, name
            assert [it for it in layout["shapes"] if it.get("name") == "onset"], name
    for name in ("process-time", "flow"):
        assert any(it["text"].startswith("baseline ") for it in drawn[name]["annotations"]), name
    assert all(layout["xaxis"]["showspikes"] and layout["xaxis"]["spikemode"] == "across" for layout in drawn.values())


def test_small_multiples_and_the_way_to_the_verdict(page: str) -> None:
    """A picture for each partition with the onset; each question asked with its answer in full, the others folded."""
    pictures = page.partition('<div class="multiples">')[2].partition("</div>")[0]
    assert pictures.count("<svg") == 6
    assert pictures.count('class="onset"') == 6
    way = page.partition('<ol class="path">')[2].partition("</ol>")[0]
    assert way.count('class="question"') == 10
    assert 'class="why">refund 231 ms (n = 293), 56 × its baseline 4.13 ms; others 4.15 ms</span>' in way
    assert re.search(r"<details class=\"tree\"><summary>The whole tree, with \d+ questions not asked</summary>", page)


def test_what_a_person_needs_first_comes_first(page: str) -> None:
    """Verdict, chart, actions, the way, other charts, partitions; the numbers of a question are folded below it."""
    order = [
        "Caught up",
        'id="finding-0-time-lag"',
        "What to do",
        "How it was found",
        'id="finding-0-lag"',
        "Partitions, worst",
    ]
    places = [page.index(words) for words in order]
    assert places == sorted(places)


def test_the_worst_five_partitions_and_who_has_them(page: str) -> None:
    """Which process is to be looked at: by its own metrics, where Kafka was not asked; the others are folded."""
    table = page.partition("Partitions, worst first")[2].partition("</details>")[0]
    rows = re.findall(r'<tr><td class="n">(\d+)</td><td>([^<]*)</td>\s*<td class="n">([\d,]+)</td>', table)
    assert len(rows) == 6
    assert all(consumer.startswith("payments-") for _, consumer, _ in rows), rows
    assert "1 more partition</summary>" in table
    lags = [int(it.replace(",", "")) for _, _, it in rows]
    assert lags[0] >= lags[-1]


def test_a_limit_has_the_unit_of_its_value(page: str) -> None:
    """231 ms beside 12.4 ms, not beside 3; the unit stands once."""
    row = next(it for it in re.findall(r"<tr>(.*?)</tr>", page, flags=re.S) if "231 ms" in it)
    cells = [re.sub(r"<small>.*?</small>", "", it) for it in re.findall(r"<td[^>]*>(.*?)</td>", row, flags=re.S)]
    assert cells[1:5] == ["231 ms", "", "12.4 ms", "4.13 ms"]
    assert "<small>3 × its baseline</small>" in row
    assert "0.0123" not in re.sub(r'title="[^"]*"', "", row)


def test_a_small_baseline_is_not_zero(spark: Any) -> None:
    """0.222 ms stays 0.222 ms: in the table, in the tree, in the sentence of the answer."""
    story = lagging(Story(group="g", topic="t")).people().fetch_queue().enqueue().processor("order")
    story.processor("refund", seconds=steps(0.000222, 0.0111, at=-80.0), fill=steps(0.05, 0.95, at=-80.0))
    info = new_info(cluster="c", source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS)
    capture = Capture(info=info, samples=story.samples())
    page = render_html(triage(capture, spark), capture)
    assert '<td class="n">0.222 ms</td>' in page
    assert "its baseline 0.222 ms" in page


def test_what_is_needed_says_of_what(incident: tuple[Triage, Capture], page: str) -> None:
    """13 threads; one is a thread."""
    assert "needed to keep up: 13 threads" in page
    [finding, *_] = incident[0].findings
    assert (finding.scope.needed, finding.scope.needed_what) == (13, "threads")
    assert Scope(needed=1, needed_what="consumers").needed_words == "1 consumer"
    assert Scope().needed_words == ""


def test_a_page_is_at_most_one_and_a_half_megabytes(spark: Any) -> None:
    """However many are sick, and however long the window is; the others stand in the table, and it says so."""
    sick = [lagging(Story(group=f"g{number}", topic="t", partitions=12)).calm() for number in range(20)]
    for story in sick:
        story.processor("order").processor(
            "refund", seconds=steps(0.01, 0.4, at=-80.0), fill=steps(0.05, 0.95, at=-80.0)
        )
    info = new_info(cluster="c", source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS)
    capture = Capture(info=info, samples=concat([story.samples() for story in sick]))
    result = triage(capture, spark)
    found = health_report.assess(capture, result, {}, start=WINDOW.start, end=WINDOW.end)
    for text in (render_html(result, capture), render_html(result, capture, health=found)):
        assert len(text.encode()) <= LARGEST_BYTES == 1_500_000
        detailed = text.count('<section class="finding" id="finding-')
        assert 5 <= detailed < 20
        assert f"Only the worst {detailed} findings are shown in full" in text
        assert all(f">g{number} ← t" in text or f"<td>g{number}</td>" in text for number in range(20))


@pytest.mark.parametrize(("lately", "said"), [(0.0, True), (None, False), ("mean", False)])
def test_an_average_is_no_present(incident: tuple[Triage, Capture], lately: float | str | None, said: bool) -> None:
    """Where the producers have stopped, it says so beside what arrived on average."""
    result, capture = incident
    worst = result.findings[0]
    now = worst.arrival_per_second if lately == "mean" else lately
    row = copy.copy(worst.features)
    object.__setattr__(row, "arrival_recent_per_second", now)
    page = render_html(replace(result, findings=[replace(worst, features=row)]), capture)
    assert ("on average, lately 0/s" in page) == said
