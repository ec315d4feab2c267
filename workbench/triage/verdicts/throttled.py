"""The broker throttles the clients by a quota."""

from __future__ import annotations

from workbench.humanize import count, duration, listed, shell_word
from workbench.triage.checks import Check
from workbench.triage.finding import Action
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    held = sorted({m.member for m in row.members if (m.throttle_seconds or 0) > it.thresholds.throttle_seconds})
    name = shell_word(held[0]) if held else '"$CLIENT_ID"'
    change = f"kafka-configs --bootstrap-server {it.brokers} --entity-type clients --entity-name {name}"
    return [
        Action(
            title=f"Check which quota applies to these clients ({listed(held)})",
            command=f"{change} --describe",
            verify="you know the quota, and who set it",
        ),
        Action(
            title=f"Raise it above the arrival rate ({count(row.arrival_per_second)} messages/s), or remove it",
            command=f"{change} --alter --delete-config consumer_byte_rate",
            verify="the throttle time is 0",
            kind="raise_quota",
            parameters={"members": held},
            checks=(Check(feature="throttle_seconds", relation="<=", value=it.thresholds.throttle_seconds),),
        ),
    ]


LEAF = Leaf(
    verdict=Verdict.THROTTLED,
    headline=lambda row: f"Throttled by the broker: {duration(row.throttle_seconds)} per fetch on average.",
    actions=_actions,
)
