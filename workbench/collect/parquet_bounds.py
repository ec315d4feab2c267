"""Parquet files of unknown origin, read within bounds: the size of a file says nothing of what it decodes to.

A file of 1 MB may hold a word of 1 MB that ten thousand rows refer to, or a hundred million rows of one number. So text is decoded as
dictionaries, a stretch of rows at a time, and what it will take is counted before it is spread out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_BATCH_ROWS = 1 << 20  # all of most captures; 12 MB for a column of numbers
_LEAST_ROW_BYTES = 40  # the columns of a member, when all its text is empty; a sample takes 60


class TooLargeError(Exception):
    """What a file decodes to is more than there is room for."""


@dataclass(slots=True)
class Room:
    """So many bytes are left for what is decoded."""

    left_bytes: float

    def take(self, wanted_bytes: int) -> None:
        """Take some of it.

        Raises:
            TooLargeError: if there is not so much.
        """
        if wanted_bytes > self.left_bytes:
            raise TooLargeError
        self.left_bytes -= wanted_bytes


def read_bounded(path: Path, schema: pa.Schema, room: Room) -> pa.Table:
    """The columns of a schema, in its types.

    Raises:
        TooLargeError: if there is no room for it.
        KeyError: naming a column that the file does not have.
        TypeError: if a column is of another kind.
        ValueError: if it holds what its kind cannot.
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
            found.validate(full=True)  # text that is no UTF-8 would be found by whoever shows it
            batches.append(found)
    return pa.concat_tables([schema.empty_table(), *batches]).combine_chunks() if len(batches) != 1 else batches[0]


def _is_like(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Text for text, a number or an instant for such: nothing that has further things inside."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_null(found))
    return bool(pa.types.is_primitive(found) or pa.types.is_null(found))


def _spread_bytes(column: pa.Array) -> int:
    """What a column takes when each row has its own text."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return int(pc.sum(pc.cast(lengths, pa.int64())).as_py() or 0) + 4 * len(column)
