"""Captures: a recorded stretch of time as a folder, on which any analysis can be run again with no network.

    capture.json      cluster, window, source, profiles, thresholds, versions, checksums
    samples.parquet   the samples, `workbench.samples.SAMPLES_SCHEMA`
    groups.parquet    groups, members and assignments, `workbench.collect.kafka.GROUPS_SCHEMA`
    events.jsonl      deploys, alerts and the like: one object with `ts`, `kind` and `text` a line

What the cause of a recorded fault was never stands in here.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench import __version__
from workbench.collect.kafka import GROUPS_SCHEMA
from workbench.errors import DamagedCaptureError, NotACaptureError, UsageError, WindowError
from workbench.files import whole
from workbench.samples import SAMPLES_SCHEMA
from workbench.settings import Thresholds
from workbench.window import Window
from workbench.words import first_line

INFO, SAMPLES, GROUPS, EVENTS, PARTS = "capture.json", "samples.parquet", "groups.parquet", "events.jsonl", "parts"


class WindowModel(BaseModel):
    """The window as it stands in the file."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    baseline_start: datetime
    start: datetime
    end: datetime


class FileCheck(BaseModel):
    """What a file must be."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    sha256: str
    rows: int


class CaptureInfo(BaseModel):
    """The content of `capture.json`."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    format: Literal["workbench.capture/1"] = Field(default="workbench.capture/1", alias="schema")
    state: Literal["recording", "complete"] = "complete"
    cluster: str
    # For the commands of the advice; None if Kafka itself was not asked.
    bootstrap: str | None = None
    source: str
    profiles: list[str]
    window: WindowModel
    groups: list[str] | None = None
    topics: list[str] | None = None
    incomplete: list[str] = []
    # Those that were in force: a lab's incident is compressed in time, and so are its thresholds.
    thresholds: Thresholds = Thresholds()
    created_at: datetime
    versions: dict[str, str] = {}
    files: dict[str, FileCheck] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """A recorded stretch of time."""

    info: CaptureInfo
    samples: pa.Table
    groups: pa.Table = field(default_factory=GROUPS_SCHEMA.empty_table)
    events: tuple[dict[str, Any], ...] = ()

    @property
    def window(self) -> Window:
        """Its window."""
        window = self.info.window
        return Window(baseline_start=window.baseline_start, start=window.start, end=window.end)


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
) -> CaptureInfo:
    """The head of a new capture."""
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
        thresholds=thresholds or Thresholds(),
        created_at=datetime.now(UTC),
        versions={"workbench": __version__, "python": platform.python_version(), "pyarrow": pa.__version__},
    )


def write_capture(folder: Path, capture: Capture, *, replace: bool = False) -> None:
    """Write a capture; the folder appears complete or not at all.

    Raises:
        UsageError: if the folder exists and holds something else, or `replace` is not set.
    """
    if folder.exists() and any(folder.iterdir()) and not (replace and (folder / INFO).exists()):
        raise UsageError(f"{folder} exists and is not empty.", hint="Name another folder for the capture.")
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    samples = capture.samples.sort_by([(name, "ascending") for name in _SORT])
    write_parquet(part / SAMPLES, samples)
    write_parquet(part / GROUPS, capture.groups)
    (part / EVENTS).write_text("".join(json.dumps(event) + "\n" for event in capture.events), encoding="utf-8")
    rows = {SAMPLES: samples.num_rows, GROUPS: capture.groups.num_rows, EVENTS: len(capture.events)}
    files = {name: FileCheck(sha256=_digest(part / name), rows=count) for name, count in rows.items()}
    write_info(part, capture.info.model_copy(update={"files": files, "state": "complete"}))
    old = folder.with_name(folder.name + ".old")
    if folder.exists():
        folder.replace(old)
    part.replace(folder)
    shutil.rmtree(old, ignore_errors=True)


