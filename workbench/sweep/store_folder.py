"""A store in a folder: a slot is a folder that is renamed into its place; readers wait while another process replaces it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from workbench.collect.limited_parquet import footer_of
from workbench.collect.parquet_footer import TooLargeError
from workbench.files import atomic_folder, atomic_write, leftovers, remove_aside, remove_folder, restored
from workbench.sweep.reads_while_replaced import listed, steadily
from workbench.sweep.storage_port import INCOMPLETE, SAMPLES, told_reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from workbench.collect.parquet_footer import ParquetFooter


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """`storage_port.StoreFiles` of a folder."""

    root: Path

    def path(self, name: str = "") -> Path:
        """Below the folder."""
        return self.root / name

    def recover(self) -> None:
        """Of all days."""
        for day in (self.root / SAMPLES).glob("day=*"):
            restored(day)

    def is_unused(self) -> bool:
        """Whether the folder is new or empty."""
        return not self.root.exists() or not any(self.root.iterdir())

    def write(self, name: str, data: bytes) -> None:
        """With the folder, if it is new."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_bytes(data)

    def names(self, under: str) -> list[str]:
        """All files, those that are being written included."""
        return [path.relative_to(self.root).as_posix() for path in self.path(under).rglob("*") if path.is_file()]

    def remove(self, name: str) -> None:
        """With its folder, if it was the last one."""
        self.path(name).unlink(missing_ok=True)
        with suppress(OSError):
            self.path(name).parent.rmdir()

    def slots(self) -> list[str]:
        """Those that are just replaced included."""
        samples = self.root / SAMPLES
        return [path.relative_to(samples).as_posix() for path in listed(samples)]

    def parts(self, slot: str) -> list[tuple[Any, int]]:
        """Of one landing, by the folder's identity.

        Raises:
            SlotReplacedError: if it never stays.
        """
        folder = self._folder(slot)
        return steadily(folder, lambda: [(path, path.stat().st_size) for path in _parts(folder)], absent=[])

    def missing(self, slot: str) -> tuple[str, ...]:
        """From the file that incomplete slots have; and a file that a copy or the end of the machine has cut off, so it lands anew."""
        folder = self._folder(slot)
        return steadily(
            folder,
            lambda: (
                *_missing(folder / INCOMPLETE),
                *(f"{path} is cut off or damaged" for path in _parts(folder) if not _is_whole(path)),
            ),
            absent=(),
        )

    def rows(self, slot: str) -> int:
        """By the files' footers; a damaged file holds none."""
        folder = self._folder(slot)
        return steadily(
            folder,
            lambda: sum(_rows(path) or 0 for path in _parts(folder)),
            absent=0,
        )

    def read_as(self, slot: str) -> str | None:
        """By the footer of the first file; one that is damaged is told when it is read."""
        folder = self._folder(slot)
        return steadily(folder, lambda: _read_as(_parts(folder)), absent=None)

    def filling(self, slot: str) -> AbstractContextManager[Path]:
        """A folder beside it, which is renamed."""
        return atomic_folder(self._folder(slot), replace=True)

    def remove_slots(self, is_old: Callable[[str], bool]) -> int:
        """One after the other, each at once."""
        gone = [self._folder(slot) for slot in self.slots() if is_old(slot)]
        for folder in gone:
            remove_folder(folder)
            for left in leftovers(folder):
                remove_aside(left)
            with suppress(OSError):  # the day has other slots, or another sweep prunes as well
                folder.parent.rmdir()
        return len(gone)

    def local(self, path: Any) -> Path:
        """The file itself."""
        return Path(path)

    def whole(self, names: Sequence[str]) -> set[str]:
        """By their footers: the end of the machine may have left an empty file."""
        return {name for name in names if _is_whole(self.path(name))}

    def footers(self, names: Sequence[str]) -> Iterator[ParquetFooter]:
        """One after the other."""
        return (footer_of(self.path(name)) for name in names)

    def frame(self, spark: SparkSession, addresses: Sequence[str], schema: pa.Schema) -> DataFrame:
        """By Spark's own reader."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return spark.read.schema(from_arrow_schema(schema)).parquet(*addresses)

    def _folder(self, slot: str) -> Path:
        return self.root / SAMPLES / slot


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.parquet"))


def _missing(path: Path) -> tuple[str, ...]:
    try:
        return tuple(str(text) for text in json.loads(path.read_bytes()))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, RecursionError) as error:
        return (f"{path} cannot be read ({type(error).__name__})",)  # the file exists only for incomplete slots


def _read_as(parts: Sequence[Path]) -> str | None:
    try:
        return told_reading(footer_of(parts[0])) if parts else None
    except (ValueError, TooLargeError):
        return None


def _is_whole(file: Path) -> bool:
    return _rows(file) is not None


def _rows(file: Path) -> int | None:
    """By its footer; None of a file that is cut off or damaged."""
    try:
        return footer_of(file).num_rows
    except (OSError, ValueError, TooLargeError):
        return None
