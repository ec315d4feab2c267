"""The state of one partition from its assignment to its revocation."""

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
    """Where events are placed: something with a bound."""

    def fill(self) -> float:
        """How full it is, 0 to 1."""

    def room(self) -> int:
        """How many events it would take now."""

    def take_in(self, events: Sequence[Event]) -> Sequence[Event]:
        """Take events in order; returns the end of them for which there was no room."""


@dataclass(slots=True, eq=False)
class PartitionState:
    """One assignment of one partition.

    A later assignment of the same partition gets a new state, so a late report finds `revoked` set on the old one and does nothing:
    that is what fences stale work off.
    """

    partition: TopicPartition
    # Where completions go: the consumer thread's own queue.
    completions: deque[tuple[PartitionState, int]]
    # Position in the log and commit, both as "next offset"; None until known.
    position: int | None = None
    committed: int | None = None
    tracker: OffsetTracker = field(default_factory=OffsetTracker)
    watch: CommitWatch = field(default_factory=CommitWatch)
    first_offset: int | None = None  # of the records received in this assignment
    completed: int = 0
    # While it is given away, events up to `drain_until` are still started; `gate` is held while that is found out.
    draining: bool = False
    drain_until: int = -1
    # The highest offset that was given up: its handler is through with it, and its dead letter may still be on its way.
    given_up_until: int = -1
    gate: threading.Lock = field(default_factory=threading.Lock)
    revoked: bool = False
    paused: bool = False
    # How many of its events found no room (its consumer thread holds them), and what refused them: over the carry-over's bound the
    # partition is paused until they are placed and what refused them has room to spare.
    held_events: int = 0
    blocked_by: set[Target] = field(default_factory=set)
    last_timestamp_ms: int = -1
    # (first offset, leader epoch) of each run of records with one epoch; a commit says which it belongs to.
    epochs: list[tuple[int, int]] = field(default_factory=list)
    epoch: int | None = None  # of the last record
    # The commit is to be sent once more: an older one that was under way may have been stored after it.
    commit_again: bool = False
    # The state of the log that was here before this one began anew: its events are still handled, and nothing of it is committed.
    former: PartitionState | None = None
    began_anew: tuple[float, int] | None = None  # when, by the consumer thread's clock, and at which offset
    # Id of the topic whose offsets these are, as far as it is known; a commit bears it. And the one that the commit we began at bears.
    topic_id: str | None = None
    committed_topic_id: str | None = None
    # While it is in doubt whether the commit is of this log (since `doubted_at`), what is read is held back here, and the partition
    # is paused; None: in no doubt. See `identity`.
    held_back: list[Record] | None = None
    doubted_at: float = 0.0
    enqueue_time: Tally = field(default_factory=lambda: Tally(()))

    @property
    def is_committed(self) -> bool:
        """Whether all that could be committed is; any thread may ask."""
        offset = self.tracker.committable_so_far
        return offset is None or (self.committed is not None and self.committed >= offset and not self.commit_again)

    def has_begun_anew(self, *, since: float, start: int) -> bool:
        """Whether it was sent to the start of its log after an instant.

        Not behind it: held against a topic that was made anew, a commit of the former one leads to where the new log ended just then.
        """
        return self.began_anew is not None and self.began_anew[0] >= since and self.began_anew[1] <= start

    @property
    def is_done(self) -> bool:
        """Whether nothing that was read is at work or waiting, nor of the log that was here before."""
        return not self.tracker.uncommitted and (self.former is None or self.former.is_done)

    def of_epoch(self, offset: int, epoch: int | None) -> None:
        """Note that records from this offset on bear another leader epoch than those before."""
        self.epoch = epoch
        if epoch is not None and (not self.epochs or self.epochs[-1][1] != epoch):
            self.epochs.append((offset, epoch))

    def epoch_before(self, offset: int) -> int | None:
        """Leader epoch of the last record below an offset; forgets what lies before that. None: not known."""
        while len(self.epochs) > 1 and self.epochs[1][0] < offset:
            del self.epochs[0]
        return self.epochs[0][1] if self.epochs and self.epochs[0][0] < offset else None

    def time_lag(self, *, now_ms: float, log_end: int | None) -> float | None:
        """Age in seconds of the oldest record that is not committed; None when it cannot be known.

        While all that was read is done but more lies in the log, the next record is no older than the last one read: its age stands
        in for it (an upper bound, exact but for the gap between two records).
        """
        if self.committed is not None and log_end is not None and log_end <= self.committed:
            return 0.0
        oldest = self.tracker.oldest
        timestamp_ms = oldest[1] if oldest is not None else self.last_timestamp_ms
        if timestamp_ms < 0:
            return None
        return max(0.0, (now_ms - timestamp_ms) / 1000.0)
