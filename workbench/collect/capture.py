"""Captures: recorded measurements as a folder, for analysis without a network.

    capture.json      cluster, window, source, profiles, thresholds, versions, checksums
    samples.parquet   the samples, `workbench.samples.SAMPLES_SCHEMA`
    groups.parquet    groups, members and assignments, `workbench.samples.GROUPS_SCHEMA`
    events.jsonl      deploys, alerts and the like: one object with `ts`, `kind` and `text` a line
    answers.json.zz   only of a Pulsar: what its admin answered, instead of samples

A capture never contains the cause of a recorded fault.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workbench import __version__
from workbench.collect.capture_info import (
    ANSWERS,
    EVENTS,
    GROUPS,
    INFO,
    SAMPLES,
    YEARS,
    CaptureInfo,
    FileCheck,
    WindowModel,
    inside,
    read_info,
    write_info,
)
from workbench.collect.limited_parquet import Room, read_bounded
from workbench.collect.parquet_footer import TooLargeError
from workbench.errors import DamagedCaptureError, UsageError, WindowError
from workbench.files import atomic_folder, atomic_write, require_empty, write_text, writing
from workbench.humanize import first_line
from workbench.limited_reads import read_within
from workbench.queues.group_kinds import REDRIVE_PREFIX
from workbench.samples import GROUPS_SCHEMA, SAMPLES_SCHEMA
from workbench.settings import Cluster
from workbench.settings_of_groups import Expectations, GroupExpectation, GroupSettings
from workbench.thresholds import Thresholds
from workbench.window import Window

PARTS = "parts"

_EVENTS_BYTES = 64 << 20
_ROOM_GIB = 4.0  # limit for a sweep of 25,000 subscriptions
ROOM_VARIABLE = "WORKBENCH_CAPTURE_GIB"
NO_BASELINE = "no baseline: only the observed seconds are available"  # in `incomplete` of a short observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Recorded measurements with their window.

    Attributes:
        own: settings of who reads it, by group pattern: owner, links and commands. They are not part of the files.
        folder: that it was read from; None: measured just now.
        begun: replays of the reader's machine: group to the offset of each (topic, partition) at which it was set to begin.
        unanswered: what a source did not answer when it was asked just now: a group may have more than is here.
        answers: see `queues.dispatching_queues.DispatchReading`.
        is_known: whether the reader's settings have its cluster; `own_bootstrap` and `login_file` are those of these settings.
    """

    info: CaptureInfo
    samples: pa.Table
    groups: pa.Table = field(default_factory=GROUPS_SCHEMA.empty_table)
    events: tuple[dict[str, Any], ...] = ()
    own: Mapping[str, GroupSettings] = field(default_factory=dict)
    folder: Path | None = None
    is_known: bool = False
    own_bootstrap: str | None = None
    login_file: str | None = None
    begun: Mapping[str, Mapping[tuple[str, int], int]] = field(default_factory=dict)
    answers: bytes | None = None
    unanswered: tuple[str, ...] = ()

    @property
    def bootstrap(self) -> str | None:
        """Brokers for commands: of a recording only those of the reader, who may have other addresses for them, or none."""
        return self.info.bootstrap if self.folder is None else self.own_bootstrap

    @property
    def expectations(self) -> Expectations:
        """What is expected of its groups."""
        return Expectations.recorded(self.info.expected, self.own)

    @property
    def window(self) -> Window:
        """Its window."""
        window = self.info.window
        return Window(baseline_start=window.baseline_start, start=window.start, end=window.end)

    def samples_of(self, groups: Sequence[str], topics: Sequence[str]) -> pa.Table:
        """Samples of these groups and topics (empty: all); samples without a group (log ends) or a topic (members) are kept.

        Positions of redrive plans are left out unless they are among `groups`.
        """
        samples = self.samples
        if not groups:
            plans = pa.compute.starts_with(samples["group"], REDRIVE_PREFIX)
            samples = samples.filter(pa.compute.invert(plans.fill_null(False)))
        for column, wanted in (("group", groups), ("topic", topics)):
            if wanted:
                values = samples[column]
                keep = pa.compute.or_(
                    pa.compute.is_in(values, pa.array(wanted, pa.string())), pa.compute.is_null(values)
                )
                samples = samples.filter(keep)
        return samples


