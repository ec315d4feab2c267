"""Members of a group that a fleet file does not name: they stay when the fleet leaves, take over its partitions, and process everything
once more. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from workbench.collect.kafka_views import GroupView, Member
from workbench.humanize import listed
from workbench.replay.fleet import InstanceStatus

_MOST_NAMED = 8


def strangers(view: GroupView, statuses: Sequence[InstanceStatus]) -> list[Member]:
    """Members of a group that belong to no instance of the fleet, by the client ids of the instances' consumers and their number."""
    ours = Counter(name for status in statuses for name in ([it.member for it in status.members] or [status.client_id]))
    instances = {status.client_id for status in statuses}
    others = []
    for member in view.members:
        if ours[member.client_id] > 0:
            ours[member.client_id] -= 1
        elif not (member.client_id in instances and _spare(ours, member.client_id)):
            others.append(member)
    return others


def is_namesake(member: Member, statuses: Sequence[InstanceStatus]) -> bool:
    """Whether an instance of the fleet, or a consumer of it, has this member's client id."""
    return any(member.client_id in {status.client_id, *(it.member for it in status.members)} for status in statuses)


def _spare(ours: Counter[str], client_id: str) -> bool:
    """Take a consumer of this instance that was not matched: some clients call all of them by the instance's name."""
    for name in ours:
        if ours[name] > 0 and name.startswith(f"{client_id}-"):
            ours[name] -= 1
            return True
    return False


def names_of_members(members: Sequence[Member]) -> str:
    """Client ids with hosts, as far as they help to find the process."""
    found = sorted(
        {f"{it.client_id or 'without a client id'} ({it.host.lstrip('/') or 'host not known'})" for it in members}
    )
    more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
    return listed(found[:_MOST_NAMED]) + more
