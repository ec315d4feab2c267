"""Which brokers have no room for more reading now, by their own metrics: asked before a replay begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.api.load_measurements import measure
from workbench.api.measurement_requests import Measurements, Times
from workbench.errors import WorkbenchError
from workbench.humanize import numbered, percent
from workbench.judgement_numbers import PART

if TYPE_CHECKING:
    from workbench.settings import Cluster

_LAST, _LOOK = "5m", "10s"
# What a broker tells of its idle time; a gauge of its last minute.
_IDLE = {
    "request_handler_idle": "its request handlers",
    "network_idle": "its network threads",
    "remote_reader_idle": "its readers of remote storage",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """Brokers that are busy.

    Attributes:
        busy: id of a broker to why it has no room, in words.
        unknown: why it is not known; None if it was measured, or if the settings name no metrics of brokers.
    """

    busy: Mapping[int, str] = field(default_factory=dict)
    unknown: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the receipt should know: an unknown broker refuses nothing."""
        if self.unknown is None:
            return ()
        return (f"Whether its brokers have room for more reading cannot be told: {self.unknown.rstrip('.')}.",)


def headroom(cluster: Cluster, *, group: str, config: Path | None = None) -> Headroom:
    """Measure how idle the brokers are: the last five minutes of a Prometheus, or their pages for ten seconds.

    Args:
        group: whose lag is read beside them, so that it is not that of all.
    """
    from workbench.features.broker_features import WORKED_OUT, neighbourhood
    from workbench.profiles import load_profile
    from workbench.triage.broker_strains import mean_of

    told_in = {signal for name in cluster.profiles for signal in load_profile(name).signals}
    if not told_in & {*_IDLE, *(WORKED_OUT[it] for it in _IDLE if it in WORKED_OUT)}:
        return Headroom()
    in_prometheus = cluster.prometheus is not None
    times = Times(since=f"{_LAST} ago", baseline=_LAST) if in_prometheus else Times()
    try:
        found = measure(
            Measurements(
                cluster=cluster.name,
                groups=[group],
                times=times,
                observe=None if in_prometheus else _LOOK,
                config=config,
            ),
            spark=False,
        )
    except WorkbenchError as error:
        return Headroom(unknown=error.message)
    seen = neighbourhood(found.capture.samples, found.capture.groups, found.window)
    busy: dict[int, str] = {}
    told: set[int] = set()
    for broker, signals in sorted(seen.servers.items()):
        for signal, who in _IDLE.items():
            lines = [line[seen.first :] for (name, _), line in signals.items() if name == signal]
            idle = [it for it in map(mean_of, lines) if it is not None]
            if idle:
                told.add(broker)
            if idle and min(idle) < PART:
                busy.setdefault(broker, f"{who} are idle for {percent(min(idle))} of the time")
    silent = [it for it in seen.brokers if it not in told]
    if not told:
        return Headroom(busy=busy, unknown="no broker tells how idle it is")
    return Headroom(busy=busy, unknown=f"{numbered('broker', silent)} tells nothing of it" if silent else None)
