"""Who reads a topic: the groups with commits on it. Bounded in groups and time, and never an error: what is not known is said."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from workbench.errors import WorkbenchError
from workbench.humanize import listed, plural
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.groups import NotListedError
from workbench.kafka.offset_fetch import FetchLimits, read_commits
from workbench.queues.replay_port import Audience

_SECONDS = 8.0  # for all of it; a list of 20,000 groups with their commits took 3 s (docs/decisions)
_ANSWER_SECONDS = 3.0
_MOST_GROUPS = 20_000  # whose commits are read
_MOST_DESCRIBED = 100  # whose members are counted


def audience_of(bootstrap: str, properties: Mapping[str, Any], topics: Collection[str]) -> Audience:
    """Groups with commits on some topics; see `Gateway.audience`. Brokers that do not answer are part of what is not known."""
    deadline = time.monotonic() + _SECONDS
    kafka = KafkaCluster(bootstrap, properties, deadline_seconds=_SECONDS)
    try:
        others = kafka.others(only=())
        unknown = list(others.incomplete)
        if not others.lists_all:
            unknown.append("these credentials do not list all groups")
        names = sorted(others.consumers)
        if len(names) > _MOST_GROUPS:
            unknown.append(f"{plural(len(names) - _MOST_GROUPS, 'group was', 'groups were')} not asked")
        limits = FetchLimits(deadline=deadline, moved_until=0.0, lost_until=0.0, silence_seconds=_ANSWER_SECONDS)
        told = read_commits(kafka.own_servers, kafka.properties, names[:_MOST_GROUPS], limits)
    except (NotListedError, WorkbenchError) as error:
        return Audience(unknown=getattr(error, "message", None) or str(error))
    if told.denied:
        unknown.append(f"{plural(len(told.denied), 'group')} may not be described")
    if told.missing:
        unknown.append(f"{listed(sorted(told.missing))} did not answer")
    readers = sorted(
        {group for (group, topic, _), offset in told.offsets.items() if offset is not None and topic in topics}
    )
    counts: dict[str, int | None] = dict.fromkeys(readers)
    if readers and time.monotonic() < deadline:
        try:
            views = kafka.members(groups=readers[:_MOST_DESCRIBED], all_known=False).groups
        except WorkbenchError:
            views = ()
        counts |= {view.group: view.member_count for view in views if view.group in counts}
    return Audience(groups=counts, unknown="; ".join(unknown) or None)
