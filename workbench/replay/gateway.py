"""The port to Kafka: what a replay asks of a cluster, and the two things it may change. Everything else here is tested without one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workbench.collect.kafka import GroupView
from workbench.humanize import listed

Partition = tuple[str, int]

ABSENT = "absent"  # the state of a group that the cluster does not know


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic as the metadata has it.

    Attributes:
        leaders: partition to the broker that leads it; -1 where nobody does.
        topic_id: another one for a topic of the same name that is made anew; None where nobody asked or brokers have none.
        under_replicated: partitions with fewer in-sync replicas than replicas.
    """

    topic: str
    leaders: Mapping[int, int]
    under_replicated: tuple[int, ...] = ()
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster's id, brokers and topics.

    Attributes:
        topics: those that these credentials may see; the others are left out, as if they were not there.
        denied: of the topics that were asked for by name, those that may not be seen, and what the broker said.
    """

    cluster_id: str
    brokers: Mapping[int, str]
    topics: Mapping[str, TopicView]
    denied: Mapping[str, str] = field(default_factory=dict)

    @property
    def under_replicated(self) -> list[Partition]:
        """Every partition of the cluster that lacks a replica."""
        return [(view.topic, number) for view in self.topics.values() for number in view.under_replicated]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The settings of a topic that decide how long its records stay; None where the broker does not tell."""

    retention_ms: int | None = None  # -1: for ever
    retention_bytes: int | None = None  # -1: without a bound
    compacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer to "first record at or after an instant"; both None if there is none."""

    offset: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """The ends of some partitions' logs.

    Attributes:
        starts, ends: first offset that is kept, and the high watermark.
        stable_ends: last stable offset; lower than the end while a transaction is open.
        found: for each instant asked (ms since the epoch), the first record at or after it.
        errors: partitions that did not answer, and why.
        denied: those of them which these credentials may not see.
    """

    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    stable_ends: Mapping[Partition, int] = field(default_factory=dict)
    found: Mapping[int, Mapping[Partition, Found]] = field(default_factory=dict)
    errors: Mapping[Partition, str] = field(default_factory=dict)
    denied: frozenset[Partition] = frozenset()


class Gateway(Protocol):
    """One cluster. The first six only read and join no group; the last two are the only ones that write.

    All raise `SourceUnreachableError` if the cluster does not answer in time.
    """

    def cluster(self, topics: Iterable[str] = ()) -> ClusterView:
        """Id, brokers, topics, leaders and replicas; of some topics also their own id, and whether they are hidden or not there."""

    def settings(self, topics: Iterable[str]) -> Mapping[str, TopicSettings]:
        """Retention and clean-up of topics."""

    def logs(
        self, partitions: Sequence[Partition], *, instants_ms: Sequence[int] = (), stable: bool = False
    ) -> LogView:
        """Starts, ends, and the first records at or after instants; one request for each leader and question."""

    def group(self, name: str) -> GroupView:
        """A group; its state is `ABSENT` if there is none."""

    def commits(self, group: str) -> Mapping[Partition, int]:
        """All committed offsets of a group; empty if it has none or does not exist."""

    def record_bytes(self, starts: Mapping[Partition, int]) -> Mapping[str, float]:
        """Mean size of key and value of some records from those offsets on, by topic; one from which nothing was read is left out."""

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> Mapping[Partition, str]:
        """Commit offsets for a group without members; returns what failed, and why, for each partition."""

    def delete_group(self, name: str) -> str | None:
        """Delete a group with its commits; returns why not, if it failed."""


def read_by(view: GroupView, commits: Iterable[Partition], cluster: ClusterView) -> set[Partition]:
    """Partitions that a group reads, by its commits and by what its members hold.

    Commits on what is deleted are left out. What members hold is not, though the cluster may not show it: then it is hidden from us.
    """
    held = {part for member in view.members for part in member.partitions}
    return held | {
        key for key in commits if (topic := cluster.topics.get(key[0])) is not None and key[1] in topic.leaders
    }


def names_of(partitions: Iterable[Partition]) -> str:
    """`orders-1 and orders-2`, in order."""
    return listed([f"{topic}-{number}" for topic, number in sorted(partitions)])
