"""A store of landed samples: a fleet's measurements as Parquet in slots of time, written once and read by any number of sweeps.

    store.json                                          cluster, length of a slot, thresholds, profiles
    samples/day=2026-11-21/slot=0315/part-<digest>.parquet    samples that end at 03:15 UTC, `workbench.samples.SAMPLES_SCHEMA`
    samples/day=…/slot=…/_incomplete.json               what the source said was missing from the slot; only where something was
    summaries/…                                         what sweeps have condensed (`workbench.sweep.engine`)

A slot appears whole or not at all. All rows of a group are in one file of a slot, and so are all rows of a topic that belong to no
group: then a file can be condensed by itself. Spark reads a store like any other partitioned folder: `spark.read.parquet(…/samples)`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import DamagedCaptureError, NoSeriesError, UsageError
from workbench.files import atomic_folder, atomic_write, leftovers, remove_folder, restored, writing
from workbench.inputs import first_problem
from workbench.samples import SAMPLES_SCHEMA, SERIES_ORDER, SeriesTable, codes_of
from workbench.settings import Thresholds
from workbench.window import Window

INFO, SAMPLES, SUMMARIES = "store.json", "samples", "summaries"
INCOMPLETE = "_incomplete.json"  # Spark passes over names that begin so
BASELINE_SLOTS = 4  # quarters of the baseline, as `features.summary` has them
# A series stands together, and with it what else is known of its group: so it packs best, and so it is condensed.
ORDER = (*SERIES_ORDER, "le")
_LONGEST_SLOT_SECONDS = 366 * 86_400
_FIRST_YEAR, _LAST_YEAR = 1970, 2999
_FILE_ROWS = 1_000_000  # some 60 MB while it is condensed
_ROW_GROUP = 131_072  # a few groups' rows: what one of them needs is found without reading the others
_MADE_BY = b"workbench.store/1"


class StoreInfo(BaseModel):
    """The content of `store.json`."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    format: Literal["workbench.store/1"] = Field(default="workbench.store/1", alias="schema")
    cluster: str
    slot_seconds: int = Field(gt=0, le=_LONGEST_SLOT_SECONDS)
    bootstrap: str | None = None
    source: str = "prometheus"
    profiles: list[str] = []
    thresholds: Thresholds = Thresholds()


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedFile:
    """One file of a slot.

    Attributes:
        end: of its slot.
        size: in bytes.
        digest: of its content, as its name has it.
    """

    path: Path
    end: datetime
    size: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A folder of landed samples."""

    root: Path
    info: StoreInfo

    @property
    def slot(self) -> timedelta:
        """Length of a slot, hence of the window that a sweep judges."""
        return timedelta(seconds=self.info.slot_seconds)

    def slot_end(self, instant: datetime) -> datetime:
        """The last end of a slot that is not after an instant."""
        return datetime.fromtimestamp(instant.timestamp() // self.info.slot_seconds * self.info.slot_seconds, UTC)

    def window_ending(self, end: datetime) -> Window:
        """One slot to judge, and the four before it for what was normal."""
        return Window.ending(end, length=self.slot, baseline=BASELINE_SLOTS * self.slot)

    def slots_of(self, window: Window) -> list[datetime]:
        """The ends of a window's slots, oldest first."""
        return [window.end - number * self.slot for number in range(BASELINE_SLOTS, -1, -1)]

    def folder(self, end: datetime) -> Path:
        """Where the slot that ends then lies, or would lie."""
        return self.root / SAMPLES / f"day={end:%Y-%m-%d}" / f"slot={end:%H%M%S}"

    def landed(self) -> list[datetime]:
        """Ends of the slots that are there, oldest first."""
        found = []
        for path in (self.root / SAMPLES).glob("day=*/slot=*"):
            text = path.parent.name.removeprefix("day=") + path.name.removeprefix("slot=")
            try:
                end = datetime.strptime(text, "%Y-%m-%d%H%M%S").replace(tzinfo=UTC)
            except ValueError:
                continue  # somebody else's folder
            # Nor has anything landed at an end of the calendar.
            if _FIRST_YEAR <= end.year <= _LAST_YEAR and self.folder(end) == path:
                found.append(end)
        return sorted(found)

    def window(self, until: datetime | None = None) -> Window:
        """The newest window that has landed, or the newest until an instant.

        Raises:
            NoSeriesError: if there is none.
        """
        ends = [end for end in self.landed() if until is None or end <= until]
        if not ends:
            when = f" until {until:%Y-%m-%d %H:%M:%SZ}" if until is not None else ""
            raise NoSeriesError(
                f"Nothing has landed in {self.root}{when}.",
                hint="Land measurements with: workbench triage --all --cluster NAME --store FOLDER.",
            )
        return self.window_ending(ends[-1])

    def files(self, ends: Iterable[datetime]) -> list[LandedFile]:
        """The files of some slots, in a fixed order; slots that have not landed have none."""
        found = []
        for end in ends:
            for path in sorted(self.folder(end).glob("part-*.parquet")):
                digest = path.stem.removeprefix("part-")
                found.append(LandedFile(path=path, end=end, size=path.stat().st_size, digest=digest))
        return found

    def missing_of(self, end: datetime) -> tuple[str, ...]:
        """What the source said was missing from a slot that has landed."""
        path = self.folder(end) / INCOMPLETE
        try:
            return tuple(str(text) for text in json.loads(path.read_bytes()))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, TypeError, RecursionError) as error:
            return (
                f"{path} cannot be read ({type(error).__name__})",
            )  # something was missing, or it would not be there

    def rows_of(self, end: datetime) -> int:
        """How many samples of a slot have landed."""
        return sum(pq.read_metadata(file.path).num_rows for file in self.files([end]))

    def land(self, end: datetime, series: SeriesTable, *, missing: Sequence[str] = ()) -> list[LandedFile]:
        """Write the samples of the slot that ends then; what is there of it is replaced.

        Args:
            end: on the slots' grid.
            series: their samples outside of the slot are left out.
            missing: what is known to be missing from them; it stays with the slot.

        Raises:
            UsageError: if the instant is not on the grid.
            OutputError: if it cannot be written.
        """
        if self.slot_end(end) != end:
            raise UsageError(f"{end.isoformat()} is not the end of a slot of {self.info.slot_seconds} s.")
        end_us = round(end.timestamp() * 1e6)
        series = series.between(end_us - self.info.slot_seconds * 1_000_000, end_us)
        with writing(f"The slot {self.folder(end)}"), atomic_folder(self.folder(end), replace=True) as folder:
            for piece in _pieces(series):
                written = folder / "part.tmp"
                _write(written, piece.to_samples())
                written.rename(folder / f"part-{_digest(written)}.parquet")
            if missing:
                (folder / INCOMPLETE).write_text(json.dumps(list(missing), indent=1) + "\n", encoding="utf-8")
        return self.files([end])

    def prune(self, before: datetime) -> int:
        """Remove the slots that end at or before an instant; how many there were."""
        gone = [end for end in self.landed() if end <= before]
        for end in gone:
            remove_folder(self.folder(end))
            for folder in leftovers(self.folder(end)):
                shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):  # the day holds other slots, or another sweep prunes, too
                self.folder(end).parent.rmdir()
        return len(gone)

    def samples_of(self, window: Window, subscriptions: Sequence[tuple[str, str]]) -> pa.Table:
        """All samples of some (group, topic) in a window, with those of their topics and of their groups' members.

        Only the parts of the files that can hold them are read.
        """
        groups, topics = {group for group, _ in subscriptions}, {topic for _, topic in subscriptions}
        files = self.files(self.slots_of(window)) if groups else []
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # Arrow reads without Python's lock
            found = list(pool.map(lambda file: _rows_of(file.path, groups, topics), files))
        return pa.concat_tables([SAMPLES_SCHEMA.empty_table(), *found])


