"""The broker throttles the clients by a quota."""

from __future__ import annotations

from workbench.humanize import count, duration, listed, shell_word
from workbench.triage.actions import SHRINKS, quotas_of
from workbench.triage.checks import Check
from workbench.triage.finding import Action
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    held = sorted({m.member for m in row.members if (m.throttle_seconds or 0) > it.thresholds.throttle_seconds})
    name = shell_word(held[0]) if held else '"$CLIENT_ID"'
    tool = f"kafka-configs --bootstrap-server {it.brokers}"
    these = f" ({listed(held)})" if held else ""
    measured = row.throttle_seconds is not None
    gone = Check(feature="throttle_seconds", relation="<=", value=it.thresholds.throttle_seconds)
    return [
        Action(
            title=f"Check which quota applies to these clients{these}: one of their user counts before one of their client id",
            command=quotas_of(it),
            verify="you know the quota, and who set it",
        ),
        Action(
            title=f"Raise it above the arrival rate ({count(row.arrival_per_second)} messages/s), or remove it"
            " (here that of a client id)",
            command=f"{tool} --entity-type clients --entity-name {name} --alter --delete-config consumer_byte_rate",
            verify="the throttle time is 0" if measured else "the lag shrinks",
            kind="raise_quota",
            parameters={"members": held},
            checks=(gone if measured else SHRINKS,),
        ),
    ]


def _headline(row: SubscriptionFeatures) -> str:
    if row.throttle_seconds is not None:
        return f"Throttled by the broker: {duration(row.throttle_seconds)} per fetch on average."
    return (
        f"At its quota: the brokers let it read about {count(row.read_quota_per_second)} messages/s, and"
        f" {count(row.arrival_per_second)}/s arrive."
    )


LEAF = Leaf(
    verdict=Verdict.THROTTLED,
    headline=_headline,
    actions=_actions,
)
