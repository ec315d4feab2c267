"""Save a time range of a cluster's measurements as a folder, for analysis later or elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.api.measurement_requests import Times
from workbench.errors import ExitCode, UsageError
from workbench.files import require_empty

if TYPE_CHECKING:
    from workbench.collect.capture import Capture


_STATISTICS_BYTES = 256 << 20  # a day of one consumer with 100 partitions, a line each minute


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureResult:
    """A saved capture and its folder."""

    folder: Path
    capture: Capture

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What the sources left out, a sentence each."""
        return tuple(self.capture.info.incomplete)

    @property
    def exit_code(self) -> ExitCode:
        """4 if the sources left something out, else 0."""
        return ExitCode.EVIDENCE if self.incomplete else ExitCode.OK

    def to_json(self) -> dict[str, Any]:
        """Folder, number of samples, and what is missing."""
        return {
            "capture": str(self.folder),
            "samples": self.capture.samples.num_rows,
            "incomplete": list(self.incomplete),
        }

    def _repr_html_(self) -> str:
        from workbench.api.html_table import table_html

        window = self.capture.window
        row = {
            "folder": str(self.folder),
            "samples": self.capture.samples.num_rows,
            "from": f"{window.baseline_start:%Y-%m-%d %H:%M:%SZ}",
            "to": f"{window.end:%Y-%m-%d %H:%M:%SZ}",
        }
        return table_html(f"Capture of {self.capture.info.cluster}", [row], notes=self.incomplete)


def capture_statistics(
    file: str | Path, out: str | Path, *, group: str, cluster: str = "clients", config: Path | None = None
) -> CaptureResult:
    """Save a client's librdkafka statistics as a capture: for consumers in Go, .NET, Node and the like.

    Args:
        file: one JSON object per line, as the client's `stats_cb` receives it (`statistics.interval.ms`); of one consumer group.
        out: the folder; it must be empty or not exist.
        group: the consumer group. The statistics do not name it.
        cluster: a name for the capture; thresholds and windows are those of this cluster where the settings have it.

    Raises:
        UsageError: if the file cannot be read or has no lag, or the folder is not empty.
        SourceUnreachableError: if a line is not what librdkafka writes.
    """
    import pyarrow.compute as pc

    from workbench.collect.capture import Capture, new_info, write_capture
    from workbench.collect.librdkafka_statistics import PROFILE, statistics_samples
    from workbench.limited_reads import read_within
    from workbench.settings import load_settings
    from workbench.window import Window

    folder = Path(out)
    require_empty(folder)
    try:
        text = read_within(Path(file), _STATISTICS_BYTES).decode(errors="replace")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from None
    samples = statistics_samples(text.splitlines(), cluster=cluster, group=group)
    if not samples.num_rows:
        raise UsageError(f"{file} has no statistics of a consumer with partitions.")
    settings = load_settings(config)
    named = settings.clusters.get(cluster)
    lengths = settings.windows if named is None else settings.windows_of(named)
    limits = settings.thresholds if named is None else settings.thresholds_of(named)
    bounds = pc.min_max(samples["ts"]).as_py()
    first, last = bounds["min"], bounds["max"]
    if first == last:
        raise UsageError(
            f"{file} has statistics of a single point in time.", hint="Let the client write for some minutes."
        )
    start = max(first, last - lengths.length)
    found = Capture(
        info=new_info(
            cluster=cluster,
            source="statistics",
            profiles=[PROFILE],
            window=Window(baseline_start=max(first, start - lengths.baseline), start=start, end=last),
            groups=[group],
            thresholds=limits,
        ),
        samples=samples,
    )
    write_capture(folder, found)
    return CaptureResult(folder=folder, capture=found)


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
    """Save the measurements of a window from Prometheus (and Kafka).

    Args:
        out: the folder; it must be empty or not exist.
        cluster: a cluster of the settings with a Prometheus.
        groups, topics: only these; empty: all.
        since, until, baseline: the window, as in `triage`.

    Raises:
        UsageError: if the folder is not empty, or the cluster has no Prometheus. Otherwise as `triage`.
    """
    from workbench.api.measurement_requests import Measurements
    from workbench.api.triages import dispatched
    from workbench.collect.capture import write_capture
    from workbench.collect.capture_in_memory import collect
    from workbench.settings import load_settings

    folder = Path(out)
    require_empty(folder)
    times = Times(since=since, until=until, baseline=baseline)
    request = Measurements(cluster=cluster, groups=tuple(groups), topics=tuple(topics), times=times, config=config)
    if (looked := dispatched(request, records=True)) is not None:
        write_capture(folder, looked.capture)
        return CaptureResult(folder=folder, capture=looked.capture)
    settings = load_settings(config)
    chosen = settings.cluster(cluster)
    found = collect(
        chosen,
        times.window(settings.windows_of(chosen)),
        thresholds=settings.thresholds_of(chosen),
        groups=list(groups) or None,
        topics=list(topics) or None,
    )
    write_capture(folder, found)
    return CaptureResult(folder=folder, capture=found)
