"""Record of a run: parameters, progress and outcome. Written atomically, independent of the notebook."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from workbench.errors import OutputError
from workbench.files import write_text
from workbench.limited_reads import read_within

RECORD, RESULT, REPORT, EXECUTED = "run.json", "result.json", "report.html", "executed.ipynb"
OUTPUTS = (RESULT, REPORT, EXECUTED)
LOCK = ".lock"
_RESERVE = ".reserve"
_RESERVED_BYTES = 128 * 1024  # several times the largest record
_RECORD_BYTES = 4 << 20
# For a writer, errors of a quota or a size limit are a full disk.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class RunState(StrEnum):
    """State of a run. `lost`: the record says running, but its process is gone."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DEADLINE = "deadline"
    KERNEL_DIED = "kernel_died"
    TERMINATED = "terminated"
    LOST = "lost"


class StepRecord(BaseModel):
    """One cell of the notebook."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid")

    title: str
    state: Literal["pending", "running", "done", "failed"] = "pending"
    seconds: float | None = None


class RunRecord(BaseModel):
    """The content of `run.json`."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", populate_by_name=True)

    format: Literal["workbench.run/1"] = Field(default="workbench.run/1", alias="schema")
    run_id: str
    report: str
    cluster: str
    parameters: dict[str, str]
    state: RunState = RunState.RUNNING
    exit_code: int | None = None
    message: str | None = None
    hint: str | None = None
    started_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    seconds: float | None = None
    deadline_seconds: float
    pid: int = Field(ge=0, lt=2**31)
    process_started: float
    versions: dict[str, str] = {}
    steps: list[StepRecord] = []
    outputs: dict[str, str] = {}

    @property
    def source(self) -> tuple[str, str, str]:
        """What its reports are of: the report, and a cluster or a recording; a recording may have the name of a cluster."""
        return self.report, self.cluster, self.parameters.get("capture", "")

    @property
    def period_end(self) -> datetime | None:
        """End of the period; None in a record that names none, or not with its time zone: one of another version or another hand."""
        try:
            found = datetime.fromisoformat(self.parameters.get("until", ""))
        except ValueError:
            return None
        return found if found.tzinfo is not None else None


def write_durably(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        OutputError: if it cannot be written, for instance because the disk is full.
    """
    try:
        write_text(path, text, durable=True)
    except OSError as error:
        raise cannot_write(path, error) from None


def cannot_write(path: Path, error: OSError) -> OutputError:
    """The error for a file that could not be written."""
    if error.errno in FULL:
        return OutputError(
            f"{path} cannot be written: the disk is full.", hint="Free some disk space, then run it again."
        )
    return OutputError(f"{path} cannot be written: {error.strerror}.", hint="Name another folder with --output.")


def write_record(folder: Path, record: RunRecord) -> None:
    """Write `run.json`; on a full disk, into the room that `reserved` holds."""
    text = record.model_dump_json(indent=1, by_alias=True) + "\n"
    try:
        write_durably(folder / RECORD, text)
    except OutputError:
        (folder / _RESERVE).unlink(missing_ok=True)
        write_durably(folder / RECORD, text)


@contextmanager
def reserved(folder: Path) -> Iterator[None]:
    """Reserve space on the disk, so the outcome of a run can be written even if its outputs have filled the disk.

    Raises:
        OutputError: if the disk has less free space.
    """
    path = folder / _RESERVE
    try:
        with path.open("wb") as file:
            file.write(os.urandom(_RESERVED_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise cannot_write(folder, error) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def read_record(folder: Path) -> RunRecord | None:
    """Read the record of a run; a running one without a process becomes "lost". None if there is no valid record."""
    try:
        record = RunRecord.model_validate_json(read_within(folder / RECORD, _RECORD_BYTES))
    except (OSError, ValueError):  # ValidationError is one; a name that no file can have, too
        return None
    if record.state is RunState.RUNNING and not _alive(record):
        return record.model_copy(update={"state": RunState.LOST})
    return record


def _alive(record: RunRecord) -> bool:
    import psutil

    try:
        return abs(psutil.Process(record.pid).create_time() - record.process_started) < 1.0
    except psutil.Error:
        return False


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each output that is there."""
    found = {}
    for name in OUTPUTS:
        path = folder / name
        if path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def runs_in(out: Path) -> list[tuple[Path, RunRecord]]:
    """All runs of a folder, oldest first. It reads every record: a view of a few takes `latest_runs`, or `run_named`."""
    found = ((out / name, read_record(out / name)) for name, _ in _folders(out))
    known = [(folder, record) for folder, record in found if record is not None]
    return sorted(known, key=lambda it: it[1].started_at)


def latest_runs(out: Path, most: int) -> list[tuple[Path, RunRecord]]:
    """The runs of a folder that changed last, the latest first; it reads no more records than these."""
    found: list[tuple[Path, RunRecord]] = []
    for name, _ in sorted(_folders(out), key=lambda it: it[1], reverse=True):
        if len(found) == most:
            break
        if (record := read_record(out / name)) is not None:
            found.append((out / name, record))
    return sorted(found, key=lambda it: it[1].started_at, reverse=True)


def run_named(out: Path, name: str) -> tuple[Path, RunRecord] | None:
    """One run by the name of its folder, which is a name and no path; None if there is none."""
    if not name or name.startswith(".") or Path(name).name != name:
        return None
    record = read_record(out / name)
    return None if record is None else (out / name, record)


def _folders(out: Path) -> list[tuple[str, float]]:
    """Names of the folders in a folder, and when each changed; without those that are made or removed just now."""
    found = []
    with suppress(OSError), os.scandir(out) as entries:
        for entry in entries:
            with suppress(OSError):  # removed since it was listed
                if not entry.name.startswith(".") and entry.is_dir():
                    found.append((entry.name, entry.stat().st_mtime))
    return found
