"""Sizes of a Parquet file's pages, read from their heads: what a column takes is known before any of it is decompressed.

The footer tells sizes too, but nobody compares them with the pages; the reader makes room for what the head of a page says (source:
parquet-format's `parquet.thrift`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from workbench.collect.parquet_footer import ColumnChunk
from workbench.collect.thrift_compact import CompactReader, Wanted

_SIZE, _COMPRESSED, _DATA, _DATA_2 = 2, 3, 5, 8  # fields of PageHeader
_ENCODING, _ENCODING_2 = 2, 4  # fields of DataPageHeader and DataPageHeaderV2
_HEAD: Wanted = {_SIZE: None, _COMPRESSED: None, _DATA: {_ENCODING: None}, _DATA_2: {_ENCODING_2: None}}
_HEAD_BYTES = 64 << 10  # a head has some numbers, and at most two values of statistics
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


def pages_of(file: BinaryIO, chunk: ColumnChunk) -> ParquetPages:
    """Read the heads of a column chunk's pages.

    Raises:
        ValueError: if they cannot be read, or do not fit the chunk.
    """
    start = chunk.data_page_offset
    dictionary = chunk.dictionary_page_offset or 0
    if 0 < dictionary < start or not start:  # an empty column has a dictionary, and no page of data
        start = dictionary
    at, end = start, start + chunk.total_compressed_size
    size, encodings, number = 0, set[int](), 0
    while at < end:
        number += 1
        if number > _MOST_PAGES:
            raise ValueError(f"a column has more than {_MOST_PAGES:,} pages")
        file.seek(at)
        head = CompactReader(file.read(min(_HEAD_BYTES, end - at)))
        fields = head.struct(_HEAD)
        unpacked, packed = fields.get(_SIZE), fields.get(_COMPRESSED)
        if not (isinstance(unpacked, int) and isinstance(packed, int)) or unpacked < 0 or packed < 0:
            raise ValueError("a page has no size")
        size += unpacked
        for page, encoding in ((_DATA, _ENCODING), (_DATA_2, _ENCODING_2)):
            if isinstance(found := fields.get(page), dict):
                encodings.add(found.get(encoding, -1))
        at += head.at + packed
    return ParquetPages(size=size, encodings=frozenset(encodings))
