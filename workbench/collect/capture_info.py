"""What a capture says of itself, `capture.json`. Without its tables: a mistyped time or name is answered before they are loaded."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import DamagedCaptureError, NotACaptureError
from workbench.files import write_text
from workbench.limited_reads import first_problem
from workbench.settings_of_groups import Expectations, Recorded
from workbench.thresholds import Thresholds

INFO, SAMPLES, GROUPS, EVENTS = "capture.json", "samples.parquet", "groups.parquet", "events.jsonl"
ANSWERS = "answers.json.zz"
YEARS = (1970, 2999)
_HEAD_BYTES = 16 << 20


def _dated(instant: datetime) -> datetime:
    """Refuse implausible years: near the ends of the calendar, date arithmetic fails."""
    if not YEARS[0] <= instant.year <= YEARS[1]:
        raise ValueError(f"the year {instant.year} is outside {YEARS[0]} to {YEARS[1]}")
    return instant


_Dated = Annotated[datetime, AfterValidator(_dated)]


class WindowModel(BaseModel):
    """The window in the file."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    baseline_start: _Dated
    start: _Dated
    end: _Dated


class FileCheck(BaseModel):
    """Expected size and digest of a file."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    sha256: str
    rows: int


class CaptureInfo(BaseModel):
    """The content of `capture.json`."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    format: Literal["workbench.capture/1"] = Field(default="workbench.capture/1", alias="schema")
    state: Literal["recording", "complete"] = "complete"
    cluster: str
    # For the commands of actions; None if Kafka itself was not queried.
    bootstrap: str | None = None
    source: str
    profiles: list[str]
    window: WindowModel
    groups: list[str] | None = None
    topics: list[str] | None = None
    incomplete: list[str] = []
    match: dict[str, str] = {}  # which series of the Prometheus are the cluster's
    expected: Recorded = {}  # by group pattern: what changes a verdict
    sources: list[str] = []  # how many sources measured the same, in words
    # Thresholds of the recording: a lab's incident is compressed in time, and so are its thresholds.
    thresholds: Thresholds = Thresholds()
    created_at: _Dated
    versions: dict[str, str] = {}
    files: dict[str, FileCheck] = {}

    def limits(self, group: str) -> Thresholds:
        """Thresholds of one group."""
        return Expectations(self.expected).limits(self.thresholds, group)


def write_info(folder: Path, info: CaptureInfo) -> None:
    """Write `capture.json` atomically."""
    write_text(folder / INFO, info.model_dump_json(indent=1, by_alias=True) + "\n")


def read_info(folder: Path) -> CaptureInfo:
    """Read the `capture.json` of a capture.

    Raises:
        NotACaptureError: if the folder is not a capture.
        DamagedCaptureError: if its `capture.json` cannot be read.
    """
    path = folder / INFO
    if not folder.is_dir():
        there = f"{folder} is a file, and no capture." if folder.exists() else f"There is no folder {folder}."
        raise NotACaptureError(there, hint="A capture is a folder with a capture.json in it.")
    if not path.is_file():
        raise NotACaptureError(
            f"{folder} is not a capture: it has no {INFO}.",
            hint="Record one with: workbench capture --cluster CLUSTER --output FOLDER",
        )
    if inside(folder, path).stat().st_size > _HEAD_BYTES:
        raise DamagedCaptureError(f"{path} is too large for a capture's head.")
    try:
        info = CaptureInfo.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise DamagedCaptureError(
            f"{path} cannot be read: {first_problem(error, whole='the file')}.",
            hint="Was it written by a newer version, or truncated?",
        ) from None
    missing = {SAMPLES, GROUPS, EVENTS} - info.files.keys()
    if info.state == "complete" and missing:
        raise DamagedCaptureError(f"{path} does not list {sorted(missing)[0]}.", hint="Copy the whole folder again.")
    if info.files.keys() - {SAMPLES, GROUPS, EVENTS, ANSWERS}:
        raise DamagedCaptureError(
            f"{path} lists files that do not belong to a capture.", hint="Do you trust its source?"
        )
    return info


def inside(folder: Path, path: Path) -> Path:
    """Refuse a file that is a link to another place."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DamagedCaptureError(
            f"{path} is outside of the capture.",
            hint="A capture contains its own files; links to other places are refused.",
        )
    return path
