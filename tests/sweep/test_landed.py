"""Files of a store that somebody else has made: what is wrong with one is said, and none takes more memory than it may."""

from __future__ import annotations

import errno
import hashlib
import io
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evaluation.stories import END, lagging
from tests.sweep.one_task import OneTask
from workbench.collect.capture import ROOM_VARIABLE
from workbench.errors import DamagedCaptureError, OutputError
from workbench.samples import SAMPLES_SCHEMA, SeriesTable
from workbench.sweep import condense_store
from workbench.sweep.condense_store import Job, condense_file
from workbench.sweep.fleet_store import StoreInfo, make_store
from workbench.sweep.read_store import rows_of, whole_file

SAMPLES = lagging().samples()


def forged(folder: Path, table: pa.Table, **how: Any) -> tuple[Path, str]:
    """A file under the digest of what it holds: whoever makes a store can count, too."""
    out = io.BytesIO()
    pq.write_table(table, out, **how)
    return kept(folder, out.getvalue())


def kept(folder: Path, data: bytes) -> tuple[Path, str]:
    """The same of any bytes."""
    digest = hashlib.sha256(data).hexdigest()[:24]
    path = folder / f"part-{digest}.parquet"
    path.write_bytes(data)
    return path, digest


def condensed(path: Path, digest: str) -> None:
    """By a task of Spark, which tells what is wrong instead of raising it."""
    end = round(END.timestamp() * 1e6)
    job = Job(source=str(path), digest=digest, begin_us=end - 60_000_000, end_us=end, target=str(path) + ".summary")
    if (error := condense_file(job)["error"]) is not None:
        raise DamagedCaptureError(str(error))


READERS: dict[str, Callable[[Path, str], object]] = {
    "whole": whole_file,
    "condensed": condensed,
    "rows": lambda path, _digest: rows_of(path, {"payments"}, {"orders"}),
}
LONG = pa.array(["x" * (40 << 20)])
ONE = SAMPLES.slice(0, 1)
MANY = SAMPLES.take(pa.array([0] * 100_000))


def _with(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.names.index(name), name, values)


