"""The port of a store's files: a folder (`store_folder`), or a prefix in object storage (`fleet_store_on_s3`).

A name is relative to the store, with `/`: `samples/day=2026-11-21/slot=031500/part-….parquet`. A slot's name is its folder's below
`samples`. What differs between the two is how a slot appears at once, and how others see it replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from workbench.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from workbench.collect.parquet_footer import ParquetFooter

INFO, SAMPLES, SUMMARIES = "store.json", "samples", "summaries"
INCOMPLETE = "_incomplete.json"  # Spark ignores names that begin like this
READ_AS = "read_as"  # among the metadata of a slot's Parquet files
OBJECTS = "s3://"


class StoreFiles(Protocol):
    """Where the files of a store are. A method that needs an answer of another machine raises `SourceUnreachableError`."""

    def path(self, name: str = "") -> Any:
        """Path of a name: a `pathlib.Path`, or an `ObjectFile`, which can be read and shown like one. Whether it exists or not."""

    def recover(self) -> None:
        """Put back what a killed process has moved aside."""

    def is_unused(self) -> bool:
        """Whether nothing is there, not even of somebody else."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file; readers see the old content or the new one. Raises OSError."""

    def names(self, under: str) -> list[str]:
        """Names of all files below a folder."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def slots(self) -> list[str]:
        """Names of the slots that have landed, and of foreign folders beside them."""

    def parts(self, slot: str) -> list[tuple[Any, int]]:
        """Path and bytes of each Parquet file of one landing of a slot, in a fixed order; none if it has not landed."""

    def missing(self, slot: str) -> tuple[str, ...]:
        """What the source reported as missing from it."""

    def rows(self, slot: str) -> int:
        """Number of its samples."""

    def read_as(self, slot: str) -> str | None:
        """How its samples were read (`FleetStore.reading`), as the head of one file says; None if that is not known."""

    def filling(self, slot: str) -> AbstractContextManager[Path]:
        """An empty folder of this machine; what is in it at the block's end becomes the slot, at once."""

    def remove_slots(self, is_old: Callable[[str], bool]) -> int:
        """Remove the slots of these names, with what killed landings have left of them; return how many had landed."""

    def local(self, path: Any) -> Path:
        """A file of this machine with the content of a slot's file."""

    def whole(self, names: Sequence[str]) -> set[str]:
        """Those summaries that are there and can be read."""

    def footers(self, names: Sequence[str]) -> Iterable[ParquetFooter]:
        """Parquet footers of some summaries."""

    def frame(self, spark: SparkSession, addresses: Sequence[str], schema: pa.Schema) -> DataFrame:
        """Rows of all summaries at these addresses (`store_places.address_of`)."""


def told_reading(footer: ParquetFooter) -> str | None:
    """How the samples of a file were read, by its Parquet footer; None for those of earlier versions."""
    told = footer.notes.get(READ_AS.encode())
    return told.decode(errors="replace") if told is not None else None


def as_place(text: str) -> Path | str:
    """A place as a user names it.

    Raises:
        UsageError: for an address of another kind, such as `gs://…`, which would name a folder "gs:".
    """
    if text.startswith(OBJECTS):
        return text
    if "://" in text:
        raise UsageError(
            f"{text} is neither a folder nor {OBJECTS}BUCKET/PREFIX.", hint="Most object storage also speaks S3."
        )
    return Path(text)
