"""What is slower than it was, whatever the limit is: the pace of some partitions, and round trips."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.features.measured import PartitionFeatures
from workbench.numbers import LESS
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Answer


def lost_pace(row: SubscriptionFeatures, partitions: Sequence[PartitionFeatures]) -> float | None:
    """Messages/s read lately of these partitions, as a multiple of what was read of them before, for each member that is left.

    None if it is not known. Where a group kept up, its pace was that of the arrivals.
    """
    known = [it for it in partitions if it.committed_recent_per_second is not None and it.arrival_baseline_per_second]
    before = sum(it.arrival_baseline_per_second or 0.0 for it in known)
    if not before:
        return None
    fewer = row.usual_members / row.group_members_recent if row.usual_members and row.group_members_recent else 1.0
    return sum(it.committed_recent_per_second or 0.0 for it in known) / before * max(1.0, fewer)


def held_by_own_work(row: SubscriptionFeatures) -> list[PartitionFeatures]:
    """Partitions that are read, and late, because their consumer's own work takes longer; empty if the data do not show that.

    Without process times: fetched messages wait in the client, or its thread never waits, and less is read than before. What in the
    consumer takes longer, its handlers or something else, is not known.
    """
    if not row.queueless or row.own_work is not True or row.known_count or row.at_quota:
        return []
    still = {*row.frozen_partitions, *row.stuck_partitions, *row.standing_partitions}
    late = [it for it in row.partitions if it.partition in set(row.behind_partitions) - still]
    pace = lost_pace(row, late)
    return late if pace is not None and pace < LESS else []


def slow_network(row: SubscriptionFeatures) -> bool:
    """Whether round trips are long, also if they are not the limit.

    A client that is busy with its own work fetches rarely, and Java's time of a fetch contains the wait for records: there, only far
    longer ones count.
    """
    if row.surely_slow_network:
        return True
    return row.answers.get("slow_network") is Answer.YES and not (row.queueless and row.own_work is True)
