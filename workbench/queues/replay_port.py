"""What a replay reads from a cluster, and the operations that change it. The rest is tested without a queue."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from workbench.humanize import listed, plural, size
from workbench.queues.snapshot_views import GroupView, Partition

Ranges = Mapping[Partition, tuple[int, int] | Sequence[tuple[int, int]]]  # offsets [start, stop), one range or several

ABSENT = "absent"  # state of an unknown group


class KeptCommit(NamedTuple):
    """A commit as it stands: the offset, and the bytes that whoever committed it keeps there.

    Frameworks need them: Kafka Streams the time of the partition, consumers that process a partition's records beside each other those
    behind the offset that are done. Without them, or with those of another offset, records are lost or processed twice.
    """

    offset: int
    metadata: bytes = b""


def offsets_of(commits: Mapping[Partition, KeptCommit]) -> dict[Partition, int]:
    """The commits without their metadata."""
    return {key: it.offset for key, it in commits.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """Metadata of a topic.

    Attributes:
        leaders: partition to its leader's broker id; -1 without a leader.
        topic_id: changes when a topic is deleted and recreated; None if not requested or not supported by the brokers.
        under_replicated: partitions with fewer in-sync replicas than replicas.
    """

    topic: str
    leaders: Mapping[int, int]
    under_replicated: tuple[int, ...] = ()
    topic_id: str | None = None

    def is_remade(self, since: str | None) -> bool:
        """Whether it was deleted and recreated since it had this id; without both ids it cannot be told, and is taken for no."""
        return None not in (since, self.topic_id) and self.topic_id != since


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster's id, brokers and topics.

    Attributes:
        topics: those that these credentials may describe; others are missing, as if they did not exist.
        denied: topics requested by name that may not be described, with the broker's error.
    """

    cluster_id: str
    brokers: Mapping[int, str]
    topics: Mapping[str, TopicView]
    denied: Mapping[str, str] = field(default_factory=dict)

    @property
    def under_replicated(self) -> list[Partition]:
        """All under-replicated partitions of the cluster."""
        return [(view.topic, number) for view in self.topics.values() for number in view.under_replicated]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Settings of a topic; None if the broker does not show them.

    Attributes:
        appends_time: whether the broker sets the timestamps now (`message.timestamp.type=LogAppendTime`).
    """

    retention_ms: int | None = None  # -1: unlimited
    retention_bytes: int | None = None  # -1: unlimited
    compacted: bool = False
    appends_time: bool | None = None
    timestamp_before_ms: int | None = (
        None  # a record's timestamp may be this much older than the broker's clock; None: any
    )
    timestamp_after_ms: int | None = None  # or newer


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRecord:
    """Answer to "first record at or after a timestamp"; both None if there is none."""

    offset: int | None = None
    timestamp_ms: int | None = None
    behind: int | None = None  # records from it on, where the difference of two offsets is not their number


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """Limits of reading records, over all partitions: what is not read within them is not known."""

    records: int
    bytes: int
    seconds: float

    def __str__(self) -> str:
        """In words."""
        return f"{plural(self.records, 'record')}, {size(self.bytes)} or {self.seconds:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTimes:
    """Timestamps of a partition's records, as they were read.

    Attributes:
        records: offset and timestamp (ms since the epoch, -1: none) in the order of the log.
        through: every record of the requested range below this offset was read.
        by_broker: whether the broker has set all of these timestamps; true without a record.
        why: the rest cannot be read, if there is a reason besides the limits.
    """

    records: Sequence[tuple[int, int]]
    through: int
    by_broker: bool = False
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Groups with commits on some topics.

    Attributes:
        groups: name to the number of its members; None if that is not known.
        unknown: why there may be others, in words.
    """

    groups: Mapping[str, int | None] = field(default_factory=dict)
    unknown: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """Log start and end offsets of partitions.

    Attributes:
        starts, ends: log start offset and high watermark.
        stable_ends: last stable offset; lower than the end while a transaction is open.
        found: for each requested timestamp (ms since the epoch), the first record at or after it.
        errors: partitions without an answer, and why.
        denied: those of them that these credentials may not describe.
        sizes: records (of a Pulsar entries) of each partition, where the difference of two offsets is not their number.
        back: there, the offset that lies so many of them before a partition's end, or its start.
    """

    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    stable_ends: Mapping[Partition, int] = field(default_factory=dict)
    found: Mapping[int, Mapping[Partition, FirstRecord]] = field(default_factory=dict)
    errors: Mapping[Partition, str] = field(default_factory=dict)
    denied: frozenset[Partition] = frozenset()
    sizes: Mapping[Partition, int] = field(default_factory=dict)
    back: Callable[[Partition, int], int] | None = None

    def records_from(self, partition: Partition, offset: int) -> int | None:
        """How many records lie from an offset to a partition's end; None if the end is not known."""
        end, back = self.ends.get(partition), self.back
        if end is None or back is None:
            return None if end is None else max(0, end - offset)
        size = self.sizes[partition]
        return min(size, bisect_left(range(size + 1), True, key=lambda number: back(partition, number) <= offset))


