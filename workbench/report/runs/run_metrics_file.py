"""Numbers of the runs for node_exporter's textfile collector, so that a missing report is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from workbench.collect.selectors import quoted
from workbench.errors import GuardError, WorkbenchError
from workbench.files import exclusive_lock
from workbench.report.runs.parameters import file_stem, slug_of
from workbench.report.runs.run_record import RESULT, RunRecord, RunState, runs_in, write_durably

_METRICS = "workbench_report.prom"
_LOCK_SECONDS = 30.0
# name, labels, help; all are gauges
FAMILIES = (
    (
        "workbench_report_last_success_timestamp_seconds",
        ("report", "cluster"),
        "When a report was last done, whatever it found.",
    ),
    ("workbench_report_last_exit_code", ("report", "cluster"), "How the last run ended."),
    ("workbench_report_last_duration_seconds", ("report", "cluster"), "How long the last run took."),
    (
        "workbench_verdict",
        ("cluster", "group", "topic", "verdict"),
        "The verdict of the last health report about a subscription; healthy ones have none.",
    ),
)


def export(out: Path, record: RunRecord) -> None:
    """Write the numbers of a cluster: how its last run ended, and the verdicts of the latest period.

    They follow from all records together, so a run of an older period that ends late does not replace later verdicts. A report on a
    recording has none: what it says is of then, and nobody waits for the next one.
    """
    if record.parameters.get("capture"):
        return
    refusal = GuardError("The numbers of the reports are being written.")
    with suppress(WorkbenchError, OSError), exclusive_lock(out / ".numbers.lock", refusal, wait_seconds=_LOCK_SECONDS):
        _write(out, record)


def _write(out: Path, record: RunRecord) -> None:
    runs = {folder.name: it for folder, it in runs_in(out) if it.source == record.source}
    runs[record.run_id] = record
    ended = [it for it in runs.values() if it.ended_at is not None]
    last = max(ended, key=_ended, default=record)
    latest = max(ended, key=lambda it: (it.period_end or it.started_at, _ended(it)), default=record)
    done = max((_ended(it) for it in ended if it.state is RunState.DONE), default=0.0)
    labels = labels_of(("report", "cluster"), (record.report, record.cluster))
    lines = []
    for (name, _, words), value in zip(FAMILIES, (f"{done:.3f}", last.exit_code, last.seconds), strict=False):
        lines += [*head_of(name, words), f"{name}{labels} {value}"]
    lines += _verdicts(out / latest.run_id, latest)
    path = out / metrics_name(record.report, record.cluster)
    write_durably(path, "\n".join(lines) + "\n")
    shared = out / f"{record.report}-{slug_of(record.cluster)}.{_METRICS}"  # the name of earlier versions
    with suppress(OSError, UnicodeDecodeError):
        if shared != path and labels in shared.read_text(encoding="utf-8"):
            shared.unlink()  # the same series in two files would be refused


def _ended(record: RunRecord) -> float:
    return record.ended_at.timestamp() if isinstance(record.ended_at, datetime) else 0.0


def metrics_name(report: str, cluster: str) -> str:
    """The file of a cluster's numbers: no two clusters have the same one, whatever their names hold."""
    return f"{report}-{file_stem(cluster)}.{_METRICS}"


def _verdicts(folder: Path, record: RunRecord) -> list[str]:
    """The verdict of each subscription that is not healthy, for the alert rules; nothing if the run was not done, or left no result."""
    if record.state is not RunState.DONE:
        return []
    from workbench.report.health_result import read_result

    try:
        document = read_result(folder / RESULT)
    except WorkbenchError:
        return []
    name, keys, words = FAMILIES[-1]
    lines = head_of(name, words)
    for it in document["lines"]:
        if it["state"] != "healthy":
            values = (document["cluster"], *(it[key] for key in keys[1:]))
            lines.append(f"{name}{labels_of(keys, values)} 1")
    return lines


def head_of(name: str, words: str) -> list[str]:
    """The lines before the series of a gauge."""
    return [f"# HELP {name} {words}", f"# TYPE {name} gauge"]


def labels_of(names: Sequence[str], values: Sequence[str]) -> str:
    """Labels of a series, escaped."""
    return "{" + ",".join(f'{name}="{quoted(value)}"' for name, value in zip(names, values, strict=True)) + "}"
