"""From the place of a store to its files, here and where Spark works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.errors import DamagedCaptureError, SlotReplacedError, SourceUnreachableError
from workbench.sweep.fleet_store_on_s3 import ObjectFiles
from workbench.sweep.read_store import LAND_AGAIN
from workbench.sweep.s3_objects import ObjectFile
from workbench.sweep.storage_port import OBJECTS, StoreFiles
from workbench.sweep.store_folder import FolderFiles


def files_of(place: Path | str) -> StoreFiles:
    """The files of a store.

    Args:
        place: a folder, or `s3://bucket/prefix`.

    Raises:
        UsageError: for an address of another kind.
    """
    if isinstance(place, str) and place.startswith(OBJECTS):
        return ObjectFiles(ObjectFile.at(place))
    return FolderFiles(Path(place))


def address_of(path: Path | ObjectFile) -> str:
    """A path for a task on another machine: `file_at` there has the same file. It holds no secret."""
    return str(path.absolute()) if isinstance(path, Path) else path.address


def file_at(address: str) -> Path | ObjectFile:
    """The path of `address_of`."""
    if not address.startswith(OBJECTS):
        return Path(address)
    return ObjectFile.at(address)


def write_whole(path: Path | ObjectFile, data: bytes) -> None:
    """Write a file of a store; readers see the old content or the new one.

    Raises:
        OSError: if it cannot be written. SourceUnreachableError: if object storage does not take it.
    """
    if isinstance(path, Path):
        FolderFiles(path.parent).write(path.name, data)
    else:
        path.write(data)


# As the last line of a worker's traceback tells it.
_ERROR = re.compile(
    r"^(?:workbench\.errors\.)?(SourceUnreachableError|FileNotFoundError|DamagedCaptureError|SlotReplacedError): (.*)$",
    re.MULTILINE,
)
OF_WORKERS = "Spark's workers reach it by the same address, with credentials from their own environment."


@contextmanager
def told_by_workers(where: object) -> Iterator[None]:
    """Turn what a worker could not read of a store into an error of ours.

    Raises:
        SourceUnreachableError: if it cannot be read there. DamagedCaptureError: if a file is damaged.
        SlotReplacedError: if a landed file is gone.
    """
    from pyspark.errors import PythonException

    try:
        yield
    except PythonException as error:
        if (found := _ERROR.search(str(error))) is None:
            raise
        if found[1] == SlotReplacedError.__name__:
            raise SlotReplacedError(where) from None
        if found[1] == DamagedCaptureError.__name__:
            raise DamagedCaptureError(found[2], hint=LAND_AGAIN) from None
        raise SourceUnreachableError(f"A worker of Spark cannot read {where}: {found[2]}", hint=OF_WORKERS) from None
