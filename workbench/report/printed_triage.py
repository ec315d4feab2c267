"""What `workbench triage` prints of its result: a page for people, or a row for each finding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from workbench.collect.capture import Capture
from workbench.report.notebook_cells_for_spark import explore_command
from workbench.report.terminal import show
from workbench.terminal_tables import Line, SafeConsole
from workbench.triage.finding import Finding
from workbench.triage.triage_engine import Triage

_IN_A_ROW = (
    "cluster",
    "group",
    "topic",
    "state",
    "verdict",
    "lag_messages",
    "eta_drain_seconds",
    "since",
    "owner",
    "headline",
)


def show_triage(console: SafeConsole, result: Triage, capture: Capture) -> None:
    """Print the findings, and the command that opens the worst one in Spark."""
    show(console, result, capture.samples)
    worst = next(iter(result.findings), None)
    command = explore_command(worst, capture, result.window) if worst is not None else None
    if command is not None:
        console.print(Line(f"In Spark: {command}", style="dim", indent=1))


def rows_of_triage(findings: Sequence[Finding]) -> Iterable[dict[str, Any]]:
    """Findings as rows for `-o csv`: what the overview shows, in seconds and messages."""
    for it in findings:
        yield {**{name: getattr(it, name) for name in _IN_A_ROW}, "time_lag_seconds": it.time_lag.seconds}
