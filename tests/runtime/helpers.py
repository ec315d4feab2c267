"""Events, clocks and a message queue in memory, for tests of the runtime without a broker."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from tests.waiting import wait_for
from workbench.runtime.event import Event, Record, TopicPartition
from workbench.runtime.source import AssignmentListener, SourceHealth

until = partial(wait_for, seconds=10.0, pause_seconds=0.01)  # nothing here is far away


class Clock:
    """Time that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def record(
    offset: int, *, key: bytes = b"k", partition: int = 0, kind: str = "x", timestamp_ms: int = 1_000_000
) -> Record:
    """A record of topic "t"."""
    return Record("t", partition, offset, key, b"v", timestamp_ms, [("event_type", kind.encode())])


def event(offset: int, *, key: bytes = b"k", partition: int = 0, kind: str = "x", owner: Any = None) -> Event:
    """An event of topic "t"."""
    made = record(offset, key=key, partition=partition, kind=kind)
    return Event(type=kind, key=key, payload=b"v", record=made, owner=owner)


class MemorySource:
    """A log in memory with one partition or more, which assigns all of them to its only member."""

    def __init__(self, partitions: int = 1) -> None:
        self.logs: dict[TopicPartition, list[Record]] = {("t", number): [] for number in range(partitions)}
        self.positions: dict[TopicPartition, int] = dict.fromkeys(self.logs, 0)
        self.committed: dict[TopicPartition, int] = {}
        self.begin: dict[TopicPartition, int] = {}  # where those without a commit are told to begin
        self.history: list[dict[TopicPartition, int]] = []
        self.paused: set[TopicPartition] = set()
        self.pauses = 0
        self.lock = threading.Lock()
        self.listener: AssignmentListener | None = None
        self.pending: list[Any] = []
        self.closed = False
        self.polls = 0

    def produce(self, records: Iterable[Record]) -> None:
        """Append records; their offsets must be right."""
        with self.lock:
            for item in records:
                self.logs[item.topic, item.partition].append(item)

    def later(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        """Have "assigned", "revoked" or "lost" happen inside of the next poll, as a real client does."""
        self.pending.append((what, partitions))

    def subscribe(self, topics: Sequence[str], listener: AssignmentListener) -> None:
        self.listener = listener
        self.later("assigned", list(self.logs))

    def poll(self, max_records: int, timeout: float) -> list[Record]:
        self.polls += 1
        assert self.listener is not None
        while self.pending:
            what, partitions = self.pending.pop(0)
            if what == "assigned":
                for part in partitions:
                    self.positions[part] = self.committed.get(part, self.begin.get(part, 0))
                begin = {
                    part: at for part, at in self.begin.items() if part in partitions and part not in self.committed
                }
                self.listener.on_assigned({part: self.committed.get(part) for part in partitions}, begin)
            else:
                getattr(self.listener, f"on_{what}")(partitions)
                for part in partitions:
                    self.positions.pop(part, None)
                    self.paused.discard(part)
        found: list[Record] = []
        with self.lock:
            for part, position in self.positions.items():
                if part not in self.paused:
                    fresh = [item for item in self.logs[part] if item.offset >= position][: max_records - len(found)]
                    found += fresh
                    if fresh:
                        self.positions[part] = fresh[-1].offset + 1
        if not found:
            threading.Event().wait(min(timeout, 0.005))
        return found

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.pauses += 1
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused -= set(partitions)

    def commit(self, offsets: Mapping[TopicPartition, int], *, wait: bool) -> dict[TopicPartition, str] | None:
        self.history.append(dict(offsets))
        self.committed.update(offsets)
        return {} if wait else None

    def commit_result(self) -> dict[TopicPartition, str] | None:
        return {}

    def health(self) -> SourceHealth | None:
        return None

    def close(self) -> None:
        if self.listener is not None and self.positions and not self.closed:
            self.closed = True
            self.listener.on_revoked(list(self.positions))
