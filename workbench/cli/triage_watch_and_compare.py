"""Repeated triage: `workbench triage --watch` and `workbench triage --compare`."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from workbench.errors import ExitCode, WorkbenchError
from workbench.safe_output import say, tell, write_json

if TYPE_CHECKING:
    from workbench.triage.compare_triages import FindingChange
    from workbench.triage.triage_engine import Triage

_MARKS = {"yes": "✓", "no": "✗", "cannot_tell": "?"}


def show_comparison(before: Triage, after: Triage, *, as_json: bool) -> int:
    """Print what has changed between two captures. Exit code as for the later look."""
    from workbench.api.triages import exit_code
    from workbench.triage.compare_triages import SCHEMA, compare

    changes = compare(before, after)
    if as_json:
        write_json(
            {
                "schema": SCHEMA,
                "before": before.window.to_json(),
                "after": after.window.to_json(),
                "changes": [change.to_json() for change in changes],
            }
        )
    else:
        for change in changes:
            tell(change.words)
            _print_checks(change)
    return exit_code(after)


def _print_checks(change: FindingChange) -> None:
    for number, it in enumerate(change.checks, 1):
        tell(f"  {_MARKS[str(it.holds)]} {number}. {it.action.verify}")
        tell(f"       after: {it.action.title}")


def watch(look: Callable[[], Triage], *, every_seconds: float, for_seconds: float, as_json: bool) -> int:
    """Repeat the triage until each subscription that lagged is healthy, or a check of its actions passes.

    Returns:
        0 then, 7 if it times out first. A triage that fails is reported, and does not end the watch.
    """
    from workbench.triage.compare_triages import compare
    from workbench.triage.verdict_names import State

    first = look()
    sick = [finding for finding in first.findings if finding.state is not State.HEALTHY]
    if not sick:
        say("Nothing lags.")
        return ExitCode.OK
    for finding in sick:
        say(f"{finding.group} ← {finding.topic}: {finding.headline}")
    deadline = time.monotonic() + for_seconds
    while True:
        time.sleep(max(0.0, min(every_seconds, deadline - time.monotonic())))
        try:
            changes = [change for change in compare(first, look()) if change.before in sick]
        except WorkbenchError as error:
            say(f"This triage failed: {error.message}")
            changes = []
        for change in changes:
            if as_json:
                write_json(change.to_json(), indent=None)
            else:
                tell(f"{datetime.now(UTC):%H:%M:%S}Z  {change.words}")
                _print_checks(change)
        if changes and all(change.settled for change in changes):
            say("The check passed." if len(changes) == 1 else "The checks passed.")
            return ExitCode.OK
        if time.monotonic() >= deadline:
            say("Timed out; not every check passed.")
            return ExitCode.DEADLINE
