"""A plan that was applied is not overwritten: its hash stands in the journal, and its way back beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.fakes import orders
from tests.replay.test_apply import Place
from workbench.errors import GuardError, UsageError
from workbench.replay.plan_save_path import check_place
from workbench.replay.receipt import receipt_path, rollback_path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A plan that was not applied yet."""
    return Place(tmp_path, orders())


@pytest.mark.parametrize("left", ["rollback file", "receipt", "journal"])
def test_an_applied_plan_is_never_overwritten(place: Place, left: str) -> None:
    """Whichever of its three traces is left, and also where replacing was asked for."""
    place.apply()
    if left != "rollback file":
        rollback_path(place.path).unlink()
    if left == "journal":
        receipt_path(place.path).unlink()
    else:
        place.journal.path.unlink()
    for replace in (False, True):
        with pytest.raises(GuardError, match="was applied"):
            check_place(place.path, place.journal, replace=replace)


def test_papers_without_their_plan_are_kept_too(place: Place) -> None:
    """The plan was moved away; a new one in its place would make its rollback file look like its own."""
    place.apply()
    place.path.unlink()
    with pytest.raises(GuardError, match="was applied"):
        check_place(place.path, place.journal, replace=True)


def test_another_plan_is_replaced_only_when_asked(place: Place) -> None:
    """It may wait for its hour."""
    with pytest.raises(UsageError, match=f"another plan .{place.plan.short_hash}") as caught:
        check_place(place.path, place.journal, replace=False)
    assert "--force" in (caught.value.hint or "")
    check_place(place.path, place.journal, replace=True)


def test_what_is_no_plan_is_never_replaced(place: Place, tmp_path: Path) -> None:
    """A slip of the finger, or a plan that was changed by hand; a free place is free."""
    notes = tmp_path / "notes.json"
    notes.write_text("mine")
    with pytest.raises(UsageError, match="not a valid plan"):
        check_place(notes, place.journal, replace=True)
    place.path.write_text(place.path.read_text().replace("5m ago", "6m ago"))
    with pytest.raises(UsageError, match="not a valid plan"):
        check_place(place.path, place.journal, replace=True)
    check_place(tmp_path / "free.json", place.journal, replace=False)
