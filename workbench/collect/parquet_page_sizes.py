"""Sizes of a Parquet file's pages, read from their heads: what a column takes is known before any of it is decompressed.

The footer tells sizes too, but nobody compares them with the pages; the reader makes room for what the head of a page says. A head is a
struct in Thrift's compact protocol (source: parquet-format's `parquet.thrift`, and Thrift's `thrift-compact-protocol.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 7, 8, 12
_NUMBERS = (4, 5, 6)  # 16, 32 and 64 bits
_SIZE, _COMPRESSED, _DATA, _DATA_2 = 2, 3, 5, 8  # fields of PageHeader
_ENCODING, _ENCODING_2 = 2, 4  # fields of DataPageHeader and DataPageHeaderV2
_HEAD_BYTES = 64 << 10  # a head has some numbers, and at most two values of statistics
_DEEPEST = 8
_MOST_PAGES = 100_000  # of one column of a group of rows: a page has 1 MB
DELTA_BYTE_ARRAY = 7  # texts as changes of the one before: each may be as long as all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetPages:
    """What the pages of one column chunk take.

    Attributes:
        size: bytes after decompression, all pages together.
        encodings: numbers of the encodings of its data pages.
    """

    size: int
    encodings: frozenset[int]


def pages_of(file: BinaryIO, chunk: Any) -> ParquetPages:
    """Read the heads of a column chunk's pages.

    Args:
        chunk: `pyarrow.parquet.ColumnChunkMetaData`.

    Raises:
        ValueError: if they cannot be read, or do not fit the chunk.
    """
    start = chunk.data_page_offset
    dictionary = (chunk.dictionary_page_offset or 0) if chunk.has_dictionary_page else 0
    if 0 < dictionary < start or not start:  # an empty column has a dictionary, and no page of data
        start = dictionary
    at, end = start, start + chunk.total_compressed_size
    size, encodings, number = 0, set[int](), 0
    while at < end:
        number += 1
        if number > _MOST_PAGES:
            raise ValueError(f"a column has more than {_MOST_PAGES:,} pages")
        file.seek(at)
        head = _Head(file.read(min(_HEAD_BYTES, end - at)))
        fields = head.struct()
        unpacked, packed = fields.get(_SIZE), fields.get(_COMPRESSED)
        if not (isinstance(unpacked, int) and isinstance(packed, int)) or unpacked < 0 or packed < 0:
            raise ValueError("a page has no size")
        size += unpacked
        for page, encoding in ((_DATA, _ENCODING), (_DATA_2, _ENCODING_2)):
            if isinstance(found := fields.get(page), dict):
                encodings.add(found.get(encoding, -1))
        at += head.at + packed
    return ParquetPages(size=size, encodings=frozenset(encodings))


class _Head:
    """Reads a struct; numbers and structs are kept, anything else is passed over."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Fields by number."""
        if depth > _DEEPEST:
            raise ValueError("a page's head is nested too deeply")
        found: dict[int, Any] = {}
        field = 0
        while kind := self._byte():
            step, kind = kind >> 4, kind & 15
            field = field + step if step else self._number()
            found[field] = self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in _NUMBERS:
            return self._number()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_BYTE, _DOUBLE, _BINARY):
            self._skip({_BYTE: 1, _DOUBLE: 8}.get(kind) or self._varint())
            return None
        raise ValueError(f"a page's head has a field of kind {kind}")  # no head has a list, a set or a map

    def _byte(self) -> int:
        self._skip(1)
        return self._data[self.at - 1]

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self._data):
            raise ValueError("a page's head has no end")

    def _varint(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise ValueError("a number in a page's head has no end")

    def _number(self) -> int:
        zigzag = self._varint()
        return zigzag >> 1 ^ -(zigzag & 1)
