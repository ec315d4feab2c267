"""Where a new plan may be saved: never over an applied plan, because its rollback needs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from workbench.errors import GuardError, UsageError, WorkbenchError
from workbench.plans.journal import Journal
from workbench.plans.strict_document import SHORT_HASH
from workbench.replay.planfile import read_plan
from workbench.replay.receipt import receipt_path, rollback_path


def check_csv_place(path: Path) -> None:
    """Refuse to overwrite a plan, receipt or rollback file with a CSV.

    Raises:
        UsageError: if the existing file looks like one of them.
    """
    if path.is_file():
        with path.open("rb") as there:
            if there.read(1) == b"{":
                raise UsageError(f"{path} exists and is not a CSV file.", hint="Give the CSV another name.")


class _Sealed(Protocol):
    @property
    def hash(self) -> str: ...


def check_place(path: Path, journal: Journal, *, replace: bool, read: Callable[[Path], _Sealed] = read_plan) -> None:
    """Refuse a path with a file that must not be lost.

    Args:
        replace: a plan that was never applied may be replaced.
        read: of the plans that it may replace.

    Raises:
        GuardError: if it is an applied plan, by the files next to it or by the journal.
        UsageError: if it is another file, a plan and `replace` is false, or in no folder.
    """
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder of {path} does not exist.")
    hint = "Give the new plan another name."
    for paper in (rollback_path(path), receipt_path(path)):
        if paper.exists():
            raise GuardError(f"{path} is a plan that was applied: {paper} is next to it.", hint=hint)
    if not path.exists():
        return
    try:
        plan = read(path)
    except WorkbenchError as error:
        raise UsageError(f"{path} exists and is not a valid plan: {error.message}", hint=hint) from None
    if any(entry.plan == plan.hash for entry in journal.read()[0]):
        raise GuardError(
            f"{path} is a plan that was applied, according to the journal (workbench replay log --plan {plan.hash[:SHORT_HASH]}).",
            hint=hint,
        )
    if not replace:
        raise UsageError(
            f"{path} is another plan ({plan.hash[:SHORT_HASH]}).",
            hint="Choose another name, or replace it with --force.",
        )
