"""The journal: appended to, never lost, readable whatever happened to its end."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import wait_for
from workbench.cli.replay_output import show_journal
from workbench.errors import OutputError, SourceUnreachableError, UsageError
from workbench.plans.journal import Action, Journal, only_one

_WRITER = """
import sys
from pathlib import Path
from workbench.plans.journal import Journal
journal = Journal(path=Path(sys.argv[1]))
print("up", flush=True)
for number in range(10_000_000):
    changes = [("orders", n, number, number + 1, None) for n in range(200)]
    journal.append(plan="p", cluster_id="c", group="g", action="apply", phase="begin", changes=changes)
"""


def append(journal: Journal, group: str = "g") -> None:
    """One line."""
    journal.append(plan="p", cluster_id="c", group=group, action="apply", phase="end", outcome="done")


def test_a_killed_writer_costs_at_most_its_last_line(tmp_path: Path) -> None:
    """kill -9 in the middle of writing: all whole lines are read, and the next writer goes on on a line of its own."""
    path = tmp_path / "journal.jsonl"
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") >= 5, 20)
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    journal = Journal(path=path)
    before, torn = journal.read()
    assert before
    assert torn <= 1
    append(journal, "after")
    entries, still_torn = journal.read()
    assert [entry.group for entry in entries] == [*("g" for _ in before), "after"]
    assert still_torn == torn


@given(st.integers(1, 400))
def test_a_line_that_is_cut_off_hides_no_other(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    """Wherever the last line ends."""
    path = tmp_path_factory.mktemp("cut") / "journal.jsonl"
    journal = Journal(path=path)
    append(journal, "first")
    first = path.stat().st_size
    append(journal, "second")
    size = path.stat().st_size
    os.truncate(path, max(first, size - cut))
    append(journal, "third")
    entries, torn = journal.read()
    groups = [entry.group for entry in entries]
    assert groups[0] == "first"
    assert groups[-1] == "third"
    assert len(entries) + torn in (2, 3)


def test_many_writers_do_not_mix_their_lines(tmp_path: Path) -> None:
    """Four threads, four hundred lines, each whole."""
    journal = Journal(path=tmp_path / "journal.jsonl")
    threads = [threading.Thread(target=lambda: [append(journal) for _ in range(25)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries, torn = journal.read()
    assert (len(entries), torn) == (100, 0)


def test_no_journal_is_an_empty_one(tmp_path: Path) -> None:
    """Before anything was changed."""
    assert Journal(path=tmp_path / "none.jsonl").read() == ([], 0)


def test_a_new_journal_has_its_name_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A synced file in a folder that is not is gone after a power cut: it is synced before append returns, and new folders with it."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    path = tmp_path / "state" / "replay" / "journal.jsonl"
    append(Journal(path=path))
    assert synced == [str(tmp_path), str(tmp_path / "state"), str(path), str(path.parent)]
    synced.clear()
    append(Journal(path=path))
    assert synced == [str(path)]


@pytest.mark.parametrize(("phase", "kind", "words"), [
    ("begin", UsageError, "cannot be written"),
    (
        "end",
        OutputError,
        r"Offsets were written for the group 'g' \(outcome: done\), but the last line of the journal .* could not be written",
    ),
])  # fmt: skip
def test_a_line_that_cannot_be_written_says_whether_anything_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: Literal["begin", "end"], kind: type[Exception], words: str
) -> None:
    """Before the change: nothing is. After it: it was made, and how it ended."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(kind, match=words) as caught:
        Journal(path=tmp_path / "j").append(
            plan="p", cluster_id="c", group="g", action="apply", phase=phase, outcome="done" if phase == "end" else None
        )
    assert ("Nothing was changed" in (caught.value.hint or "")) == (phase == "begin")  # type: ignore[attr-defined]


def test_a_state_folder_that_cannot_be_made_is_an_error_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is in its place: nothing was changed, and it says so."""
    (tmp_path / "state").write_text("x")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(UsageError, match="cannot be made: Not a directory"), only_one("new"):
        pytest.fail("without a lock")
    journal = Journal.of_user()
    with pytest.raises(UsageError, match=r"cannot be (read|written)"):
        journal.append(plan="p", cluster_id="c", group="g", action="apply", phase="begin")


def begin(journal: Journal, *, ends: bool, action: Action = "apply") -> None:
    """The line before a change, and the one after it."""
    journal.append(plan="p", cluster_id="c", group="g", action=action, phase="begin")
    if ends:
        journal.append(plan="p", cluster_id="c", group="g", action=action, phase="end", outcome="done")


def test_the_log_shows_what_was_interrupted_after_an_earlier_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each run in a container has the same process number: the end of the first is not the end of the second."""
    monkeypatch.setattr(os, "getpid", lambda: 7)
    journal = Journal(path=tmp_path / "journal.jsonl")
    for ends in (True, False):
        begin(journal, ends=ends)
    show_journal(journal.read()[0])
    assert [line.split()[5] for line in capsys.readouterr().out.splitlines()[1:]] == ["done", "begun"]


def test_a_change_is_open_until_a_line_tells_what_has_come_of_it(tmp_path: Path) -> None:
    """Only the last change of the group's offsets counts; lines about instances of a fleet are not about offsets."""
    journal = Journal(path=tmp_path / "journal.jsonl")
    assert journal.open_change("g", "c") is None
    begin(journal, ends=True)
    assert journal.open_change("g", "c") is None
    begin(journal, ends=False, action="rollback")
    journal.append(plan="p", cluster_id="c", group="g", action="switch", phase="end", outcome="done", target="i0")
    found = journal.open_change("g", "c")
    assert found is not None
    assert (found.action, journal.open_change("g", "other"), journal.open_change("h", "c")) == ("rollback", None, None)
    journal.append(plan="p", cluster_id="c", group="g", action="rollback", phase="end", outcome="unknown")
    assert journal.open_change("g", "c") is not None


def test_an_end_that_cannot_be_written_hides_no_error_that_came_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is raised, with its exit code and its hint, and tells of the journal too."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    first = SourceUnreachableError("Kafka does not answer.", hint="Repeat it.")
    Journal(path=tmp_path / "j").append(
        plan="p", cluster_id="c", group="g", action="redrive", phase="end", outcome="unknown", after=first
    )
    assert str(first) == first.message
    assert first.message.startswith("Kafka does not answer. Nor could the end be written to the journal ")
    assert "No space left on device" in first.message
    assert (first.hint, first.exit_code) == ("Repeat it.", SourceUnreachableError("").exit_code)
    stopped = KeyboardInterrupt()
    Journal(path=tmp_path / "j").append(
        plan="p", cluster_id="c", group="g", action="redrive", phase="end", after=stopped
    )
    assert "No space left on device" in stopped.__notes__[0]
