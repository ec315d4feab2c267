"""A message queue in memory that is as unkind as Kafka's client, for tests of the runtime without a broker.

What it takes from librdkafka (held against it in `test_differential.py`):

- a pause belongs to the partition, not to the assignment: it survives revocation and comes back with the partition;
- callbacks (assignments, results of commits without `wait`) come inside of `poll` or `close` only;
- commits are stored in the order in which they were sent, and the broker takes one that goes back; one without a note takes the last
  one's away;
- a position outside of the log is an event (`auto.offset.reset=error`), and is set to the log's start, or
  to where the log was cut below it;
- a commit with a leader epoch is held against the log by the next assignment, which begins where the log was cut below it; so is a
  position when the leader epoch changes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from workbench.runtime.event import Record, TopicPartition
from workbench.runtime.source import AssignmentListener, SourceHealth


class MemoryBroker:
    """Logs and commits; any thread may write."""

    def __init__(self, partitions: int = 1) -> None:
        self.logs: dict[TopicPartition, list[Record]] = {("t", number): [] for number in range(partitions)}
        self.starts: dict[TopicPartition, int] = dict.fromkeys(self.logs, 0)
        self.epochs: dict[TopicPartition, int] = dict.fromkeys(self.logs, 0)
        self.committed: dict[TopicPartition, int] = {}
        self.hidden: set[TopicPartition] = set()
        self.notes: dict[TopicPartition, str] = {}  # with commits
        self.commit_epochs: dict[TopicPartition, int] = {}
        self.history: list[dict[TopicPartition, int]] = []
        self.refuses: Callable[[TopicPartition], str | None] = lambda _partition: None
        self.lock = threading.RLock()

    def produce(self, records: Iterable[Record]) -> None:
        """Append records; their offsets must be right."""
        with self.lock:
            for item in records:
                partition = (item.topic, item.partition)
                self.logs[partition].append(item._replace(leader_epoch=self.epochs[partition]))

    def end(self, partition: TopicPartition) -> int:
        """The log's end."""
        with self.lock:
            log = self.logs[partition]
            return log[-1].offset + 1 if log else self.starts[partition]

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """Have retention take what is below an offset."""
        with self.lock:
            self.logs[partition] = [item for item in self.logs[partition] if item.offset >= offset]
            self.starts[partition] = max(offset, self.starts[partition])

    def remake(self, partition: TopicPartition, *, hidden: bool = False) -> None:
        """Have the log begin anew at 0, as after an unclean election; or hidden from the client, as a topic that is deleted and
        created again at once."""
        with self.lock:
            if hidden:
                self.hidden.add(partition)
            self.logs[partition] = []
            self.starts[partition] = 0
            self.epochs[partition] += 1

    def end_of_epoch(self, partition: TopicPartition, epoch: int) -> int:
        """Where the records of this leader epoch and those before it end."""
        with self.lock:
            later = (item.offset for item in self.logs[partition] if (item.leader_epoch or 0) > epoch)
            return next(later, self.end(partition))

    def store(
        self,
        offsets: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int],
        notes: Mapping[TopicPartition, str],
    ) -> dict[TopicPartition, str]:
        """Take a commit, with its note or without one; returns what was refused and why."""
        with self.lock:
            refused = {part: why for part in offsets if (why := self.refuses(part)) is not None}
            taken = {part: offset for part, offset in offsets.items() if part not in refused}
            self.history.append(taken)
            self.committed.update(taken)
            for part in taken:
                self.commit_epochs.pop(part, None)
                self.notes.pop(part, None)
            self.notes.update({part: note for part, note in notes.items() if part in taken})
            self.commit_epochs.update({part: epoch for part, epoch in epochs.items() if part in taken})
            return refused


# Offsets, leader epochs and notes.
_Commit = tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int], Mapping[TopicPartition, str]]


