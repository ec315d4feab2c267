"""The state of one partition from its assignment to its revocation."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.runtime.event import Event, TopicPartition
from workbench.runtime.sentinels import CommitWatch
from workbench.runtime.tracker import OffsetTracker


class Fillable(Protocol):
    """Something with a bound: a queue."""

    def fill(self) -> float:
        """How full it is, 0 to 1."""


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
    draining: bool = False
    revoked: bool = False
    paused: bool = False
    # Events that found no room, in order, by what refused them. Events for other queues pass them, up to the carry-over's bound; then
    # the partition is paused until they are placed and what refused them has room to spare.
    held: dict[Fillable, deque[Event]] = field(default_factory=dict)
    held_events: int = 0
    blocked_by: set[Fillable] = field(default_factory=set)
    last_timestamp_ms: int = -1
    enqueue_time: Any = None  # its pre-bound histogram
    deserialized: Any = None  # its pre-bound counter

    def hold(self, target: Fillable, event: Event) -> None:
        """Keep an event for which `target` has no room, behind the others of that target."""
        self.held.setdefault(target, deque()).append(event)
        self.held_events += 1
        self.blocked_by.add(target)

    def take_held(self, target: Fillable) -> deque[Event]:
        """What was kept for `target`, in order, to be placed again."""
        waiting = self.held.pop(target)
        self.held_events -= len(waiting)
        return waiting

    def drop_held(self) -> None:
        """Forget what was kept (the next owner reads it again)."""
        self.held.clear()
        self.held_events = 0

    @property
    def is_committed(self) -> bool:
        """Whether all that could be committed is."""
        offset = self.tracker.committable()
        return offset is None or (self.committed is not None and self.committed >= offset)

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