def open_store(root: Path) -> Store:
    """A store that is there; a slot that a killed landing has moved aside is brought back.

    Raises:
        UsageError: if the folder holds no store.
        DamagedCaptureError: if its head cannot be read.
    """
    path = root / INFO
    if not path.is_file():
        raise UsageError(
            f"{root} is no store: it has no {INFO}.",
            hint="workbench triage --all --cluster NAME --store FOLDER makes one.",
        )
    for day in (root / SAMPLES).glob("day=*"):
        restored(day)
    try:
        return Store(root=root, info=StoreInfo.model_validate_json(path.read_bytes()))
    except ValidationError as error:
        raise DamagedCaptureError(f"{path} cannot be read: {first_problem(error, whole='the file')}.") from None


def make_store(root: Path, info: StoreInfo) -> Store:
    """A new store, or the one that is there if it is of the same cluster and has slots of the same length.

    Raises:
        UsageError: if the folder holds something else.
    """
    if (root / INFO).is_file():
        there = open_store(root)
        for name in ("cluster", "slot_seconds"):
            if getattr(there.info, name) != getattr(info, name):
                raise UsageError(
                    f"{root} is a store with {name} {getattr(there.info, name)!r}, not {getattr(info, name)!r}.",
                    hint="Name another folder.",
                )
    elif root.exists() and any(root.iterdir()):
        raise UsageError(f"{root} exists, is not empty, and is no store.", hint="Name another folder.")
    root.mkdir(parents=True, exist_ok=True)
    with atomic_write(root / INFO) as temporary:
        temporary.write_text(info.model_dump_json(indent=1, by_alias=True) + "\n", encoding="utf-8")
    return Store(root=root, info=info)


