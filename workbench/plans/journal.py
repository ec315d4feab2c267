"""Journal: one JSON line before and one after each change, synced to disk before the next step. Append-only."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import GuardError, OutputError, UsageError, WorkbenchError
from workbench.files import exclusive_lock, make_folder, sync_name
from workbench.masking import masked
from workbench.plans.strict_document import current_user
from workbench.user_folders import state_dir

Action = Literal["apply", "rollback", "carry", "switch", "command", "redrive", "discard", "retire", "hold", "release"]

_DONE: dict[Action, str] = {
    "apply": "Offsets were written for the group {}",
    "rollback": "The group {} was changed back",
    "carry": "Offsets were carried over into the group {}",
    "switch": "The request to switch was sent to {}",
    "command": "The command was run for {}",
    "redrive": "Records were produced for the plan {}",
    "retire": "The group {} was deleted",
    "hold": "The instance {} was told to read no more",
    "release": "The instance {} was told to read again",
    "discard": "Letters were marked as discarded for the plan {}",
}

# (topic, partition, old offset, new offset, error): the change of one partition. None as an offset: no commit.
Change = tuple[str, int, int | None, int | None, str | None]


class Entry(BaseModel):
    """One line of the journal of what replays and redrives have changed.

    Attributes:
        phase: "begin" is written before the change, "end" after it; a begin without an end was interrupted.
        target: what is changed other than offsets: an instance of the fleet.
        outcome: of an end: done, partial, failed or unknown.
    """

    model_config = ConfigDict(hide_input_in_errors=True, extra="ignore", frozen=True, populate_by_name=True)

    schema_: Literal["workbench.replay-journal/1"] = Field(alias="schema", default="workbench.replay-journal/1")
    at: str
    who: str
    host: str
    pid: int
    plan: str
    cluster_id: str
    group: str
    action: Action
    phase: Literal["begin", "end"]
    outcome: str | None = None
    target: str | None = None
    detail: str | None = None
    changes: list[Change] = []

    @property
    def is_open(self) -> bool:
        """Whether it does not tell what has come of the change: it was interrupted, or nobody knows."""
        return self.phase == "begin" or self.outcome == "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """An append-only file of entries."""

    path: Path

    @classmethod
    def of_user(cls) -> Journal:
        """Open the journal of this user on this machine."""
        return cls(path=state_dir() / "replay" / "journal.jsonl")

    def append(
        self,
        *,
        plan: str,
        cluster_id: str,
        group: str,
        action: Action,
        phase: Literal["begin", "end"],
        outcome: str | None = None,
        target: str | None = None,
        detail: str | None = None,
        changes: Sequence[Change] = (),
        after: BaseException | None = None,
    ) -> Entry:
        """Append one entry; it is synced to disk when this returns.

        Args:
            after: the error that has ended the change, which the caller raises. If the end cannot be written, it says so too.

        Raises:
            UsageError: if a begin cannot be written; nothing may be changed then.
            OutputError: if an end cannot be written; it says that the change was made, with the outcome.
        """
        entry = Entry(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            who=current_user(),
            host=socket.gethostname(),
            pid=os.getpid(),
            plan=plan,
            cluster_id=cluster_id,
            group=group,
            action=action,
            phase=phase,
            outcome=outcome,
            target=masked(target) if target else target,
            detail=masked(detail) if detail else detail,
            changes=list(changes),
        )
        line = json.dumps(entry.model_dump(by_alias=True, mode="json"), separators=(",", ":")).encode() + b"\n"
        try:
            make_folder(self.path.parent)
            with self.path.open("a+b") as out:
                fcntl.flock(out, fcntl.LOCK_EX)
                if size := out.seek(0, os.SEEK_END):  # else the file is new, or its writer crashed before writing
                    out.seek(size - 1)
                    if out.read(1) != b"\n":  # a crash truncated the last line: keep it, on a separate line
                        line = b"\n" + line
                out.write(line)
                out.flush()
                os.fsync(out.fileno())
                if not size:
                    sync_name(self.path)
        except OSError as error:
            if after is not None:
                _say_too(after, f"Nor could the end be written to the journal {self.path}: {error.strerror}.")
                return entry
            if phase == "end":
                raise OutputError(
                    f"{_DONE[action].format(target or repr(group))} (outcome: {outcome}), but the last line of the journal "
                    f"{self.path} could not be written: {error.strerror}.",
                    hint="Free some disk space, then repeat the command: it checks the current state and does only what is missing.",
                ) from None
            raise UsageError(
                f"The journal {self.path} cannot be written: {error.strerror}.", hint="Nothing was changed."
            ) from None
        return entry

    def read(self) -> tuple[list[Entry], int]:
        """Read all entries, and the number of truncated or damaged lines.

        Raises:
            UsageError: if the file exists and cannot be read.
        """
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return [], 0
        except OSError as error:
            raise UsageError(f"The journal {self.path} cannot be read: {error.strerror}.") from None
        entries, torn = [], 0
        for line in lines:
            try:
                entries.append(Entry.model_validate_json(line))
            except ValidationError:
                torn += bool(line.strip())
        return entries, torn

    def open_change(self, group: str, cluster_id: str) -> Entry | None:
        """The last change of a group's offsets, if no line tells what has come of it: it was interrupted, or its outcome is unknown.

        Who finds that it took effect writes its end; else the interrupted run stays the last word.

        Raises:
            UsageError: as `read`.
        """
        own = (
            it
            for it in reversed(self.read()[0])
            if (it.group, it.cluster_id) == (group, cluster_id) and it.target is None
        )
        last = next(own, None)
        return last if last is not None and last.is_open else None


def _say_too(error: BaseException, words: str) -> None:
    """Have an error tell of another one, and stay what it is: its exit code and its hint are about the cause."""
    if isinstance(error, WorkbenchError):
        error.message = f"{error.message} {words}"
        error.args = (error.message,)
    else:
        error.add_note(words)


def begun_replays(entries: Sequence[Entry]) -> dict[str, dict[tuple[str, int], int]]:
    """Offsets at which groups were set to begin a replay that was neither rolled back nor retired; by group."""
    found: dict[tuple[str, str], dict[tuple[str, int], int]] = {}  # another cluster may have a group of that name
    for entry in entries:
        if entry.phase != "end":
            continue
        if entry.action == "apply":
            at = {
                (topic, number): new for topic, number, _, new, error in entry.changes if new is not None and not error
            }
            found.setdefault((entry.cluster_id, entry.group), {}).update(at)
        elif entry.action in ("rollback", "retire") and entry.outcome == "done":
            found.pop((entry.cluster_id, entry.group), None)
    merged: dict[str, dict[tuple[str, int], int]] = {}
    for (_, group), at in found.items():
        merged.setdefault(group, {}).update(at)
    return merged


def replays_begun_here() -> dict[str, dict[tuple[str, int], int]]:
    """`begun_replays` of this user's journal on this machine; none if it cannot be read."""
    try:
        return begun_replays(Journal.of_user().read()[0])
    except UsageError:
        return {}


@contextmanager
def only_one(group: str) -> Iterator[None]:
    """Lock a group so that only one process of this machine changes it; the lock ends with the process.

    Raises:
        GuardError: if another process has the lock.
        UsageError: if the state folder cannot hold one; nothing was changed then.
    """
    folder = state_dir() / "replay" / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The state folder {folder} cannot be made: {error.strerror}.",
            hint="Nothing was changed. Set XDG_STATE_HOME to a folder of this machine that you may write to.",
        ) from None
    refusal = GuardError(f"Another process is changing the group {group!r} now.", hint="See: workbench replay log.")
    with exclusive_lock(folder / hashlib.sha256(group.encode()).hexdigest()[:32], refusal):
        yield
