"""Restarts of jobs that keep their positions in checkpoints: how long each stood, and how much it read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.api.load_measurements import measure
from workbench.api.measurement_requests import Measurements, Times
from workbench.api.run_progress import SILENT, Progress
from workbench.errors import ExitCode
from workbench.humanize import iso_instant
from workbench.json_values import fields_of

if TYPE_CHECKING:
    from workbench.history.job_restarts import JobRestart, JobRestarts


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartsResult:
    """Restarts of a cluster's jobs.

    Attributes:
        cluster: its name.
        found: the restarts, and the jobs that tell of theirs, or do not.
        is_recorded: whether they are of a capture, not of the cluster as it is.
    """

    cluster: str
    found: JobRestarts
    is_recorded: bool

    @property
    def exit_code(self) -> ExitCode:
        """3 if a job restarted, 4 if it cannot be told of one or there is none, else 0."""
        if self.found.restarts:
            return ExitCode.FINDINGS
        return ExitCode.OK if self.found.told and not self.found.untold else ExitCode.EVIDENCE

    def to_json(self) -> dict[str, Any]:
        """The document `workbench.audit-restarts/1`."""
        return {
            "schema": "workbench.audit-restarts/1",
            "cluster": self.cluster,
            "recorded": self.is_recorded,
            "restarts": [_document(it) for it in self.found.restarts],
            "told": list(self.found.told),
            "untold": list(self.found.untold),
        }


def job_restarts(
    *,
    cluster: str | None = None,
    capture: str | Path | None = None,
    groups: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    config: Path | None = None,
    progress: Progress = SILENT,
) -> RestartsResult:
    """Find restarts of Flink's and Spark's jobs in a window: since when each stood, until when, and what it read again.

    Args:
        cluster, capture: a cluster of the settings with a Prometheus, or a recorded folder; one of the two.
        groups: only these; empty: all.
        since, until: timestamps with a time zone, or `1d ago`; default: the last window of the settings.

    Raises:
        WorkbenchError: as `triage`.
    """
    from workbench.history.job_restarts import job_restarts as restarts_in

    request = Measurements(
        cluster=cluster,
        capture=None if capture is None else Path(capture),
        groups=groups,
        times=Times(since=since, until=until),
        config=config,
    )
    found = measure(request, progress=progress, spark=False)
    return RestartsResult(
        cluster=found.capture.info.cluster,
        found=restarts_in(found.capture.samples_of(groups, ()), found.window),
        is_recorded=capture is not None,
    )


def _document(it: JobRestart) -> dict[str, Any]:
    low, high = it.replay_ratio
    at = {name: None if (one := getattr(it, name)) is None else iso_instant(1000 * one) for name in ("since", "until")}
    ratio = {"replay_ratio_low": low, "replay_ratio_high": high}
    return {
        **fields_of(it),
        "restored": iso_instant(1000 * it.restored),
        **at,
        "outage_seconds": it.outage_seconds,
        **ratio,
    }
