"""Rules of files: whole or not at all, nothing left over, one process at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.errors import GuardError
from workbench.files import alone, whole


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path, durable: bool) -> None:
    """While it is written the old content stands; when that fails, too; and no other file is left."""
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), whole(path, durable=durable) as temporary:
        temporary.write_text("half")
        assert path.read_text() == "old"
        raise ZeroDivisionError
    assert [it.name for it in tmp_path.iterdir()] == ["a.json"]
    assert path.read_text() == "old"
    with whole(path, durable=durable) as temporary:
        temporary.write_text("new")
    assert [it.name for it in tmp_path.iterdir()] == ["a.json"]
    assert path.read_text() == "new"


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_takes_nobodys_place(tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there stays, on file systems without links, too."""
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(PermissionError()))
    path = tmp_path / "a.json"
    with whole(path, new=True) as temporary:
        temporary.write_text("mine")
    with pytest.raises(FileExistsError), whole(path, new=True) as temporary:
        temporary.write_text("another's")
    assert path.read_text() == "mine"
    assert [it.name for it in tmp_path.iterdir()] == ["a.json"]


def test_what_cannot_be_written_says_so(tmp_path: Path) -> None:
    """The caller knows what the user meant to write, and makes the words."""
    with pytest.raises(OSError, match="No such file"), whole(tmp_path / "none" / "a") as temporary:
        temporary.write_text("x")


def test_one_at_a_time(tmp_path: Path) -> None:
    """The second is refused, and let in when the first has gone."""
    refusal = GuardError("busy", hint="Wait.")
    with alone(tmp_path / "lock", refusal), pytest.raises(GuardError, match="busy"), alone(tmp_path / "lock", refusal):
        pytest.fail("two at a time")
    with alone(tmp_path / "lock", refusal):
        pass
