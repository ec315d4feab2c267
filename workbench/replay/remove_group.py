"""A group is removed without anything that these credentials do not see.

A coordinator does not tell commits on topics that they may not describe, and deletes them with the group. So a group is deleted only
where the brokers hide nothing; elsewhere the commits that are seen are taken away one by one. Brokers remove a group that has none by
themselves (at the next `offsets.retention.check.interval.ms`, 10 minutes by default); one that stays has others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from workbench.queues.replay_port import Gateway
from workbench.queues.snapshot_views import Partition


def remove_group(gateway: Gateway, group: str, commits: Collection[Partition]) -> Mapping[Partition, str]:
    """Remove a group without members; return the error of each of its commits where that failed.

    Args:
        commits: all partitions on which it is seen to have one.
    """
    if gateway.may_hide():
        return gateway.delete_commits(group, commits) if commits else {}
    refused = gateway.delete_group(group)
    return dict.fromkeys(commits, refused) if refused is not None else {}
