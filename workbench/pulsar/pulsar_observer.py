"""Pulsar behind the observer's port: subscriptions as groups, by the admin's REST API. Reads only.

A group is a subscription on one topic (`billing@public/default/orders`); its members are the connected consumers. A backlog is in
entries; in messages it is known only where there is none.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from workbench.errors import UnknownGroupError, UsageError
from workbench.humanize import near, printable
from workbench.pulsar.admin import PulsarAdmin
from workbench.pulsar.subscription_survey import survey
from workbench.pulsar.topic_names import group_name
from workbench.pulsar.topic_stats import SubscriptionPart, age_seconds
from workbench.queues.group_kinds import REDRIVE, UNKNOWN, is_redrive_plan
from workbench.queues.observer import Age, Ages, Listing, Rounds
from workbench.queues.snapshot_views import GroupView, Member, ShareOffset, Snapshot
from workbench.samples import SeriesTable
from workbench.settings import Cluster

Groups = Mapping[str, list[SubscriptionPart]]


class PulsarObserver:
    """See `Observer`."""

    def __init__(self, cluster: Cluster, *, seconds: float | None = None) -> None:
        self._cluster, self._seconds = cluster, seconds

    def cluster_id(self) -> str:
        """See `Observer`: the name that the cluster gives itself."""
        found = self._admin().get("clusters")
        return ",".join(map(str, found)) if isinstance(found, list) else UNKNOWN

    def snapshot(self, *, groups: Sequence[str] | None = None, all_known: bool = True) -> Snapshot:
        """See `Observer`. A group may be named `billing@public/default/orders`, or `billing` for all subscriptions of that name."""
        found = survey(self._admin(), namespaces=self._cluster.pulsar.namespaces)
        taken_at = time.time()
        chosen, unknown = _chosen(_by_group(found.parts), groups)
        # What was not told may have it.
        absent = unknown if not found.incomplete else []
        if absent and all_known:
            like = near(absent[0], sorted(_names_of(_by_group(found.parts))))
            raise UnknownGroupError(
                f"The Pulsar {self._cluster.name!r} has no subscription {absent[0]!r}.",
                hint=f"Similar: {', '.join(map(printable, like))}."
                if like
                else "List them with: workbench pulsar subscriptions --cluster CLUSTER",
            )
        return Snapshot(
            taken_at=taken_at,
            groups=tuple(_view(name, parts) for name, parts in sorted(chosen.items())),
            commits={},
            ends={},
            starts={},
            incomplete=found.incomplete,
            unknown=tuple(absent),
            shares={
                (name, str(part.topic), part.partition): ShareOffset(
                    start=None, lag=part.messages, entries=part.entries
                )
                for name, parts in chosen.items()
                for part in parts
            },
        )

    def members(self, *, groups: Sequence[str] | None = None, all_known: bool = True) -> Snapshot:
        """See `Observer`; costs as much as a snapshot, for the admin tells both together."""
        return replace(self.snapshot(groups=groups, all_known=all_known), shares={})

    def listing(self) -> Listing:
        """See `Observer`."""
        found = self.snapshot()
        views = {view.group: view for view in found.groups}
        kinds = {name: view.protocol for name, view in views.items()}
        return Listing(kinds=kinds, views=views, shares=found.shares, incomplete=found.incomplete)

    def ages(self, snapshot: Snapshot, incomplete: list[str]) -> Ages:
        """See `Observer`: by the publish time of the oldest entry, which is the producer's clock."""
        # A topic's own name may hold a slash, too.
        namespaces = sorted({"/".join(topic.split("/")[:2]) for _, topic, _ in snapshot.shares})
        found = survey(self._admin(), namespaces=namespaces, with_ages=True) if namespaces else None
        now = time.time()
        ages: dict[tuple[str, str, int], Age] = {}
        for part in found.parts if found is not None else ():
            key = (group_name(part.subscription, part.topic), str(part.topic), part.partition)
            if key in snapshot.shares and (age := age_seconds(part, now)) is not None:
                ages[key] = Age(low=age, high=age)
        incomplete += found.incomplete if found is not None else ()
        return ages

    def of_now(self, series: SeriesTable, views: pa.Table, at: float, incomplete: list[str]) -> list[pa.Table]:  # noqa: ARG002 - the port's
        """See `Observer`: nothing yet."""
        return []

    def client_quotas(self) -> None:
        """See `Observer`: not known. A Pulsar limits topics and subscriptions, and not clients."""
        return

    def rounds(self) -> Rounds:
        """See `Observer`.

        Raises:
            UsageError: recordings of a Pulsar do not work yet.
        """
        raise UsageError(
            "A Pulsar cannot be recorded over time yet.",
            hint="Save two looks at it with: workbench capture --cluster CLUSTER --output FOLDER",
        )

    def _admin(self) -> PulsarAdmin:
        return PulsarAdmin(self._cluster, seconds=self._seconds)


def _by_group(parts: Sequence[SubscriptionPart]) -> Groups:
    found: dict[str, list[SubscriptionPart]] = defaultdict(list)
    for part in parts:
        found[group_name(part.subscription, part.topic)].append(part)
    return found


def _names_of(groups: Groups) -> set[str]:
    return {*groups, *(parts[0].subscription for parts in groups.values())}


def _chosen(groups: Groups, names: Sequence[str] | None) -> tuple[Groups, list[str]]:
    """The groups of these names, and the names that no group has."""
    if not names:
        return groups, []
    chosen = {name: parts for name, parts in groups.items() if name in names or parts[0].subscription in names}
    known = _names_of(chosen)
    return chosen, [name for name in names if name not in known]


def _view(name: str, parts: Sequence[SubscriptionPart]) -> GroupView:
    kinds = {part.kind for part in parts if part.kind is not None}
    told = all(part.consumers is not None for part in parts)
    reads: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for part in parts:
        for it in part.consumers or ():
            mine = reads.setdefault((it.consumerName, it.address), [])
            if part.active in (None, "", it.consumerName):  # those in reserve of a failover get nothing
                mine.append((str(part.topic), part.partition))
    return GroupView(
        group=name,
        state="unknown" if not told else "stable" if reads else "empty",
        protocol=REDRIVE if is_redrive_plan(parts[0].subscription) else kinds.pop() if len(kinds) == 1 else UNKNOWN,
        coordinator=None,
        members=tuple(
            Member(member_id=consumer, client_id=consumer, host=address, partitions=tuple(sorted(read)))
            for (consumer, address), read in sorted(reads.items())
        ),
    )
