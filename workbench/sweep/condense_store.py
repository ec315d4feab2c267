"""Condense the files of a store, each once: one Spark task per file that was not condensed before.

A task reads one landed file and writes its summary under the digest of the file's content. So the next sweep reads only summaries,
and a task that runs twice, because its executor was lost, writes the same file again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from workbench.collect.parquet_footer import ParquetFooter, TooLargeError
from workbench.errors import DamagedCaptureError, OutputError, SlotReplacedError, SourceUnreachableError
from workbench.files import writing
from workbench.humanize import first_line
from workbench.sweep.fleet_store import FleetStore, LandedFile
from workbench.sweep.read_store import LAND_AGAIN, HeldNames, columns_of, held_names
from workbench.sweep.reads_while_replaced import tries
from workbench.sweep.storage_port import SUMMARIES
from workbench.sweep.store_places import OF_WORKERS, address_of, file_at, write_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Part of the key: a change of the method must make new summaries.
VERSION = "5"
# So often a file is gone where it was to be read and back here, as one that was landed anew with the same samples can be.
_MOST_HIDDEN = 3
_DONE = "number bigint, bytes_read bigint, samples bigint, error string, is_gone boolean, is_unwritten boolean, is_unreachable boolean"
_DONE_SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("bytes_read", pa.int64()),
        ("samples", pa.int64()),
        ("error", pa.string()),
        ("is_gone", pa.bool_()),
        ("is_unwritten", pa.bool_()),
        ("is_unreachable", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One file to condense: address of the source, slot, and address of the target (`store_places.address_of`)."""

    source: str
    digest: str
    begin_us: int
    end_us: int
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReading:
    """What a sweep has read from a store.

    Attributes:
        files: of the window, with its baseline.
        condensed: number of files that were condensed now; the others already had a summary.
        bytes_read, samples_read: of the condensed files.
        summaries: addresses of all summaries, in a fixed order.
        counters: whether they contain counters.
        rows: of all summaries.
        held: by the digest and the slot of a file, whose rows it may hold; of a file that is not there, it is not known.
    """

    files: int
    condensed: int
    bytes_read: int
    samples_read: int
    summaries: tuple[str, ...]
    counters: bool
    rows: int = 0
    held: Mapping[tuple[str, datetime], tuple[HeldNames, ...]] = field(default_factory=dict)

    def among(self, subscriptions: Iterable[tuple[str, str]]) -> Callable[[LandedFile], bool]:
        """Whether a file may hold rows of one of these (group, topic), for `FleetStore.read`."""
        pairs = list(subscriptions)
        groups, topics = (sorted({pair[at] for pair in pairs}) for at in range(2))
        return self._files(lambda it: it.may_be_of(groups, topics))

    def among_nobodys(self) -> Callable[[LandedFile], bool]:
        """Whether a file may hold rows of no group and no topic."""
        return self._files(HeldNames.may_be_of_nobody)

    def _files(self, may_be: Callable[[HeldNames], bool]) -> Callable[[LandedFile], bool]:
        def among(file: LandedFile) -> bool:
            held = self.held.get((file.digest, file.end))
            return held is None or any(map(may_be, held))

        return among


NOTHING_READ = StoreReading(files=0, condensed=0, bytes_read=0, samples_read=0, summaries=(), counters=False)


