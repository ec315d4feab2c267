"""What a redrive asks a Pulsar about topics, behind the gateway's port: by the admin, without a consumer.

A topic without partitions is one with the partition 0 here. Offsets are packed positions: they are in order, and their difference is no
number of messages. Progress of a redrive is kept in the properties of a subscription that has the plan's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote

from workbench.errors import EvidenceError, NoAnswerError, SourceUnreachableError
from workbench.pulsar.admin import AT_ONCE, NotThereError, PulsarAdmin
from workbench.pulsar.subscription_survey import survey, topics_of
from workbench.pulsar.topic_log import PulsarLog, position_at, published_ms, read_log
from workbench.pulsar.topic_names import WHOLE, TopicName, part_name
from workbench.pulsar.topic_stats import parse_topic
from workbench.queues.group_kinds import is_redrive_plan
from workbench.queues.position import Position, packed
from workbench.queues.replay_port import (
    Audience,
    ClusterView,
    FirstRecord,
    KeptCommit,
    LogView,
    ReadLimits,
    ReadTimes,
    TopicSettings,
    TopicView,
)
from workbench.queues.snapshot_views import GroupView, Partition
from workbench.queues.systems import not_there
from workbench.settings import Cluster

POSITION, MARK, ORDERED = "workbench-position", "workbench-mark", "workbench-ordered"  # properties
_ORDERED_GROUP = re.compile(r"(.*)-ordered", re.DOTALL)
_T = TypeVar("_T")


def named_topic(text: str) -> TopicName | None:
    """A topic by `tenant/namespace/topic`, with or without `persistent://`."""
    return TopicName.parse(text if "://" in text else f"persistent://{text}")


class PulsarLetterGateway:
    """See `Gateway`: what redrives ask. What only replays of Kafka ask is refused."""

    def __init__(self, cluster: Cluster) -> None:
        self.settings_of_cluster = cluster
        self.admin = PulsarAdmin(cluster, seconds=math.inf)
        self._partitioned: dict[str, bool] = {}  # by topic
        self._asked: set[str] = set()

    def cluster(self, topics: Iterable[str] = ()) -> ClusterView:
        """See `Gateway`: the id is the name of the Pulsar cluster."""
        found = self.admin.get("clusters")
        names = sorted(it for it in found if isinstance(it, str) and it != "global") if isinstance(found, list) else []
        if not names:
            raise NoAnswerError("The admin does not tell the name of its cluster.")
        known = {
            str(it): is_partitioned
            for it, is_partitioned in topics_of(self.admin, self.settings_of_cluster.pulsar.namespaces)
        }
        self._partitioned |= known
        self._asked |= set(topics) & known.keys()
        views = dict(zip(known, self._each(known, self._view), strict=True))
        return ClusterView(cluster_id=",".join(names), brokers={}, topics=views)

    def _view(self, name: str) -> TopicView:
        topic = named_topic(name)
        count = 1
        if topic is not None and self._partitioned[name]:
            told = self.admin.get(f"{topic.path}/partitions")
            count = told.get("partitions", 0) if isinstance(told, dict) else 0
            if not isinstance(count, int):
                raise EvidenceError(f"The number of partitions of {topic} cannot be read.")
        return TopicView(topic=name, leaders=dict.fromkeys(range(count), 0))

    def place(self, topic: str, number: int) -> tuple[TopicName, int]:
        """Topic and partition as Pulsar has them.

        Raises:
            NotThereError: if it has no such name.
        """
        found = named_topic(topic)
        if found is None:
            raise NotThereError(f"{topic} is no tenant/namespace/topic.")
        if topic not in self._partitioned:
            told = self.admin.get(f"{found.path}/partitions")
            self._partitioned[topic] = bool(isinstance(told, dict) and told.get("partitions"))
        return found, number if self._partitioned[topic] else WHOLE

    def settings(self, topics: Iterable[str]) -> Mapping[str, TopicSettings]:
        """See `Gateway`: what is not acknowledged by some subscription stays whatever the retention is, so none is told."""
        return {topic: TopicSettings() for topic in topics}

    def logs(
        self,
        partitions: Sequence[Partition],
        *,
        instants_ms: Sequence[int] = (),
        stable: bool = False,  # noqa: ARG002 - the port's
    ) -> LogView:
        """See `Gateway`."""
        errors: dict[Partition, str] = {}

        def look(key: Partition) -> tuple[PulsarLog, dict[int, FirstRecord]] | None:
            try:
                topic, number = self.place(*key)
                log = read_log(self.admin, topic, number)
                return log, {at: self._first(topic, number, log, at) for at in instants_ms}
            except (SourceUnreachableError, EvidenceError) as error:
                errors[key] = error.message
                return None

        found = {key: it for key, it in zip(partitions, self._each(partitions, look), strict=True) if it is not None}
        starts = {key: _packed(log.first) for key, (log, _) in found.items()}
        ends = {key: _packed(log.stop) for key, (log, _) in found.items()}
        return LogView(
            starts=starts,
            ends=ends,
            stable_ends=ends,
            found={at: {key: times[at] for key, (_, times) in found.items()} for at in instants_ms},
            errors=errors,
            sizes={key: log.entries_between(log.first, log.stop) for key, (log, _) in found.items()},
            back=lambda key, entries: _packed(found[key][0].back(entries)),
        )

    def _first(self, topic: TopicName, number: int, log: PulsarLog, at_ms: int) -> FirstRecord:
        at = position_at(self.admin, topic, number, log, at_ms)
        if (left := log.entries_between(at, log.stop)) == 0:
            return FirstRecord()
        first = max(at, log.first)
        return FirstRecord(
            offset=_packed(first), timestamp_ms=published_ms(self.admin, topic, number, first), behind=left
        )

    # Progress of plans

    def properties(self, topic: str, number: int) -> Mapping[str, Mapping[str, Any]]:
        """Properties of the subscriptions of one partition that are of redrive plans."""
        name = part_name(*self.place(topic, number))
        found = parse_topic(self.admin.get(f"{name.path}/stats"), name)
        return {it.subscription: it.properties or {} for it in found if is_redrive_plan(it.subscription)}

    def plans(self) -> list[str]:
        """Names of redrive plans that have subscriptions on the topics that were asked for by name: on each partition with letters of
        theirs, and on no other."""
        found = self._each(self._asked_parts(), lambda it: self.properties(*it))
        return sorted({name for some in found for name in some})

    def commits(self, group: str) -> Mapping[Partition, int]:
        """See `Gateway`, of a redrive plan: its positions on the topics that were asked for by name, or wherever it has any."""
        if (ordered := _ORDERED_GROUP.fullmatch(group)) is not None:
            return {key: at for key, at in self._numbers(ordered[1], ORDERED).items() if key[1] == 0}
        return self._numbers(group, POSITION)

    def _numbers(self, group: str, name: str) -> dict[Partition, int]:
        found = {key: it.get(name) for key, it in self._of_plan(group).items()}
        return {key: int(text) for key, text in found.items() if isinstance(text, str) and text.isdecimal()}

    def notes(self, group: str) -> Mapping[Partition, str]:
        """See `Gateway`, of a redrive plan."""
        return {key: text for key, it in self._of_plan(group).items() if isinstance(text := it.get(MARK), str)}

    def _of_plan(self, group: str) -> dict[Partition, Mapping[str, Any]]:
        if not is_redrive_plan(group):
            raise not_there(self.settings_of_cluster, "Asking for the positions of a group does")
        if not self._asked:
            self._asked |= self._topics_with(group)
        parts = self._asked_parts()
        found = self._each(parts, lambda it: self.properties(*it).get(group))
        return {key: it for key, it in zip(parts, found, strict=True) if it is not None}

    def _topics_with(self, subscription: str) -> set[str]:
        found = survey(self.admin, namespaces=self.settings_of_cluster.pulsar.namespaces)
        mine = [it for it in found.parts if it.subscription == subscription]
        self._partitioned |= {str(it.topic): it.partition != WHOLE for it in mine}
        topics = {str(it.topic) for it in mine}
        if not topics and found.incomplete:
            raise NoAnswerError(f"Whether {subscription} has begun is not known: {found.incomplete[0]}")
        return topics

    def _asked_parts(self) -> list[Partition]:
        return [(topic, number) for topic in sorted(self._asked) for number in self._view(topic).leaders]

    def _each(self, items: Collection[Any], ask: Callable[[Any], _T]) -> list[_T]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(ask, items))

    def subscription_path(self, topic: str, number: int, name: str) -> str:
        """Path of a subscription for the admin."""
        return f"{part_name(*self.place(topic, number)).path}/subscription/{quote(name, safe='')}"

    # What only a replay of Kafka asks

    def group(self, name: str) -> GroupView:
        """Refuse, as all that follow."""
        raise not_there(self.settings_of_cluster, f"Asking for the group {name!r} does")

    def times(
        self,
        spans: Mapping[Partition, tuple[int, int]],  # noqa: ARG002
        limits: ReadLimits,  # noqa: ARG002
        *,
        committed: bool = False,  # noqa: ARG002
    ) -> Mapping[Partition, ReadTimes]:
        """See `group`."""
        raise not_there(self.settings_of_cluster, "Reading the times of records does")

    def kept_commits(self, group: str) -> Mapping[Partition, KeptCommit]:  # noqa: ARG002
        """See `group`."""
        raise not_there(self.settings_of_cluster, "Reading the metadata of positions does")

    def may_hide(self) -> bool:
        """See `group`."""
        raise not_there(self.settings_of_cluster, "Asking for hidden topics does")

    def lacking(self, group: str, topics: Mapping[str, str], transactions: Sequence[str] = ()) -> tuple[str, ...]:  # noqa: ARG002 - nothing tells it
        """See `group`."""
        return ()

    def restore(self, group: str, commits: Mapping[Partition, KeptCommit]) -> Mapping[Partition, str]:  # noqa: ARG002
        """See `group`."""
        raise not_there(self.settings_of_cluster, "Restoring positions does")

    def audience(self, topics: Collection[str]) -> Audience:  # noqa: ARG002
        """See `group`."""
        raise not_there(self.settings_of_cluster, "Asking who reads a topic does")

    def record_bytes(self, starts: Mapping[Partition, int]) -> Mapping[str, float]:  # noqa: ARG002
        """See `group`."""
        raise not_there(self.settings_of_cluster, "Sampling records does")

    def read_quota(self, clients: Collection[str]) -> float | None:  # noqa: ARG002
        """See `group`."""
        raise not_there(self.settings_of_cluster, "Asking for quotas does")

    def local_starts(self, leaders: Mapping[Partition, int]) -> Mapping[Partition, int]:  # noqa: ARG002
        """See `group`."""
        raise not_there(self.settings_of_cluster, "Asking for the starts of local logs does")

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> Mapping[Partition, str]:  # noqa: ARG002
        """See `group`."""
        raise not_there(self.settings_of_cluster, "Committing positions does")

    def delete_commits(self, group: str, partitions: Collection[Partition]) -> Mapping[Partition, str]:  # noqa: ARG002
        """See `group`."""
        raise not_there(self.settings_of_cluster, "Taking positions away does")

    def delete_group(self, name: str) -> str | None:  # noqa: ARG002
        """See `group`."""
        raise not_there(self.settings_of_cluster, "Deleting a group does")


def _packed(position: Position) -> int:
    ledger, entry = position.numbers
    found = packed((ledger, entry, 0))
    if found is None:
        raise EvidenceError(f"The position {position} is too large to be told here.")
    return found
