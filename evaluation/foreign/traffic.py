"""Traffic for many groups from one process: a producer process for each would be most of the load.

Run as `python -m evaluation.foreign.traffic BOOTSTRAP FOLDER`: each `FOLDER/*.json` is a topic's traffic, and is read again when it
changes. Time in which this process did not run, because the machine had none for it, is noted in `FOLDER/pauses`, and no burst
makes up for it. So is the time that a record took to the broker, if that was long.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from workbench.lab.client_spec import POISON_HEADER, Traffic, Watched
from workbench.lab.producer import Stream, partition_of
from workbench.runtime.event import EVENT_TYPE_HEADER

_TICK_SECONDS = 0.05
_LOOK_SECONDS = 0.25
_PAUSE_SECONDS = 1.0  # longer between two ticks, or until the broker has a record, is a pause
_METADATA_MS = 1000  # a producer refuses partitions that it has not heard of, and a topic may get more of them
PAUSES = "pauses"


class Notes:
    """Writes down what took long, once for each pause."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PAUSES
        self._noted = 0.0

    def add(self, seconds: float) -> None:
        """Note a pause that ends now, unless it is short or overlaps the last one."""
        now = time.time()
        if seconds > _PAUSE_SECONDS and now - seconds > self._noted:
            self._noted = now
            with self._path.open("a") as file:
                file.write(f"{now:.2f} {seconds:.2f}\n")


class _Flow:
    """One topic's traffic."""

    def __init__(self, path: Path, producer: Producer, notes: Notes) -> None:
        self._notes = notes
        self._watched = Watched(path, Traffic)
        self._producer = producer
        self._traffic = self._watched.current
        self._stream = Stream(self._traffic)
        self._owed = 0.0
        self._poisoned = False

    def refresh(self) -> None:
        """Take in what its file says now."""
        if (fresh := self._watched.refresh()) is not self._traffic:
            self._traffic, self._stream = fresh, Stream(fresh)

    def send(self, seconds: float) -> None:
        """Send what falls due in this time."""
        traffic = self._traffic
        if traffic.poison_partition is not None and not self._poisoned:
            self._poisoned = True
            kind = next(iter(traffic.event_types))
            self._produce(b"key", kind, traffic.poison_partition, [(POISON_HEADER, b"1")])
        self._owed += seconds * traffic.rate_per_second
        while self._owed >= 1:
            self._owed -= 1
            key, kind = self._stream.draw()
            self._produce(key, kind, partition_of(key, traffic.partitions), [])

    def _produce(self, key: bytes, kind: str, partition: int, more: Sequence[tuple[str, bytes]]) -> None:
        headers: list[tuple[str, str | bytes | None]] = [(EVENT_TYPE_HEADER, kind.encode()), *more]
        value = b"x" * self._traffic.record_bytes
        self._producer.produce(
            self._traffic.topic, value, key, partition=partition, headers=headers, on_delivery=self._arrived
        )

    def _arrived(self, _error: KafkaError | None, message: Message) -> None:
        self._notes.add(message.latency() or 0.0)


def pauses(folder: Path, since: float) -> list[float]:
    """Lengths of the pauses since a time (s since the epoch)."""
    lines = (folder / PAUSES).read_text().splitlines() if (folder / PAUSES).exists() else []
    found = [(float(at), float(length)) for at, length in (line.split() for line in lines)]
    return [length for at, length in found if at >= since]


def main(bootstrap: str, folder: Path) -> None:
    """Produce until killed."""
    settings = {"linger.ms": 5, "acks": 1, "log_level": 3, "topic.metadata.refresh.interval.ms": _METADATA_MS}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    flows: dict[Path, _Flow] = {}
    notes = Notes(folder)
    last = looked = time.monotonic()
    while True:
        time.sleep(_TICK_SECONDS)
        now = time.monotonic()
        notes.add(now - last)
        if now - looked >= _LOOK_SECONDS:
            looked = now
            flows |= {path: _Flow(path, producer, notes) for path in folder.glob("*.json") if path not in flows}
            for flow in flows.values():
                flow.refresh()
        for flow in flows.values():
            flow.send(min(now - last, _PAUSE_SECONDS))
        last = now
        producer.poll(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
