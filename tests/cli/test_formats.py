"""Rules of `-o`: the rows of a table as CSV or TSV, exact and escaped; wide keeps every column; json is `--json`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from workbench.cli import root
from workbench.safe_output import write_rows
from workbench.terminal_tables import FittingTable, SafeConsole

INCIDENT = Path(__file__).parents[2] / "notebooks" / "captures" / "incident-1"


def rows(text: str, separator: str = ",") -> list[dict[str, str]]:
    """What a program reads."""
    return list(csv.DictReader(io.StringIO(text), delimiter=separator))


def ran(*words: str) -> Any:
    """A command in this process."""
    return CliRunner().invoke(root, [*words])


def test_rows_are_exact_and_what_is_unknown_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers as they are, never rounded; no zero for what is not known; a list is one field."""
    found = [
        {"group": "a,b", "lag": 1234567, "seconds": 0.25, "known": True, "errors": {"E": 3, "F": 1}},
        {"group": "c", "more": None},
    ]
    write_rows(found, separator=",")
    told = rows(capsys.readouterr().out)
    assert told[0] == {
        "group": "a,b",
        "lag": "1234567",
        "seconds": "0.25",
        "known": "true",
        "errors": "E: 3; F: 1",
        "more": "",
    }
    assert told[1] == {"group": "c", "lag": "", "seconds": "", "known": "", "errors": "", "more": ""}


@pytest.mark.parametrize("separator", [",", "\t"])
def test_hostile_names_stay_in_their_field(separator: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They end no row, control no terminal, and are no formula of a spreadsheet; negative numbers stay numbers."""
    write_rows([{"group": "x\n\x1b[31m\ty\u202e", "topic": "=HYPERLINK(1)", "slope": -1.5}], separator=separator)
    text = capsys.readouterr().out
    assert text.count("\n") == 2
    [told] = rows(text, separator)
    assert "\x1b" not in text and "\u202e" not in text
    assert told["topic"] == "'=HYPERLINK(1)"
    assert told["slope"] == "-1.5"


def test_the_same_rows_as_the_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of profiles and of events; `-o json` is `--json`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "w.toml").write_text("[clusters.c]\n")
    config = ("--config", str(tmp_path / "w.toml"))
    assert json.loads(ran("profiles", "list", "-o", "json").stdout) == json.loads(
        ran("profiles", "list", "--json").stdout
    )
    names = [it["profile"] for it in json.loads(ran("profiles", "list", "--json").stdout)]
    assert [it["profile"] for it in rows(ran("profiles", "list", "-o", "tsv").stdout, "\t")] == names
    ran("events", "add", "--cluster", "c", "--service", "pay", "--version", "=2", *config)
    [event] = rows(ran("events", "list", "--cluster", "c", "-o", "csv", *config).stdout)
    [same] = json.loads(ran("events", "list", "--cluster", "c", "--json", *config).stdout)
    assert (event["service"], event["version"], same["version"]) == ("pay", "'=2", "=2")


@pytest.mark.jvm
def test_findings_as_rows() -> None:
    """One for each subscription, with the exit code of the triage."""
    result = ran("triage", "--capture", str(INCIDENT), "-o", "csv")
    found = rows(result.stdout)
    document = json.loads(ran("triage", "--capture", str(INCIDENT), "-o", "json").stdout)
    assert [(it["group"], it["topic"], it["verdict"]) for it in found] == [
        (it["group"], it["topic"], it["verdict"]) for it in document["findings"]
    ]
    assert float(found[0]["time_lag_seconds"]) == document["findings"][0]["time_lag"]["seconds"]
    assert found[0]["since"] == document["findings"][0]["since"]


def test_wide_keeps_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow the terminal: lines are longer than it, and nothing is left out."""

    def shown() -> str:
        table = FittingTable(drops=("kind",))
        for name in ("group", "kind", "lag"):
            table.add_column(name)
        table.add_row("a-group-with-a-long-name", "a-kind-with-a-long-name", "12")
        console = SafeConsole(width=40, force_terminal=True, color_system=None, file=io.StringIO())
        console.print(table)
        return str(console.file.getvalue())  # type: ignore[attr-defined]

    assert "Not shown at this width: kind" in shown()
    monkeypatch.setattr(FittingTable, "wide", True)
    text = shown()
    assert "Not shown" not in text
    assert "a-kind-with-a-long-name" in text and "12" in text
