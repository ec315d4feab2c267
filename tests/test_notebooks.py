"""Rules of the notebooks that ship: stripped, canonical, and without logic of their own."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from workbench.moved import MODULES
from workbench.report.runs.papermill_engine import Supervision, execute
from workbench.report.runs.parameters import HealthParameters

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
_MOST_LINES = 12


def cells(path: Path) -> list[Any]:
    """The code cells."""
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_the_notebooks_are_there() -> None:
    """By the names that the command and the documentation use."""
    assert {path.stem for path in NOTEBOOKS} == {
        "lag_triage",
        "replay",
        "dead_letters",
        "health_report",
        "game_day",
        "explore",
        "audit",
        "impact",
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_canonical(path: Path) -> None:
    """Version 4.5, kernel python3, nothing that a run has left, ids that are words, and the very bytes that nbformat writes."""
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert (book.nbformat, book.nbformat_minor) == (4, 5)
    assert set(book.metadata) == {"kernelspec", "language_info"}
    assert book.metadata.kernelspec.name == "python3"
    for cell in book.cells:
        assert set(cell.metadata) <= {"title", "tags", "jupyter"}
        assert cell.metadata.get("jupyter", {}) in ({}, {"source_hidden": True})  # a panel is not its source
        assert cell.id.isidentifier()
        if cell.cell_type == "code":
            assert cell.execution_count is None
            assert cell.outputs == []
    assert book.cells[0].cell_type == "markdown"
    assert path.read_text() == nbformat.writes(book) + "\n"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_no_logic(path: Path) -> None:
    """Short cells that call the package: no definition, no loop, no branch, no import from elsewhere."""
    for cell in cells(path):
        assert cell.source.count("\n") < _MOST_LINES, cell.id
        for node in ast.walk(ast.parse(cell.source)):
            assert not isinstance(
                node, ast.FunctionDef | ast.ClassDef | ast.For | ast.While | ast.If | ast.Try | ast.Lambda | ast.Import
            ), (cell.id, ast.dump(node)[:80])
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] == "workbench", cell.id
                places = {f"{node.module}.{it.name}".removeprefix("workbench.") for it in node.names}
                assert not places & MODULES.keys(), f"{cell.id} shows its reader a warning"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_one_cell_of_parameters(path: Path) -> None:
    """Each with a type, a default and a word of help, which is what papermill shows."""
    [parameters] = [cell for cell in cells(path) if "parameters" in cell.metadata.get("tags", [])]
    for line in parameters.source.splitlines():
        assert line.split(":")[1].strip().startswith("str = ")
        assert "  # " in line


def test_the_health_notebook_takes_what_the_schema_names() -> None:
    """Name by name, with the same words."""
    [parameters] = [it for it in cells(FOLDER / "health_report.ipynb") if it.metadata.get("tags") == ["parameters"]]
    told = {line.split(":")[0]: line.split("  # ")[1] for line in parameters.source.splitlines()}
    assert told == {name: field.description for name, field in HealthParameters.model_fields.items()}


def test_the_pictures_are_small_and_all_shown() -> None:
    """1 MB in all; the README and docs/ show each of them, and no other. `make pictures` retakes them."""
    pictures = sorted((FOLDER / "images").iterdir())
    assert sum(path.stat().st_size for path in pictures) <= 1_000_000
    pages = [FOLDER.parent / "README.md", *(FOLDER.parent / "docs").glob("*.md")]
    shown = [
        name
        for page in pages
        for name in re.findall(r"\((?:\.\./)?notebooks/images/([a-z_]+\.png)\)", page.read_text())
    ]
    assert sorted(shown) == [path.name for path in pictures]


@pytest.mark.jvm
@pytest.mark.parametrize("name", ["explore", "lag_triage", "replay", "dead_letters", "game_day", "audit", "impact"])
def test_a_notebook_runs_as_it_is(name: str) -> None:
    """With the parameters that stand in it, on what ships; the scheduled one has tests of its own."""
    ran = Supervision(300.0, say=lambda _text: None, changed=lambda _steps: None)
    execute(FOLDER / f"{name}.ipynb", {}, ran, folder=FOLDER)
    assert [step.state for step in ran.steps] == ["done"] * len(ran.steps)


@pytest.mark.jvm
def test_the_audit_that_ships_shows_what_an_audit_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """One stream that loses and doubles, one that lags, one that is complete; and a name that is mistyped."""
    from workbench.api.audit_as_tables import open_audit
    from workbench.errors import UsageError

    monkeypatch.chdir(FOLDER)
    since, until = "2026-11-20T08:00:00Z", "2026-11-20T08:21:00Z"
    opened = open_audit(rows="audits/rows.jsonl", layers="agent, gateway,collector", since=since, until=until)
    streams = opened.streams()
    assert list(streams.stream) == ["orders", "clicks", "payments"]
    assert (list(streams.lost), list(streams.doubled)) == ([14, 0, 0], [6, 0, 0])
    assert list(streams.breach) == [True, False, False]
    assert list(opened.edges("payments").arrived) == ["100 %"] * 5
    assert set(opened.worst().stream) == {"orders", "clicks"}
    assert set(opened.gate().gate) == {"breach"}
    every = 3 * 5 * 10 - 6  # the collector of clicks has read 4 of 10 windows
    assert opened.ledger.frame.sparkSession.sql("SELECT count(*) AS n FROM windows").first().n == every
    with pytest.raises(UsageError, match="no stream 'order'"):
        opened.edges("order")


def test_the_recording_of_brokers_that_ships_shows_who_slows_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backfill on broker 1, the three shops that wait there, and its cap; another recording has no brokers, and says so."""
    from workbench.widgets.who_slows_whom import impact

    monkeypatch.chdir(FOLDER)
    for name in ("CLUSTER", "CAPTURE", "SINCE", "UNTIL", "ALERT"):
        monkeypatch.delenv(f"WORKBENCH_{name}", raising=False)
    found = impact(cluster="", capture="", since="", until="", otherwise="captures/neighbours-1")
    [cause] = found.found.causes
    assert (cause.offender.name, cause.offender.brokers) == ("backfill", (1,))
    assert {it.group for it in cause.victims} == {"orders", "payments", "returns"}
    assert "consumer_byte_rate=" in (found.actions[0][0].command or "")
    without = impact(capture="captures/incident-1", baseline="", observe="", otherwise="captures/neighbours-1")
    assert str(without.found.answer) == "cannot_tell" and "broker_traffic" in without.found.sentence


def test_a_copy_finds_what_its_parameters_name(tmp_path: Path) -> None:
    """The folder of `workbench notebook` has the recordings that the notebooks open as they are."""
    from workbench.cli.notebook_folder import prepare

    prepare(tmp_path, FOLDER)
    for path in tmp_path.glob("*.ipynb"):
        for name in re.findall(r'"((?:captures|audits)/[\w./-]+)"', path.read_text().replace('\\"', '"')):
            assert (tmp_path / name).exists(), (path.name, name)
    assert (tmp_path / "audits" / "rows.jsonl").is_file()
