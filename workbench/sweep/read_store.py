"""Reading the files of a store, whole or in part. It may be somebody else's: what a file takes is bounded before it is decoded."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workbench.collect.capture import ROOM_VARIABLE, memory_limit_gib
from workbench.collect.limited_parquet import Room, footer_within, parquet_file, spread_bytes
from workbench.collect.parquet_footer import ColumnChunk, ParquetFooter, TooLargeError
from workbench.errors import DamagedCaptureError, SlotReplacedError
from workbench.humanize import first_line
from workbench.samples import SAMPLES_SCHEMA

if TYPE_CHECKING:
    from workbench.sweep.s3_objects import ObjectFile

LAND_AGAIN = "Remove its slot's folder and land the slot again."
_TEXTS = [field.name for field in SAMPLES_SCHEMA if field.type == pa.string()]
T = TypeVar("T")


def content(path: Path | ObjectFile, digest: str) -> bytes:
    """The bytes of a landed file.

    Raises:
        DamagedCaptureError: if it has changed since it was landed. OSError: if it cannot be read.
    """
    data = path.read_bytes()
    if not hashlib.sha256(data).hexdigest().startswith(digest):
        raise DamagedCaptureError(f"{path} has changed since it was landed (its SHA-256 differs).", hint=LAND_AGAIN)
    return data


def whole_file(path: Path, digest: str) -> pa.Table:
    """All samples of a landed file.

    Raises:
        DamagedCaptureError: if it has changed since it was landed, or cannot be read. SlotReplacedError: if it is gone.
    """

    def read() -> pa.Table:
        data = content(path, digest)
        file, room = _opened(data, _known(data))
        return _as_samples(file.read(columns=SAMPLES_SCHEMA.names, use_threads=False), room)

    return _read(path, read)


def columns_of(
    path: Path | ObjectFile, digest: str, names: Sequence[str], texts: Sequence[str]
) -> tuple[pa.Table, int]:
    """Some columns, text as dictionaries, in one chunk, and the size of the file; empty columns are not decoded.

    Raises:
        DamagedCaptureError: if it has changed since it was landed, or cannot be read. SlotReplacedError: if it is gone.
    """

    def read() -> tuple[pa.Table, int]:
        data = content(path, digest)
        known = _known(data)
        file, _ = _opened(data, known)
        empty = known.empty.intersection(names)
        table = file.read(columns=[name for name in names if name not in empty], use_threads=False)
        for name in sorted(empty):
            nothing = pa.nulls(table.num_rows, pa.int32())
            if name in texts:
                nothing = pa.DictionaryArray.from_arrays(nothing, pa.array([], pa.string()))
            table = table.append_column(name, nothing)
        return table.unify_dictionaries().combine_chunks(), len(data)

    return _read(path, read)


@dataclass(frozen=True, slots=True)
class _Names:
    """The names that a column of a row group may have: all between two; `least` is None where that is not known."""

    least: str | None
    greatest: str | None
    any: bool
    nulls: bool

    @classmethod
    def of(cls, chunk: ColumnChunk) -> _Names:
        known = chunk.least is not None and chunk.greatest is not None
        return cls(
            chunk.least.decode() if chunk.least is not None else None,
            chunk.greatest.decode() if chunk.greatest is not None else None,
            any=known or chunk.null_count != chunk.num_values,  # else only nulls
            nulls=chunk.null_count != 0,
        )

    def may_be(self, names: Sequence[str]) -> bool:
        """Whether it may have one of these, which are sorted."""
        if self.least is None or self.greatest is None:
            return self.any
        at = bisect_left(names, self.least)
        return at < len(names) and names[at] <= self.greatest


@dataclass(frozen=True, slots=True)
class HeldNames:
    """Whose rows a row group may hold, by its statistics."""

    group: _Names
    topic: _Names

    def may_be_of(self, groups: Sequence[str], topics: Sequence[str]) -> bool:
        """Whether it may hold rows of one of these groups, or of one of these topics and no group; both are sorted."""
        return self.group.may_be(groups) or (self.group.nulls and self.topic.may_be(topics))

    def may_be_of_nobody(self) -> bool:
        """Whether it may hold rows of no group and no topic."""
        return self.group.nulls and self.topic.nulls


def held_names(footer: ParquetFooter) -> tuple[HeldNames, ...]:
    """Of each row group, by the footer of a landed file or of a summary."""
    return tuple(HeldNames(_Names.of(it["group"]), _Names.of(it["topic"])) for it in footer.groups)


def rows_of(path: Path | ObjectFile, groups: set[str], topics: set[str], *, digest: str = "") -> pa.Table:
    """The rows of some groups, and of some topics that belong to no group; only row groups that can hold them are decoded.

    Args:
        path: of a folder, or an object, which is read whole.
        groups, topics: names.
        digest: of an object's content.

    Raises:
        DamagedCaptureError: if the file cannot be read. SlotReplacedError: if it is gone.
    """
    return _read(path, lambda: _rows_of(path, sorted(groups), sorted(topics), digest))


def _rows_of(path: Path | ObjectFile, groups: Sequence[str], topics: Sequence[str], digest: str) -> pa.Table:
    if isinstance(path, Path):
        state = path.stat()
        known = _known_file(str(path), state.st_size, state.st_mtime_ns)
        file, room = _opened(path, known)
    else:
        data = content(path, digest)
        known = _known(data)
        file, room = _opened(data, known)
    for name in ("group", "topic"):
        if not pa.types.is_dictionary(file.schema_arrow.field(name).type):
            raise TypeError(f"{name} is no text")
    wanted = [at for at, held in enumerate(known.held) if held.may_be_of(groups, topics)]
    if not wanted:
        return SAMPLES_SCHEMA.empty_table()
    empty = [it for it in SAMPLES_SCHEMA if it.name in known.empty]
    full = [name for name in SAMPLES_SCHEMA.names if name not in known.empty]
    names = tuple(pa.array(it, pa.string()) for it in (groups, topics))
    # One row group after the other: of a hundred thousand rows, a few are kept.
    parts = [_chosen(file.read_row_group(at, columns=full, use_threads=False), *names) for at in wanted]
    table = pa.concat_tables(parts)
    for it in empty:
        table = table.append_column(it.name, pa.nulls(table.num_rows, it.type))
    return _as_samples(table, room)


def _chosen(table: pa.Table, groups: pa.Array, topics: pa.Array) -> pa.Table:
    nobody = pa.nulls(table.num_rows, pa.dictionary(pa.int32(), pa.string()))
    group, topic = (
        table[name] if name in table.column_names else pa.chunked_array([nobody]) for name in ("group", "topic")
    )
    mine = _is_one_of(group, groups)
    shared = pc.and_(pc.is_null(group), _is_one_of(topic, topics))
    return table.filter(pc.or_(mine, shared))


def rows_of_nobody(path: Path) -> pa.Table:
    """The rows of no group and no topic, such as those of gateways; only row groups that can hold them are read.

    Raises:
        DamagedCaptureError: if the file cannot be read. SlotReplacedError: if it is gone.
    """

    def read() -> pa.Table:
        known = _known(path)
        file, room = _opened(path, known)
        wanted = [at for at, held in enumerate(known.held) if held.may_be_of_nobody()]
        table = file.read_row_groups(wanted, columns=SAMPLES_SCHEMA.names, use_threads=False)
        return _as_samples(table.filter(pc.and_(pc.is_null(table["group"]), pc.is_null(table["topic"]))), room)

    return _read(path, read)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a file before it is decoded: what that takes, whose rows it may hold, and which columns hold nothing."""

    taken_bytes: int
    held: tuple[HeldNames, ...]
    empty: frozenset[str]


