"""Files that others may read at any moment: whole or not at all, and changed by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from workbench.errors import GuardError


@contextmanager
def whole(path: Path, *, durable: bool = False, new: bool = False) -> Iterator[Path]:
    """Where to write what shall become `path` when the block ends; if it fails, `path` stays as it is and nothing is left over.

    Args:
        path: a reader sees its old content or its new one, never half of one.
        durable: content and name are on the disk when the block has ended.
        new: whatever is there already is somebody else's, and stays.

    Raises:
        FileExistsError: with `new`, if something is there.
        OSError: if it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
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
def alone(lock: Path, refusal: GuardError) -> Iterator[None]:
    """One process of this machine at a time; the lock goes with the process, however it ends.

    Raises:
        GuardError: `refusal`, if another one holds the lock.
    """
    with lock.open("w", encoding="utf-8") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise refusal from None
        yield
