"""Footers of Parquet files: what Arrow says of ours, and an error, not the end of the process, for those that cannot be right."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workbench.collect.limited_parquet import Room, footer_within, read_bounded
from workbench.collect.parquet_footer import MOST_FOOTER_BYTES, TooLargeError, read_footer
from workbench.collect.thrift_compact import CompactReader
from workbench.samples import SAMPLES_SCHEMA

_ROW = {"ts": datetime.now(UTC), "signal": "lag", "value": 3.0, "cluster": "c", "stat": "value", "source": "s"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of some groups of rows, with texts that are there, there sometimes, and never."""
    rows = [_ROW | {"group": f"g{at:05}", "topic": None if at % 3 else "t"} for at in range(5000)]
    file = tmp_path / "samples.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SAMPLES_SCHEMA), file, row_group_size=2000)
    return file


def test_a_footer_says_what_arrow_says(path: Path) -> None:
    """Of each column of each group of rows, with its statistics."""
    expected = pq.read_metadata(path)
    with path.open("rb") as file:
        found = read_footer(file)
    assert (found.num_rows, len(found.groups)) == (5000, 3)
    assert found.notes == expected.metadata
    for at, group in enumerate(found.groups):
        for number, (name, chunk) in enumerate(group.items()):
            arrow = expected.row_group(at).column(number)
            assert name == arrow.path_in_schema
            fields = ("num_values", "data_page_offset", "dictionary_page_offset", "total_compressed_size")
            assert [getattr(chunk, it) for it in fields] == [getattr(arrow, it) for it in fields]
            assert chunk.null_count == arrow.statistics.null_count
            if name in ("group", "topic"):
                assert (chunk.least or b"").decode() == arrow.statistics.min
                assert (chunk.greatest or b"").decode() == arrow.statistics.max
    assert not found.is_empty("topic")
    assert found.is_empty("partition")


def test_sizes_that_contradict_each_other_do_not_end_the_process(path: Path) -> None:
    """Counts of nulls for a column that can have none: what looks at it through Arrow's own binding is aborted."""
    data = path.read_bytes()
    may_lack, has_all = b"\x25\x02\x18\x05group", b"\x25\x00\x18\x05group"  # repetition: optional, required; name
    assert data.count(may_lack) == 1
    path.write_bytes(data.replace(may_lack, has_all))
    code = f"""
from pathlib import Path
from workbench.errors import DamagedCaptureError
from workbench.sweep.read_store import rows_of
try:
    rows_of(Path({str(path)!r}), {{"g00001"}}, set())
except DamagedCaptureError as error:
    print("told:", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("told: ")


def test_a_damaged_footer_is_an_error_of_values(path: Path) -> None:
    """Some bytes changed, or cut off, in many ways: it is read, or it is a ValueError."""
    data, chance = path.read_bytes(), random.Random(7)
    begin = len(data) - int.from_bytes(data[-8:-4], "little") - 8
    refused = 0
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            changed[chance.randrange(begin, len(data))] = chance.randrange(256)
        if chance.random() < 0.2:
            at = chance.randrange(begin, len(data))
            del changed[at : at + chance.randint(1, 40)]
        try:
            read_footer(io.BytesIO(bytes(changed)))
        except ValueError:
            refused += 1
    assert 100 < refused < 400


@pytest.mark.parametrize(
    ("struct", "words"),
    [
        (b"\x15\x02\x05\x02\x04\x00", "twice"),  # field 1, then field 1 by its number
        (b"\x15", "no end"),
        (b"\x15" + b"\xff" * 9 + b"\x7f\x00", "64 bits"),
        (b"\x2c" * 20 + b"\x00" * 20, "nested"),
        (b"\x29" + b"\x19" * 20 + b"\x00", "nested"),
        (b"\x19" + b"\x19" * 20 + b"\x00", "nested"),
        (b"\x2b" + b"\x01\xbb" * 20 + b"\x00", "nested"),
        (b"\x29\xf5\xff\xff\xff\xff\x0f\x00", "no end"),  # a list of four thousand million numbers
        (b"\x2e\x00", "kind 14"),
    ],
)
def test_what_no_writer_writes_is_refused(struct: bytes, words: str) -> None:
    """A field twice is read in two ways by two readers; the others would take time or memory without end."""
    with pytest.raises(ValueError, match=words):
        CompactReader(struct).struct({1: None})


def test_all_kinds_of_fields_are_passed_over() -> None:
    """Truths, bytes, numbers, fractions, texts, lists, sets, maps, structs and UUIDs; the one after them is read."""
    fields = b"\x11\x12\x13\x07\x14\x02\x17" + b"\x00" * 8 + b"\x18\x02hi" + b"\x19\x21\x01\x02" + b"\x1a\x15\x02"
    fields += b"\x1b\x01\x85\x01x\x02" + b"\x1b\x00" + b"\x1c\x11\x00" + b"\x1d" + b"\x00" * 16
    reader = CompactReader(fields + b"\x15\x54\x00rest")
    assert reader.struct({13: None}) == {13: 42}
    assert reader.at == len(fields) + 3


def test_a_footer_without_end_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """By the length that its last bytes tell."""
    file = tmp_path / "large"
    with file.open("wb") as out:
        out.truncate(MOST_FOOTER_BYTES + 100)
        out.seek(0, io.SEEK_END)
        out.write((MOST_FOOTER_BYTES + 1).to_bytes(4, "little") + b"PAR1")
    with file.open("rb") as found, pytest.raises(TooLargeError):
        read_footer(found)


def test_groups_of_rows_with_other_columns_than_the_schema_are_refused(path: Path) -> None:
    """Readers find pages by the number of a column, so a size that was found by another name says nothing."""
    data = path.read_bytes()
    named = b"\x19\x18\x05group"  # a path of one name; it stands in each group of rows
    assert data.count(named) == 3
    path.write_bytes(data.replace(named, b"\x19\x18\x05grouq"))
    with pytest.raises(ValueError, match="other columns than the schema"):
        footer_within(path, SAMPLES_SCHEMA, Room(1e9))


def test_what_is_whole_is_read(path: Path) -> None:
    """All rows, as they were written."""
    assert read_bounded(path, SAMPLES_SCHEMA, Room(1e9)).equals(pq.read_table(path).cast(SAMPLES_SCHEMA))