class Gateway(Protocol):
    """Operations on one cluster. Only `commit`, `restore`, `delete_commits` and `delete_group` write; none joins a group.

    All raise `SourceUnreachableError` if the cluster does not answer in time.
    """

    def cluster(self, topics: Iterable[str] = ()) -> ClusterView:
        """Id, brokers, topics, leaders and replicas; for some topics also the topic id, and whether they are hidden or missing."""

    def settings(self, topics: Iterable[str]) -> Mapping[str, TopicSettings]:
        """Retention and clean-up of topics."""

    def logs(
        self, partitions: Sequence[Partition], *, instants_ms: Sequence[int] = (), stable: bool = False
    ) -> LogView:
        """Log starts, log ends, and first records at or after timestamps; one request per leader and kind."""

    def group(self, name: str) -> GroupView:
        """Kind, state and members of a group; the state is `ABSENT` if it does not exist."""

    def commits(self, group: str) -> Mapping[Partition, int]:
        """All committed offsets of a group; empty if it has none or does not exist."""

    def kept_commits(self, group: str) -> Mapping[Partition, KeptCommit]:
        """As `commits`, with the metadata of each, of one and the same answer."""

    def may_hide(self) -> bool:
        """Whether there may be topics, and commits on them, that these credentials do not see; false only if the brokers say so."""

    def lacking(self, group: str, topics: Mapping[str, str], transactions: Sequence[str] = ()) -> tuple[str, ...]:
        """Permissions that the brokers say are lacking, in words: to commit for a group, an operation on each topic, such as WRITE,
        and to write with transactional ids.
        """

    def times(
        self, spans: Mapping[Partition, tuple[int, int]], limits: ReadLimits, *, committed: bool = False
    ) -> Mapping[Partition, ReadTimes]:
        """Timestamps of the records in these offset ranges [start, stop), as far as the limits go; every partition is in the answer.

        Args:
            committed: only records of committed transactions, and none from an open transaction on.
        """

    def notes(self, group: str) -> Mapping[Partition, str]:
        """Texts that the group's members have stored with their commits; partitions without one are left out."""

    def audience(self, topics: Collection[str]) -> Audience:
        """All groups with commits on these topics, as far as these credentials and a limit of time go."""

    def record_bytes(self, starts: Mapping[Partition, int]) -> Mapping[str, float]:
        """Mean bytes of key and value of records sampled from these offsets on, by topic; topics without a record are left out."""

    def read_quota(self, clients: Collection[str]) -> float | None:
        """Bytes/s that these client ids may together read from each broker; None without a quota, or if it cannot be told."""

    def local_starts(self, leaders: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """Where the leader's own disk begins in each partition: before it is remote storage alone; unknown ones are left out."""

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> Mapping[Partition, str]:
        """Commit offsets for a group without members; return the error of each failed partition."""

    def restore(self, group: str, commits: Mapping[Partition, KeptCommit]) -> Mapping[Partition, str]:
        """As `commit`, with the metadata of each."""

    def delete_commits(self, group: str, partitions: Collection[Partition]) -> Mapping[Partition, str]:
        """Take the commits of some partitions away from a group without members; return the error of each failed partition."""

    def delete_group(self, name: str) -> str | None:
        """Delete a group with its commits, also with those that are hidden; return the error, or None."""


def spans_of(some: tuple[int, int] | Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """One range of `Ranges`, or several."""
    if len(some) == 2 and isinstance(some[0], int) and isinstance(some[1], int):
        return [(some[0], some[1])]
    return [(pair[0], pair[1]) for pair in some if isinstance(pair, tuple)]


def read_by(view: GroupView, commits: Iterable[Partition], cluster: ClusterView) -> set[Partition]:
    """Partitions that a group reads, by its commits and its members' assignment.

    Commits on deleted partitions are left out. Assigned partitions are kept even if these credentials may not describe them.
    """
    held = {part for member in view.members for part in member.partitions}
    return held | {
        key for key in commits if (topic := cluster.topics.get(key[0])) is not None and key[1] in topic.leaders
    }


def names_of(partitions: Iterable[Partition]) -> str:
    """List partitions in order: `orders-1 and orders-2`."""
    return listed([f"{topic}-{number}" for topic, number in sorted(partitions)])


# Groups in these states have no members; brokers before 4.0 call an unknown group "dead".
GONE = (ABSENT, "dead")
WITHOUT_MEMBERS = (*GONE, "empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """Limits of a user, of each broker; None: not limited.

    Attributes:
        producer_bytes, consumer_bytes: per second.
    """

    user: str
    producer_bytes: float | None = None
    consumer_bytes: float | None = None
