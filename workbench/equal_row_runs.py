"""Columns of tables as numbers, and the runs of equal rows in sorted tables: column by column, without an object per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

IntArray = npt.NDArray[np.int64]


def encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Dictionary-encode text, in one chunk."""
    if column.num_chunks == 1 and pa.types.is_dictionary(column.type):
        return column.chunk(0)
    if not pa.types.is_dictionary(column.type):
        column = pc.cast(column, pa.string()).dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # an empty column has no chunks to combine
        whole = pa.array([], column.type) if not whole.num_chunks else whole.chunk(0)
    return whole


def codes_in(column: pa.Array) -> npt.NDArray[np.int32]:
    """Equal numbers for equal values, -1 for null."""
    found = column.indices if isinstance(column, pa.DictionaryArray) else column
    return pc.fill_null(found, -1).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def is_one(column: pa.Array) -> bool:
    """Whether all rows are certainly the same."""
    if column.null_count == len(column):
        return True
    return isinstance(column, pa.DictionaryArray) and len(column.dictionary) == 1 and column.null_count == 0


def runs_of(table: pa.Table, names: Sequence[str]) -> tuple[IntArray, IntArray]:
    """First rows of the runs that are equal in these columns, and the rows after their last ones, (runs,) each.

    Args:
        table: sorted, so that what is equal stands together.
        names: columns of text or whole numbers.
    """
    rows = table.num_rows
    changed = np.zeros(rows, dtype=bool)
    changed[:1] = True
    for name in names:
        column = table[name].combine_chunks() if pa.types.is_integer(table[name].type) else encoded(table[name])
        if rows and not is_one(column):
            code = codes_in(column)
            changed[1:] |= code[1:] != code[:-1]
    starts = np.flatnonzero(changed)
    return starts, np.append(starts, rows)[1:]
