"""Events, clocks and members' settings for tests of the runtime."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.waiting import wait_for
from workbench.runtime.event import Event, Record

# Members that are found gone, and come back, within seconds.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500},
    "consumer": {"group.protocol": "consumer"},
}
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
    read = Event(type=kind, key=key, payload=b"v", record=made, owner=owner)
    read.lane, read.offset, read.size = key or ("t", partition), offset, 0
    return read
