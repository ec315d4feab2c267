"""Rules of files: whole or not at all, nothing left over, one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import threading
from pathlib import Path

import pytest

from workbench.errors import GuardError, OutputError, UsageError
from workbench.files import atomic_write, exclusive_lock, writing
from workbench.limited_reads import read_within


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path, durable: bool) -> None:
    """While it is written the old content stands; when that fails, too; and no other file is left."""
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_write(path, durable=durable) as temporary:
        temporary.write_text("half")
        assert path.read_text() == "old"
        raise ZeroDivisionError
    assert [it.name for it in tmp_path.iterdir()] == ["a.json"]
    assert path.read_text() == "old"
    with atomic_write(path, durable=durable) as temporary:
        temporary.write_text("new")
    assert [it.name for it in tmp_path.iterdir()] == ["a.json"]
    assert path.read_text() == "new"


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_takes_nobodys_place(tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there stays, on file systems without links, too."""
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(PermissionError()))
    path = tmp_path / "a.json"
    with atomic_write(path, new=True) as temporary:
        temporary.write_text("mine")
    with pytest.raises(FileExistsError), atomic_write(path, new=True) as temporary:
        temporary.write_text("another's")
    assert path.read_text() == "mine"
    assert [it.name for it in tmp_path.iterdir()] == ["a.json"]


def test_what_cannot_be_written_says_so(tmp_path: Path) -> None:
    """The caller knows what the user meant to write, and makes the words."""
    with pytest.raises(OSError, match="No such file"), atomic_write(tmp_path / "none" / "a") as temporary:
        temporary.write_text("x")


def test_a_full_disk_is_told_in_the_systems_words() -> None:
    """Arrow has words of its own for it, and the same number."""
    theirs = OSError(
        errno.ENOSPC, f"Error writing bytes to file. Detail: [errno {errno.ENOSPC}] No space left on device"
    )
    with (
        pytest.raises(OutputError, match=r"^The rows cannot be written: No space left on device\.$"),
        writing("The rows"),
    ):
        raise theirs


def test_a_pipe_that_nobody_writes_to_ends_a_read_at_once(tmp_path: Path) -> None:
    """It would wait for a writer for ever; what a writer has sent, or sends later, is read."""
    path, found = tmp_path / "pipe", list[bytes]()
    os.mkfifo(path)

    def read() -> None:
        with pytest.raises(OSError, match="nobody writes to it"):
            read_within(path, 10)
        found.append(b"nothing")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(10)
    assert found == [b"nothing"]
    held = os.open(path, os.O_RDWR)  # neither side waits for the other
    late = threading.Timer(0.2, lambda: (os.write(writer, b"late"), os.close(writer)))
    writer = os.open(path, os.O_WRONLY)
    os.close(held)
    late.start()
    assert read_within(path, 10) == b"late"


def test_one_at_a_time(tmp_path: Path) -> None:
    """The second is refused, and let in when the first has gone."""
    refusal = GuardError("busy", hint="Wait.")
    with (
        exclusive_lock(tmp_path / "lock", refusal),
        pytest.raises(GuardError, match="busy"),
        exclusive_lock(tmp_path / "lock", refusal),
    ):
        pytest.fail("two at a time")
    with exclusive_lock(tmp_path / "lock", refusal):
        pass


def test_two_that_write_a_file_at_once_leave_one_of_the_two_whole(tmp_path: Path) -> None:
    """Threads of one process are two, and so are processes of two hosts that have one number."""
    path = tmp_path / "a.json"
    with atomic_write(path) as first:
        first.write_text("first")
        with atomic_write(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert [it.name for it in tmp_path.iterdir()] == ["a.json"]


def test_who_comes_second_may_wait_and_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    """So long as it was given, by the other's number."""
    with exclusive_lock(tmp_path / "lock", GuardError("busy")):
        for hint, told in (
            ("Wait.", f"Wait. Process {os.getpid()} holds the lock."),
            (None, f"Process {os.getpid()} holds the lock."),
        ):
            refusal = GuardError("busy", hint=hint)
            with pytest.raises(GuardError) as caught, exclusive_lock(tmp_path / "lock", refusal, wait_seconds=0.1):
                pytest.fail("two at a time")
            assert caught.value.hint == told
    first, entered = exclusive_lock(tmp_path / "lock", GuardError("busy")), threading.Event()
    first.__enter__()
    threading.Timer(0.3, lambda: first.__exit__(None, None, None)).start()
    with exclusive_lock(tmp_path / "lock", GuardError("busy"), wait_seconds=60):
        entered.set()
    assert entered.is_set()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_not_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Some of NFS: waiting would not help, and the words say what does. So is a folder that is not there."""

    def flock(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(UsageError, match=os.strerror(code)) as caught:
        exclusive_lock(tmp_path / "lock", GuardError("busy"), wait_seconds=60).__enter__()
    assert "local disk" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="No such file"):
        exclusive_lock(tmp_path / "none" / "lock", GuardError("busy")).__enter__()


def test_a_full_disk_takes_no_lock_away(tmp_path: Path) -> None:
    """Who holds it is only the hint of others: what is done under it says by itself what cannot be written."""
    lock, limits = tmp_path / "lock", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        first, second = (exclusive_lock(lock, GuardError("busy")) for _ in range(2))
        with first, pytest.raises(GuardError, match="busy"), second:
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
