"""Reader of untrusted Parquet files with a memory limit: a small file may decode to any size.

A file of 1 MB may contain a text of 1 MB that ten thousand rows refer to, or a hundred million rows of one number. So text is decoded
as dictionaries, some rows at a time, and its memory is computed before it is expanded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_BATCH_ROWS = 1 << 20  # enough for most captures in one step; 12 MB for a column of numbers
_LEAST_ROW_BYTES = 40  # bytes of a member's columns with empty text; a sample takes 60


class TooLargeError(Exception):
    """The decoded file exceeds the memory limit."""


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
    with pq.ParquetFile(path) as file:
        there = file.schema_arrow
        for field in schema:
            if field.name not in there.names:
                raise KeyError(field.name)
            if not _is_like(there.field(field.name).type, field.type):
                raise TypeError(f"{field.name} is {there.field(field.name).type}")
        if file.metadata.num_rows * _LEAST_ROW_BYTES > room.left_bytes:
            raise TooLargeError
    text = [field.name for field in schema if pa.types.is_string(field.type)]
    batches = []
    with pq.ParquetFile(path, read_dictionary=text) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=schema.names):
            room.take(sum(_spread_bytes(column) for column in batch.columns))
            found = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
            found.validate(full=True)  # otherwise invalid UTF-8 would only be found when it is shown
            batches.append(found)
    return pa.concat_tables([schema.empty_table(), *batches]).combine_chunks() if len(batches) != 1 else batches[0]


def _is_like(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type matches: text for text, a number or timestamp for the same; no nested types."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_null(found))
    return bool(pa.types.is_primitive(found) or pa.types.is_null(found))


def _spread_bytes(column: pa.Array) -> int:
    """Bytes of a column after expanding its dictionary."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return int(pc.sum(pc.cast(lengths, pa.int64())).as_py() or 0) + 4 * len(column)
