"""Many small ledgers judged in one job, each as a stream of its own: a plan takes seconds, however few its rows are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.audit.audit_frames import frame_of_rows
from workbench.audit.window_verdicts import StreamShape, edges
from workbench.layers.rows import AuditRow

Runs = Callable[[], Mapping[str, Sequence[AuditRow]]]
# By case and run, rows by edge and window.
Judged = dict[str, dict[str, dict[tuple[str, int], Any]]]


def apart(runs: Mapping[str, Sequence[AuditRow]]) -> list[AuditRow]:
    """Rows of several runs in one ledger: each is a stream of its own."""
    return [row.model_copy(update={"stream": name}) for name, rows in runs.items() for row in rows]


class Together:
    """Cases of a module: functions that make runs, by the names of these."""

    def __init__(self, shape: StreamShape) -> None:
        self._shape = shape
        self._cases: dict[str, Runs] = {}

    def case(self, make: Runs) -> Runs:
        """Have the runs of a test judged with those of the others."""
        self._cases[make.__name__] = make
        return make

    def judged(self, spark: Any) -> Judged:
        """All runs of all cases."""
        made = {name: make() for name, make in self._cases.items()}
        found: Judged = {name: {run: {} for run in runs} for name, runs in made.items()}
        rows = apart({f"{name}/{run}": rows for name, runs in made.items() for run, rows in runs.items()})
        for row in edges(frame_of_rows(spark, rows), self._shape).collect():
            name, _, run = row["stream"].partition("/")
            found[name][run][row["edge"], row["window_ms"]] = row
        return found
