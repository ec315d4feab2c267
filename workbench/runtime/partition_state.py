"""State of one partition from its assignment to its revocation."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from workbench.commit_note import CommitNote, merged
from workbench.runtime.audit_rows_of_task import PartitionAudit
from workbench.runtime.event import Event, Record, TopicPartition
from workbench.runtime.guarantee_counters import CommitWatch
from workbench.runtime.offset_tracker import OffsetTracker
from workbench.runtime.thread_counters import Tally


class EventTarget(Protocol):
    """Bounded destination of events."""

    def fill(self) -> float:
        """Fill, 0 to 1."""

    def room(self) -> int:
        """Number of events that it would accept now."""

    def take_in(self, events: Sequence[Event]) -> Sequence[Event]:
        """Add events in order; return the rest for which there was no room."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A source has told that everything below an offset was returned, or is gone; in line with the records of the partition.

    Attributes:
        lost: the position that was outside of the log, if the offset is where reading goes on; None: there was no position.
        is_reset: whether it is that, or else the end of the log.
    """

    partition: TopicPartition
    offset: int
    lost: int | None = None
    is_reset: bool = False


class Passed(NamedTuple):
    """A record that is finished without an event, as one that the decoder leaves out; the rest as an event has it."""

    owner: PartitionState
    offset: int
    size: int


@dataclass(slots=True, eq=False)
class PartitionState:
    """State of one assignment of one partition.

    A later assignment of the same partition has a new state. A late report finds `revoked` set on the old state and does nothing: this
    fences stale work.
    """

    partition: TopicPartition
    completions: deque[Event | Passed]  # where its finished events go: to the consumer thread
    # Position and committed offset, both as "next offset"; None until known. Everything below the position was taken in: it is
    # finished, or the tracker has it, or `note` tells that it was gone. What the source has returned beyond it is in `held_back`.
    position: int | None = None
    committed: int | None = None
    tracker: OffsetTracker = field(default_factory=OffsetTracker)
    watch: CommitWatch = field(default_factory=CommitWatch)
    first_offset: int | None = None  # of the records received in this assignment
    completed: int = 0
    # During a revocation, events up to `drain_until` are still started; `gate` is held while that bound is computed.
    draining: bool = False
    drain_until: int = -1
    drain_by: float = 0.0  # by the consumer thread's clock: when it is let go, whatever is in flight
    # The highest dead-lettered offset: its handler has ended, and its dead letter may still be in flight.
    given_up_until: int = -1
    # The highest offset that was gone before it was read: what was read below it exists nowhere else.
    gone_until: int = -1
    gate: threading.Lock = field(default_factory=threading.Lock)
    revoked: bool = False
    range_end: int | None = None  # end of its last range (0: it has none); None: the task has no ranges
    paused: bool = False
    # Number of its events without room (its consumer thread holds them), and the full targets. Above the carry-over's bound, the
    # partition is paused until these events are placed and the targets have room to spare.
    held_events: int = 0
    blocked_by: set[EventTarget] = field(default_factory=set)
    last_timestamp_ms: int = -1
    # (first offset, leader epoch) of each run of records with one epoch; a commit includes its epoch.
    epochs: list[tuple[int, int]] = field(default_factory=list)
    epoch: int | None = None  # of the last record
    # The commit must be repeated: an older one in flight may have been stored after it.
    commit_again: bool = False
    # State of the former log, before a truncation or recreation: its events are still processed, but never committed.
    former: PartitionState | None = None
    began_anew: tuple[float, int] | None = None  # time (of the consumer thread's clock) and offset of the restart
    # Id of the topic of these offsets, if known; commits include it. And the id in the commit at which reading started.
    topic_id: str | None = None
    committed_topic_id: str | None = None
    # What commits say of offsets that were never read.
    note: CommitNote = field(default_factory=CommitNote)
    # While it is unclear whether the commit belongs to this log (since `doubted_at`), what the source returns is held back here, and
    # the partition is paused; None: no doubt. See `recreated_topics`.
    held_back: list[Record | Reached] | None = None
    doubted_at: float = 0.0
    held_bytes: int = 0  # of records that were read and are not finished, wherever they are
    audit: PartitionAudit | None = None  # what is told to an audit; None: nothing
    enqueue_time: Tally = field(default_factory=lambda: Tally(()))

    @property
    def is_committed(self) -> bool:
        """Whether everything that can be committed is committed; any thread may call it."""
        offset = self.tracker.committable_so_far
        return offset is None or (self.committed is not None and self.committed >= offset and not self.commit_again)

    def has_begun_anew(self, *, since: float, start: int) -> bool:
        """Whether it was reset to its log start after a time.

        Not behind the log start: with a commit of a former topic, the client goes to the current end of the recreated topic's log.
        """
        return self.began_anew is not None and self.began_anew[0] >= since and self.began_anew[1] <= start

    def takes(self, run: Sequence[Record], offsets: Sequence[int], sizes: Sequence[int], now: float) -> list[int]:
        """Take in records of one epoch that were read together: from here on they are in flight. Return their timestamps."""
        first, last = run[0], run[-1]
        self.held_bytes += sum(sizes)
        self.watch.received(offsets)
        if self.first_offset is None:
            self.first_offset = first.offset
        self.position, self.last_timestamp_ms = last.offset + 1, last.timestamp_ms
        if first.leader_epoch != self.epoch:
            self.of_epoch(first.offset, first.leader_epoch)
        timestamps = [record.timestamp_ms for record in run]
        self.tracker.started(offsets, timestamps, now)
        return timestamps

    def finished(self, offsets: Sequence[int], now_ms: int) -> None:
        """Records are finished, whatever became of them."""
        self.tracker.finished(offsets)
        self.watch.completed(offsets)
        self.completed += len(offsets)
        if self.audit is not None:
            self.audit.ended(offsets, now_ms)

    def taken_in_to(self, offset: int) -> None:
        """Everything below `offset` was taken in. What has no record there (left out, none, gone) may be committed with the rest."""
        self.position = max(self.position or 0, offset)
        self.tracker.passed(offset)

    def skip(self, start: int, end: int) -> None:
        """The offsets [start, end) are gone; commits tell so from now on."""
        self.note = replace(self.note, skipped=merged((*self.note.skipped, (start, end))))
        self.gone_until = max(self.gone_until, end - 1)
        self.taken_in_to(end)

    @property
    def ended(self) -> bool:
        """Whether its ranges were taken in to their end: nothing more is read."""
        return self.range_end is not None and (self.position or 0) >= self.range_end

    @property
    def uncommitted(self) -> int:
        """Number of records that were read and may not be committed yet, including those held back."""
        return self.tracker.uncommitted + len(self.held_back or ())

    @property
    def is_done(self) -> bool:
        """Whether no record is held back, in flight or waiting, including those of the former log."""
        return not self.uncommitted and (self.former is None or self.former.is_done)

    @property
    def all_held_bytes(self) -> int:
        """Bytes of its records that are not finished, including those of the former log."""
        return self.held_bytes + (self.former.all_held_bytes if self.former is not None else 0)

    def of_epoch(self, offset: int, epoch: int | None) -> None:
        """Record the leader epoch from this offset on."""
        self.epoch = epoch
        if epoch is not None and (not self.epochs or self.epochs[-1][1] != epoch):
            self.epochs.append((offset, epoch))

    def epoch_before(self, offset: int) -> int | None:
        """Leader epoch of the last record below an offset; forgets earlier ones. None: not known."""
        while len(self.epochs) > 1 and self.epochs[1][0] < offset:
            del self.epochs[0]
        return self.epochs[0][1] if self.epochs and self.epochs[0][0] < offset else None

    def time_lag(self, *, now_ms: float, log_end: int | None) -> float | None:
        """Age in seconds of the oldest record that is not committed; None if it is not known.

        If all records read are finished but the log has more, the next record is no older than the last one read. Its age is then used:
        an upper bound, exact except for the gap between two records.
        """
        if self.committed is not None and log_end is not None and log_end <= self.committed:
            return 0.0
        oldest = self.tracker.oldest
        timestamp_ms = oldest[1] if oldest is not None else self.last_timestamp_ms
        if timestamp_ms < 0:
            return None
        return max(0.0, (now_ms - timestamp_ms) / 1000.0)
