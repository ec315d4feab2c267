"""Common parts of the commands of `workbench replay`."""

from __future__ import annotations

import sys

from workbench.cli.typed import PlanFile
from workbench.errors import UsageError
from workbench.replay.connect import SHORT_HASH, check_hash
from workbench.screen import ask, say

PLAN_FILE = PlanFile()


def collect_no_garbage() -> None:
    """For a short process that makes a hundred thousand small objects and keeps them: a quarter of its time (measured)."""
    import gc

    gc.disable()


def confirm_hash(full: str, given: str | None, summary: str) -> None:
    """Have a person type the short hash, or take it from the option.

    Raises:
        UsageError: if there is no terminal and no option.
        GuardError: if it is a wrong hash.
    """
    short = full[:SHORT_HASH]
    if given is None:
        if not sys.stdin.isatty():
            raise UsageError("Without a terminal, the hash is required.", hint=f"Read it, then add: --confirm {short}")
        say(summary)
        given = ask(f"Type {short} to continue")
    check_hash(full, given)


def seconds_of(text: str) -> float:
    """A duration that may be zero.

    Raises:
        WindowError: if it is none.
    """
    from workbench.window import parse_duration

    return 0.0 if text.strip() in ("0", "0s", "0m") else parse_duration(text).total_seconds()
