"""Screens of 58 commands, 32 of them with wrong input, as they are kept in `transcripts`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.transcribed import COMMANDS, FOLDER, WRONG, both, furnish, isolate


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
