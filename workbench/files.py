"""Files and folders that others may read at any moment: whole or not at all, and changed by one process at a time.

What is not whole yet lies beside it under a hidden name that is never given twice, so nobody else's file is taken for it, whatever its
name; and only what a call has made itself is removed by it.
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

from workbench.errors import GuardError, OutputError

_LOOK_AGAIN_SECONDS = 0.1  # while another one holds a lock


@contextmanager
def atomic_write(path: Path, *, durable: bool = False, new: bool = False) -> Iterator[Path]:
    """Where to write what shall become `path` when the block ends; if it fails, `path` stays as it is and nothing is left over.

    Args:
        path: a reader sees its old content or its new one, never half of one.
        durable: content and name are on the disk when the block has ended.
        new: whatever is there already is somebody else's, and stays.

    Raises:
        FileExistsError: with `new`, if something is there.
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


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Write a text (UTF-8) as `atomic_write` does.

    Raises:
        OSError: if it cannot be written; the old content stays.
    """
    with atomic_write(path, durable=durable) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """An empty folder to fill, which becomes `path` when the block ends; if it fails, `path` stays as it is and nothing is left over.

    Args:
        path: not there, or an empty folder.
        replace: a folder that holds something gives way. A system cannot exchange two folders in one step, so a kill may leave `path`
            missing; `restored` then brings the old one back.

    Raises:
        FileExistsError: if `path` is there, holds something, and is not to be replaced.
        OSError: if it cannot be written.
    """
    path = path.resolve()  # "." has no name, and a link to a folder is no folder that could give way
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
    """Bring back what a killed `whole_folder(..., replace=True)` has moved aside and not replaced; remove it where it was replaced.

    Safe at any moment, also while another process replaces: that one then replaces what was brought back.
    """
    for old in parent.glob(".*.old"):
        name = old.name[1:].rsplit(".", 2)[0]
        with suppress(OSError):
            if (parent / name).exists() or not _renamed(old, parent / name):
                _remove(old)


def remove_folder(path: Path) -> None:
    """Remove a folder in one step, as others see it: a kill leaves it whole or away; nothing happens if somebody else was quicker."""
    gone = _beside(path, "gone")
    with suppress(FileNotFoundError):
        path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def leftovers(path: Path) -> list[Path]:
    """What killed processes have left beside a folder while they wrote or replaced it."""
    return [it for ending in ("new", "old", "gone") for it in sorted(path.parent.glob(f".{path.name}.*.{ending}"))]


def _replace(path: Path, new: Path) -> None:
    while not _renamed(new, path):
        old = _beside(path, "old")
        with suppress(FileNotFoundError):  # somebody else has just replaced or removed it
            path.rename(old)
            try:
                done = _renamed(new, path)
            except OSError:
                old.rename(path)
                raise
            _remove(old)
            if done:
                return


def _renamed(new: Path, path: Path) -> bool:
    """Whether a folder has become `path`; not if that is a folder which holds something."""
    try:
        new.rename(path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _remove(old: Path) -> None:
    """Remove a folder that was moved aside: under another name first, so that half of it is never brought back."""
    gone = old.with_suffix(".gone")
    with suppress(OSError):
        old.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:16]}.{ending}")


def _place(temporary: Path, path: Path) -> None:
    """Give a file its name, unless the name is taken."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: looked at first, which is nearly as good
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
    """Make a folder with its parents; their names are on the disk when this returns.

    Raises:
        OSError: if it cannot be made.
    """
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync(path.parent)


def sync_name(path: Path) -> None:
    """Have the name of a new file on the disk, which its own sync does not see to.

    Raises:
        OSError: if its folder cannot be synced.
    """
    _sync(path.parent)


@contextmanager
def writing(what: str) -> Iterator[None]:
    """Say what cannot be written, and why, in place of a traceback.

    Raises:
        OutputError: for an OSError of the block.
    """
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{what} cannot be written: {error.strerror or error}.", hint="Is there room, and may you write there?"
        ) from None


@contextmanager
def exclusive_lock(lock: Path, refusal: GuardError, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """One process of this machine at a time; the lock goes with the process, however it ends.

    Args:
        lock: a file that stays.
        refusal: what is raised if another one holds the lock; its hint then names that process.
        wait_seconds: so long the other one may take to end.

    Raises:
        GuardError: `refusal`.
    """
    deadline = time.monotonic() + wait_seconds
    with lock.open("a+", encoding="utf-8") as held:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= deadline:
                    raise _named(refusal, held) from None
            time.sleep(_LOOK_AGAIN_SECONDS)
        held.truncate(0)
        held.write(str(os.getpid()))
        held.flush()
        try:
            yield
        finally:
            held.truncate(0)


def _named(refusal: GuardError, held: IO[str]) -> GuardError:
    """The refusal, with the process that holds the lock."""
    held.seek(0)
    if (holder := held.read(32).strip()).isdecimal():
        refusal.hint = " ".join(filter(None, [refusal.hint, f"It is process {holder}."]))
    return refusal
