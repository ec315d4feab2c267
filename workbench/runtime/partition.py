"""State of one partition from its assignment to its revocation."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workbench.runtime.event import Event, Record, TopicPartition
from workbench.runtime.sentinels import CommitWatch
from workbench.runtime.tally import Tally
from workbench.runtime.tracker import OffsetTracker


class Target(Protocol):
    """Bounded destination of events."""

    def fill(self) -> float:
        """Fill, 0 to 1."""

    def room(self) -> int:
        """Number of events that it would accept now."""

    def take_in(self, events: Sequence[Event]) -> Sequence[Event]:
        """Add events in order; return the rest for which there was no room."""


@dataclass(slots=True, eq=False)
class PartitionState:
    """State of one assignment of one partition.

    A later assignment of the same partition has a new state. A late report finds `revoked` set on the old state and does nothing: this
    fences stale work.
    """

    partition: TopicPartition
    # Destination of completions: the consumer thread's queue.
    completions: deque[tuple[PartitionState, int]]
    # Position and committed offset, both as "next offset"; None until known.
    position: int | None = None
    committed: int | None = None
    tracker: OffsetTracker = field(default_factory=OffsetTracker)
    watch: CommitWatch = field(default_factory=CommitWatch)
    first_offset: int | None = None  # of the records received in this assignment
    completed: int = 0
    # During a revocation, events up to `drain_until` are still started; `gate` is held while that bound is computed.
    draining: bool = False
    drain_until: int = -1
    # The highest dead-lettered offset: its handler has ended, and its dead letter may still be in flight.
    given_up_until: int = -1
    gate: threading.Lock = field(default_factory=threading.Lock)
    revoked: bool = False
    ended: bool = False  # its ranges are read to their end; nothing more is read
    paused: bool = False
    # Number of its events without room (its consumer thread holds them), and the full targets. Above the carry-over's bound, the
    # partition is paused until these events are placed and the targets have room to spare.
    held_events: int = 0
    blocked_by: set[Target] = field(default_factory=set)
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
    # While it is unclear whether the commit belongs to this log (since `doubted_at`), records are held back here, and the partition
    # is paused; None: no doubt. See `identity`.
    held_back: list[Record] | None = None
    doubted_at: float = 0.0
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

    @property
    def is_done(self) -> bool:
        """Whether no event is in flight or waiting, including those of the former log."""
        return not self.tracker.uncommitted and (self.former is None or self.former.is_done)

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