def condense_missing(store: FleetStore, spark: SparkSession, ends: Sequence[datetime]) -> StoreReading:
    """Condense the files of these slots that have no summary that can be read.

    Raises:
        DamagedCaptureError: if a file has changed since it was landed, is replaced again and again, or is not where Spark works.
        OutputError: if a summary cannot be written.
        SourceUnreachableError: if object storage refuses, or does not answer, here or where Spark works.
    """
    condensed, all_done, hidden = 0, [_DONE_SCHEMA.empty_table()], Counter[str]()
    for _ in tries():
        files = store.files(ends)
        names = [_summary(file) for file in files]
        there = store.place.whole(names)
        jobs = [_job(store, file, name) for file, name in zip(files, names, strict=True) if name not in there]
        done = _run(spark, jobs)
        gone = done.filter(done["is_gone"])
        condensed += len(jobs) - gone.num_rows
        all_done.append(done)
        if not gone.num_rows:
            break
        sources = [jobs[number].source for number in gone["number"].to_pylist()]
        hidden.update(it for it in sources if file_at(it).exists())
        if (unseen := next((it for it in sources if hidden[it] >= _MOST_HIDDEN), None)) is not None:
            raise DamagedCaptureError(
                f"{unseen} is here, and Spark's workers do not find it.",
                hint="They need the store's folder at the same path: put it on a file system that all of them share.",
            )
    else:
        raise SlotReplacedError(jobs[gone["number"][0].as_py()].source)
    read = pa.concat_tables(all_done)
    try:
        footers = list(store.place.footers(names))
    except (ValueError, TooLargeError) as error:
        raise DamagedCaptureError(
            f"A summary of {store.root} cannot be read: {first_line(error)}.",
            hint=f"Remove {SUMMARIES} there: summaries are made again from what has landed.",
        ) from None
    return StoreReading(
        files=len(files),
        condensed=condensed,
        bytes_read=sum(read["bytes_read"].to_pylist()),
        samples_read=sum(read["samples"].to_pylist()),
        summaries=tuple(address_of(store.place.path(name)) for name in names),
        counters=any(map(_has_counters, footers)),
        rows=sum(footer.num_rows for footer in footers),
        held={(file.digest, file.end): held_names(footer) for file, footer in zip(files, footers, strict=True)},
    )


def _job(store: FleetStore, file: LandedFile, name: str) -> Job:
    end_us = round(file.end.timestamp() * 1e6)
    return Job(
        source=address_of(file.path),
        digest=file.digest,
        begin_us=end_us - round(store.slot.total_seconds() * 1e6),
        end_us=end_us,
        target=address_of(store.place.path(name)),
    )


def summary_path(store: FleetStore, file: LandedFile) -> Any:
    """Path of a file's summary, whether it exists or not."""
    return store.place.path(_summary(file))


def _summary(file: LandedFile) -> str:
    return f"{SUMMARIES}/v{VERSION}/{file.end:%Y-%m-%d}/{file.digest}-{file.end:%H%M%S}.parquet"


def _has_counters(footer: ParquetFooter) -> bool:
    """Whether a summary has counters: only their rows have a source."""
    return not footer.is_empty("source")


def _run(spark: SparkSession, jobs: Sequence[Job]) -> pa.Table:
    if not jobs:
        return _DONE_SCHEMA.empty_table()
    # One task per file: a lost executor loses the work of one file.
    numbers = spark.range(0, len(jobs), 1, len(jobs))
    done = numbers.mapInArrow(_worker(tuple(jobs)), _DONE).toArrow()
    failed = done.filter(pc.and_(pc.invert(done["is_gone"]), pc.is_valid(done["error"])))
    for it in failed.slice(0, 1).to_pylist():
        if it["is_unwritten"]:
            raise OutputError(it["error"], hint="Check the free space and the permissions.")
        if it["is_unreachable"]:
            raise SourceUnreachableError(
                it["error"],
                hint=OF_WORKERS,
            )
        raise DamagedCaptureError(it["error"], hint=LAND_AGAIN)
    return done


def _worker(jobs: tuple[Job, ...]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield pa.RecordBatch.from_pylist([{"number": number, **condense_file(jobs[number])}], _DONE_SCHEMA)

    return work


def condense_file(job: Job) -> dict[str, object]:
    """Condense one file; return what was read, and the error in words."""
    import pyarrow.parquet as pq

    from workbench.features.condense import COLUMNS, NAMES, condense

    target = file_at(job.target)
    try:
        samples, size = columns_of(file_at(job.source), job.digest, COLUMNS, [*NAMES, "flag"])
        summary = condense(samples, (job.begin_us, job.end_us))
        with writing(f"The summary {target}"):
            out = pa.BufferOutputStream()
            pq.write_table(summary, out, compression="zstd", compression_level=1)
            write_whole(target, out.getvalue())
    except (DamagedCaptureError, OutputError, SourceUnreachableError) as error:
        failed = {
            "is_gone": isinstance(error, SlotReplacedError),
            "is_unwritten": isinstance(error, OutputError),
            "is_unreachable": isinstance(error, SourceUnreachableError),
        }
        return {"bytes_read": 0, "samples": 0, "error": error.message, **failed}
    return {"bytes_read": size, "samples": samples.num_rows, "error": None, "is_gone": False, "is_unwritten": False}
