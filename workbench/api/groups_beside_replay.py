"""The groups that share brokers with a replay: how far each is behind, and how the replay is slowed down by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.api.load_measurements import measure
from workbench.api.measurement_requests import Measurements, Times
from workbench.errors import WorkbenchError
from workbench.humanize import shell_word, size
from workbench.judgement_numbers import MOST, RECENT
from workbench.queues.tool_words import Tools, tools_of

if TYPE_CHECKING:
    from workbench.api.load_measurements import Measured
    from workbench.features.broker_features import Neighbourhood
    from workbench.queues.replay_port import Gateway
    from workbench.replay.pause_for_neighbours import Beside, Holding, HoldReport
    from workbench.replay.planfile import Plan
    from workbench.settings import Cluster

_LAST, _LOOK = "5m", "10s"
_PAUSE_SECONDS = 15.0  # from one look to the next: a usual scrape interval


@dataclass(slots=True, kw_only=True)
class NeighbourWatch:
    """Looks at the neighbours of a replay, and holds it."""

    plan: Plan
    cluster: Cluster
    gateway: Gateway
    holding: Holding
    config: Path | None = None
    clock: Callable[[], float] = time.monotonic
    _next: float = 0.0

    def is_due(self) -> bool:
        """Whether it is time for another look."""
        return self.clock() >= self._next

    def look(self) -> HoldReport:
        """Measure, and hold or release.

        Raises:
            UsageError: if the journal cannot be written; nothing is changed then.
        """
        self._next = self.clock() + _PAUSE_SECONDS
        return self.holding.look(self._seen())

    def _seen(self) -> Beside:
        from workbench.replay.pause_for_neighbours import Beside

        in_prometheus = self.cluster.prometheus is not None
        times = Times(since=f"{_LAST} ago", baseline=_LAST) if in_prometheus else Times()
        observe = None if in_prometheus else _LOOK
        try:
            topics = self.gateway.cluster(self.plan.topics).topics
            found = measure(
                Measurements(cluster=self.cluster.name, times=times, observe=observe, config=self.config), spark=False
            )
        except WorkbenchError as error:
            return Beside(unknown=error.message)
        leaders = {topics[topic].leaders.get(number) for topic, number in self.plan.targets if topic in topics}
        return beside(found, self.plan.new_group, {it for it in leaders if it is not None and it >= 0})


def beside(found: Measured, group: str, brokers: Collection[int]) -> Beside:
    """The other groups that read from some brokers.

    Args:
        group: the replay's.
        brokers: that lead partitions of its plan.
    """
    from workbench.features.broker_features import neighbourhood
    from workbench.replay.pause_for_neighbours import Beside, BesideGroup

    kept = found.capture
    all_of = neighbourhood(kept.samples, kept.groups, found.window)
    if not all_of.leaders:
        return Beside(unknown="nothing tells which broker leads which partition")
    names = sorted({name for name, broker in all_of.groups if broker in brokers and name != group})
    # A group of the last commit there whose lag nobody tells is not well.
    dark = {
        name
        for part, readers in all_of.readers.items()
        if all_of.leaders.get(part) in brokers
        for name in readers
        if name != group and name not in names
    }
    return Beside(
        groups=tuple(
            BesideGroup(
                group=name,
                behind_seconds=None if name in dark else _behind(all_of, name, brokers),
                objective_seconds=kept.info.limits(name).time_lag_objective_seconds,
            )
            for name in sorted({*names, *dark})
        ),
        slower=tuple(_slower(all_of, group, brokers, tools_of(kept.bootstrap, login_file=kept.login_file))),
    )


def _behind(all_of: Neighbourhood, group: str, brokers: Collection[int]) -> float | None:
    """What waits for it on these brokers, in seconds of what arrives there; else the age of its oldest message, if that is told."""
    from workbench.triage.broker_strains import mean_of

    recent = max(1, int((len(all_of.times) - all_of.first) * RECENT))
    own = [one for (name, broker), one in all_of.groups.items() if name == group and broker in brokers]
    lags = [mean_of(one.lag[-recent:]) for one in own]
    arrivals = [mean_of(one.arrivals[-recent:]) for one in own]
    waits = sum(it for it in lags if it is not None)
    if own and None not in lags and waits == 0:
        return 0.0
    arriving = sum(it for it in arrivals if it is not None)
    if own and None not in lags and None not in arrivals and arriving > 0:
        return waits / arriving
    ages = all_of.behind.get(group)
    return None if ages is None else mean_of(ages[-recent:])


def _slower(
    all_of: Neighbourhood, group: str, brokers: Collection[int], tools: Tools
) -> Iterator[tuple[str, str | None]]:
    """A cap of half of what it reads now, and the way back; without its client ids or bytes, in words."""
    from workbench.triage.broker_strains import mean_of

    clients = all_of.clients_of.get(group, ())
    given = [
        line[all_of.first :]
        for (client, broker), line in all_of.clients.items()
        if client in clients and broker in brokers
    ]
    lines = [mean_of(it) for it in given]
    rates = [it for it in lines if it]
    if not rates:
        yield (
            "Stop some of the replay's consumers: what its client ids read is not measured, so no cap can be computed",
            None,
        )
        yield "Start the replay's consumers again", None
        return
    cap = max(1, round(MOST * max(rates)))
    for client in clients:
        yield f"Cap the replay at {size(cap)}/s on each broker", tools.limit_client(shell_word(client), cap)
        break
    yield "Take the cap away", tools.lift_quota(shell_word(clients[0]))
