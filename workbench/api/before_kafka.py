"""What stands before Kafka: breakers of gateways, and records that gateways and agents hold back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.api.measurements import Measured, measure
from workbench.api.requests import Measurements, Times
from workbench.api.run_progress import SILENT, Progress
from workbench.errors import ExitCode
from workbench.humanize import iso_instant, listed

if TYPE_CHECKING:
    from workbench.history.breakers import Breaker, BreakerFinding
    from workbench.history.held_back import HeldBack, LagBeforeKafka


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamResult:
    """What a cluster's gateways and agents tell.

    Attributes:
        cluster: its name.
        breakers: of its gateways, by name.
        lag: records that are held back.
        destinations: all names of destinations to which something is sent.
        kafka_lag: messages that its consumers lag by at the end of the window; None: not measured.
        is_recorded: whether they are of a capture, not of the cluster as it is.
    """

    cluster: str
    breakers: tuple[Breaker, ...]
    lag: LagBeforeKafka
    destinations: tuple[str, ...]
    kafka_lag: int | None
    is_recorded: bool

    @property
    def untold(self) -> list[tuple[str, str]]:
        """Process, and what it does not tell."""
        return [*((it.gateway, listed(it.missing)) for it in self.breakers if it.missing), *self.lag.untold]

    @property
    def exit_code(self) -> ExitCode:
        """3 if a breaker has a finding or something is held back, 4 if one of the two cannot be told, else 0."""
        if self.lag.held or any(it.findings for it in self.breakers):
            return ExitCode.FINDINGS
        return ExitCode.OK if self.breakers and self.lag.told and not self.untold else ExitCode.EVIDENCE

    def to_json(self) -> dict[str, Any]:
        """The document `workbench.audit-upstream/1`."""
        return {
            "schema": "workbench.audit-upstream/1",
            "cluster": self.cluster,
            "recorded": self.is_recorded,
            "consumer_lag_messages": self.kafka_lag,
            "breakers": [
                {**_document(it), "findings": [_document(one) for one in it.findings]} for it in self.breakers
            ],
            "held_back": [_document(it) for it in self.lag.held],
            "told": list(self.lag.told),
            "untold": [{"process": name, "missing": what} for name, what in self.untold],
        }


def upstream(
    *,
    cluster: str | None = None,
    capture: str | Path | None = None,
    since: str | None = None,
    until: str | None = None,
    config: Path | None = None,
    progress: Progress = SILENT,
) -> UpstreamResult:
    """Replay the breakers of a cluster's gateways in a window, and find what is held back before Kafka at its end.

    Args:
        cluster, capture: a cluster of the settings with a Prometheus, or a recorded folder; one of the two.
        since, until: timestamps with a time zone, or `1d ago`; default: the last window of the settings.

    Raises:
        WorkbenchError: as `triage`.
    """
    from workbench.breaker_settings import BreakerSettings
    from workbench.history.breakers import breakers
    from workbench.history.gateways import processes
    from workbench.history.held_back import lag_before_kafka
    from workbench.settings import own_cluster

    request = Measurements(
        cluster=cluster,
        capture=None if capture is None else Path(capture),
        times=Times(since=since, until=until),
        config=config,
    )
    found = measure(request, progress=progress, spark=False)
    name = found.capture.info.cluster
    own = own_cluster(name, config, tell=progress.say)
    settings = BreakerSettings() if own is None else own.breaker
    limits = found.capture.info.thresholds
    seen = processes(found.capture.samples, found.window)
    return UpstreamResult(
        cluster=name,
        breakers=tuple(breakers(seen, found.window, settings, stale_seconds=limits.stale_after_seconds)),
        lag=lag_before_kafka(
            seen,
            found.window,
            late_seconds=limits.time_lag_objective_seconds,
            stale_seconds=limits.stale_after_seconds,
            breaker=settings,
        ),
        destinations=tuple(sorted({of for it in seen.values() for of, _ in it.sends.counted if of is not None})),
        kafka_lag=_kafka_lag(found),
        is_recorded=capture is not None,
    )


def _kafka_lag(found: Measured) -> int | None:
    import pyarrow.compute as pc

    from workbench.history.series import tracks_of

    samples, parts = found.capture.samples, ("group", "topic", "partition")
    lags = samples.filter(pc.and_(pc.equal(samples["signal"], "consumer_lag"), pc.is_valid(samples["value"])))
    lags = lags.sort_by([(it, "ascending") for it in (*parts, "ts")])
    last = [float(line.value[-1]) for _, line in tracks_of(lags, parts, found.window)]
    return int(sum(last)) if last else None


def _document(it: Breaker | BreakerFinding | HeldBack) -> dict[str, Any]:
    found = asdict(it)
    times = {name: iso_instant(1000 * found[name]) for name in ("since", "until") if found.get(name) is not None}
    return {**found, **times}