def new_info(
    *,
    cluster: str,
    source: str,
    profiles: list[str],
    window: Window,
    bootstrap: str | None = None,
    groups: list[str] | None = None,
    topics: list[str] | None = None,
    incomplete: list[str] | None = None,
    thresholds: Thresholds | None = None,
    state: Literal["recording", "complete"] = "complete",
    match: Mapping[str, str] | None = None,
    sources: Sequence[str] = (),
    expected: Mapping[str, GroupExpectation] | None = None,
) -> CaptureInfo:
    """Make the `capture.json` of a new capture."""
    return CaptureInfo(
        state=state,
        cluster=cluster,
        bootstrap=bootstrap,
        source=source,
        profiles=profiles,
        window=WindowModel(baseline_start=window.baseline_start, start=window.start, end=window.end),
        groups=groups,
        topics=topics,
        incomplete=incomplete or [],
        match=dict(match or {}),
        sources=list(sources),
        expected=dict(expected or {}),
        thresholds=thresholds or Thresholds(),
        created_at=datetime.now(UTC),
        versions={"workbench": __version__, "python": platform.python_version(), "pyarrow": pa.__version__},
    )


def write_capture(folder: Path, capture: Capture) -> None:
    """Write a capture; the folder appears atomically.

    Raises:
        UsageError: if the folder exists and is not empty.
        OutputError: if it cannot be written.
    """
    require_empty(folder)
    with writing(f"The capture {folder}"):
        try:
            with atomic_folder(folder) as part:
                _write(part, capture)
        except FileExistsError:  # another process was faster
            require_empty(folder)
            raise


def with_own(capture: Capture, cluster: Cluster | None) -> Capture:
    """A capture as a reader with these settings sees it: with their owners, links and commands, and for their brokers."""
    if cluster is None:
        return capture
    return replace(
        capture,
        own=cluster.groups,
        is_known=True,
        own_bootstrap=cluster.bootstrap,
        login_file=cluster.login_file,
    )


def complete_recording(folder: Path, capture: Capture) -> None:
    """Turn a recording into a complete capture, in its folder; writing `capture.json` completes it.

    A kill before that leaves the recording; a kill after it leaves the capture with some extra files.
    """
    with writing(f"The capture {folder}"):
        _write(folder, capture)
    shutil.rmtree(folder / PARTS, ignore_errors=True)


def _write(folder: Path, capture: Capture) -> None:
    """Write the files of a complete capture, `capture.json` last."""
    samples = capture.samples.sort_by([(name, "ascending") for name in _SORT])
    write_parquet(folder / SAMPLES, samples)
    write_parquet(folder / GROUPS, capture.groups)
    write_text(folder / EVENTS, "".join(json.dumps(event) + "\n" for event in capture.events))
    rows = {SAMPLES: samples.num_rows, GROUPS: capture.groups.num_rows, EVENTS: len(capture.events)}
    if capture.answers is not None:
        with atomic_write(folder / ANSWERS) as temporary:
            temporary.write_bytes(capture.answers)
        rows[ANSWERS] = 1
    files = {name: FileCheck(sha256=_digest(folder / name), rows=count) for name, count in rows.items()}
    write_info(folder, capture.info.model_copy(update={"files": files, "state": "complete"}))


