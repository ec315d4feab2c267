"""Messages between two groups: what one has not processed yet, and the other begins behind. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from workbench.queues.position import merged
from workbench.queues.snapshot_views import Partition
from workbench.replay.planfile import PlannedPartition


def gaps(
    planned: Sequence[PlannedPartition], old: Mapping[Partition, int], *, read: Collection[Partition] = ()
) -> dict[Partition, int]:
    """Messages between the old group's commit and the new group's start: after a cutover, no group processes them.

    If the plan commits nothing for a partition, the log end counts as the start. Partitions without an old commit are left out, unless
    the old group reads them.

    Args:
        read: partitions that the old group reads. Where it has never committed, it may have the whole log before it: it is at its first
            record still, perhaps one that it cannot process.
    """
    found = {}
    for part in planned:
        begin = part.log_end if part.target is None else part.target
        committed = old.get(part.key, part.log_start if part.key in read else None)
        if committed is not None and committed < begin:
            found[part.key] = begin - max(committed, part.log_start)
    return {key: number for key, number in found.items() if number > 0}


def left_to_old(
    planned: Sequence[PlannedPartition], *, old: Mapping[Partition, int], new: Mapping[Partition, int]
) -> dict[Partition, int]:
    """Messages that only the old group would still process: at or behind its commit, and the new group has passed them unread.

    The new group reads from its start on; in a plan of ranges, it reads the ranges, and what lies behind its commit.
    """
    found = {}
    for part in planned:
        committed, reached = old.get(part.key), new.get(part.key)
        if committed is None or reached is None:
            continue
        start = max(committed, part.log_start)
        begin = part.log_end if part.target is None else part.target
        read = part.spans if part.ranges is not None else [(begin, max(begin, reached))]
        passed = merged([(max(start, low), min(reached, high)) for low, high in read])
        if number := reached - start - sum(high - low for low, high in passed):
            found[part.key] = number
    return {key: number for key, number in found.items() if number > 0}
