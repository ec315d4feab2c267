"""Interface of the runtime to a message queue. Kafka is the first implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workbench.runtime.event import Record, TopicPartition

# Committed offset and text of each of these partitions, of a group, wherever its members run; raises whatever the client raises.
ReadCommits = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, tuple[int, str | None]]]


class AssignmentListener(Protocol):
    """Receives changes of the assignment, always on the polling thread, inside `poll` or `close`."""

    def on_assigned(
        self,
        committed: Mapping[TopicPartition, int | None],
        begin: Mapping[TopicPartition, int] | None = None,
        notes: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Partitions were assigned; with their committed offsets (None: never committed) and commit metadata (None: there is no place
        for it).

        `begin` has the start offsets of partitions without a commit, if they were determined. They must still be committed if
        `committed` does not have them.
        """

    def on_reset(self, partition: TopicPartition, offset: int, lost: int | None) -> None:
        """The position of a partition was outside of its log (`lost`), or there was none (None). Reading goes on at `offset`, behind
        all records that `poll` returns now or has returned.
        """

    def on_leaving(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions will be revoked when they have left: nothing more of them is started. Sources that can wait call it first."""

    def has_left(self, partition: TopicPartition) -> bool:
        """Whether a partition that leaves has ended what was in flight, or had its time for that."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions are being revoked; a commit is still possible."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions are lost; a commit is no longer possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHealth:
    """Client statistics of one broker, over the last statistics interval."""

    rtt_seconds: float | None
    throttle_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHealth:
    """Client statistics.

    Attributes:
        taken_at: monotonic time of the reading.
        heartbeat_age: seconds since the last contact with the group's coordinator, at `taken_at`.
        fetch_queue: messages fetched and not yet polled, by partition.
        is_stranded: whether the client has no broker left that it could ask, and will find none: only a new one helps.
    """

    taken_at: float
    heartbeat_age: float | None = None
    brokers: Mapping[str, BrokerHealth] = field(default_factory=dict)
    fetch_queue: Mapping[TopicPartition, int] = field(default_factory=dict)
    is_stranded: bool = False


class RecordSource(Protocol):
    """One consumer. Only the thread that owns it calls its methods, except `health`."""

    def subscribe(self, topics: Sequence[str], listener: AssignmentListener) -> None:
        """Join the group."""

    def poll(self, max_records: int, timeout: float) -> Sequence[Record]:
        """Return up to a number of records in partition order; wait up to a timeout for the first one.

        A record below the position means that the log was truncated or recreated. Any error ends the member, because records may be
        lost with it; the next owner reads them.
        """

    def take_ends(self) -> Mapping[TopicPartition, int]:
        """Partitions whose end was reached since the last call, with the offset there; only a task with ranges asks.

        Everything below that offset was returned by `poll` before.
        """

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning records of these partitions. A pause may outlive the assignment: resume before you release a partition."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume these partitions."""

    def rejoin(self) -> None:
        """Leave the group and join it again with a new client; not inside a callback."""

    def rewind(self, partitions: Iterable[TopicPartition]) -> None:
        """Seek these partitions to their log start."""

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        *,
        wait: bool,
        epochs: Mapping[TopicPartition, int] | None = None,
        notes: Mapping[TopicPartition, str] | None = None,
    ) -> Mapping[TopicPartition, str] | None:
        """Commit. With `wait`, return the failed partitions and errors; without, return None, and `commit_result` returns them later.

        `epochs` has the leader epoch of the last record below each offset, if known: it reveals a log that was truncated below a commit
        and has grown beyond it again. `notes` are stored as commit metadata, for the next assignment.
        """

    def commit_result(self) -> Mapping[TopicPartition, str] | None:
        """Failed partitions of the last commit without `wait`; None while it is in flight."""

    def health(self) -> SourceHealth | None:
        """Latest statistics, or None; any thread may call it."""

    def close(self) -> None:
        """Leave the group."""
