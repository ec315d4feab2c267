"""What stands before Kafka: breakers of gateways, and records that gateways and agents hold back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.api.load_measurements import Measured, measure
from workbench.api.measurement_requests import Measurements, Times
from workbench.api.run_progress import SILENT, Progress
from workbench.errors import ExitCode
from workbench.humanize import iso_instant, listed

if TYPE_CHECKING:
    from workbench.collect.capture import Capture
    from workbench.history.backlog_before_kafka import HeldBack, LagBeforeKafka
    from workbench.history.gateway_breakers import Breaker, BreakerFinding
    from workbench.report.state_before_kafka import BeforeKafka, UpstreamState
    from workbench.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamResult:
    """What a cluster's gateways and agents tell.

    Attributes:
        cluster: its name.
        breakers: of its gateways, by name.
        lag: records that are held back.
        destinations: all names of destinations to which something is sent.
        window: in which the breakers were replayed; what is held back is told at its end.
        kafka_lag: messages that its consumers lag by at the end of the window; None: not measured.
        is_recorded: whether they are of a capture, not of the cluster as it is.
    """

    cluster: str
    breakers: tuple[Breaker, ...]
    lag: LagBeforeKafka
    destinations: tuple[str, ...]
    window: Window
    kafka_lag: int | None
    is_recorded: bool

    @property
    def untold(self) -> list[tuple[str, str]]:
        """Process, and what it does not tell."""
        return [*((it.gateway, listed(it.missing)) for it in self.breakers if it.missing), *self.lag.untold]

    @property
    def summary(self) -> BeforeKafka | None:
        """What is wrong and what cannot be told; None: nobody tells anything."""
        from workbench.report.state_before_kafka import before_kafka_of

        return before_kafka_of(self.breakers, self.lag, until=self.window.end)

    @property
    def exit_code(self) -> ExitCode:
        """3 if a breaker has a finding or something is held back, 4 if one of the two cannot be told, else 0."""
        if (found := self.summary) is None:
            return ExitCode.EVIDENCE
        return ExitCode.FINDINGS if found.is_fault else ExitCode.EVIDENCE if found.lines else ExitCode.OK

    def state(self, *, every_seconds: float) -> UpstreamState | None:
        """The answer for pages and alert rules, of which the next is due then; None: nobody tells anything."""
        from workbench.report.state_before_kafka import UpstreamState

        if (found := self.summary) is None:
            return None
        return UpstreamState(
            breakers=found.breakers,
            tell_of_waiting=found.tell_of_waiting,
            lines=found.lines,
            cluster=self.cluster,
            since=self.window.start,
            until=self.window.end,
            every_seconds=every_seconds,
        )

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
    request = Measurements(
        cluster=cluster,
        capture=None if capture is None else Path(capture),
        times=Times(since=since, until=until),
        config=config,
    )
    found = measure(request, progress=progress, spark=False)
    breakers, lag, destinations = _told_by(found.capture, found.window, found.window, config, progress.say)
    return UpstreamResult(
        cluster=found.capture.info.cluster,
        breakers=breakers,
        lag=lag,
        destinations=destinations,
        window=found.window,
        kafka_lag=_kafka_lag(found),
        is_recorded=capture is not None,
    )


def before_kafka_in(
    capture: Capture, period: Window, window: Window, *, config: Path | None, tell: Callable[[str], None]
) -> BeforeKafka | None:
    """Of measurements that are there: breakers in a period, and what is held back at its end; None: nobody tells anything.

    Args:
        window: of the judgement, with its baseline; it ends as the period does.
        config: where the breaker's settings are. tell: receives why they cannot be read.
    """
    from workbench.report.state_before_kafka import before_kafka_of

    breakers, lag, _ = _told_by(capture, period, window, config, tell)
    return before_kafka_of(breakers, lag, until=window.end)


def _told_by(
    capture: Capture, period: Window, window: Window, config: Path | None, tell: Callable[[str], None]
) -> tuple[tuple[Breaker, ...], LagBeforeKafka, tuple[str, ...]]:
    """Breakers, what is held back, and names of destinations."""
    from workbench.breaker_settings import BreakerSettings
    from workbench.history.backlog_before_kafka import lag_before_kafka
    from workbench.history.gateway_breakers import breakers
    from workbench.history.gateway_counts import processes
    from workbench.settings import own_cluster

    limits = capture.info.thresholds
    first = min(period.baseline_start, window.baseline_start)
    seen = processes(capture.samples, replace(window, baseline_start=first))
    own = own_cluster(capture.info.cluster, config, tell=tell) if seen else None
    settings = BreakerSettings() if own is None else own.breaker
    lag = lag_before_kafka(
        seen,
        window,
        late_seconds=limits.time_lag_objective_seconds,
        stale_seconds=limits.stale_after_seconds,
        breaker=settings,
    )
    destinations = {of for it in seen.values() for of, _ in it.sends.counted if of is not None}
    found = breakers(seen, period, settings, stale_seconds=limits.stale_after_seconds)
    return tuple(found), lag, tuple(sorted(destinations))


def _kafka_lag(found: Measured) -> int | None:
    import pyarrow.compute as pc

    from workbench.history.partition_series import tracks_of

    samples, parts = found.capture.samples, ("group", "topic", "partition")
    lags = samples.filter(pc.and_(pc.equal(samples["signal"], "consumer_lag"), pc.is_valid(samples["value"])))
    lags = lags.sort_by([(it, "ascending") for it in (*parts, "ts")])
    last = [float(line.value[-1]) for _, line in tracks_of(lags, parts, found.window)]
    return int(sum(last)) if last else None


def _document(it: Breaker | BreakerFinding | HeldBack) -> dict[str, Any]:
    found = asdict(it)
    times = {name: iso_instant(1000 * found[name]) for name in ("since", "until") if found.get(name) is not None}
    return {**found, **times}