BAD: dict[str, Callable[[Path], tuple[Path, str]]] = {
    "no column": lambda folder: forged(folder, SAMPLES.drop_columns(["group"])),
    "no value": lambda folder: forged(folder, SAMPLES.drop_columns(["value"])),
    "another type": lambda folder: forged(folder, _with(ONE, "value", pa.array([{"a": [1]}]))),
    "no text": lambda folder: forged(folder, _with(ONE, "group", pa.array([5]))),
    "no Parquet": lambda folder: kept(folder, b"PAR1 and nothing else PAR1"),
    "half": lambda folder: kept(folder, forged(folder, SAMPLES)[0].read_bytes()[:-200]),
    "one long text": lambda folder: forged(folder, _with(ONE, "topic", LONG), compression="zstd"),
    "changes": lambda folder: forged(
        folder, SAMPLES, use_dictionary=False, column_encoding={"group": "DELTA_BYTE_ARRAY"}
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_file_is_an_error_that_names_it(
    bad: str, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads it, and before it is decoded if it is large."""
    monkeypatch.setenv(ROOM_VARIABLE, "0.06")
    path, digest = BAD[bad](tmp_path)
    before = pa.total_allocated_bytes()
    with pytest.raises(DamagedCaptureError, match="part-"):
        READERS[reader](path, digest)
    assert pa.total_allocated_bytes() - before < 8 << 20


@pytest.mark.parametrize("reader", ["whole", "rows"])
def test_a_text_that_many_rows_refer_to_is_not_written_out(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte in the dictionary, a hundred thousand rows."""
    monkeypatch.setenv(ROOM_VARIABLE, "0.06")
    owners = pa.DictionaryArray.from_arrays(pa.array([0] * len(MANY), pa.int32()), pa.array(["x" * 1_000_000]))
    path, digest = forged(tmp_path, _with(_with(MANY, "member", owners), "group", pa.array(["payments"] * len(MANY))))
    assert path.stat().st_size < 2 << 20
    with pytest.raises(DamagedCaptureError, match="GiB of memory"):
        READERS[reader](path, digest)


@pytest.mark.parametrize("reader", READERS)
def test_a_good_file_is_read(reader: str, tmp_path: Path) -> None:
    """Also with a column that we do not know."""
    path, digest = forged(tmp_path, SAMPLES.append_column("more", pa.array([1] * len(SAMPLES))))
    found = READERS[reader](path, digest)
    if isinstance(found, pa.Table):
        assert found.schema.equals(SAMPLES_SCHEMA) and found.num_rows == SAMPLES.num_rows


def test_a_summary_that_cannot_be_read_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the machine may leave an empty file; each sweep would fail until somebody removes it."""

    def run(_spark: object, jobs: Sequence[Job]) -> pa.Table:
        assert all(condense_file(job)["error"] is None for job in jobs)
        return condense_store._DONE_SCHEMA.empty_table()

    monkeypatch.setattr(condense_store, "_run", run)
    store = make_store(tmp_path / "store", StoreInfo(cluster="test", slot_seconds=60))
    store.land(END, SeriesTable.of_samples(SAMPLES))
    spark: Any = None
    found = condense_store.condense_missing(store, spark, [END])
    assert found.condensed == 1
    Path(found.summaries[0]).write_bytes(b"")
    assert [condense_store.condense_missing(store, spark, [END]).condensed for _ in range(2)] == [1, 0]


def test_a_store_that_spark_does_not_have_is_told_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are here, so no other process has replaced them, and to repeat the command would not help."""
    elsewhere, tries = tmp_path / "a disk of a worker", []

    def run(_spark: object, jobs: Sequence[Job]) -> pa.Table:
        tries.append(len(jobs))
        there = [replace(job, source=str(elsewhere / Path(job.source).name)) for job in jobs]
        done = [{"number": number, **condense_file(job)} for number, job in enumerate(there)]
        return pa.Table.from_pylist(done, condense_store._DONE_SCHEMA)

    monkeypatch.setattr(condense_store, "_run", run)
    store = make_store(tmp_path / "store", StoreInfo(cluster="test", slot_seconds=60))
    store.land(END, SeriesTable.of_samples(SAMPLES))
    spark: Any = None
    with pytest.raises(DamagedCaptureError, match="workers do not find it"):
        condense_store.condense_missing(store, spark, [END])
    assert len(tries) <= 3


def test_a_summary_that_cannot_be_written_is_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full, or a store that is somebody else's: the samples are not damaged, and to land them again would not help."""
    store = make_store(tmp_path / "store", StoreInfo(cluster="test", slot_seconds=60))
    store.land(END, SeriesTable.of_samples(SAMPLES))
    spark: Any = OneTask()

    def write(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OutputError, match=r"summary .* cannot be written: No space"):
        patched.setattr(pq, "write_table", write)
        condense_store.condense_missing(store, spark, [END])
    assert condense_store.condense_missing(store, spark, [END]).condensed == 1
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match=r"store .*/file/store cannot be written: Not a directory"):
        make_store(tmp_path / "file" / "store", store.info)


def test_no_thread_reads_ahead(tmp_path: Path) -> None:
    """One that still read when a file's damage was found has ended the process: what it read into was gone."""
    path, digest = forged(tmp_path, SAMPLES)
    code = f"""if True:
        from pathlib import Path
        import psutil
        from tests.sweep.test_landed import READERS, SAMPLES_SCHEMA
        from workbench.collect.limited_parquet import Room, read_bounded

        before = psutil.Process().num_threads()
        for read in READERS.values():
            read(Path({str(path)!r}), {digest!r})
        read_bounded(Path({str(path)!r}), SAMPLES_SCHEMA, Room(1 << 30))
        print(before, psutil.Process().num_threads())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    before, after = done.stdout.split()
    assert before == after, done.stderr
