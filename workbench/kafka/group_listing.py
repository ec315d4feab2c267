"""What brokers tell of groups, and when that is all: while groups move to other coordinators, a list lacks some without a word."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from workbench.humanize import plural
from workbench.kafka.group_answers import COMMITS_TOPIC, Coordination, Listed
from workbench.kafka.librdkafka_errors import group_right
from workbench.kafka.patient_reads import ClusterReading
from workbench.kafka.wire import Address
from workbench.queues.group_kinds import UNKNOWN
from workbench.queues.snapshot_views import GroupView, ShareOffset

# A broker that takes groups over lists none of them until it begins to load them, and does not say so: 0.15 s on a quick machine.
_TAKE_OVER_SECONDS = 0.5
_LISTS = 8
_MOVING = "list of groups: it changed each time, while brokers take groups over from one another; some may be missing"


@dataclass(slots=True, kw_only=True)
class Others:
    """What the brokers tell about all groups, and about those of the other kinds.

    Attributes:
        listed: every group of the cluster, with its kind.
        consumers: names of the classic and consumer groups, which librdkafka describes.
        views: the groups that librdkafka does not list, described.
        shares: start offset and lag of share groups.
        denied: groups that may not be described.
        incomplete: what else could not be read, in words.
        is_lost: whether a broker has not answered.
        lists_all: whether groups that may not be described are in the list too.
        server: that has told which brokers there are.
        coordination: who coordinates groups; None if it was not told.
        requests: number of requests sent.
    """

    listed: dict[str, Listed] = field(default_factory=dict)
    consumers: set[str] = field(default_factory=set)
    views: dict[str, GroupView] = field(default_factory=dict)
    shares: dict[tuple[str, str, int], ShareOffset] = field(default_factory=dict)
    denied: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    is_lost: bool = False
    lists_all: bool = True
    server: Address | None = None
    coordination: Coordination | None = None
    requests: int = 0

    def add(self, other: Others) -> None:
        """Add what another broker told."""
        self.listed |= other.listed
        self.consumers |= other.consumers
        self.views |= other.views
        self.shares |= other.shares
        self.denied += other.denied
        self.incomplete += other.incomplete
        self.requests += other.requests

    def deny(self, reading: ClusterReading) -> None:
        """Note the groups that may not be described."""
        for name in dict.fromkeys(self.denied):
            reading.deny(f"group {name!r}", group_right(name))

    def added_to(self, views: Sequence[GroupView], reading: ClusterReading) -> list[GroupView]:
        """All groups, completed by the brokers' lists; what is missing goes to the reading."""
        reading.incomplete += self.incomplete
        self.deny(reading)
        return [*(self._completed(view) for view in views), *self.views.values()]

    def _completed(self, view: GroupView) -> GroupView:
        """With the kind and the state of the broker's list, where librdkafka does not tell them."""
        listed = self.listed.get(view.group)
        if listed is None:
            return view
        return replace(
            view,
            state=listed.state if view.state == UNKNOWN else view.state,
            protocol=listed.kind if view.protocol == UNKNOWN else view.protocol,
        )


def settled(once: Callable[[], Others], before: Coordination | None, deadline: float) -> Others:
    """List groups, again and again while they move to other coordinators, until two lists agree; say what is not told then.

    Args:
        once: lists them.
        before: who coordinated groups when they were listed before; None: not known.
        deadline: monotonic.
    """
    found = once()
    last, lists, agree = _told(found), 1, not _moves(found.coordination, before)
    while not agree and not found.is_lost:
        if lists >= _LISTS or time.monotonic() + _TAKE_OVER_SECONDS >= deadline:
            found.incomplete.append(_MOVING)
            break
        time.sleep(_TAKE_OVER_SECONDS)
        again = once()
        lists += 1
        agree, last = _told(again) == last, _told(again)
        # What moved between the two has been told by one broker at least.
        again.requests += found.requests
        again.listed = found.listed | again.listed
        again.consumers |= found.consumers
        again.views = found.views | again.views
        again.shares = found.shares | again.shares
        found = again
    leaders = found.coordination.leaders if found.coordination is not None else {}
    if without := sum(it < 0 for it in leaders.values()):
        of = f"{without} of the {plural(len(leaders), 'partition')} of {COMMITS_TOPIC}"
        found.incomplete.append(f"list of groups: {of} without a leader: no broker tells of the groups there")
    return found


def _told(found: Others) -> tuple[set[str], Coordination | None]:
    return found.listed.keys() | found.consumers, found.coordination


def _moves(now: Coordination | None, before: Coordination | None) -> bool:
    """Whether a broker may have groups that it does not list yet: one has gone a moment ago or comes back, or others have its part."""
    return now is not None and (not now.is_whole or (before is not None and before.leaders != now.leaders))
