"""Rules of "Open in Spark": the cells run as they are, on this subscription and its window, whatever its names hold."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.widgets.test_panel import HOSTILE, hostile_capture
from workbench.api.load_measurements import measure
from workbench.api.measurement_requests import Measurements
from workbench.api.triages import judge
from workbench.collect.capture import write_capture
from workbench.errors import UsageError
from workbench.report.notebook_cells_for_spark import as_notebook, spark_cells, write_notebook

INCIDENT = Path(__file__).parents[2] / "notebooks" / "captures" / "incident-1"


def looked(folder: Path) -> Any:
    """A triage of a capture."""
    request = Measurements(capture=folder)
    return judge(measure(request), request)


def run(codes: list[str]) -> list[Any]:
    """Run cells as a kernel does; the values of their last expressions."""
    space: dict[str, Any] = {}
    values = []
    for code in codes:
        tree = ast.parse(code)
        last = tree.body.pop()
        assert isinstance(last, ast.Expr)
        exec(compile(tree, "cell", "exec"), space)
        values.append(eval(compile(ast.Expression(last.value), "cell", "eval"), space))
    return values


@pytest.mark.jvm
@pytest.mark.parametrize("hostile", [False, True])
def test_the_cells_of_a_finding_run(spark: Any, tmp_path: Path, hostile: bool) -> None:
    """The three of a notebook, one after the other: samples of this group alone, its features, a chart with its lag."""
    folder = INCIDENT
    if hostile:
        folder = tmp_path / 'it\'s "here"'
        write_capture(folder, hostile_capture())
    found = looked(folder)
    finding = found.findings[0]
    cells = spark_cells(finding, found.capture, found.triage.window)
    book = as_notebook(finding, cells)
    codes = ["".join(it["source"]) for it in book["cells"] if it["cell_type"] == "code"]
    assert codes == [it.code for it in cells]
    _, features, chart = run(codes)
    assert list(features.columns) == [0]
    assert features.loc["group", 0] == finding.group
    assert features.loc["topic", 0] == finding.topic
    drawn = chart._repr_mimebundle_()["application/vnd.plotly.v1+json"]
    assert len(drawn["data"]) == len(finding.partitions)
    assert all(line["x"] == sorted(line["x"]) for line in drawn["data"])
    assert max(max(line["y"]) for line in drawn["data"]) > 0
    assert drawn["config"]["showSendToCloud"] is False
    assert {row["group"] for row in spark.sql("SELECT DISTINCT `group` FROM samples").collect()} <= {
        finding.group,
        None,
    }


@pytest.mark.jvm
def test_the_page_has_them_and_its_names_stay_text(tmp_path: Path, spark: Any) -> None:
    """Folded, with the command that opens a notebook."""
    write_capture(tmp_path / "capture", hostile_capture())
    found = looked(tmp_path / "capture")
    found.write_html(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Open in Spark: three cells" in text
    assert "workbench notebook explore --capture" in text
    assert "api.features(" in text
    assert "<img src=x" not in text
    nowhere = found.capture.__class__(
        info=found.capture.info.model_copy(update={"source": "observe"}), samples=found.capture.samples
    )
    assert spark_cells(found.findings[0], nowhere, found.triage.window) == ()


@pytest.mark.jvm
def test_a_chart_says_what_it_leaves_out(spark: Any) -> None:
    """The lines with the highest values stay; one column is no chart."""
    from workbench.api.sql_over_samples import draw_sql

    drawn = draw_sql("SELECT id AS ts, id % 30 AS line, id AS value FROM range(90)", title="x")
    assert [it["name"] for it in drawn.figure["data"]][:2] == ["29", "28"]
    assert len(drawn.figure["data"]) == 20
    assert "Left out: 10 lines." in drawn.figure["layout"]["title"]["text"]
    with pytest.raises(UsageError, match="a time and a value"):
        draw_sql("SELECT 1 AS one")


@pytest.mark.jvm
def test_a_notebook_is_written_beside_the_others_and_replaces_none(spark: Any, tmp_path: Path) -> None:
    """By the group's name, in letters that every system takes; what nbformat calls valid."""
    import nbformat

    write_capture(tmp_path / "capture", hostile_capture())
    found = looked(tmp_path / "capture")
    finding = next(it for it in found.findings if it.group == HOSTILE)
    cells = spark_cells(finding, found.capture, found.triage.window)
    first, second = (write_notebook(tmp_path, finding, cells) for _ in range(2))
    assert (first.name, second.name) == (
        "spark-img-src-x-onerror-alert-1-script.ipynb", "spark-img-src-x-onerror-alert-1-script-2.ipynb",
    )  # fmt: skip
    nbformat.validate(nbformat.read(first, as_version=4))
    assert "<img" in json.loads(first.read_text())["cells"][0]["source"][0]  # as code
