"""Producers and consumers that share the three tiered brokers of the lab."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic


def reader_settings(bootstrap: str, group: str, client: str) -> dict[str, str | int | float | bool]:
    """Of a consumer that fetches little at once, so that many share a card."""
    return {
        "bootstrap.servers": bootstrap, "group.id": group, "client.id": client,
        "fetch.message.max.bytes": 200_000, "queued.max.messages.kbytes": 2000,
    }  # fmt: skip


class Sharing:
    """Threads that read and write until the end."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def topic(self, name: str, leaders: Sequence[Sequence[int]], **settings: str) -> None:
        """A topic whose partitions have these replicas; the first of each leads."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        # A request that waits for a bootstrap connection fails when the brokers' own replace it.
        admin.list_topics(timeout=30)
        wanted = NewTopic(name, len(leaders), replica_assignment=list(map(list, leaders)), config=settings)
        admin.create_topics([wanted])[name].result(30)

    def fill(self, topic: str, partitions: int, records: int, size: int, *, together: int = 100) -> None:
        """Write records of so many bytes, in turn to each partition; so many are on their way together, and make its batches."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "client.id": "loader", "linger.ms": 20})
        body = os.urandom(size)
        for number in range(records):
            producer.produce(topic, body, partition=number % partitions)
            if number % together == together - 1:
                producer.flush()
        producer.flush()

    def write(self, topics: Sequence[str], partitions: int, per_second: int, size: int) -> None:
        """Write so many records a second into each partition, from now on."""

        def run() -> None:
            producer = Producer({"bootstrap.servers": self.bootstrap, "client.id": "shop", "linger.ms": 50})
            body = os.urandom(size)
            while not self._stop.is_set():
                began = time.monotonic()
                for topic in topics:
                    for number in range(partitions):
                        for _ in range(per_second // 10):
                            producer.produce(topic, body, partition=number)
                producer.poll(0)
                time.sleep(max(0.0, 0.1 - (time.monotonic() - began)))
            producer.flush(5)

        self._start(run)

    def read(
        self,
        group: str,
        topic: str,
        *,
        members: int = 1,
        pause_seconds: Callable[[], float] = lambda: 0.0,
        begin: str = "earliest",
    ) -> None:
        """Members of a group that read a topic from its beginning (or "latest"), from now on; all with one client id.

        They rest after each hundred records, for as long as `pause_seconds` says then.
        """

        def run() -> None:
            own = {"auto.offset.reset": begin, "auto.commit.interval.ms": 1000}
            consumer = Consumer({**reader_settings(self.bootstrap, group, f"{group}-0"), **own})
            consumer.subscribe([topic])
            while not self._stop.is_set():
                consumer.consume(100, 0.5)
                time.sleep(pause_seconds())
            consumer.close()

        for _ in range(members):
            self._start(run)

    def _start(self, run: object) -> None:
        thread = threading.Thread(target=run, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def __enter__(self) -> Sharing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(20)
