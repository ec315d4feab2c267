"""Store of landed samples: a fleet's measurements as Parquet in time slots, written once and read by any number of sweeps.

    store.json                                          cluster, length of a slot, thresholds, profiles
    samples/day=2026-11-21/slot=0315/part-<digest>.parquet    samples that end at 03:15 UTC, `workbench.samples.SAMPLES_SCHEMA`
    samples/day=…/slot=…/_incomplete.json               what the source reported as missing; only for incomplete slots
    summaries/…                                         condensed files (`workbench.sweep.condense_store`)

A slot appears atomically. All rows of a group are in one file of a slot, and so are all rows of a topic that belong to no group:
so each file can be condensed separately. Spark reads a store like any partitioned folder: `spark.read.parquet(…/samples)`.
In object storage, a slot has a manifest (`workbench.sweep.fleet_store_on_s3`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import DamagedCaptureError, NoSeriesError, SlotReplacedError, UsageError
from workbench.files import writing
from workbench.humanize import listed
from workbench.limited_reads import first_problem
from workbench.samples import SAMPLES_SCHEMA, SERIES_ORDER, SeriesTable, codes_of
from workbench.settings_of_groups import Expectations, GroupSettings, Recorded
from workbench.sweep.read_store import rows_of, rows_of_nobody
from workbench.sweep.reads_while_replaced import tries
from workbench.sweep.storage_port import INCOMPLETE, INFO, READ_AS, SAMPLES, SUMMARIES, StoreFiles
from workbench.sweep.store_places import files_of
from workbench.thresholds import Thresholds
from workbench.window import Window

BASELINE_SLOTS = 4  # quarters of the baseline, as in `features.summary_schema`
# The rows of a series are together, and so are those of its group: this compresses best, and condensing needs it.
ORDER = (*SERIES_ORDER, "le")
_LONGEST_SLOT_SECONDS = 366 * 86_400
_FIRST_YEAR, _LAST_YEAR = 1970, 2999
_FILE_ROWS = 1_000_000  # about 60 MB while it is condensed
_ROW_GROUP = 131_072  # rows of a few groups: so the rows of one group are read without the others
_MADE_BY = b"workbench.store/1"
T = TypeVar("T")


class StoreInfo(BaseModel):
    """The content of `store.json`."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    format: Literal["workbench.store/1"] = Field(default="workbench.store/1", alias="schema")
    cluster: str
    slot_seconds: int = Field(gt=0, le=_LONGEST_SLOT_SECONDS)
    bootstrap: str | None = None
    source: str = "prometheus"
    profiles: list[str] = []
    match: dict[str, str] = {}  # which series of the Prometheus are the cluster's
    parts: list[str] = []  # which Prometheus have parts of them, if there are several
    thresholds: Thresholds = Thresholds()
    expected: Recorded = {}  # by group pattern: what changes a verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedFile:
    """One file of a slot.

    Attributes:
        path: a `pathlib.Path`, or an `ObjectFile`.
        end: of its slot.
        size: in bytes.
        digest: of its content, from its name.
    """

    path: Any
    end: datetime
    size: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStore:
    """A folder of landed samples, or a prefix in object storage.

    Attributes:
        own: settings of who reads it, by group pattern: owner, links and commands. They are not part of the files, and neither is
            `login_file`, that of `Cluster`.
        begun: replays of the reader's machine, as in a capture.
        reading: a digest of the settings by which its samples are read now (`capture_in_memory.reading_of`). What landed by others may
            have other series, names or units, so it is not judged together; None accepts each slot as it is.
    """

    place: StoreFiles
    info: StoreInfo
    own: Mapping[str, GroupSettings] = field(default_factory=dict)
    login_file: str | None = None
    begun: Mapping[str, Mapping[tuple[str, int], int]] = field(default_factory=dict)
    reading: str | None = None

    @property
    def root(self) -> Any:
        """Where it is: a `pathlib.Path`, or an `ObjectFile`."""
        return self.place.path()

    @property
    def expectations(self) -> Expectations:
        """What is expected of its groups."""
        return Expectations.recorded(self.info.expected, self.own)

    @property
    def slot(self) -> timedelta:
        """Length of a slot, which is the length of a sweep's window."""
        return timedelta(seconds=self.info.slot_seconds)

    def slot_end(self, instant: datetime) -> datetime:
        """Latest slot end that is not after a time."""
        return datetime.fromtimestamp(instant.timestamp() // self.info.slot_seconds * self.info.slot_seconds, UTC)

    def window_ending(self, end: datetime) -> Window:
        """Window of one slot, with the four slots before it as the baseline."""
        return Window.ending(end, length=self.slot, baseline=BASELINE_SLOTS * self.slot)

    def slots_of(self, window: Window) -> list[datetime]:
        """Ends of a window's slots, oldest first."""
        return [window.end - number * self.slot for number in range(BASELINE_SLOTS, -1, -1)]

    def folder(self, end: datetime) -> Any:
        """Where the files of the slot with this end are, whether it has landed or not."""
        return self.place.path(f"{SAMPLES}/{_slot(end)}")

    def landed(self) -> list[datetime]:
        """Ends of the landed slots, oldest first."""
        found = (_end(slot) for slot in self.place.slots())
        return sorted(end for end in found if end is not None)  # others are foreign folders

    def landed_of(self, window: Window, *, read_as: str | None = None) -> list[datetime]:
        """Ends of a window's slots that have landed and were read alike, oldest first.

        Args:
            read_as: how; default: as the window's own slot was. What earlier versions have landed does not tell, and counts.
        """
        here = set(self.landed())
        told = {end: self.place.read_as(_slot(end)) for end in self.slots_of(window) if end in here}
        wanted = read_as if read_as is not None else told.get(window.end)
        return [end for end, it in told.items() if it is None or wanted is None or it == wanted]

    def window(self, until: datetime | None = None) -> Window:
        """Newest landed window, or the newest one up to a time.

        Raises:
            NoSeriesError: if no slot has landed.
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
        """Files of some slots, in a fixed order; slots that have not landed have none."""
        return [
            LandedFile(path=path, end=end, size=size, digest=path.name.removesuffix(".parquet").rpartition("-")[2])
            for end in ends
            for path, size in self.place.parts(_slot(end))
        ]

    def missing_of(self, end: datetime) -> tuple[str, ...]:
        """What the source reported as missing from a landed slot."""
        return self.place.missing(_slot(end))

    def rows_of(self, end: datetime) -> int:
        """Number of samples in a landed slot."""
        return self.place.rows(_slot(end))

    def read(
        self,
        ends: Iterable[datetime],
        read: Callable[[Path, str], T],
        among: Callable[[LandedFile], bool] = lambda _: True,
    ) -> list[tuple[LandedFile, T]]:
        """Read files of some slots by path (of this machine) and digest, and once more if a slot is replaced meanwhile.

        Raises:
            DamagedCaptureError: if a file cannot be read, or needs more memory than a file of others may.
        """
        ends, replaced = list(ends), SlotReplacedError(self.root)
        for _ in tries():
            files = [file for file in self.files(ends) if among(file)]
            try:
                with ThreadPoolExecutor(os.cpu_count()) as pool:  # Arrow reads without Python's GIL
                    found = pool.map(lambda it: read(self.place.local(it.path), it.digest), files)
                    return list(zip(files, found, strict=True))
            except SlotReplacedError as error:
                replaced = error
        raise replaced

    def land(self, end: datetime, series: SeriesTable, *, missing: Sequence[str] = ()) -> list[LandedFile]:
        """Write the samples of a slot; an existing slot is replaced.

        Args:
            end: end of the slot, a multiple of the slot's length.
            series: samples; those outside the slot are left out.
            missing: what is known to be missing; stored with the slot.

        Raises:
            UsageError: if the time is not the end of a slot.
            OutputError: if it cannot be written. SourceUnreachableError: if object storage does not take it.
        """
        if self.slot_end(end) != end:
            raise UsageError(f"{end.isoformat()} is not the end of a slot of {self.info.slot_seconds} s.")
        end_us = round(end.timestamp() * 1e6)
        series = series.between(end_us - self.info.slot_seconds * 1_000_000, end_us)
        told = {READ_AS: self.reading} if self.reading is not None else {}
        with writing(f"The slot {self.folder(end)}"), self.place.filling(_slot(end)) as folder:
            for piece in _pieces(series):
                written = folder / "part.tmp"
                _write(written, piece.to_samples().replace_schema_metadata(told))
                written.rename(folder / f"part-{_digest(written)}.parquet")
            if missing:
                (folder / INCOMPLETE).write_text(json.dumps(list(missing), indent=1) + "\n", encoding="utf-8")
        return self.files([end])

    def prune(self, before: datetime) -> int:
        """Remove the slots that end at or before a time; return their number. Their summaries go one window later.

        A sweep beside this one may be reading those of its baseline, and Spark takes none that is gone.
        """

        def is_old(slot: str) -> bool:
            end = _end(slot)
            return end is not None and end <= before

        count = self.place.remove_slots(is_old)
        oldest = before - (BASELINE_SLOTS + 1) * self.slot
        for name in self.place.names(SUMMARIES):  # of earlier versions, too
            at = _end_of_summary(name)
            if at is not None and at <= oldest:
                self.place.remove(name)
        return count

    def samples_of(
        self,
        window: Window,
        subscriptions: Sequence[tuple[str, str]],
        among: Callable[[LandedFile], bool] = lambda _: True,
    ) -> pa.Table:
        """Read all samples of some (group, topic) in a window, with those of their topics and of their groups' members.

        Only row groups that can contain them are read, of the files that `among` is true for.

        Raises:
            DamagedCaptureError: if a file cannot be read, or needs more memory than a file of others may.
        """
        groups, topics = {group for group, _ in subscriptions}, {topic for _, topic in subscriptions}
        if not groups:
            return SAMPLES_SCHEMA.empty_table()
        return self._of_files(window, lambda path, _digest: rows_of(path, groups, topics), among)

    def samples_of_nobody(self, window: Window, among: Callable[[LandedFile], bool] = lambda _: True) -> pa.Table:
        """Read all samples of no group and no topic in a window, such as those of gateways.

        Raises:
            DamagedCaptureError: as `samples_of`.
        """
        return self._of_files(window, lambda path, _digest: rows_of_nobody(path), among)

    def _of_files(
        self, window: Window, read: Callable[[Path, str], pa.Table], among: Callable[[LandedFile], bool]
    ) -> pa.Table:
        found = self.read(self.landed_of(window), read, among)
        return pa.concat_tables([SAMPLES_SCHEMA.empty_table(), *(table for _, table in found)])


def open_store(root: Path | str) -> FleetStore:
    """Open an existing store; a slot that a killed landing moved aside is restored.

    Args:
        root: a folder, or `s3://bucket/prefix` (`workbench.sweep.fleet_store_on_s3`).

    Raises:
        UsageError: if there is no store.
        DamagedCaptureError: if its `store.json` cannot be read.
        SourceUnreachableError: if object storage refuses, or does not answer.
    """
    place = files_of(root)
    info = _info(place)
    if info is None:
        place.is_unused()  # tells that there is no such bucket
        raise UsageError(
            f"{place.path()} is not a store: it has no {INFO}.",
            hint="workbench triage --all --cluster NAME --store FOLDER makes one.",
        )
    place.recover()
    return FleetStore(place=place, info=info)


def make_store(
    root: Path | str,
    info: StoreInfo,
    *,
    own: Mapping[str, GroupSettings] | None = None,
    login_file: str | None = None,
    reading: str | None = None,
) -> FleetStore:
    """Make a new store, or open an existing one of the same cluster and slot length.

    Args:
        root: as of `open_store`.

    Raises:
        UsageError: if the folder contains something else, or there is no such bucket.
        OutputError: if it cannot be written.
        SourceUnreachableError: if object storage refuses, or does not answer.
    """
    place = files_of(root)
    there = _info(place)
    if there is not None:
        place.recover()
        if there.parts != info.parts:  # what has landed lacks what another Prometheus has
            was, now = (listed(it.parts) or "one Prometheus" for it in (there, info))
            raise UsageError(f"{place.path()} is a store of {was}, not of {now}.", hint="Name another folder.")
        for name in ("cluster", "slot_seconds", "match"):
            if getattr(there, name) != getattr(info, name):
                raise UsageError(
                    f"{place.path()} is a store with {name} {getattr(there, name)!r}, not {getattr(info, name)!r}.",
                    hint="Name another folder.",
                )
    elif not place.is_unused():
        raise UsageError(f"{place.path()} exists, is not empty, and is not a store.", hint="Name another folder.")
    if there != info:
        unused = {"parts"} if not info.parts else None  # earlier versions refuse what they do not know
        with writing(f"The store {place.path()}"):
            place.write(INFO, (info.model_dump_json(indent=1, by_alias=True, exclude=unused) + "\n").encode())
    return FleetStore(place=place, info=info, own=own or {}, login_file=login_file, reading=reading)


def _info(place: StoreFiles) -> StoreInfo | None:
    """What its `store.json` says; None if there is none."""
    path = place.path(INFO)
    try:
        return StoreInfo.model_validate_json(path.read_bytes())
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except OSError as error:
        raise DamagedCaptureError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValidationError as error:
        raise DamagedCaptureError(f"{path} cannot be read: {first_problem(error, whole='the file')}.") from None


def _slot(end: datetime) -> str:
    return f"day={end:%Y-%m-%d}/slot={end:%H%M%S}"


def _end(slot: str) -> datetime | None:
    """End of the slot of this name; None for a foreign folder."""
    day, _, time = slot.partition("/")
    end = _instant(day.removeprefix("day=") + time.removeprefix("slot="))
    return end if end is not None and _slot(end) == slot else None


def _end_of_summary(name: str) -> datetime | None:
    parts = name.split("/")
    if len(parts) != 4 or not parts[1].startswith("v") or not name.endswith(".parquet"):
        return None
    return _instant(parts[2] + parts[3].removesuffix(".parquet").rpartition("-")[2])


def _instant(text: str) -> datetime | None:
    """A time as names have it; None for others, and at the ends of the calendar, where nothing can have landed."""
    try:
        found = datetime.strptime(text, "%Y-%m-%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return found if _FIRST_YEAR <= found.year <= _LAST_YEAR else None


def _pieces(series: SeriesTable) -> Iterator[SeriesTable]:
    """Divide sorted series into files of about the same size, without dividing a group (or a topic, for series without a group)."""
    series = series.merged()
    # Only the order is computed at once; the samples of a fleet's slot are sorted one file at a time.
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
        samples.replace_schema_metadata({**(samples.schema.metadata or {}), b"made_by": _MADE_BY}),
        path,
        compression="zstd",
        compression_level=1,
        row_group_size=_ROW_GROUP,
        use_dictionary=[name for name in SAMPLES_SCHEMA.names if name not in ("ts", "value")],
        # Spark's vectorised reader supports this encoding, but not the one that compresses better.
        column_encoding={"ts": "DELTA_BINARY_PACKED"},
        write_page_index=True,
    )


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()[:24]
