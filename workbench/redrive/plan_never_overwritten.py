"""The file of a plan is never overwritten."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import GuardError, UsageError
from workbench.redrive.apply import redrive_receipt_path


def check_redrive_place(path: Path) -> None:
    """Refuse to overwrite a file, or to write where no folder is.

    Raises:
        UsageError, GuardError: saying which.
    """
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder of {path} does not exist.")
    if redrive_receipt_path(path).exists():
        raise GuardError(f"{path} is a plan that was applied: its receipt is next to it.", hint="Choose another name.")
    if path.exists():
        raise UsageError(f"{path} exists.", hint="Give the new plan another name.")
