"""A producer process: steady, keyed traffic with a mix of event types, as its file says.

Run as `python -m workbench.lab.producer TRAFFIC.json`.
"""

from __future__ import annotations

import math
import random
import sys
import time
import zlib
from pathlib import Path

from confluent_kafka import Producer

from workbench.lab.client_spec import POISON_HEADER, Traffic, Watched
from workbench.runtime.event import EVENT_TYPE_HEADER

_TICK_SECONDS = 0.02


def key_of(number: int) -> bytes:
    """The key of one of the things that events are about."""
    return f"key-{number:05d}".encode()


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, as librdkafka's default partitioner chooses it."""
    return zlib.crc32(key) % partitions


class Stream:
    """Draws events: keys and types at random, but the same for the same seed."""

    def __init__(self, traffic: Traffic) -> None:
        self._random = random.Random(traffic.seed)  # noqa: S311 - traffic, not secrets
        self._traffic = traffic
        self._keys = [key_of(number) for number in range(traffic.keys)]
        hot = traffic.hot_partition
        self._hot_keys = (
            [key for key in self._keys if partition_of(key, traffic.partitions) == hot] if hot is not None else []
        )
        if hot is not None and not self._hot_keys:
            raise ValueError(f"no key of {traffic.keys} falls on the hot partition {hot}")
        self._types = list(traffic.event_types)
        self._weights = list(traffic.event_types.values())
        self._keys_of_type = {
            kind: [key for key in self._keys if partition_of(key, traffic.partitions) in wanted]
            for kind, wanted in traffic.type_partitions.items()
        }

    def draw(self) -> tuple[bytes, str]:
        """Key and type of the next event."""
        traffic = self._traffic
        kind = self._random.choices(self._types, self._weights)[0]
        pool = self._keys_of_type.get(kind) or self._keys
        if traffic.hot_share and self._random.random() < traffic.hot_share:
            if traffic.hot_key is not None:
                return key_of(traffic.hot_key), traffic.hot_type or kind
            pool = self._hot_keys or pool
        return self._random.choice(pool), kind

    def rate(self, seconds: float) -> float:
        """Messages/s at a moment."""
        swing = math.sin(2 * math.pi * seconds / self._traffic.swing_seconds)
        return self._traffic.rate_per_second * (1 + self._traffic.swing * swing)


def main(path: Path) -> None:
    """Produce until killed."""
    watched = Watched(path, Traffic)
    traffic = watched.current
    producer = Producer({"bootstrap.servers": traffic.bootstrap, "linger.ms": 5, "acks": 1, "log_level": 3})
    stream = Stream(traffic)
    value = b"x" * traffic.record_bytes
    poisoned = False
    owed, last = 0.0, time.monotonic()
    while True:
        if (fresh := watched.refresh()) is not traffic:
            traffic, stream = fresh, Stream(fresh)
        if traffic.poison_partition is not None and not poisoned:
            poisoned = True
            key = next(
                key
                for n in range(100_000)
                if partition_of(key := key_of(n), traffic.partitions) == traffic.poison_partition
            )
            kind = next(iter(traffic.event_types))
            headers: list[tuple[str, str | bytes | None]] = [(EVENT_TYPE_HEADER, kind.encode()), (POISON_HEADER, b"1")]
            producer.produce(traffic.topic, value, key, partition=traffic.poison_partition, headers=headers)
        now = time.monotonic()
        owed += (now - last) * stream.rate(now)
        last = now
        while owed >= 1:
            owed -= 1
            key, kind = stream.draw()
            producer.produce(
                traffic.topic,
                value,
                key,
                partition=partition_of(key, traffic.partitions),
                headers=[(EVENT_TYPE_HEADER, kind.encode())],
            )
        producer.poll(0)
        time.sleep(_TICK_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