class MemorySource:
    """One consumer on a log in memory. Unless a test says otherwise it is the only member and gets all partitions."""

    def __init__(
        self,
        partitions: int = 1,
        *,
        broker: MemoryBroker | None = None,
        alone: bool = True,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.broker = broker if broker is not None else MemoryBroker(partitions)
        self.positions: dict[TopicPartition, int] = {}
        self.begin: dict[TopicPartition, int] = {}  # where those without a commit are told to begin
        self.paused: set[TopicPartition] = set()
        self.pauses = 0
        self.listener: AssignmentListener | None = None
        self.pending: list[tuple[str, Sequence[TopicPartition]]] = []
        self.closed = False
        self.polls = self.rejoins = 0
        self.failure: BaseException | None = None  # raised by the next poll
        self._alone = alone
        self._sleep = sleep
        self._epochs: dict[TopicPartition, int] = {}  # of positions
        self._sent: list[_Commit] = []  # under way
        self._failures: dict[TopicPartition, str] = {}

    @property
    def logs(self) -> dict[TopicPartition, list[Record]]:
        """See `MemoryBroker`."""
        return self.broker.logs

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """See `MemoryBroker`."""
        return self.broker.committed

    @property
    def history(self) -> list[dict[TopicPartition, int]]:
        """See `MemoryBroker`."""
        return self.broker.history

    def produce(self, records: Iterable[Record]) -> None:
        """See `MemoryBroker`."""
        self.broker.produce(records)

    def later(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        """Have "assigned", "revoked" or "lost" happen inside of the next poll."""
        self.pending.append((what, partitions))

    def rejoin(self) -> None:
        """See `Source`."""
        self.rejoins += 1
        self._serve_commits()
        partitions = list(self.positions)
        self._revoked(partitions)
        self.later("assigned", partitions)

    def rewind(self, partitions: Iterable[TopicPartition]) -> None:
        """See `Source`."""
        for partition in partitions:
            if partition in self.positions:
                self.positions[partition] = self.broker.starts[partition]

    def subscribe(self, topics: Sequence[str], listener: AssignmentListener) -> None:
        """See `Source`."""
        self.listener = listener
        if self._alone:
            self.later("assigned", list(self.logs))

    def poll(self, max_records: int, timeout: float) -> list[Record]:
        """See `Source`."""
        self.polls += 1
        if self.failure is not None:
            raise self.failure
        self._serve_commits()
        while self.pending:
            what, partitions = self.pending.pop(0)
            getattr(self, f"_{what}")(partitions)
        found = self._fetched(max_records)
        if not found:
            self._sleep(min(timeout, 0.005))
        return found

    def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        assert self.listener is not None
        with self.broker.lock:
            committed = {part: self.committed.get(part) for part in partitions}
            begin = {
                part: self.begin[part] for part, offset in committed.items() if offset is None and part in self.begin
            }
            for part, offset in committed.items():
                self.positions[part] = begin.get(part, self.broker.starts[part] if offset is None else offset)
                self._epochs[part] = self.broker.epochs[part]
                epoch = self.broker.commit_epochs.get(part)
                if offset and epoch is not None:
                    self.positions[part] = min(offset, self.broker.end_of_epoch(part, epoch))
        self.listener.on_assigned(committed, begin, dict(self.broker.notes))

    def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        assert self.listener is not None
        self.listener.on_revoked(partitions)
        self._unassign(partitions)

    def _lost(self, partitions: Sequence[TopicPartition]) -> None:
        assert self.listener is not None
        self.listener.on_lost(partitions)
        self._unassign(partitions)

    def _unassign(self, partitions: Sequence[TopicPartition]) -> None:
        for part in partitions:
            self.positions.pop(part, None)

    def _fetched(self, max_records: int) -> list[Record]:
        found: list[Record] = []
        with self.broker.lock:
            for part, position in self.positions.items():
                if part in self.paused:
                    continue
                lost = position
                if self._epochs[part] != self.broker.epochs[part] and part not in self.broker.hidden:
                    position = self.positions[part] = min(position, self.broker.end_of_epoch(part, self._epochs[part]))
                    self._epochs[part] = self.broker.epochs[part]
                if not self.broker.starts[part] <= position <= self.broker.end(part):
                    position = self.positions[part] = self.broker.starts[part]
                if position != lost:
                    # The client says so and is placed anew after the poll: what it had fetched before comes first.
                    assert self.listener is not None
                    self.listener.on_reset(part, position, lost)
                    continue
                fresh = [item for item in self.logs[part] if item.offset >= position][: max_records - len(found)]
                found += fresh
                if fresh:
                    self.positions[part] = fresh[-1].offset + 1
        return found

    def take_ends(self) -> dict[TopicPartition, int]:
        """See `Source`."""
        with self.broker.lock:
            return {part: at for part, at in self.positions.items() if at >= self.broker.end(part)}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See `Source`."""
        self.pauses += 1
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See `Source`."""
        self.paused -= set(partitions)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        *,
        wait: bool,
        epochs: Mapping[TopicPartition, int] | None = None,
        notes: Mapping[TopicPartition, str] | None = None,
    ) -> dict[TopicPartition, str] | None:
        """See `Source`."""
        commit = (dict(offsets), dict(epochs or {}), dict(notes or {}))
        if not wait:
            self._sent.append(commit)
            return None
        self._serve_commits()  # what was sent before is stored before it
        return self.broker.store(*commit)

    def _serve_commits(self) -> None:
        sent, self._sent = self._sent, []
        for commit in sent:
            self._failures = self.broker.store(*commit)

    def commit_result(self) -> dict[TopicPartition, str] | None:
        """See `Source`."""
        return None if self._sent else self._failures

    def health(self) -> SourceHealth | None:
        """See `Source`."""
        return None

    def close(self) -> None:
        """See `Source`."""
        if self.listener is not None and not self.closed:
            self.closed = True
            self._serve_commits()
            if self.positions:
                self._revoked(list(self.positions))