# Sorted by series and time: this compresses best in Parquet.
_SORT = ("signal", "stat", "group", "topic", "processor", "queue", "member", "broker", "partition", "le", "ts")


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a compressed table atomically."""
    encodings = {"ts": "DELTA_BINARY_PACKED", "value": "BYTE_STREAM_SPLIT"}
    names = set(table.schema.names)
    with atomic_write(path) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            compression_level=12,
            use_dictionary=[name for name in table.schema.names if name not in encodings],
            column_encoding={name: encoding for name, encoding in encodings.items() if name in names},
        )


def read_capture(folder: Path, *, room_gib: float | None = None) -> Capture:
    """Read a capture and check all its files; a running recording is read as far as it is written.

    A capture may come from anywhere: only files in its folder are read, up to a memory limit.

    Args:
        folder: of the capture.
        room_gib: memory limit; default: $WORKBENCH_CAPTURE_GIB or 4 GiB.

    Raises:
        NotACaptureError: if the folder is not a capture.
        DamagedCaptureError: if a file is missing, truncated or changed, or has implausible content.
        UsageError: if it is too large.
    """
    info = read_info(folder)
    try:
        Window(baseline_start=info.window.baseline_start, start=info.window.start, end=info.window.end)
    except WindowError as error:
        raise DamagedCaptureError(f"{folder / INFO}: {error.message}", hint=error.hint) from None
    given = memory_limit_gib() if room_gib is None else room_gib
    try:
        return replace(_read(folder, info, given), folder=folder)
    except TooLargeError:
        raise UsageError(
            f"The capture {folder} needs more than {given:g} GiB of memory.",
            hint=f"If you trust it and have more memory, set {ROOM_VARIABLE}. Otherwise capture less: --group, or a shorter window.",
        ) from None


def memory_limit_gib() -> float:
    """Memory that decoded files of others may take: $WORKBENCH_CAPTURE_GIB or 4 GiB.

    Raises:
        UsageError: if the variable is not a number.
    """
    try:
        return float(os.environ.get(ROOM_VARIABLE) or _ROOM_GIB)
    except ValueError:
        raise UsageError(f"{ROOM_VARIABLE} is not a number.", hint="Write it as a number, such as 16.") from None


def _read(folder: Path, info: CaptureInfo, room_gib: float) -> Capture:
    room = Room(room_gib * 2**30)
    if info.state == "recording":
        try:
            samples, groups = (
                _read_parts(folder, *of, room) for of in ((SAMPLES, SAMPLES_SCHEMA), (GROUPS, GROUPS_SCHEMA))
            )
        except DamagedCaptureError:
            if read_info(folder).state == "recording":
                raise
        # The recording was completed meanwhile, and its parts were removed while they were read.
        if (info := read_info(folder)).state == "recording":
            return Capture(info=info, samples=samples, groups=groups)
        room = Room(room_gib * 2**30)
    for name, expected in info.files.items():
        path = inside(folder, folder / name)
        if not path.is_file():
            raise DamagedCaptureError(f"{path} is missing from the capture.", hint="Copy the whole folder again.")
        if _digest(path) != expected.sha256:
            raise DamagedCaptureError(
                f"{path} was changed after the recording (its SHA-256 differs).", hint="Copy the whole folder again."
            )
    return Capture(
        info=info,
        samples=_read_parquet(folder / SAMPLES, SAMPLES_SCHEMA, room),
        groups=_read_parquet(folder / GROUPS, GROUPS_SCHEMA, room),
        events=_read_events(folder / EVENTS),
        answers=read_within(folder / ANSWERS, _EVENTS_BYTES) if ANSWERS in info.files else None,
    )


def _read_parquet(path: Path, schema: pa.Schema, room: Room) -> pa.Table:
    try:
        table = read_bounded(path, schema, room)
    except KeyError as error:
        raise DamagedCaptureError(
            f"{path} has no column {error.args[0]!r}.", hint="Was it written by another version?"
        ) from None
    except (TypeError, ValueError, pa.ArrowNotImplementedError) as error:  # pa.ArrowInvalid is a ValueError
        raise DamagedCaptureError(
            f"{path} has other column types, or is truncated: {first_line(error)}.",
            hint="Was it written by another version?",
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise DamagedCaptureError(f"{path} cannot be read: {first_line(error)}", hint="Copy it again.") from None
    years = pc.min_max(pc.year(table["ts"])).as_py()
    if table["ts"].null_count:
        raise DamagedCaptureError(f"{path} has rows without a time.", hint="Was it written by another version?")
    if table.num_rows and not (YEARS[0] <= years["min"] <= years["max"] <= YEARS[1]):
        raise DamagedCaptureError(
            f"{path} has samples of the years {years['min']} to {years['max']}.",
            hint="These timestamps are not plausible.",
        )
    return table


def _read_parts(folder: Path, name: str, schema: pa.Schema, room: Room) -> pa.Table:
    stem = name.removesuffix(".parquet")
    paths = sorted((folder / PARTS).glob(f"{stem}-*.parquet"))
    parts = [_read_parquet(inside(folder, path), schema, room) for path in paths]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _read_events(path: Path) -> tuple[dict[str, Any], ...]:
    if path.stat().st_size > _EVENTS_BYTES:
        raise DamagedCaptureError(f"{path} is too large for a list of events.")
    try:
        found = tuple(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedCaptureError(f"{path} cannot be read: {first_line(error)}.", hint="Copy it again.") from None
    if not all(isinstance(event, dict) for event in found):
        raise DamagedCaptureError(f"{path} has a line that is not an event.", hint="Each line must be a JSON object.")
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
