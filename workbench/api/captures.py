"""Save a stretch of a cluster's measurements as a folder, to analyse it later and elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.api.requests import Times
from workbench.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from workbench.collect.capture import Capture


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureResult:
    """A capture that was saved, and where."""

    folder: Path
    capture: Capture

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What the sources have left out, a sentence each."""
        return tuple(self.capture.info.incomplete)

    @property
    def exit_code(self) -> ExitCode:
        """4 if the sources have left something out, else 0."""
        return ExitCode.EVIDENCE if self.incomplete else ExitCode.OK

    def to_json(self) -> dict[str, Any]:
        """Where it is, how many samples it has, and what is missing."""
        return {
            "capture": str(self.folder),
            "samples": self.capture.samples.num_rows,
            "incomplete": list(self.incomplete),
        }

    def _repr_html_(self) -> str:
        from workbench.api.table import table_html

        window = self.capture.window
        row = {
            "folder": str(self.folder),
            "samples": self.capture.samples.num_rows,
            "from": f"{window.baseline_start:%Y-%m-%d %H:%M:%SZ}",
            "to": f"{window.end:%Y-%m-%d %H:%M:%SZ}",
        }
        return table_html(f"Capture of {self.capture.info.cluster}", [row], notes=self.incomplete)


def capture(
    out: str | Path,
    *,
    cluster: str,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    baseline: str | None = None,
    config: Path | None = None,
) -> CaptureResult:
    """Save what Prometheus (and Kafka) say about a window.

    Args:
        out: the folder; it must be empty or not exist.
        cluster: a cluster of the settings with a Prometheus.
        groups, topics: only these; empty: all.
        since, until, baseline: the window, as in `triage`.

    Raises:
        UsageError: if the folder holds something, or the cluster has no Prometheus. Else as `triage`.
    """
    from workbench.collect.capture import write_capture
    from workbench.collect.live import collect
    from workbench.settings import load_settings

    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not empty.", hint="Name another folder for the capture.")
    settings = load_settings(config)
    chosen = settings.cluster(cluster)
    found = collect(
        chosen,
        Times(since=since, until=until, baseline=baseline).window(settings.windows_of(chosen)),
        thresholds=settings.thresholds_of(chosen),
        groups=list(groups) or None,
        topics=list(topics) or None,
    )
    write_capture(folder, found)
    return CaptureResult(folder=folder, capture=found)
