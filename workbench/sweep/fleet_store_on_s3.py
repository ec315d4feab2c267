"""A store in object storage that speaks S3: a slot is what its manifest names, one object that is written last.

    store.json, summaries/…                                       as in a folder
    slots/2026-11-21/031500.json                                  manifest: the slot's files, and what was missing
    samples/day=2026-11-21/slot=031500/part-<landing>-<digest>.parquet

Object storage has no rename, but an object is there whole or not at all. Each landing writes files of its own, which no other landing
names; the last manifest counts. So a landing that was killed has changed nothing, of two at once one counts, and a reader who has an
older manifest misses a file and asks again. What no manifest names is never read, and goes with its slot.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.collect.limited_parquet import parquet_file
from workbench.collect.parquet_footer import TooLargeError
from workbench.errors import DamagedCaptureError, SlotReplacedError, WorkbenchError
from workbench.files import atomic_write, writing
from workbench.limited_reads import first_problem
from workbench.sweep.s3_objects import ObjectFile, no_bucket
from workbench.sweep.storage_port import INCOMPLETE, SAMPLES, told_reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from workbench.collect.parquet_footer import ParquetFooter

_LARGEST_TEXT = 16 << 20  # of a manifest; that of a slot of a million subscriptions names some thousand files
_AT_ONCE = 8
_SLOTS = "slots"
_SLOT_OF_MANIFEST = re.compile(rf"{_SLOTS}/([0-9-]+)/([0-9]+)\.json")
_PART = r"part-[0-9a-f]{16}-[0-9a-f]{24}\.parquet"


class SlotPart(BaseModel):
    """A file of a slot, as its manifest names it."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    name: str = Field(pattern=f"^{_PART}$")
    size: int = Field(ge=0)  # in bytes
    rows: int = Field(ge=0)


