"""From verdicts to incidents: alerts to their subscriptions, subscriptions with one cause together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.serve.alert_journal import Waiting
from workbench.serve.kept_verdict import Judged, unknown, worse
from workbench.triage.verdict_names import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Subscriptions of a cluster with one cause, worst first, and the alerts that name them."""

    cluster: str
    cause: str
    members: tuple[Judged, ...]
    alerts: tuple[Waiting, ...]

    @property
    def worst(self) -> Judged:
        """The member that stands for all."""
        return self.members[0]


def named_by(group: str, topic: str, judged: Iterable[Judged]) -> list[Judged]:
    """The subscriptions that an alert is about, those in trouble only, if there are any; without a group: the whole cluster."""
    mine = [it for it in judged if (not group or it.group == group) and (not topic or it.topic == topic)]
    sick = [it for it in mine if it.state != State.HEALTHY]
    if sick or not mine:
        return sick
    return [min(mine, key=worse)]


def causes(alerts: Sequence[Waiting], judged: Sequence[Judged]) -> list[Cause]:
    """Group the alerts of one cluster by cause, most subscriptions first.

    An alert belongs to the cause of its worst subscription; one about no group to a cause on brokers, if there is one. One whose
    subscription has no finding is "no data". A cause on brokers is a member of its own.
    """
    origins = {it.cause: it for it in judged if it.origin is not None}
    members: dict[str, dict[tuple[str, str], Judged]] = {}
    asking: dict[str, list[Waiting]] = {}
    by_group: dict[str, list[Judged]] = {}
    for it in judged:
        by_group.setdefault(it.group, []).append(it)
    for alert in alerts:
        among = by_group.get(alert.group, ()) if alert.group else judged
        found = named_by(alert.group, alert.topic, among) or [
            unknown(alert.group, alert.topic, "the sources have no data of this group.", cause="no data")
        ]
        for it in found:
            members.setdefault(it.cause, {})[it.group, it.topic] = it
        asking.setdefault(min(found, key=_leads).cause, []).append(alert)
    for cause in members.keys() & origins.keys():
        origin = origins[cause]
        members[cause][origin.group, origin.topic] = origin
    made = [
        Cause(
            cluster=alerts[0].cluster,
            cause=cause,
            members=tuple(sorted(found.values(), key=_leads)),
            alerts=tuple(asking.get(cause, ())),
        )
        for cause, found in members.items()
    ]
    return sorted(made, key=lambda it: (-len(it.alerts), -len(it.members), worse(it.worst), it.cause))


def _leads(it: Judged) -> tuple[bool, tuple[int, float]]:
    """Sort key: a cause on brokers before the groups that it hits, then worst first."""
    return it.origin is None, worse(it)


def leading(members: Sequence[Judged]) -> Judged:
    """The member that stands for an incident: a cause on brokers, or the worst of the commonest verdict among those in trouble."""
    sick = [it for it in members if it.state != State.HEALTHY]
    if not sick:
        return min(members, key=_leads)
    if (origin := next((it for it in sick if it.origin is not None), None)) is not None:
        return origin
    lagging = [it for it in sick if it.state == State.LAGGING] or sick
    [(verdict, _)] = Counter(it.verdict for it in sorted(lagging, key=worse)).most_common(1)
    return min((it for it in lagging if it.verdict == verdict), key=worse)
