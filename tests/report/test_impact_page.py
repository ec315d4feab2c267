"""Who slows whom as pictures: what moves, who waits, who is where; on a page, in a notebook, and on 80 columns."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.test_impact import kept, run
from tests.triage.brokers import Made, at
from tests.triage.test_neighbours import BEGAN, HOSTILE_GROUP, cluster, hog
from workbench.api import impact
from workbench.report.impact_charts import charts_of_cause


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
