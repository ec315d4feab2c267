"""Papermill engine with a deadline for the run, which distinguishes all outcomes.

Papermill's own limits each cell and not the run, and marks a notebook whose kernel died or ran out of time as completed
(read in its clientwrap.py and measured, version 2.7.0).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from traitlets.config import Config

from workbench.errors import DeadlineError, KernelDiedError
from workbench.report.runs.run_record import StepRecord

NAME = "workbench"
_SHORTEST = 0.05  # nbclient reads 0 as "no limit"


class Supervision:
    """Input and output of the engine: deadline, start and end of each cell, and the executed notebook."""

    def __init__(
        self, deadline_seconds: float, *, say: Callable[[str], None], changed: Callable[[Sequence[StepRecord]], None]
    ) -> None:
        self.deadline_seconds = deadline_seconds
        self.notebook: Any = None
        self.steps: list[StepRecord] = []
        self._say, self._changed = say, changed
        self._began = time.monotonic()

    def remaining(self, _cell: Any = None) -> float:
        """Seconds until the deadline, never quite 0."""
        return max(_SHORTEST, self._began + self.deadline_seconds - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return self.remaining() <= _SHORTEST

    def plan(self, cells: Sequence[Any]) -> None:
        """Name the steps."""
        self.steps = [StepRecord(title=_title(cell)) for cell in cells if cell.cell_type == "code"]
        self._changed(self.steps)

    def begin(self, number: int) -> float:
        """A step begins."""
        step = self.steps[number]
        step.state = "running"
        self._say(f"[{number + 1}/{len(self.steps)}] {step.title}")
        self._changed(self.steps)
        return time.monotonic()

    def end(self, number: int, began: float, *, failed: bool) -> None:
        """A step ended."""
        step = self.steps[number]
        step.state, step.seconds = ("failed" if failed else "done"), round(time.monotonic() - began, 2)
        self._changed(self.steps)


def _title(cell: Any) -> str:
    if "injected-parameters" in cell.metadata.get("tags", []):
        return "Parameters of this run"
    return str(cell.metadata.get("title") or "Step")


class _Client(PapermillNotebookClient):  # type: ignore[misc]
    def __init__(self, manager: Any, supervision: Supervision, **options: Any) -> None:
        super().__init__(manager, **options)
        self.supervision = supervision

    def papermill_execute_cells(self) -> None:
        numbers = iter(range(len(self.supervision.steps)))
        for index, cell in enumerate(self.nb.cells):
            if cell.cell_type != "code":
                continue
            number = next(numbers)
            began = self.supervision.begin(number)
            self.nb_man.cell_start(cell, index)
            try:
                self.execute_cell(cell, index)
            except Exception as error:  # the notebook shows any error
                self.nb_man.cell_exception(self.nb.cells[index], cell_index=index, exception=error)
                self.supervision.end(number, began, failed=True)
                if isinstance(error, CellExecutionError):
                    return  # papermill reads the error off the cell
                raise
            self.nb_man.cell_complete(self.nb.cells[index], cell_index=index)
            self.supervision.end(number, began, failed=False)


class WorkbenchEngine(NBClientEngine):  # type: ignore[misc]
    """The engine; `papermill.execute_notebook(engine_name="workbench", supervision=...)`."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
        """Run all cells before the deadline.

        Raises:
            DeadlineError: if they did not end in time; the kernel is killed then.
            KernelDiedError: if the kernel ended by itself, or did not come up.
        """
        supervision: Supervision = options["supervision"]
        supervision.notebook = nb_man.nb
        supervision.plan(nb_man.nb.cells)
        config = Config()
        # Avoids port conflicts of kernels that start at once, and other users cannot connect.
        config.KernelManager.transport = "ipc"
        client = _Client(
            nb_man,
            supervision,
            kernel_name=kernel_name,
            config=config,
            timeout_func=supervision.remaining,
            startup_timeout=max(1, int(supervision.remaining())),
            iopub_timeout=10,
            shutdown_kernel="immediate",
        )
        try:
            return client.execute()
        except CellTimeoutError:
            raise _late(supervision) from None
        except DeadKernelError:
            raise _died() from None
        except RuntimeError as error:  # the kernel did not answer, or ended before it did
            raise (_late(supervision) if supervision.over else _died(str(error))) from None


def _late(supervision: Supervision) -> DeadlineError:
    at = next((step.title for step in supervision.steps if step.state in ("running", "failed")), "starting")
    return DeadlineError(
        f"Not finished within {supervision.deadline_seconds:g} s; last step: {at}.",
        hint="Raise --timeout, or report on a shorter period with --since.",
    )


def _died(reason: str = "") -> KernelDiedError:
    return KernelDiedError(
        "The notebook's kernel died before the notebook had finished" + (f" ({reason})." if reason else "."),
        hint="Most often the machine ran out of memory: see the kernel's log, or report on a shorter period.",
    )


def execute(notebook: Path, parameters: dict[str, str], supervision: Supervision, *, folder: Path) -> None:
    """Run a notebook with parameters; its executed form is in `supervision.notebook` whatever happens.

    Raises:
        PapermillExecutionError: if a cell raised.
        DeadlineError, KernelDiedError: see the engine.
    """
    import papermill

    papermill_engines.register(NAME, WorkbenchEngine)
    papermill.execute_notebook(
        str(notebook),
        None,
        parameters=parameters,
        engine_name=NAME,
        kernel_name="python3",
        progress_bar=False,
        cwd=str(folder),
        supervision=supervision,
    )
