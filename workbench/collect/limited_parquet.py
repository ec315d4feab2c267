"""Reader of untrusted Parquet files with a memory limit: a small file may decode to any size.

A file of 1 MB may contain a text of 1 MB that ten thousand rows refer to, a text of 4 GB that compresses well, or a hundred million
rows of one number. So the file is read column by column. What the pages of a column take is added up from their heads before they are
decompressed; text is decoded as dictionaries, some rows at a time, and its memory is computed before it is expanded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workbench.collect.parquet_footer import ParquetFooter, TooLargeError, read_footer
from workbench.collect.parquet_page_sizes import DELTA_BYTE_ARRAY, pages_of

_BATCH_ROWS = 1 << 20  # enough for most captures in one step; 12 MB for a column of numbers
_COPIES = 2  # of a page: as it was decompressed, and its dictionary
_LEAST_ROW_BYTES = 40  # bytes of a member's columns with empty text; a sample takes 60


@dataclass(slots=True)
class Room:
    """Remaining bytes of a memory limit."""

    left_bytes: float

    def take(self, wanted_bytes: int) -> None:
        """Reserve bytes.

        Raises:
            TooLargeError: if fewer bytes are left.
        """
        if wanted_bytes > self.left_bytes:
            raise TooLargeError
        self.left_bytes -= wanted_bytes


def read_bounded(path: Path, schema: pa.Schema, room: Room) -> pa.Table:
    """Read the columns of a schema, in its types.

    Raises:
        TooLargeError: if it exceeds the memory limit.
        KeyError: naming a column that the file does not have.
        TypeError: if a column is of another kind.
        ValueError: if it has invalid values for its type.
        OSError, pa.ArrowException: if the file cannot be read.
    """
    # Groups of rows are decoded one after the other.
    _, by_group = _checked(path, schema, room)
    sizes = {name: max(of_groups, default=0) for name, of_groups in by_group.items()}
    if max(sizes.values(), default=0) * _COPIES > room.left_bytes:
        raise TooLargeError
    return pa.table([_column(path, field, sizes[field.name], room) for field in schema], schema=schema)


def footer_within(source: Path | bytes, schema: pa.Schema, room: Room) -> tuple[ParquetFooter, int]:
    """A file's footer, and the bytes that its columns take if all groups of rows are decoded at once, texts as dictionaries.

    Nothing is decoded.

    Args:
        source: a file, or its content.

    Raises:
        TooLargeError: if that is more than the room. Others: as `read_bounded`.
    """
    footer, sizes = _checked(source, schema, room)
    taken = sum(map(sum, sizes.values())) * _COPIES
    if taken > room.left_bytes:
        raise TooLargeError
    return footer, taken


def _checked(source: Path | bytes, schema: pa.Schema, room: Room) -> tuple[ParquetFooter, dict[str, list[int]]]:
    """The footer, and what the pages of each column take, for each group of rows."""
    with _opened(source) as data:
        footer = read_footer(cast(BinaryIO, data))
        with parquet_file(data) as file:
            there, paths = file.schema_arrow, [file.schema.column(at).path for at in range(len(file.schema))]
        for field in schema:
            if field.name not in there.names:
                raise KeyError(field.name)
            if not _is_like(there.field(field.name).type, field.type):
                raise TypeError(f"{field.name} is {there.field(field.name).type}")
        if any(list(group) != paths for group in footer.groups):
            raise ValueError("groups of rows have other columns than the schema")  # pages are found by their number
        if footer.num_rows * _LEAST_ROW_BYTES > room.left_bytes:
            raise TooLargeError
        return footer, _page_bytes(cast(BinaryIO, data), footer, schema.names)


def footer_of(source: Path | bytes) -> ParquetFooter:
    """What a file's footer says of its columns.

    Raises:
        TooLargeError: if it is larger than any that is written here. OSError, ValueError: if it cannot be read.
    """
    with _opened(source) as data:
        return read_footer(cast(BinaryIO, data))


def parquet_file(source: Path | bytes | pa.NativeFile, *, texts: Sequence[str] = ()) -> pq.ParquetFile:
    """Arrow's reader of an untrusted file; read it with `use_threads=False`.

    No thread reads ahead of it: such a thread goes on after an error, and has ended the process when what it read into was gone.

    Args:
        texts: columns that are decoded as dictionaries.
    """
    data = pa.BufferReader(source) if isinstance(source, bytes) else source
    return pq.ParquetFile(data, read_dictionary=list(texts), pre_buffer=False)


def _opened(source: Path | bytes) -> pa.NativeFile:
    return pa.OSFile(str(source)) if isinstance(source, Path) else pa.BufferReader(source)


def _column(path: Path, field: pa.Field, page_bytes: int, room: Room) -> pa.ChunkedArray:
    """Read one column: what its pages take must be there for a moment, what it decodes to is taken from the room."""
    if page_bytes * _COPIES > room.left_bytes:
        raise TooLargeError
    is_text = pa.types.is_string(field.type)
    with parquet_file(path, texts=[field.name] if is_text else []) as file:
        parts = []
        for batch in file.iter_batches(_BATCH_ROWS, columns=[field.name], use_threads=False):
            [found] = batch.columns
            if found.null_count and not field.nullable:
                raise ValueError(f"{field.name} has rows without a value")
            room.take(spread_bytes(found))
            part = found.cast(field.type)
            part.validate(full=True)  # otherwise invalid UTF-8 would only be found when it is shown
            parts.append(part)
    return pa.chunked_array([pa.concat_arrays(parts)] if parts else [], field.type)


def _page_bytes(file: BinaryIO, footer: ParquetFooter, names: Sequence[str]) -> dict[str, list[int]]:
    """What the pages of each column take, for each group of rows."""
    found: dict[str, list[int]] = {name: [] for name in names}
    for group in footer.groups:
        for name, of_groups in found.items():
            pages = pages_of(file, group[name])
            if DELTA_BYTE_ARRAY in pages.encodings:
                raise TypeError(
                    f"{name} is encoded as changes of texts, whose size is not known before they are decoded"
                )
            of_groups.append(pages.size)
    return found


def _is_like(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type matches: text for text, a number or timestamp for the same; no nested types."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_null(found))
    return bool(pa.types.is_primitive(found) or pa.types.is_null(found))


def spread_bytes(column: pa.Array) -> int:
    """Bytes of a column after expanding its dictionary."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return int(pc.sum(pc.cast(lengths, pa.int64())).as_py() or 0) + 4 * len(column)
