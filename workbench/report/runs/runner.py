"""Run a report as a scheduled job: check, lock, execute, keep its outputs, and record the outcome."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from workbench import __version__, errors, notebook_format
from workbench.errors import ExitCode, GuardError, OutputError, WorkbenchError
from workbench.files import exclusive_lock
from workbench.masking import masked, masked_document
from workbench.report.runs.parameters import HealthParameters, run_id
from workbench.report.runs.run_metrics_file import export as _export
from workbench.report.runs.run_metrics_file import metrics_name as metrics_name
from workbench.report.runs.run_record import (
    EXECUTED,
    LOCK,
    OUTPUTS,
    RECORD,
    REPORT,
    RESULT,
    RunRecord,
    RunState,
    StepRecord,
    cannot_write,
    digests,
    read_record,
    reserved,
    runs_in,
    write_durably,
    write_record,
)
from workbench.report.runs.run_retention import Keep, retain
from workbench.settings import load_settings
from workbench.shipped_files import notebook

DEADLINE_SECONDS = 600.0
_NEXT = ".next-"  # folders of outputs that are being made
_EARLIER = "earlier"
_ATTEMPTS = 3  # to lock a folder that is removed at the same time
_STATES = {
    ExitCode.DEADLINE: RunState.DEADLINE,
    ExitCode.KERNEL: RunState.KERNEL_DIED,
}
Say = Callable[[str], None]


class _TerminatedError(KeyboardInterrupt):
    """A signal asked the run to end. Whatever else is raised in a callback, an event loop writes down, and goes on."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A completed run, from now or earlier."""

    folder: Path
    record: RunRecord
    repeated: bool = True


def run_health(
    parameters: HealthParameters,
    out: Path,
    *,
    deadline_seconds: float = DEADLINE_SECONDS,
    again: bool = False,
    keep: Keep | None = None,
    source: Path | None = None,
    say: Say = lambda _text: None,
) -> Ended:
    """Run the health report in a separate folder below `out`.

    The same source and period are the same run: a completed run is not repeated, a failed one is. The report of a completed one stays
    until the run has ended; if the repetition fails, it is in the folder `earlier` of the run.

    Args:
        again: repeat it even if it is done.
        keep: which runs to keep; None: all.
        source: another notebook with the same parameters as the shipped one.

    Raises:
        GuardError: if the same run is in progress.
        OutputError: if its record cannot be written, or its folder is removed while it runs.
    """
    name = run_id("health", parameters)
    folder = out / name
    with _alone(folder) as is_ours:
        before = read_record(folder)
        if before is not None and before.state is RunState.DONE and not again and _intact(folder, before):
            say(f"{name} is already done; --again repeats it.")
            ended = Ended(folder=folder, record=before, repeated=False)
        else:
            settled = parameters.model_copy(
                update={"out": str(folder.resolve()), "run_id": name, "previous": _previous(out, folder, parameters)}
            )
            run = _Run(settled, folder, is_ours, deadline_seconds, source or notebook("health_report"), say)
            with reserved(folder), _signals() as stop, _staging(folder) as staging:
                run.begin()
                run.execute(stop, staging)
            _export(out, run.record)
            ended = Ended(folder=folder, record=run.record)
    if keep is not None:
        for gone in retain(out, ended.record, keep):
            say(f"Removed {gone}: --keep.")
    return ended


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """A folder for the outputs, until the run has ended; those of killed runs are removed.

    Raises:
        OutputError: if it cannot be made.
    """
    for left in folder.glob(f"{_NEXT}*"):
        shutil.rmtree(left, ignore_errors=True)
    staging = folder / f"{_NEXT}{uuid.uuid4().hex[:8]}"
    try:
        staging.mkdir()
    except OSError as error:
        raise cannot_write(folder, error) from None
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


