"""Round trips between members and brokers take longer than their baseline."""

from __future__ import annotations

from workbench.humanize import duration, listed
from workbench.triage.checks import Check
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _headline(row: SubscriptionFeatures) -> str:
    now, before = duration(row.rtt_seconds), duration(row.rtt_baseline_seconds)
    return f"The network is slow: round trips take {now}, baseline {before}."


def _scope(row: SubscriptionFeatures) -> Scope:
    slow = [m for m in row.members if m.rtt_seconds == row.rtt_seconds]
    return Scope(
        members=tuple(m.member for m in slow),
        brokers=tuple(sorted({m.rtt_broker for m in slow if m.rtt_broker})),
    )


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    limit = max(it.thresholds.rtt_seconds, (row.rtt_baseline_seconds or 0) * it.thresholds.rtt_ratio)
    slow = [m for m in row.members if (m.rtt_seconds or 0) >= limit]
    ways = sorted({f"{m.member} → broker {m.rtt_broker}" for m in slow})
    fast = (Check(feature="rtt_seconds", relation="<", value=limit),)
    return [
        Action(
            title=f"Check the network path {listed(ways, most=3)}",
            command=None,
            verify=f"round trips are back at {duration(row.rtt_baseline_seconds)}",
            checks=fast,
        ),
        Action(
            title="Restart these members on another host or in another zone, with a better network path",
            command=None,
            verify=f"round trips are below {duration(limit)}",
            kind="move_members",
            parameters={"members": sorted(m.member for m in slow)},
            checks=fast,
        ),
    ]


LEAF = Leaf(verdict=Verdict.SLOW_NETWORK, headline=_headline, scope=_scope, actions=_actions)
