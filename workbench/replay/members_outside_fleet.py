"""Members of a group that a fleet file does not name: they stay when the fleet leaves, take over its partitions, and process everything
once more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from workbench.errors import GuardError
from workbench.humanize import listed, plural
from workbench.queues.replay_port import Gateway
from workbench.queues.snapshot_views import GroupView, Member
from workbench.replay.guard import ReplayLimits
from workbench.replay.service_fleet import FleetFile, InstanceStatus

_MOST_NAMED = 8
_LOOK_SECONDS = 0.5


class Switching(Protocol):
    """A cutover as its check of members sees it."""

    @property
    def gateway(self) -> Gateway:
        """Of its cluster."""

    @property
    def file(self) -> FleetFile:
        """The fleet."""

    @property
    def limits(self) -> ReplayLimits:
        """What the operator allows."""

    @property
    def say(self) -> Callable[[str], None]:
        """Called with a line for every step."""

    @property
    def clock(self) -> Callable[[], float]:
        """Monotonic seconds."""

    @property
    def sleep(self) -> Callable[[float], None]:
        """Waits for seconds."""

    @property
    def group(self) -> str:
        """Where the fleet goes."""

    @property
    def old_group(self) -> str:
        """Where it comes from."""


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


def check_named(cutover: Switching, statuses: Sequence[InstanceStatus | None]) -> None:
    """Refuse to leave behind members that the fleet file does not name; say it where their number alone speaks for it.

    Args:
        statuses: of all instances; None where the fleet has none.

    Raises:
        GuardError: if there are some, and that is not allowed.
    """
    told = [status for status in statuses if status is not None]
    view = cutover.gateway.group(cutover.old_group)
    if len(told) < len(statuses):
        expected = cutover.file.members_per_instance * len(statuses)
        if len(view.members) > expected:
            cutover.say(
                f"{cutover.old_group!r} has {plural(len(view.members), 'member')}, the fleet file accounts for {expected}. Whether "
                f"others are among them cannot be told: {names_of_members(view.members)}. Who is left at the end is."
            )
        return
    deadline = cutover.clock() + cutover.file.health.timeout_seconds
    others = strangers(view, told)
    while others and all(is_namesake(it, told) for it in others) and cutover.clock() < deadline:
        # An instance that was killed and is back: its former self is a member until its session has timed out.
        cutover.sleep(_LOOK_SECONDS)
        others = strangers(cutover.gateway.group(cutover.old_group), told)
    if not others:
        return
    words = (
        f"{cutover.old_group!r} has {plural(len(others), 'member')} that the fleet file does not name: {names_of_members(others)}. "
        "What stays there processes everything once more."
    )
    if not cutover.limits.allow_unnamed:
        raise GuardError(words, hint="Add their instances to the fleet file; or --allow-unnamed.")
    cutover.say(words)


def check_left(cutover: Switching) -> None:
    """All instances of the file have switched: who is still in the group that they left is none of them, or has not gone yet.

    Raises:
        GuardError: if somebody stays, and that is not allowed.
    """
    health = cutover.file.health
    deadline = cutover.clock() + (health.settle_seconds if cutover.limits.allow_unnamed else health.timeout_seconds)
    while (view := cutover.gateway.group(cutover.old_group)).members and cutover.clock() < deadline:
        cutover.sleep(_LOOK_SECONDS)
    if not view.members:
        return
    words = (
        f"{cutover.old_group!r} still has {plural(len(view.members), 'member')}: {names_of_members(view.members)}. "
        "What the fleet has left is processed there, too: every record twice."
    )
    if not cutover.limits.allow_unnamed:
        raise GuardError(
            f"Every instance of the fleet file switched to {cutover.group!r}, but {words}",
            hint="Stop it, or add it to the fleet file and repeat the command; --allow-unnamed accepts it.",
        )
    cutover.say(words)