def _known(source: Path | bytes) -> _Known:
    footer, taken = footer_within(source, SAMPLES_SCHEMA, Room(memory_limit_gib() * 2**30))
    return _Known(taken, held_names(footer), frozenset(name for name in SAMPLES_SCHEMA.names if footer.is_empty(name)))


@lru_cache(maxsize=10_000)  # batches of a sweep read the same files again and again
def _known_file(path: str, _size: int, _changed: int) -> _Known:
    return _known(Path(path))


def _opened(source: Path | bytes, known: _Known) -> tuple[pq.ParquetFile, Room]:
    """A file with its texts as dictionaries: a few names for a hundred thousand rows; and the memory that is left beside its pages."""
    room = Room(memory_limit_gib() * 2**30)
    room.take(known.taken_bytes)
    return parquet_file(source, texts=_TEXTS), room


def _as_samples(table: pa.Table, room: Room) -> pa.Table:
    """A table in the samples' types; its texts are no larger than the room that is left."""
    for name in _TEXTS:
        room.take(sum(map(spread_bytes, table[name].chunks)))
    return table.select(SAMPLES_SCHEMA.names).cast(SAMPLES_SCHEMA)


def _read(path: Path | ObjectFile, read: Callable[[], T]) -> T:
    try:
        return read()
    except TooLargeError:
        raise DamagedCaptureError(
            f"{path} needs more than {memory_limit_gib():g} GiB of memory.",
            hint=f"If you trust it and have more memory, set {ROOM_VARIABLE}. Otherwise: {LAND_AGAIN}",
        ) from None
    except FileNotFoundError:
        raise SlotReplacedError(path) from None
    except KeyError as error:
        raise DamagedCaptureError(f"{path} has no column {error.args[0]!r}.", hint=LAND_AGAIN) from None
    except (OSError, TypeError, ValueError, pa.ArrowException) as error:  # pa.ArrowInvalid is a ValueError
        raise DamagedCaptureError(f"{path} cannot be read: {first_line(error)}.", hint=LAND_AGAIN) from None


def _is_one_of(column: pa.ChunkedArray, names: pa.Array) -> pa.ChunkedArray:
    """Membership by row, by dictionary code; false for null."""
    found = (pc.is_in(chunk.dictionary, names).take(chunk.indices) for chunk in column.chunks)
    return pa.chunked_array([pc.fill_null(chunk, False) for chunk in found], pa.bool_())
