"""Processing runs at its usual speed, and the group has fewer consumers than partitions."""

from __future__ import annotations

from workbench.humanize import plural
from workbench.settings import Thresholds
from workbench.triage import capacity
from workbench.triage.actions import SHRINKS
from workbench.triage.capacity import Sizing
from workbench.triage.checks import Check
from workbench.triage.finding import Action
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _members(row: SubscriptionFeatures) -> int:
    return round(row.group_members or 0)


def _headline(row: SubscriptionFeatures) -> str:
    members = plural(_members(row), "member")
    return f"Too few consumers: {members} for {plural(row.partition_count, 'partition')}, and " + (
        "their queues are not full." if not row.queueless else "their own work takes all of their time."
    )


def _sizing(row: SubscriptionFeatures, thresholds: Thresholds) -> Sizing | None:
    return capacity.consumers(row, objective_seconds=thresholds.time_lag_objective_seconds)


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    members, partitions = _members(row), row.partition_count
    sizing = _sizing(row, it.thresholds)
    target = max(members + 1, min(partitions, sizing.drain if sizing is not None else partitions))
    words = f": {sizing.words}" if sizing is not None else ""
    return [
        Action(
            title=f"Add consumers, from {members} to {target} (useful up to {plural(partitions, 'partition')}){words}",
            command=it.members,
            verify="the new members have partitions, and the lag shrinks",
            kind="add_consumers",
            parameters={"members": target},
            checks=(Check(feature="group_members", relation=">=", value=target), SHRINKS),
        )
    ]


LEAF = Leaf(verdict=Verdict.TOO_FEW_CONSUMERS, headline=_headline, sizing=_sizing, actions=_actions)
