"""Triage: why consumers lag, with evidence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.api.load_measurements import Measured, measure
from workbench.api.measurement_requests import Measurements, Times
from workbench.api.run_progress import SILENT, Progress
from workbench.errors import DamagedCaptureError, ExitCode, WorkbenchError
from workbench.humanize import groups_on_topics

if TYPE_CHECKING:
    from workbench.collect.capture import Capture
    from workbench.triage.finding import Finding
    from workbench.triage.triage_engine import Triage


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageResult:
    """All findings of one triage, and their measurements."""

    triage: Triage
    capture: Capture

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One finding for each subscription, worst first."""
        return self.triage.findings

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What the sources have left out, a sentence each."""
        return self.triage.incomplete

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the worst finding; "lagging" outweighs "cannot tell".

        A muted finding does not count. With incomplete data and no lag it is 4, because the missing part may lag.
        """
        return exit_code(self.triage)

    def to_json(self) -> dict[str, Any]:
        """The document `workbench.triage/1`."""
        return self.triage.to_json()

    def write_html(self, path: str | Path) -> None:
        """Write the report, one offline file. Raises `UsageError` if it cannot be written there."""
        from workbench.report.html_report import write_html

        write_html(Path(path), self.triage, self.capture)

    def _repr_html_(self) -> str:
        from workbench.report.finding_fragment import fragment, not_judged, style

        shown = self.findings[:_SHOWN]
        body = "".join(
            fragment(it, () if number else self.incomplete, capture=self.capture) for number, it in enumerate(shown)
        )
        body += not_judged(self.triage.not_judged)
        rest = len(self.findings) - _SHOWN
        more = f'<p class="note">And {rest:,} more, in `.findings`.</p>' if rest > 0 else ""
        return f"<style>{style()}</style>{body}{more}"


_OWN_TRIAGE = "workbench.api.{}_triage"  # of a queue whose brokers are looked at
_SHOWN = 10


def triage(
    *,
    cluster: str | None = None,
    capture: str | Path | None = None,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    baseline: str | None = None,
    observe: str | None = None,
    config: Path | None = None,
    progress: Progress = SILENT,
) -> TriageResult:
    """Find out whether consumers lag, and why.

    Args:
        cluster, capture: a cluster of the settings (`lab` is the running lab), or a recorded folder; one of the two.
        groups, topics: only these; empty: all.
        since, until: timestamps with a time zone, or `15m ago`; default: the last 15 minutes.
        baseline: length of the baseline before it, such as `1h` (default).
        observe: without a Prometheus: record the cluster for this time first, such as `60s`; of a Pulsar, the time between two looks.
        config: the settings file; None: `$WORKBENCH_CONFIG`, `./workbench.toml`, or the user's.
        progress: receives the steps.

    Raises:
        UsageError, WindowError, ConfigError: if the request or the settings are wrong.
        SourceUnreachableError: if the sources do not answer. NoSeriesError: if they have no data for the request.
        NotACaptureError, DamagedCaptureError: if the folder cannot be used.
        SetupError: if Spark does not start.
    """
    request = Measurements(
        cluster=cluster,
        capture=None if capture is None else Path(capture),
        groups=groups,
        topics=topics,
        times=Times(since=since, until=until, baseline=baseline),
        observe=observe,
        config=config,
    )
    return dispatched(request, progress=progress) or judge(
        measure(request, progress=progress), request, progress=progress
    )


def dispatched(request: Measurements, *, progress: Progress = SILENT, records: bool = False) -> TriageResult | None:
    """Run triage of a cluster whose brokers send entries (Pulsar), or of its capture; None if the request is about another one.

    Args:
        records: whether the result's capture has what the cluster answered.

    Raises:
        WorkbenchError: as `pulsar_triage.look_twice`, and as `load_settings`.
    """
    from workbench.queues.systems import own_part
    from workbench.settings import load_settings

    if request.capture is not None:
        return _recorded(request, progress)
    if request.cluster is None:
        return None
    settings = load_settings(request.config)
    cluster = settings.cluster(request.cluster)
    own = own_part(cluster.system, _OWN_TRIAGE)
    if own is None:
        return None
    found = own.look_twice(request, cluster, settings.thresholds_of(cluster), progress=progress, records=records)
    return TriageResult(triage=found.triage, capture=found.capture)


def _recorded(request: Measurements, progress: Progress) -> TriageResult | None:
    """The triage of a capture with answers; None if it has samples, or is none: who reads it then says so."""
    from workbench.collect.capture import read_capture, with_own
    from workbench.collect.capture_info import ANSWERS, read_info

    folder = (request.capture or Path()).expanduser()
    try:
        if ANSWERS not in read_info(folder).files:
            return None
    except WorkbenchError:
        return None
    from workbench.queues.systems import own_part
    from workbench.settings import checked_cluster, own_cluster

    capture = read_capture(folder)
    own = own_cluster(capture.info.cluster, request.config, tell=progress.say)
    cluster = checked_cluster({"name": capture.info.cluster, "system": capture.info.source})
    judge = own_part(cluster.system, _OWN_TRIAGE)
    if judge is None:
        raise DamagedCaptureError(f"The capture {folder} has answers of a {capture.info.source}, which gives none.")
    found = judge.judge_again(request, with_own(capture, own), cluster)
    return TriageResult(triage=found.triage, capture=found.capture)


def judge(
    found: Measured,
    request: Measurements,
    *,
    progress: Progress = SILENT,
    turn: AbstractContextManager[object] | None = None,
) -> TriageResult:
    """Run triage on measurements in memory.

    Args:
        turn: entered while Spark is used, in a process where several threads use it.

    Raises:
        NoSeriesError: if they have no data for the request. SetupError: if Spark does not start.
    """
    started = time.monotonic()
    from workbench.api.stuck_record import with_records
    from workbench.settings import load_settings
    from workbench.spark.session import session
    from workbench.triage import triage_engine
    from workbench.triage.verdict_names import Verdict

    with progress.step("Starting Spark") as step:
        triage_engine.load()
        prepared = triage_engine.prepare(  # while it starts
            found.capture, window=found.window, groups=request.groups or None, topics=request.topics or None
        )
        spark = session()
        step.note = f"Spark {spark.version}, {spark.conf.get('spark.master')}"
    with turn or nullcontext(), progress.step("Walking the tree") as step:
        result = triage_engine.judge(prepared, spark)
        step.note = f"{groups_on_topics(len(result.findings))}, {time.monotonic() - started:.1f} s in all"
    if request.cluster is not None and any(it.verdict is Verdict.STUCK_PARTITION for it in result.findings):
        settings = load_settings(request.config).cluster(request.cluster)
        if settings.bootstrap is not None:
            with progress.step("Reading the record at which a partition is stuck"):
                result = replace(result, findings=with_records(result.findings, settings))
    return TriageResult(triage=result, capture=found.capture)


def exit_code(result: Triage) -> ExitCode:
    """See `TriageResult.exit_code`."""
    from workbench.collect.capture import NO_BASELINE
    from workbench.triage.triage_engine import incomplete_verdict
    from workbench.triage.verdict_names import State

    if any(finding.state is State.LAGGING and finding.muted is None for finding in result.findings):
        return ExitCode.FINDINGS
    partial = any(text != NO_BASELINE for text in result.incomplete)  # --observe asks for this profile
    unsure = partial or incomplete_verdict(result.findings) or any(it.muted is None for it in result.not_judged)
    return ExitCode.EVIDENCE if unsure else ExitCode.OK
