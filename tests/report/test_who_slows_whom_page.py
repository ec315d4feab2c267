"""Who slows whom as pictures: what moves, who waits, who is where; on a page, in a notebook, and on 80 columns."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.test_impact import kept, run
from tests.triage.brokers import Made, after, at
from tests.triage.test_blame_heavy_readers import BEGAN, HOSTILE_GROUP, cluster, hog
from workbench.api import impact
from workbench.report.who_slows_whom_charts import charts_of_cause
from workbench.widgets.who_slows_whom import charts


def incident() -> Made:
    """A hog on broker 1 of three, and four groups that wait there."""
    made = cluster()
    hog(made, 1)
    return made


def figures(text: str) -> dict[str, Any]:
    """The figures in a page; their times are in another block."""
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', text, flags=re.DOTALL)
    assert found is not None
    charts: dict[str, Any] = json.loads(found[1])
    return charts


def test_the_charts_show_the_offender_its_victims_and_the_brokers(tmp_path: Path) -> None:
    """The rate rises where the lag does; marks say who waits where, and how much each reads."""
    result = impact(capture=kept(incident(), tmp_path / "c"))
    [cause] = result.found.causes
    moves, waits, places = charts_of_cause(result.seen, cause)
    [line] = moves.figure["data"]
    values = np.array([np.nan if it is None else it for it in line["y"]])
    assert line["name"] == "broker 1" and np.nanmax(values) == pytest.approx(5e7, rel=0.01)
    assert (
        "50 MB/s of broker 1" in moves.title and moves.figure["layout"]["yaxis"]["title"]["text"] == "bytes per second"
    )
    assert {it["name"] for it in waits.figure["data"]} == {"g10", "g11", "g12", "g13"}
    assert any(shape.get("name") == "since" for shape in waits.figure["layout"]["shapes"])
    marks = {it["name"]: it for it in places.figure["data"]}
    assert marks["takes more than before"]["x"] == ["broker 1"]
    assert set(marks["waits"]["y"]) == {"g10", "g11", "g12", "g13"} and set(marks["waits"]["x"]) == {"broker 1"}
    assert set(marks["does not wait"]["x"]) == {"broker 2", "broker 3"}
    assert marks["takes more than before"]["marker"]["size"][0] > max(marks["waits"]["marker"]["size"])
    assert len({it["marker"]["symbol"] for it in marks.values()}) == 3, "colour does not stand alone"
    assert [it.note for it in result.charts] == [moves.title, waits.title, places.title]
    assert "application/vnd.plotly.v1+json" in result.charts[0]._repr_mimebundle_()


def test_the_page_has_all_of_it_and_needs_no_network(tmp_path: Path) -> None:
    """The headline, the command, the victims, the charts, and nothing that is loaded."""
    page = tmp_path / "impact.html"
    code, _ = run("--capture", kept(incident(), tmp_path / "c"), "--html", page)
    text = page.read_text()
    assert code == 3 and len(text) < 1_500_000
    assert set(figures(text)) == {"cause-0-moves", "cause-0-waits", "cause-0-on-brokers"}
    assert "consumer_byte_rate=" in text and "g12" in text and "does not prove" in text
    assert "default-src &#39;none&#39;" in text and not re.search(
        r"<(img|link|iframe|script src)", text.split("<script>")[0]
    )


def test_without_a_cause_the_page_says_so(tmp_path: Path) -> None:
    """No chart, and no script."""
    page = tmp_path / "impact.html"
    run("--capture", kept(cluster(strain=False), tmp_path / "c"), "--html", page)
    assert figures(page.read_text()) == {}


def test_a_notebook_has_the_same_words_as_the_page(tmp_path: Path) -> None:
    """Who, since when, whom, the cap and its way back; then charts; then who is not accused. Markup only of our own."""
    made = cluster()
    hog(made, 1, name=HOSTILE_GROUP)
    result = impact(capture=kept(made, tmp_path / "c"))
    shown, others = result._repr_html_(), result.others._repr_html_()
    [cause] = result.found.causes
    for words in (
        *(
            "since 2026-11-26 02:5",
            "reads 50 MB/s from broker 1",
            "that share its brokers fell behind",
            "does not prove",
        ),
        *("Cap ", "consumer_byte_rate=", "The way back"),
    ):
        assert words in shown, words
    assert all(f"<td>{it.group}</td>" in shown for it in cause.victims)
    assert "Busiest of those that are not accused" in others
    assert "<img" not in shown + others
    titles = [it.data["text/html"] for it in charts(result)[::3]]
    assert len(titles) == 3 and "takes 50 MB/s of broker 1" in titles[0] and "&lt;img" in titles[0]
    [_, figure, table] = charts(result)[6:]
    assert figure.data["application/vnd.plotly.v1+json"]["config"]["showSendToCloud"] is False
    assert result.charts[0].figure["config"]["showSendToCloud"] is False
    for words in ("<th>Who</th>", "<td>g10</td>", "broker 1</td>", "takes more than before: 50 MB/s"):
        assert words in table.data["text/html"], words
    result.write_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(line in page for line in re.findall(r"<li>.*?</li>", shown))


def test_a_notebook_says_what_cannot_be_told(tmp_path: Path) -> None:
    """With the signals that are missing; a page has the same, and groups that wait for no known reason."""
    made = Made()
    made.group("g", 1, at(200), after(-6, 0.5, before=1.0))
    result = impact(capture=kept(made, tmp_path / "c"))
    assert "Cannot tell" in result._repr_html_()
    others = result.others._repr_html_()
    assert "Not measured: " in others and "broker_traffic" in others
    assert "so it cannot be told: " in others and "slow_broker" in others
    [none] = charts(result)
    assert "no chart" in none.data["text/html"]

    made = cluster()
    result = impact(capture=kept(made, tmp_path / "held"))
    assert result.found.held_up
    assert "Held up, and no reader explains it" in result.others._repr_html_()
    result.write_html(tmp_path / "page.html")
    assert "Held up, and no reader explains it" in (tmp_path / "page.html").read_text()


def test_hostile_names_are_text_in_page_and_charts(tmp_path: Path) -> None:
    """No tag of a group's name ends up as one."""
    made = cluster()
    hog(made, 1, name=HOSTILE_GROUP)
    page = tmp_path / "impact.html"
    run("--capture", kept(made, tmp_path / "c"), "--html", page)
    text = page.read_text()
    assert "<img" not in text
    assert all("<img" not in json.dumps(it) for it in figures(text).values())


def test_the_terminal_shows_both_lines_over_time_within_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the offender moves, and the lag of who waits most; no row of a table is wider."""
    monkeypatch.setenv("COLUMNS", "80")
    made = incident()
    made.group("a-service-with-a-long-name-of-its-own-that-waits-as-well", 1, at(200), clients=1)
    _, text = run("--capture", kept(made, tmp_path / "c"))
    lines = text.splitlines()
    moves = next(it for it in lines if "moves at most 50 MB/s" in it)
    waits = next(it for it in lines if "waits at most" in it)
    begins = int(24 * (1 + BEGAN / 25))
    assert "█" in moves and "█" in waits
    assert moves.strip().index("█") >= begins - 2
    assert max(len(it) for it in lines if not it.startswith(("kafka-configs", "✓"))) <= 80
    assert any("g10" in it and "+40 %" in it for it in lines), "a row stays a row"
