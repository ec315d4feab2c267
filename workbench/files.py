"""Atomic writes of files and folders, and locks between processes.

An incomplete file has a unique hidden name next to its target, so it is never confused with another file. A call removes only files
that it has created.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from workbench.errors import GuardError, OutputError, UsageError

_LOOK_AGAIN_SECONDS = 0.1  # while another process holds a lock
_HELD_BY_ANOTHER = (
    errno.EWOULDBLOCK,
    errno.EAGAIN,
    errno.EACCES,
    errno.EINTR,
)  # flock(2), and fcntl(2) as NFS emulates it


@contextmanager
def atomic_write(path: Path, *, durable: bool = False, new: bool = False) -> Iterator[Path]:
    """Yield a temporary path; rename it to `path` on success. On failure, `path` stays unchanged and the temporary file is removed.

    Args:
        path: a reader sees the old or the new content, never a part of it.
        durable: sync content and name to disk at the end of the block.
        new: never replace an existing file.

    Raises:
        FileExistsError: with `new`, if `path` exists.
        OSError: if it cannot be written.
    """
    temporary = _beside(path, "tmp")
    try:
        yield temporary
        if durable:
            _sync(temporary)
        if new:
            _place(temporary, path)
        else:
            temporary.replace(path)
        if durable:
            _sync(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, durable: bool = False, private: bool = False, new: bool = False) -> None:
    """Write a text (UTF-8) as `atomic_write` does; `private`: a file that its owner alone can read.

    Raises:
        FileExistsError: with `new`, if `path` exists. OSError: if it cannot be written; the old content stays.
    """
    with atomic_write(path, durable=durable, new=new) as temporary:
        if private:
            temporary.touch(mode=0o600)
        temporary.write_text(text, encoding="utf-8")


def require_empty(folder: Path, *, what: str = "capture") -> None:
    """Refuse a folder that is not new or empty.

    Raises:
        UsageError: if it is a file or holds something; `what` is the thing that was to be written there.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not empty.", hint=f"Name another folder for the {what}.")


@contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield an empty temporary folder; rename it to `path` on success. On failure, `path` stays unchanged and the folder is removed.

    Args:
        path: must not exist, or must be an empty folder.
        replace: replace a folder that is not empty. Two folders cannot be exchanged atomically, so a kill may leave `path`
        missing; `restored` then restores the old one.

    Raises:
        FileExistsError: if `path` exists, is not empty, and `replace` is false.
        OSError: if it cannot be written.
    """
    path = path.resolve()  # "." has no name, and a link to a folder cannot be replaced
    new = _beside(path, "new")
    new.mkdir(parents=True)
    try:
        yield new
        if replace:
            _replace(path, new)
        elif not _renamed(new, path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    finally:
        shutil.rmtree(new, ignore_errors=True)


def restored(parent: Path) -> None:
    """Restore a folder that a killed `atomic_folder(..., replace=True)` moved aside; remove it if the replacement was completed.

    Safe at any time, also while another process replaces the folder: that process then replaces the restored one.
    """
    for old in parent.glob(".*.old"):
        place = place_of(old)
        with suppress(OSError):
            if place.exists() or not _renamed(old, place):
                remove_aside(old)


def place_of(aside: Path) -> Path:
    """Where a folder that `atomic_folder(..., replace=True)` has moved aside was."""
    return aside.with_name(aside.name[1:].rsplit(".", 2)[0])


def moved_aside(path: Path) -> bool:
    """Whether a folder is missing because `atomic_folder(..., replace=True)` is replacing it, or was killed then."""
    return any(path.parent.glob(f".{path.name}.*.old")) and not path.exists()


def remove_folder(path: Path) -> None:
    """Remove a folder atomically: after a kill it is complete or gone. Does nothing if another process has removed it."""
    gone = _beside(path, "gone")
    with suppress(FileNotFoundError):
        path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def leftovers(path: Path) -> list[Path]:
    """Temporary folders that killed processes left next to a folder."""
    return [it for ending in ("new", "old", "gone") for it in sorted(path.parent.glob(f".{path.name}.*.{ending}"))]


def _replace(path: Path, new: Path) -> None:
    while not _renamed(new, path):
        old = _beside(path, "old")
        with suppress(FileNotFoundError):  # another process has just replaced or removed it
            path.rename(old)
            try:
                done = _renamed(new, path)
            except OSError:
                old.rename(path)
                raise
            remove_aside(old)
            if done:
                return


def _renamed(new: Path, path: Path) -> bool:
    """Rename a folder to `path`; return false if `path` is a folder that is not empty."""
    try:
        new.rename(path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def remove_aside(old: Path) -> None:
    """Remove a folder beside its place; rename it first, so that a partly removed one is neither restored nor put in its place.

    Who is still filling it gets an error at the next file.
    """
    gone = old.with_suffix(".gone")
    with suppress(OSError):
        old.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:16]}.{ending}")


def _place(temporary: Path, path: Path) -> None:
    """Rename a file, unless the new name exists."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: check first, which is nearly as safe
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        temporary.replace(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder with its parents, and sync their names to disk.

    Raises:
        OSError: if it cannot be made.
    """
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync(path.parent)


def sync_name(path: Path) -> None:
    """Sync the name of a new file to disk; the file's own sync does not include it.

    Raises:
        OSError: if its folder cannot be synced.
    """
    _sync(path.parent)


@contextmanager
def writing(what: str) -> Iterator[None]:
    """Turn an OSError of the block into an error with the name of the output.

    Raises:
        OutputError: for an OSError of the block.
    """
    try:
        yield
    except OSError as error:
        why = (
            os.strerror(error.errno) if error.errno else error
        )  # Arrow's own words would be "Error writing bytes to file. Detail: …"
        raise OutputError(
            f"{what} cannot be written: {why}.", hint="Check the free space and the permissions."
        ) from None


@contextmanager
def exclusive_lock(lock: Path, refusal: GuardError, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """Allow one process of this machine at a time; the lock ends with the process.

    Args:
        lock: lock file; it is not removed.
        refusal: error to raise if another process holds the lock; its hint then names that process.
        wait_seconds: how long to wait for the lock.

    Raises:
        GuardError: `refusal`.
        UsageError: if there can be no lock here: the file cannot be written, or its file system has no locks (some of NFS).
    """
    deadline = time.monotonic() + wait_seconds
    try:
        opened = lock.open("a+", encoding="utf-8")
    except OSError as error:
        raise _no_lock(lock, error) from None
    with opened as held:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in _HELD_BY_ANOTHER:
                    raise _no_lock(lock, error) from None
                if time.monotonic() >= deadline:
                    raise _named(refusal, held) from None
            time.sleep(_LOOK_AGAIN_SECONDS)
        held.truncate(0)
        with suppress(OSError):  # a full disk: the number is for the hint of others, and the lock is held without it
            os.write(held.fileno(), str(os.getpid()).encode())
        try:
            yield
        finally:
            held.truncate(0)


def _no_lock(lock: Path, error: OSError) -> UsageError:
    """Anything but a lock of another process: waiting for it would not help."""
    return UsageError(
        f"The lock {lock} cannot be taken: {error.strerror or error}.",
        hint="Put its folder on a local disk: XDG_STATE_HOME, XDG_CACHE_HOME, or the output folder.",
    )


def _named(refusal: GuardError, held: IO[str]) -> GuardError:
    """Add the process that holds the lock to the refusal."""
    held.seek(0)
    if (holder := held.read(32).strip()).isdecimal():
        refusal.hint = " ".join(filter(None, [refusal.hint, f"Process {holder} holds the lock."]))
    return refusal
