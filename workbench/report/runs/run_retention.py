"""Which runs are kept: nothing is removed unless it is asked for."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from workbench.errors import GuardError, UsageError, WindowError
from workbench.files import exclusive_lock, remove_folder
from workbench.report.runs.run_record import LOCK, RunRecord, RunState, read_record, runs_in
from workbench.window import parse_duration

_LEFT = re.compile(r"\..+\.[0-9a-f]{16}\.gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How many runs of a report are kept, or for how long; one of the two."""

    number: int | None = None
    age: timedelta | None = None


def parse_keep(text: str) -> Keep:
    """Parse a number of runs ("100"), or an age ("90d").

    Raises:
        UsageError: if it is neither.
    """
    given = text.strip()
    if given.isascii() and given.isdigit() and len(given) < 10 and int(given) > 0:
        return Keep(number=int(given))
    try:
        return Keep(age=parse_duration(given))
    except WindowError:
        raise UsageError(
            f"--keep {text!r} is neither a number of runs nor an age.", hint="Write it as 100, or as 90d."
        ) from None


def retain(out: Path, record: RunRecord, keep: Keep, *, now: datetime | None = None) -> list[str]:
    """Remove the runs of the same report and source that are beyond what is kept; return their names, the oldest first.

    A run in progress stays, and so do the given one, the last one that was done, and the one that was done of the latest period: the
    next report compares itself with that, and the exported verdicts are of it.
    """
    same = [(folder, it) for folder, it in runs_in(out) if it.source == record.source]
    done = [(it.period_end or it.started_at, folder.name) for folder, it in same if it.state is RunState.DONE]
    of_latest = max(
        enumerate(done), key=lambda it: (it[1][0], it[0]), default=None
    )  # of several, the one that was made last
    latest = [of_latest[1]] if of_latest is not None else []
    stays = {record.run_id, *(name for _, name in [*done[-1:], *latest])}
    beyond = same[: -keep.number] if keep.number is not None else same
    oldest = (now or datetime.now(UTC)) - keep.age if keep.age is not None else None
    gone = [
        folder.name
        for folder, it in beyond
        if folder.name not in stays and (oldest is None or it.started_at < oldest) and _removed(folder, it)
    ]
    for left in out.glob(".*.gone"):
        if _LEFT.fullmatch(left.name):  # of a removal that was killed
            shutil.rmtree(left, ignore_errors=True)
    return gone


def _removed(folder: Path, record: RunRecord) -> bool:
    """Remove a run, unless it is under way, or was begun again since it was looked at."""
    if record.state is RunState.RUNNING or folder.is_symlink():
        return False
    with suppress(GuardError, OSError), exclusive_lock(folder / LOCK, GuardError("The run is in progress.")):
        if read_record(folder) == record:
            remove_folder(folder)
            return True
    return False