class _Stop:
    """What a signal asks for. It breaks off the notebook, and nothing else: a record that is being written is written to its end."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._may_break_off = False

    def heard(self, number: int, _frame: FrameType | None) -> None:
        """The handler; the first signal counts, and no later one disturbs what the first has begun."""
        if self.number is None:
            self.number = number
        if self._may_break_off:
            self._may_break_off = False
            raise _TerminatedError(self.number)

    @contextmanager
    def breaks_off(self) -> Iterator[None]:
        """Within the block a signal ends it, also one that came before.

        Raises:
            _TerminatedError: then.
        """
        if self.number is not None:
            raise _TerminatedError(self.number)
        self._may_break_off = True
        try:
            yield
        finally:
            self._may_break_off = False


class _Run:
    """One run under way."""

    def __init__(
        self,
        parameters: HealthParameters,
        folder: Path,
        is_ours: Callable[[], bool],
        deadline_seconds: float,
        source: Path,
        say: Say,
    ) -> None:
        import psutil

        self._parameters, self._folder, self._source, self._say = parameters, folder, source, say
        self._is_ours = is_ours
        self._began = time.monotonic()
        if parameters.cluster:  # its secrets are known from here on, and masked
            load_settings(Path(parameters.config) if parameters.config else None).cluster(parameters.cluster)
        self.record = RunRecord(
            run_id=parameters.run_id,
            report="health",
            cluster=parameters.cluster or Path(parameters.capture).name,
            parameters={key: value for key, value in parameters.model_dump().items() if value},
            started_at=datetime.now(UTC),
            deadline_seconds=deadline_seconds,
            pid=os.getpid(),
            process_started=psutil.Process().create_time(),
            versions={"workbench": __version__, "python": platform.python_version()},
        )

    def begin(self) -> None:
        write_record(self._folder, self.record)
        self._say(f"Run {self.record.run_id}, at most {self.record.deadline_seconds:g} s.")

    def execute(self, stop: _Stop, staging: Path) -> None:
        notebook_format.load()
        from workbench.report.runs.papermill_engine import Supervision, execute

        supervision = Supervision(self.record.deadline_seconds, say=self._say, changed=self._progress)
        code: int = ExitCode.INTERNAL
        message: str | None = None
        hint: str | None = None
        state: RunState | None = None
        try:
            with stop.breaks_off():
                parameters = self._parameters.model_copy(update={"out": str(staging.resolve())})
                execute(self._source, parameters.model_dump(), supervision, folder=staging)
            code, state = self._judged(staging), RunState.DONE
        except _TerminatedError:
            pass  # reported below
        except WorkbenchError as error:
            code, message, hint = error.exit_code, error.message, error.hint
        except Exception as error:  # papermill's own error has the name of the one in the cell
            code, message, hint = _told(error)
        finally:
            if stop.number is not None and state is not RunState.DONE:  # whatever a library made of it on its way
                code, message, hint = 128 + stop.number, f"Stopped by signal {stop.number}.", None
                state = RunState.TERMINATED
            state = state or _STATES.get(
                ExitCode(code) if code in set(ExitCode) else ExitCode.INTERNAL, RunState.FAILED
            )
            self._keep(staging, supervision.notebook)
            self._end(staging, state, int(code), message, hint)

    def _progress(self, steps: Sequence[StepRecord]) -> None:
        self.record.steps = list(steps)
        if not self._is_ours():
            return
        with suppress(WorkbenchError):  # the outcome matters, and has reserved space
            write_durably(self._folder / RECORD, self.record.model_dump_json(indent=1, by_alias=True) + "\n")

    def _judged(self, staging: Path) -> ExitCode:
        """The verdict as the notebook left it; a notebook that left none has not done its work."""
        from workbench.report.health_result import read_result

        document = read_result(staging / RESULT)
        if document["run_id"] != self.record.run_id or not (staging / REPORT).is_file():
            raise WorkbenchError("The notebook ended without a result of this run.")
        return ExitCode(document["exit_code"])

    def _keep(self, staging: Path, executed: Any) -> None:
        """Write the executed notebook, for the audit; on a full disk, the outcome is still recorded."""
        if executed is None:
            return
        nbformat = notebook_format.load()
        with suppress(WorkbenchError):
            text: str = nbformat.writes(nbformat.from_dict(masked_document(executed)))
            write_durably(staging / EXECUTED, text)

    def _end(self, staging: Path, state: RunState, code: int, message: str | None, hint: str | None) -> None:
        """Put the outputs in place, and write the record.

        Raises:
            OutputError: if that is not possible.
        """
        if not self._is_ours():
            raise OutputError(
                f"{self._folder} was removed while the report ran, and with it what the run had written.",
                hint="Run it again.",
            )
        try:
            if _put_in_place(staging, self._folder, is_done=state is RunState.DONE):
                hint = " ".join(filter(None, [hint, f"The report before it is in {self._folder / _EARLIER}."]))
        except OSError as error:
            problem = cannot_write(self._folder, error)
            state, code, message, hint = RunState.FAILED, problem.exit_code, problem.message, problem.hint
        record = self.record
        record.state, record.exit_code = state, code
        record.message = masked(message) if message else None
        record.hint = masked(hint) if hint else None
        record.ended_at = datetime.now(UTC)
        record.seconds = round(time.monotonic() - self._began, 2)
        record.outputs = digests(self._folder)
        write_record(self._folder, record)


def _put_in_place(staging: Path, folder: Path, *, is_done: bool) -> bool:
    """Replace the outputs of a former run; those of a good one are kept if this one is not. Returns whether they were.

    Raises:
        OSError: if that is not possible.
    """
    earlier = folder / _EARLIER
    kept = not is_done and (folder / RESULT).is_file() and (folder / REPORT).is_file()
    if kept:
        shutil.rmtree(earlier, ignore_errors=True)
        earlier.mkdir()
    for name in OUTPUTS:
        if kept and (folder / name).is_file():
            (folder / name).replace(earlier / name)
        if (staging / name).is_file():
            (staging / name).replace(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
    if is_done:
        shutil.rmtree(earlier, ignore_errors=True)
    return kept


def _told(error: Exception) -> tuple[ExitCode, str, str | None]:
    """(exit code, message, hint) of an error in the notebook, which comes as names and texts only."""
    name, text = getattr(error, "ename", type(error).__name__), str(getattr(error, "evalue", error))
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, WorkbenchError):
        return kind.exit_code, text, None
    return ExitCode.INTERNAL, f"{name}: {text.splitlines()[0] if text else 'no message'}", "See the executed notebook."


def _intact(folder: Path, record: RunRecord) -> bool:
    return bool(record.outputs) and digests(folder) == record.outputs


def _previous(out: Path, folder: Path, parameters: HealthParameters) -> str:
    """The result of the last run that was done of the same source, for a period that ended before this one."""
    before = datetime.fromisoformat(parameters.until)
    same = [
        (record.period_end, other)
        for other, record in runs_in(out)
        if other != folder
        and record.state is RunState.DONE
        and record.parameters.get("cluster", "") == parameters.cluster
        and (parameters.cluster or record.parameters.get("capture") == parameters.capture)
        and record.period_end is not None
        and record.period_end < before
    ]
    return str((max(same)[1] / RESULT).resolve()) if same else ""


@contextmanager
def _alone(folder: Path) -> Iterator[Callable[[], bool]]:
    """Lock the run against a second process; the lock ends with the process.

    Yields whether the folder is still the one that was locked: it may be removed, and made anew by another run.

    Raises:
        GuardError: if the same run is in progress. OutputError: if the folder cannot be made.
    """
    lock = folder / LOCK
    for _ in range(_ATTEMPTS):
        refusal = GuardError(
            f"The run {folder.name} is already running.", hint="Wait for it, or check: workbench report list"
        )
        with ExitStack() as stack:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(exclusive_lock(lock, refusal))
                held = _identity(lock)
            except FileNotFoundError:  # the folder was removed in between
                continue
            except OSError as error:
                raise cannot_write(folder, error) from None
            if held is not None:
                yield partial(_is_same, lock, held)
                return
    raise OutputError(f"{folder} is removed again and again while the report is to be written there.")


def _is_same(lock: Path, held: tuple[int, int]) -> bool:
    return _identity(lock) == held


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        it = path.stat()
    except OSError:
        return None
    return it.st_dev, it.st_ino


@contextmanager
def _signals() -> Iterator[_Stop]:
    """SIGTERM, SIGINT and SIGHUP end the run in order, with the kernel; what is ignored (nohup) stays so."""
    stop = _Stop()
    wanted = [it for it in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if signal.getsignal(it) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop.heard) for number in wanted}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
