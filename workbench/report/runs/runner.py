"""Run a report as a scheduled job: check, lock, execute, keep its outputs, and record the outcome."""

from __future__ import annotations

import hashlib
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from workbench import __version__, errors
from workbench.assets import notebook
from workbench.errors import ExitCode, GuardError, WorkbenchError
from workbench.files import exclusive_lock
from workbench.masking import masked, masked_document
from workbench.report.runs.parameters import HealthParameters, run_id, slug_of
from workbench.report.runs.record import (
    EXECUTED,
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
from workbench.settings import load_settings

DEADLINE_SECONDS = 600.0
_METRICS = "workbench_report.prom"
_STATES = {
    ExitCode.DEADLINE: RunState.DEADLINE,
    ExitCode.KERNEL: RunState.KERNEL_DIED,
}
Say = Callable[[str], None]


class _TerminatedError(BaseException):
    """A signal asked the run to end."""

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
    source: Path | None = None,
    say: Say = lambda _text: None,
) -> Ended:
    """Run the health report in a separate folder below `out`.

    The same source and period are the same run: a completed run is not repeated, a failed one is.

    Args:
        again: repeat it even if it is done.
        source: another notebook with the same parameters as the shipped one.

    Raises:
        GuardError: if the same run is in progress.
        OutputError: if its record cannot be written.
    """
    name = run_id("health", parameters)
    folder = out / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    with _alone(folder):
        before = read_record(folder)
        if before is not None and before.state is RunState.DONE and not again and _intact(folder, before):
            say(f"{name} is already done; --again repeats it.")
            return Ended(folder=folder, record=before, repeated=False)
        settled = parameters.model_copy(
            update={"out": str(folder.resolve()), "run_id": name, "previous": _previous(out, folder, parameters)}
        )
        for stale in (RESULT, REPORT, EXECUTED):
            (folder / stale).unlink(missing_ok=True)
        run = _Run(settled, folder, deadline_seconds, source or notebook("health_report"), say)
        with reserved(folder), _signals() as stop:
            run.begin()
            run.execute(stop)
        _export(out, run.record)
    return Ended(folder=folder, record=run.record)


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
        self, parameters: HealthParameters, folder: Path, deadline_seconds: float, source: Path, say: Say
    ) -> None:
        import psutil

        self._parameters, self._folder, self._source, self._say = parameters, folder, source, say
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

    def execute(self, stop: _Stop) -> None:
        from workbench.report.runs.engine import Supervision, execute

        supervision = Supervision(self.record.deadline_seconds, say=self._say, changed=self._progress)
        code: int = ExitCode.INTERNAL
        message: str | None = None
        hint: str | None = None
        state: RunState | None = None
        try:
            with stop.breaks_off():
                execute(self._source, self._parameters.model_dump(), supervision, folder=self._folder)
            code, state = self._judged(), RunState.DONE
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
            self._keep(supervision.notebook)
            self._end(state, int(code), message, hint)

    def _progress(self, steps: Sequence[StepRecord]) -> None:
        self.record.steps = list(steps)
        with suppress(WorkbenchError):  # the outcome matters, and has reserved space
            write_durably(self._folder / RECORD, self.record.model_dump_json(indent=1, by_alias=True) + "\n")

    def _judged(self) -> ExitCode:
        """The verdict as the notebook left it; a notebook that left none has not done its work."""
        from workbench.report.result import read_result

        document = read_result(self._folder / RESULT)
        if document["run_id"] != self.record.run_id or not (self._folder / REPORT).is_file():
            raise WorkbenchError("The notebook ended without a result of this run.")
        return ExitCode(document["exit_code"])

    def _keep(self, executed: Any) -> None:
        """Write the executed notebook, for the audit; on a full disk, the outcome is still recorded."""
        if executed is None:
            return
        import nbformat

        with suppress(WorkbenchError):
            text: str = nbformat.writes(nbformat.from_dict(masked_document(executed)))
            write_durably(self._folder / EXECUTED, text)

    def _end(self, state: RunState, code: int, message: str | None, hint: str | None) -> None:
        record = self.record
        record.state, record.exit_code = state, code
        record.message = masked(message) if message else None
        record.hint = masked(hint) if hint else None
        record.ended_at = datetime.now(UTC)
        record.seconds = round(time.monotonic() - self._began, 2)
        record.outputs = digests(self._folder)
        write_record(self._folder, record)


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
    same = [
        (other, record)
        for other, record in runs_in(out)
        if other != folder
        and record.state is RunState.DONE
        and record.parameters.get("cluster", "") == parameters.cluster
        and (parameters.cluster or record.parameters.get("capture") == parameters.capture)
        and datetime.fromisoformat(record.parameters["until"]) < datetime.fromisoformat(parameters.until)
    ]
    same.sort(key=lambda it: datetime.fromisoformat(it[1].parameters["until"]))
    return str((same[-1][0] / RESULT).resolve()) if same else ""


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the run against a second process; the lock ends with the process."""
    refusal = GuardError(
        f"The run {folder.name} is already running.", hint="Wait for it, or check: workbench report list"
    )
    with exclusive_lock(folder / ".lock", refusal):
        yield


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


def _export(out: Path, record: RunRecord) -> None:
    """Write metrics about the reports for node_exporter's textfile collector, so that a missing report is noticed."""
    labels = f'{{report="{record.report}",cluster="{_label(record.cluster)}"}}'
    done = [
        it.ended_at.timestamp()
        for _, it in runs_in(out)
        if it.state is RunState.DONE and it.cluster == record.cluster and it.ended_at is not None
    ]
    lines = [
        "# HELP workbench_report_last_success_timestamp_seconds When a report was last done, whatever it found.",
        "# TYPE workbench_report_last_success_timestamp_seconds gauge",
        f"workbench_report_last_success_timestamp_seconds{labels} {max(done, default=0.0):.3f}",
        "# HELP workbench_report_last_exit_code How the last run ended.",
        "# TYPE workbench_report_last_exit_code gauge",
        f"workbench_report_last_exit_code{labels} {record.exit_code}",
        "# HELP workbench_report_last_duration_seconds How long the last run took.",
        "# TYPE workbench_report_last_duration_seconds gauge",
        f"workbench_report_last_duration_seconds{labels} {record.seconds}",
    ]
    lines += _verdicts(out / record.run_id, record)
    path = out / metrics_name(record.report, record.cluster)
    with suppress(WorkbenchError):
        write_durably(path, "\n".join(lines) + "\n")
    shared = out / f"{record.report}-{slug_of(record.cluster)}.{_METRICS}"  # the name of earlier versions
    with suppress(OSError, UnicodeDecodeError):
        if shared != path and labels in shared.read_text(encoding="utf-8"):
            shared.unlink()  # the same series in two files would be refused


def metrics_name(report: str, cluster: str) -> str:
    """The file of a cluster's numbers: no two clusters have the same one, whatever their names hold."""
    slug = slug_of(cluster)
    if slug != cluster:  # "prod eu", "prod-eu" and "Prod-EU" are three clusters
        slug += "-" + hashlib.sha256(cluster.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{report}-{slug}.{_METRICS}"


def _verdicts(folder: Path, record: RunRecord) -> list[str]:
    """The verdict of each subscription that is not healthy, for the alert rules; nothing if the run was not done."""
    if record.state is not RunState.DONE:
        return []
    from workbench.report.result import read_result

    document = read_result(folder / RESULT)
    lines = [
        "# HELP workbench_verdict The verdict of the last health report about a subscription; healthy ones have none.",
        "# TYPE workbench_verdict gauge",
    ]
    for it in document["lines"]:
        if it["state"] != "healthy":
            names = {"cluster": document["cluster"], **{key: it[key] for key in ("group", "topic", "verdict")}}
            lines.append("workbench_verdict{" + ",".join(f'{key}="{_label(names[key])}"' for key in names) + "} 1")
    return lines


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