class SlotManifest(BaseModel):
    """What a slot consists of."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    parts: tuple[SlotPart, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObjectFiles:
    """`storage_port.StoreFiles` of a prefix."""

    root: ObjectFile
    _copies: list[tempfile.TemporaryDirectory[str]] = field(default_factory=list, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False)

    def path(self, name: str = "") -> ObjectFile:
        """Below the prefix."""
        return self.root / name if name else self.root

    def recover(self) -> None:
        """Nothing is ever moved aside."""

    def is_unused(self) -> bool:
        """Whether the prefix has no object.

        Raises:
            UsageError: if there is no such bucket.
        """
        if not self.root.has_bucket():
            raise no_bucket(self.root.bucket)
        return not self.root.below(deep=False) and not self.root.below(deep=False, folders=True)

    def write(self, name: str, data: bytes) -> None:
        """As one object."""
        self.path(name).write(data)

    def names(self, under: str) -> list[str]:
        """All objects."""
        return [f"{under}/{name}" for name, _ in self.path(under).below(deep=True)]

    def remove(self, name: str) -> None:
        """One object."""
        self.path(name).remove()

    def slots(self) -> list[str]:
        """Those that have a manifest."""
        found = (_SLOT_OF_MANIFEST.fullmatch(name) for name in self.names(_SLOTS))
        return [f"day={it[1]}/slot={it[2]}" for it in found if it is not None]

    def parts(self, slot: str) -> list[tuple[Any, int]]:
        """As the manifest names them.

        Raises:
            DamagedCaptureError: if the manifest cannot be read.
        """
        manifest = self._manifest(slot)
        return [(self._part(slot, it), it.size) for it in manifest.parts] if manifest is not None else []

    def missing(self, slot: str) -> tuple[str, ...]:
        """From the manifest; raises as `parts`."""
        manifest = self._manifest(slot)
        return manifest.missing if manifest is not None else ()

    def rows(self, slot: str) -> int:
        """From the manifest; raises as `parts`."""
        manifest = self._manifest(slot)
        return sum(it.rows for it in manifest.parts) if manifest is not None else 0

    def read_as(self, slot: str) -> str | None:
        """By the footer of the first file; raises as `parts`."""
        for path, _ in self.parts(slot)[:1]:
            try:
                return told_reading(path.footer())
            except (FileNotFoundError, ValueError, TooLargeError):
                return None  # replaced meanwhile, or damaged, which is told when it is read
        return None

    @contextmanager
    def filling(self, slot: str) -> Iterator[Path]:
        """A temporary folder. Its files become objects, then the manifest names them, then those of the former one go."""
        with tempfile.TemporaryDirectory(prefix="workbench-slot-") as room:
            yield Path(room)
            former, landing = self._former(slot), uuid.uuid4().hex[:16]
            missing: tuple[str, ...] = ()
            files = []
            for path in sorted(Path(room).iterdir()):
                if path.name == INCOMPLETE:
                    missing = tuple(json.loads(path.read_bytes()))
                    continue
                name = path.name.replace("part-", f"part-{landing}-", 1)
                rows = pq.read_metadata(path).num_rows
                files.append((path, SlotPart(name=name, size=path.stat().st_size, rows=rows)))
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(lambda it: self._part(slot, it[1]).write(it[0].read_bytes()), files))
            manifest = SlotManifest(parts=tuple(part for _, part in files), missing=missing)
            self._manifest_path(slot).write(manifest.model_dump_json(indent=1).encode())
            with suppress(WorkbenchError):  # nobody reads them, and they go with the slot
                for part in former:
                    self._part(slot, part).remove()

    def remove_slots(self, is_old: Callable[[str], bool]) -> int:
        """Manifests first: what is left by a kill is no slot, and goes the next time."""
        gone = [slot for slot in self.slots() if is_old(slot)]
        for slot in gone:
            self._manifest_path(slot).remove()
        samples = self.path(SAMPLES)
        for day, _ in samples.below(deep=False, folders=True):
            if is_old(f"{day}/slot=235959"):
                self.path(f"{SAMPLES}/{day}").remove_all()
                continue
            for slot, _ in self.path(f"{SAMPLES}/{day}").below(deep=False, folders=True):
                if is_old(f"{day}/{slot}"):
                    self.path(f"{SAMPLES}/{day}/{slot}").remove_all()
        return len(gone)

    def local(self, path: Any) -> Path:
        """A copy, which is kept until the process ends: a sweep reads a slot's files once per batch.

        Raises:
            DamagedCaptureError: if it is not the file that was landed. SlotReplacedError: if it is gone.
        """
        with self._lock:
            if not self._copies:
                self._copies.append(tempfile.TemporaryDirectory(prefix="workbench-store-"))
        copy = Path(self._copies[0].name, *path.key.split("/")[-3:])
        if copy.exists():
            return copy
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise SlotReplacedError(path) from None
        digest = path.name.removesuffix(".parquet").rpartition("-")[2]
        if not hashlib.sha256(data).hexdigest().startswith(digest):
            raise DamagedCaptureError(
                f"{path} has changed since it was landed (its SHA-256 differs).", hint=self._again()
            )
        with writing(f"The copy {copy}"):
            copy.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(copy) as temporary:
                temporary.write_bytes(data)
        return copy

    def whole(self, names: Sequence[str]) -> set[str]:
        """By lists of their folders: an object is whole."""
        folders = sorted({name.rpartition("/")[0] for name in names})
        there = {f"{it}/{name}" for it in folders for name, size in self.path(it).below(deep=False) if size}
        return there & set(names)

    def footers(self, names: Sequence[str]) -> Iterable[ParquetFooter]:
        """Some at once."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(lambda name: self.path(name).footer(), names))

    def frame(self, spark: SparkSession, addresses: Sequence[str], schema: pa.Schema) -> DataFrame:
        """By Python, a task per file: Spark's own reader would need jars that it does not come with."""
        from pyspark.sql.pandas.types import from_arrow_schema

        numbers = spark.range(0, len(addresses), 1, len(addresses))
        return numbers.mapInArrow(_reader(addresses, schema), from_arrow_schema(schema))

    def _part(self, slot: str, part: SlotPart) -> ObjectFile:
        return self.path(f"{SAMPLES}/{slot}/{part.name}")

    def _manifest_path(self, slot: str) -> ObjectFile:
        return self.path(f"{_SLOTS}/{slot.replace('day=', '').replace('slot=', '')}.json")

    def _manifest(self, slot: str) -> SlotManifest | None:
        path = self._manifest_path(slot)
        try:
            data = path.read_bytes(at_most=_LARGEST_TEXT)
        except FileNotFoundError:
            return None
        if len(data) > _LARGEST_TEXT:
            raise DamagedCaptureError(f"{path} is larger than {_LARGEST_TEXT >> 20} MiB.", hint=self._again())
        try:
            return SlotManifest.model_validate_json(data)
        except ValidationError as error:
            problem = first_problem(error, whole="the manifest")
            raise DamagedCaptureError(f"{path} cannot be read: {problem}.", hint=self._again()) from None

    def _former(self, slot: str) -> tuple[SlotPart, ...]:
        try:
            manifest = self._manifest(slot)
        except DamagedCaptureError:  # it is replaced now
            return ()
        return manifest.parts if manifest is not None else ()

    def _again(self) -> str:
        return f"Remove the slot's object below {self.path(_SLOTS)} and land the slot again."


def _reader(
    addresses: Sequence[str], schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                data = ObjectFile.at(addresses[number]).read_bytes()
                yield from parquet_file(data).read(columns=schema.names, use_threads=False).cast(schema).to_batches()

    return read
