"""Every partition has its own consumer, at its usual speed: the topic has too few partitions."""

from __future__ import annotations

from workbench.humanize import plural
from workbench.triage import capacity
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Leaf
from workbench.triage.shared_actions import SHRINKS
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Verdict


def _headline(row: Row) -> str:
    members = plural(round(row.group_members), "consumer") if row.group_members else "its consumers"
    return (
        f"Partition ceiling: {members} for {plural(row.partition_count, 'partition')} read all of them at once, and still not"
        " enough. Add partitions, or process by key in parallel."
    )


def _actions(it: Subject, row: Row) -> list[Action]:
    sizing = capacity.consumers(row)
    partitions = row.partition_count
    total = max(partitions + 1, sizing.drain if sizing is not None else 2 * partitions)
    words = f": {sizing.words}" if sizing is not None else ""
    return [
        Action(
            title=f"Add partitions, from {partitions} to {total}, and consumers with them, or process events of one partition in "
            f"parallel by key{words}. Keys then move to other partitions: order across the change is lost",
            command=it.tools.add_partitions(it.topic, total),
            verify="the new partitions are assigned, and the lag shrinks",
            kind="add_partitions",
            parameters={"partitions": total, "members": total},
            checks=(Check("partition_count", ">=", total), SHRINKS),
        )
    ]


LEAF = Leaf(verdict=Verdict.PARTITION_CEILING, headline=_headline, sizing=capacity.consumers, actions=_actions)