def _rows_of(path: Path, groups: set[str], topics: set[str]) -> pa.Table:
    """The rows of some groups, and of some topics that belong to no group."""
    # Text as dictionaries: some names for a hundred thousand rows, of which few are wanted.
    file = pq.ParquetFile(path, read_dictionary=[field.name for field in SAMPLES_SCHEMA if field.type == pa.string()])
    names = file.schema_arrow.names
    columns = {name: names.index(name) for name in ("group", "topic")}
    wanted = []
    for at in range(file.metadata.num_row_groups):
        part = file.metadata.row_group(at)
        group, topic = (part.column(columns[name]).statistics for name in ("group", "topic"))
        if _may_hold(group, groups) or (_may_be_null(group) and _may_hold(topic, topics)):
            wanted.append(at)
    if not wanted:
        return SAMPLES_SCHEMA.empty_table()
    table = file.read_row_groups(wanted, use_threads=False)
    mine = _is_one_of(table["group"], groups)
    shared = pc.and_(pc.is_null(table["group"]), _is_one_of(table["topic"], topics))
    return table.filter(pc.or_(mine, shared)).cast(SAMPLES_SCHEMA)


def _is_one_of(column: pa.ChunkedArray, names: set[str]) -> pa.ChunkedArray:
    """Row by row, by the codes of a dictionary; false for null."""
    wanted = pa.array(sorted(names), pa.string())
    found = (pc.is_in(chunk.dictionary, wanted).take(chunk.indices) for chunk in column.chunks)
    return pa.chunked_array([pc.fill_null(chunk, False) for chunk in found], pa.bool_())


def _may_hold(statistics: Any, names: set[str]) -> bool:
    if statistics is None or not statistics.has_min_max:
        return statistics is None or statistics.num_values > 0  # without limits, or with nothing but nulls
    return any(statistics.min <= name <= statistics.max for name in names)


def _may_be_null(statistics: Any) -> bool:
    return statistics is None or not statistics.has_null_count or statistics.null_count > 0


def _pieces(series: SeriesTable) -> Iterator[SeriesTable]:
    """The series in order, about a file's samples at a time, never dividing a group (or, of series without a group, a topic)."""
    series = series.merged()
    # Only the order is made of all at once; the samples of a fleet's slot are put in order a file at a time.
    order = pc.sort_indices(series.names, sort_keys=[(name, "ascending") for name in ORDER]).to_numpy()
    names = series.names.select(["group", "topic"])
    topic = pc.if_else(pc.is_null(names["group"]), names["topic"], pa.scalar(None, pa.string()))
    codes = codes_of(names.set_column(1, "topic", topic), ("group", "topic"))[order]
    edges = np.append(np.flatnonzero(np.diff(codes)) + 1, len(series))
    until = np.cumsum(series.lengths[order])[edges - 1] if len(series) else edges  # samples up to each edge
    begin = done = 0
    while begin < len(series):
        at = min(int(np.searchsorted(until, done + _FILE_ROWS)), len(edges) - 1)
        yield series.take(order[begin : edges[at]])
        begin, done = int(edges[at]), int(until[at])


def _write(path: Path, samples: pa.Table) -> None:
    pq.write_table(
        samples.replace_schema_metadata({"made_by": _MADE_BY}),
        path,
        compression="zstd",
        compression_level=1,
        row_group_size=_ROW_GROUP,
        use_dictionary=[name for name in SAMPLES_SCHEMA.names if name not in ("ts", "value")],
        # Spark's quick reader knows this encoding, and not the one by which values would pack better.
        column_encoding={"ts": "DELTA_BINARY_PACKED"},
        write_page_index=True,
    )


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()[:24]
