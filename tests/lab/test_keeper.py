"""Rules of the lab that stays up: one at a time, whoever asks for it and when."""

from __future__ import annotations

import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from workbench.errors import GuardError, SetupError
from workbench.files import exclusive_lock
from workbench.lab import lab_keeper, process

# A keeper whose lab takes a second to come up and is made of nothing.
KEEPER = """
import sys, time
from workbench.files import exclusive_lock
from workbench.lab import keeper
from workbench.lab.lab import Lab
def start_lab(folder, **options):
    time.sleep(1.0)
    return Lab(folder, "127.0.0.1:9", None)
keeper.start_lab = start_lab
sys.exit(keeper.main())
"""


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Labs of our own; what is up at the end is ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(lab_keeper, "_KEEPER", (sys.executable, "-c", KEEPER))
    yield
    lab_keeper.down()


def alive(state: dict[str, Any]) -> bool:
    """Whether a lab's keeper runs."""
    return bool(psutil.Process(state["keeper"]).status() != psutil.STATUS_ZOMBIE)


def test_of_two_that_bring_a_lab_up_one_does_and_the_other_finds_it() -> None:
    """They do not end each other: the lab of the first is still up when the second has been told of it."""
    with ThreadPoolExecutor(2) as pool:
        both: list[Future[dict[str, Any]]] = [pool.submit(lab_keeper.up, ttl_seconds=60) for _ in range(2)]
    [refused] = [error for it in both if (error := it.exception()) is not None]
    assert isinstance(refused, GuardError) and "already running" in refused.message
    [state] = [it.result() for it in both if it.exception() is None]
    assert alive(state)
    running = lab_keeper.running()
    assert running is not None and running["keeper"] == state["keeper"]
    assert Path(state["directory"]).is_dir()
    assert lab_keeper.down() == []  # it is made of nothing
    assert lab_keeper.running() is None


def test_who_waits_too_long_is_told_for_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of the other is touched."""
    for name in ("_UP_SECONDS", "_DOWN_SECONDS"):
        monkeypatch.setattr(lab_keeper, name, 0.1)
    theirs = lab_keeper.lab_dir() / "up-1"
    theirs.mkdir()
    with exclusive_lock(lab_keeper.lab_dir() / "up.lock", GuardError("busy")):
        with pytest.raises(GuardError, match="lab up` is running") as caught:
            lab_keeper.up(ttl_seconds=60)
        assert f"Process {os.getpid()}" in (caught.value.hint or "")
        assert theirs.is_dir()


def test_a_lab_that_does_not_come_up_lets_the_next_one_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its last words, and nothing left behind."""
    monkeypatch.setattr(lab_keeper, "_KEEPER", (sys.executable, "-c", "print('no disk'); raise SystemExit(1)"))
    with pytest.raises(SetupError, match="no disk"):
        lab_keeper.up(ttl_seconds=60)
    assert not [path for path in lab_keeper.lab_dir().iterdir() if path.is_dir()]
    monkeypatch.setattr(lab_keeper, "_KEEPER", (sys.executable, "-c", KEEPER))
    assert alive(lab_keeper.up(ttl_seconds=60))


def test_a_lab_of_somebodys_own_is_never_taken_for_an_orphan_while_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at before, while and after its folder is claimed."""
    folder, seen = lab_keeper.lab_dir() / "own-1", []
    claim = process.claim

    def watched(new: Path) -> None:
        seen.append(lab_keeper.down())
        claim(new)
        seen.append(lab_keeper.down())

    monkeypatch.setattr(process, "claim", watched)
    process.claimed(folder)
    seen.append(lab_keeper.down())
    assert seen == [[], [], []]
    assert not process.orphaned(folder)
