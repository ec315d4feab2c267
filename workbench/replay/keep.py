"""Where a new plan may be kept: never over one that was applied, for the way back hangs on it."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import GuardError, UsageError, WorkbenchError
from workbench.replay.journal import Journal
from workbench.replay.planfile import read_plan
from workbench.replay.receipt import receipt_path, rollback_path


def check_csv_place(path: Path) -> None:
    """Refuse to write a CSV over a plan or its papers.

    Raises:
        UsageError: if what lies there begins as they do.
    """
    if path.is_file():
        with path.open("rb") as there:
            if there.read(1) == b"{":
                raise UsageError(f"{path} exists and is not a CSV file.", hint="Give the CSV another name.")


def check_place(path: Path, journal: Journal, *, replace: bool) -> None:
    """Refuse a place at which something lies that must not be lost.

    Args:
        replace: a plan that was never applied may be replaced.

    Raises:
        GuardError: if a plan lies there that was applied, by the papers beside it or by the journal.
        UsageError: if something else lies there, or a plan and `replace` is not asked for.
    """
    hint = "Give the new plan another name."
    for paper in (rollback_path(path), receipt_path(path)):
        if paper.exists():
            raise GuardError(f"{path} is a plan that was applied: {paper} is next to it.", hint=hint)
    if not path.exists():
        return
    try:
        plan = read_plan(path)
    except WorkbenchError as error:
        raise UsageError(f"{path} exists and is not a valid plan: {error.message}", hint=hint) from None
    if any(entry.plan == plan.hash for entry in journal.read()[0]):
        raise GuardError(
            f"{path} is a plan that was applied, according to the journal (workbench replay log --plan {plan.short_hash}).",
            hint=hint,
        )
    if not replace:
        raise UsageError(
            f"{path} is another plan ({plan.short_hash}).", hint="Choose another name, or replace it with --force."
        )
