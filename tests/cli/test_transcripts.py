"""Screens of 61 commands, 35 of them with wrong input, as they are kept in `transcripts`."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import pytest
from rich.text import Text

from tests.cli.running import run_here
from tests.cli.transcribed import COMMANDS, FOLDER, WRONG, both, furnish, isolate
from workbench.report.terminal import to_runbook
from workbench.terminal_tables import Hanging, SafeConsole


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings, at 80 columns, without anything of this machine."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.MonkeyPatch.context() as patch:
        before = dict(os.environ)
        isolate(tmp_path, changed := dict(before))
        for name, value in changed.items():
            if before.get(name) != value:
                monkeypatch.setenv(name, value)
        patch.undo()
    monkeypatch.delenv("WORKBENCH_CONFIG", raising=False)
    furnish(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_screen_is_as_it_was_read_by_a_person(name: str, room: Path) -> None:
    """Write them anew with `python -m tests.cli.transcribed`, and read what has changed."""
    assert both(name, room) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_the_kept_screens_are_those_of_the_commands() -> None:
    """None is left over."""
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_screen_fits_and_speaks_to_people(name: str) -> None:
    """80 columns for help; no traceback, no text of a library; wrong input has an error of at most two lines."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    for strange in ("Traceback", "pydantic", "ValidationError", "java.lang", "errno", "urllib3", "Max retries"):
        assert strange not in text
    if name.startswith(("help-", "bare")):
        assert max(map(len, text.splitlines())) <= 80
    if name in WRONG:
        assert "exit code 0" not in text
        assert text.count("Error: ") == 2


def test_a_finding_breaks_no_fact_at_80_columns() -> None:
    """Group, time lag, messages and time of the onset stay whole; what does not fit goes on below, indented."""
    said = "20 s behind (exact record)", "3,615 messages", "since 13:17:50 UTC"
    heading = Text(" payments ← orders    LAGGING slow_processor")
    for width, lines in ((80, 2), (160, 1), (50, 3)):
        console = SafeConsole(width=width, record=True, file=StringIO())
        console.print(Hanging(heading, [Text(it) for it in said], indent=3))
        shown = console.export_text().splitlines()
        assert len(shown) == lines
        assert all(any(fact in line for line in shown) for fact in said)
        assert all(line.startswith("   ") for line in shown[1:])


def test_a_runbook_is_something_to_open_or_to_type() -> None:
    """A path in the package leads nowhere from a terminal or a chat."""
    assert to_runbook("runbooks/SlowProcessor.md") == "workbench runbooks show SlowProcessor"
    assert to_runbook("https://wiki.example.com/SlowProcessor") == "https://wiki.example.com/SlowProcessor"


def test_a_runbook_is_shown_without_what_is_for_programs(tmp_path: Path) -> None:
    """No front matter, no marks of generated parts; the text begins with its title."""
    shown = run_here("runbooks", "show", "slow_processor", cwd=tmp_path).stdout
    assert shown.startswith("# SlowProcessor\n")
    assert "<!--" not in shown
    assert "## Mitigation" in shown
