"""Sizes of pages: of every file that we write ourselves, also of an empty table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workbench.collect.capture import GROUPS_SCHEMA
from workbench.collect.parquet_footer import read_footer
from workbench.collect.parquet_page_sizes import pages_of
from workbench.samples import SAMPLES_SCHEMA


@pytest.mark.parametrize("schema", [GROUPS_SCHEMA, SAMPLES_SCHEMA], ids=["groups", "samples"])
@pytest.mark.parametrize("codec", ["zstd", "snappy", "none"])
def test_the_columns_of_an_empty_table_take_nothing(schema: pa.Schema, codec: str, tmp_path: Path) -> None:
    """They have an empty dictionary, and no page of data."""
    path = tmp_path / "empty.parquet"
    pq.write_table(schema.empty_table(), path, compression=codec)
    with path.open("rb") as file:
        [group] = read_footer(file).groups
        found = [pages_of(file, chunk) for chunk in group.values()]
    assert {(it.size, it.encodings) for it in found} == {(0, frozenset())}
