"""The port to a message queue: what the runtime needs of one, and nothing more. Kafka is the first behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workbench.runtime.event import Record, TopicPartition


class AssignmentListener(Protocol):
    """Told of changes of the assignment, always on the thread that polls, inside of `poll` or `close`."""

    def on_assigned(
        self,
        committed: Mapping[TopicPartition, int | None],
        begin: Mapping[TopicPartition, int] | None = None,
        notes: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """These partitions are ours from now on; with their committed offsets (None: never committed), and the notes with those.

        `begin` says where those without a commit begin, if that was decided for them. It is still to be committed where
        `committed` does not have it.
        """

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These are to be given away; a commit is still possible."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These are gone already; a commit is not possible any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHealth:
    """What the client sees of one broker, over its last statistics interval."""

    rtt_seconds: float | None
    throttle_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHealth:
    """What the client knows about itself.

    Attributes:
        taken_at: monotonic time of the reading.
        heartbeat_age: seconds since the last contact with the group's coordinator, at `taken_at`.
        fetch_queue: messages fetched and not yet polled, by partition.
        rebalances: assignments received since the start.
    """

    taken_at: float
    heartbeat_age: float | None = None
    brokers: Mapping[str, BrokerHealth] = field(default_factory=dict)
    fetch_queue: Mapping[TopicPartition, int] = field(default_factory=dict)


class RecordSource(Protocol):
    """One consumer. All methods but `health` are called by the one thread that owns it."""

    def subscribe(self, topics: Sequence[str], listener: AssignmentListener) -> None:
        """Join the group."""

    def poll(self, max_records: int, timeout: float) -> Sequence[Record]:
        """Records in partition order, at most so many, waiting at most so long for the first one.

        A record below the position says that the log has begun anew. Whatever it raises ends the member, since records may be lost
        with it; the next owner reads them.
        """

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop handing out records of these. A pause may outlive the assignment: who pauses resumes before letting go."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with these."""

    def rejoin(self) -> None:
        """Leave the group and join it again with a client that knows nothing of before; not inside of a callback."""

    def rewind(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these from the beginning of their logs."""

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        *,
        wait: bool,
        epochs: Mapping[TopicPartition, int] | None = None,
        notes: Mapping[TopicPartition, str] | None = None,
    ) -> Mapping[TopicPartition, str] | None:
        """Commit. With `wait`, returns what failed and why; without, returns None and `commit_result` tells later.

        `epochs` has the leader epoch of the last record below each offset, where it is known: a log that was cut below a commit and
        has grown beyond it again is recognised by it. `notes` are kept with the commits, for the next assignment.
        """

    def commit_result(self) -> Mapping[TopicPartition, str] | None:
        """What failed of the last commit without `wait`, once it has ended; None while it is under way."""

    def health(self) -> SourceHealth | None:
        """The latest reading, if there is one yet; any thread may ask."""

    def close(self) -> None:
        """Leave the group."""
