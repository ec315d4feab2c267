"""What the footer of an untrusted Parquet file says of its columns.

Arrow reads footers, too, but its binding ends the process at a column whose statistics of sizes contradict each other (pyarrow 26: an
exception of C++ that nobody catches, at `row_group(n).column(i)`). Here whatever cannot be right is a ValueError. Layout:
parquet-format's `parquet.thrift`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, BinaryIO

from workbench.collect.thrift_compact import CompactReader, Wanted

_MAGIC = b"PAR1"
_TAIL_BYTES = 8  # the footer's length, then the magic
_FIRST_READ_BYTES = 64 << 10  # a footer is smaller mostly, and one read of an object is one request
MOST_FOOTER_BYTES = 16 << 20  # some hundred bytes for a column of a million rows
_ROWS, _GROUPS, _NOTES, _COLUMNS, _COLUMN = 3, 4, 5, 1, 3
_KEY, _VALUE = 1, 2
_PATH, _VALUES, _PACKED, _DATA_AT, _DICTIONARY_AT, _STATISTICS = 3, 5, 7, 9, 11, 12
_NULLS, _GREATEST, _LEAST = 3, 5, 6
_CHUNK: Wanted = {
    **dict.fromkeys((_PATH, _VALUES, _PACKED, _DATA_AT, _DICTIONARY_AT)),
    _STATISTICS: dict.fromkeys((_NULLS, _GREATEST, _LEAST)),
}
_FOOTER: Wanted = {_ROWS: None, _GROUPS: {_COLUMNS: {_COLUMN: _CHUNK}}, _NOTES: dict.fromkeys((_KEY, _VALUE))}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChunk:
    """One column of a group of rows.

    Attributes:
        num_values: with nulls.
        data_page_offset, dictionary_page_offset, total_compressed_size: bytes.
        null_count, least, greatest: None where the file does not say; the bounds as UTF-8.
    """

    num_values: int
    data_page_offset: int
    dictionary_page_offset: int | None
    total_compressed_size: int
    null_count: int | None = None
    least: bytes | None = None
    greatest: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFooter:
    """What a footer says.

    Attributes:
        groups: columns by name, for each group of rows.
        notes: what writers noted beside the schema, by key.
    """

    num_rows: int
    groups: tuple[dict[str, ColumnChunk], ...]
    notes: dict[bytes, bytes]

    def is_empty(self, name: str) -> bool:
        """Whether a column has no value in any group of rows, by the file's statistics."""
        return all(group[name].null_count == group[name].num_values for group in self.groups)


class TooLargeError(Exception):
    """A footer is larger than any that is written here, or a decoded file exceeds the memory limit."""


def read_footer(file: BinaryIO) -> ParquetFooter:
    """Read the footer of a file, wherever the file stands.

    Raises:
        TooLargeError: if it has more than 16 MiB. ValueError: if it cannot be read. OSError: as the file.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _FIRST_READ_BYTES, 0))
    tail = file.read(_FIRST_READ_BYTES)
    length = int.from_bytes(tail[-_TAIL_BYTES:-4], "little")
    if tail[-4:] != _MAGIC or length > size - _TAIL_BYTES:
        raise ValueError("it has no Parquet footer")
    if length > MOST_FOOTER_BYTES:
        raise TooLargeError
    begin = len(tail) - _TAIL_BYTES - length
    if begin < 0:
        file.seek(size - _TAIL_BYTES - length)
        tail, begin = file.read(length), 0
    found = CompactReader(tail[begin : begin + length]).struct(_FOOTER)
    try:
        return ParquetFooter(
            num_rows=_whole(found[_ROWS]),
            groups=tuple(_group(it[_COLUMNS]) for it in found[_GROUPS]),
            notes={it[_KEY]: it.get(_VALUE, b"") for it in found.get(_NOTES, ())},
        )
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"its footer lacks something ({type(error).__name__})") from None


def _group(columns: list[dict[int, Any]]) -> dict[str, ColumnChunk]:
    found = dict(_chunk(it[_COLUMN]) for it in columns)
    if len(found) < len(columns):
        raise ValueError("its footer has a column twice")
    return found


def _chunk(found: dict[int, Any]) -> tuple[str, ColumnChunk]:
    """Path of a column, and what is said of it."""
    told = found.get(_STATISTICS) or {}
    chunk = ColumnChunk(
        num_values=_whole(found[_VALUES]),
        data_page_offset=_whole(found[_DATA_AT]),
        dictionary_page_offset=_whole(found[_DICTIONARY_AT]) if _DICTIONARY_AT in found else None,
        total_compressed_size=_whole(found[_PACKED]),
        null_count=_whole(told[_NULLS]) if _NULLS in told else None,
        least=_bytes(told.get(_LEAST)),
        greatest=_bytes(told.get(_GREATEST)),
    )
    return b".".join(found[_PATH]).decode(), chunk


def _whole(found: Any) -> int:
    if not isinstance(found, int):
        raise TypeError
    return found


def _bytes(found: Any) -> bytes | None:
    return found if isinstance(found, bytes) else None