# Series after series, in time: that is how Parquet packs them best.
_SORT = ("signal", "stat", "group", "topic", "processor", "queue", "member", "broker", "partition", "le", "ts")


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a table small and whole."""
    encodings = {"ts": "DELTA_BINARY_PACKED", "value": "BYTE_STREAM_SPLIT"}
    names = set(table.schema.names)
    with whole(path) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            compression_level=12,
            use_dictionary=[name for name in table.schema.names if name not in encodings],
            column_encoding={name: encoding for name, encoding in encodings.items() if name in names},
        )


def write_info(folder: Path, info: CaptureInfo) -> None:
    """Write `capture.json` in one step."""
    with whole(folder / INFO) as temporary:
        temporary.write_text(info.model_dump_json(indent=1, by_alias=True) + "\n", encoding="utf-8")


def read_capture(folder: Path) -> Capture:
    """Read a capture and check every file of it; one that is still being recorded is read as far as it has come.

    Raises:
        NotACaptureError: if the folder holds no capture.
        DamagedCaptureError: if a file is missing, cut short or changed.
    """
    info = read_info(folder)
    try:
        Window(baseline_start=info.window.baseline_start, start=info.window.start, end=info.window.end)
    except WindowError as error:
        raise DamagedCaptureError(f"{folder / INFO}: {error.message}", hint=error.hint) from None
    if info.state == "recording":
        return Capture(
            info=info,
            samples=_read_parts(folder, SAMPLES, SAMPLES_SCHEMA),
            groups=_read_parts(folder, GROUPS, GROUPS_SCHEMA),
        )
    for name, expected in info.files.items():
        path = folder / name
        if not path.is_file():
            raise DamagedCaptureError(f"{path} is missing from the capture.", hint="Copy the whole folder again.")
        if _digest(path) != expected.sha256:
            raise DamagedCaptureError(
                f"{path} is not what was recorded (its SHA-256 differs).", hint="Copy the whole folder again."
            )
    return Capture(
        info=info,
        samples=_read_parquet(folder / SAMPLES, SAMPLES_SCHEMA),
        groups=_read_parquet(folder / GROUPS, GROUPS_SCHEMA),
        events=_read_events(folder / EVENTS),
    )


def read_info(folder: Path) -> CaptureInfo:
    """Read the head of a capture.

    Raises:
        NotACaptureError: if the folder holds no capture.
        DamagedCaptureError: if its head cannot be read.
    """
    path = folder / INFO
    if not folder.is_dir():
        raise NotACaptureError(f"There is no folder {folder}.", hint="A capture is a folder with a capture.json in it.")
    if not path.is_file():
        raise NotACaptureError(
            f"{folder} is no capture: it has no {INFO}.", hint="Captures: workbench capture, workbench watch."
        )
    try:
        info = CaptureInfo.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DamagedCaptureError(
            f"{path} cannot be read: {where}: {first['msg']}.", hint="Was it written by a newer version, or cut short?"
        ) from None
    missing = {SAMPLES, GROUPS, EVENTS} - info.files.keys()
    if info.state == "complete" and missing:
        raise DamagedCaptureError(f"{path} names no {sorted(missing)[0]}.", hint="Copy the whole folder again.")
    return info


def _read_parquet(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise DamagedCaptureError(f"{path} cannot be read: {first_line(error)}", hint="Copy it again.") from None
    if missing := [name for name in schema.names if name not in table.schema.names]:
        raise DamagedCaptureError(f"{path} has no column {missing[0]!r}.", hint="Was it written by another version?")
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise DamagedCaptureError(
            f"{path} has other types: {error}.", hint="Was it written by another version?"
        ) from None


def _read_parts(folder: Path, name: str, schema: pa.Schema) -> pa.Table:
    stem = name.removesuffix(".parquet")
    parts = [_read_parquet(path, schema) for path in sorted((folder / PARTS).glob(f"{stem}-*.parquet"))]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _read_events(path: Path) -> tuple[dict[str, Any], ...]:
    try:
        return tuple(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, ValueError) as error:
        raise DamagedCaptureError(f"{path} cannot be read: {error}.", hint="Copy it again.") from None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
