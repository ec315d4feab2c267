"""A consumer process without the runtime: a poll loop or a thread pool, with the metrics that its team would add.

Run as `python -m evaluation.others.loop CONFIG.json BEHAVIOUR.json ADDRESS.json`; the last one is written when it is up. Its page has a
histogram of the handlers, and librdkafka's statistics as they are: every broker that is listed, every partition of the topic.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from prometheus_client import REGISTRY, CollectorRegistry, Gauge, Histogram, start_http_server

from evaluation.others.spec import LoopConfig
from workbench.files import write_text
from workbench.lab.client_spec import POISON_HEADER, Behaviour, Watched
from workbench.lab.consumer_instance import Handlers
from workbench.read_kafka_headers import headers_of
from workbench.runtime.event import EVENT_TYPE_HEADER

_RETRY_SECONDS = 1.0
_POLL_SECONDS = 0.2
_STATISTICS_MS = 1000


class Statistics:
    """librdkafka's statistics as gauges; a metric is the path in the JSON document."""

    def __init__(self, client_id: str, registry: CollectorRegistry = REGISTRY) -> None:
        self._client = client_id
        partition, broker = ("topic", "partition", "client_id"), ("broker", "client_id")
        self._fetched = Gauge(
            "topics_partitions_fetchq_cnt", "Messages in the fetch queue.", partition, registry=registry
        )
        self._round_trip = Gauge("brokers_rtt_avg", "Mean round trip in µs.", broker, registry=registry)
        self._throttle = Gauge("brokers_throttle_avg", "Mean throttle time in ms.", broker, registry=registry)
        self._rebalances = Gauge("cgrp_rebalance_cnt", "Rebalances.", ("client_id",), registry=registry)

    def show(self, text: str) -> None:
        """Called by the client while it is polled."""
        found = json.loads(text)
        for topic, part in found["topics"].items():
            for number, partition in part["partitions"].items():
                self._fetched.labels(topic, number, self._client).set(partition["fetchq_cnt"])
        for name, broker in found["brokers"].items():
            self._round_trip.labels(name, self._client).set(broker["rtt"]["avg"])
            self._throttle.labels(name, self._client).set(broker["throttle"]["avg"])
        if "cgrp" in found:
            self._rebalances.labels(self._client).set(found["cgrp"]["rebalance_cnt"])


class LoopWork(Handlers):
    """The handlers, as the behaviour says."""

    def __init__(self, behaviour: Watched[Behaviour], *, name: str, over: threading.Event) -> None:
        super().__init__(behaviour, name=name)
        self._over = over

    def work(self, event_type: str, *, poison: bool) -> None:
        """Handle one record.

        Raises:
            ValueError: if it is a poison record, or if all of its type fail.
        """
        behaviour = self._behaviour
        if self._name in behaviour.stall_members:
            self._over.wait(behaviour.stall_seconds)
        if (behaviour.poison_fails and poison) or behaviour.dead_share.get(event_type, 0.0) == 1.0:
            raise ValueError("this record cannot be handled")
        self._sleep(behaviour.process_seconds.get(event_type, 0.0))


@dataclass(slots=True)
class _Progress:
    """What of a partition was handed out and is not finished; `turn` counts the seeks."""

    next: int
    open: set[int] = field(default_factory=set)
    turn: int = 0
    committed: int = -1

    @property
    def done(self) -> int:
        """Every record before this offset is finished."""
        return min(self.open, default=self.next)


@dataclass(frozen=True, slots=True)
class _Job:
    partition: int
    offset: int
    progress: _Progress
    turn: int
    event_type: str
    poison: bool


class Loop:
    """Polls, handles each record before the next or hands it to a pool, and commits the lowest finished offset of each partition."""

    def __init__(
        self, config: LoopConfig, work: LoopWork, over: threading.Event, *, registry: CollectorRegistry = REGISTRY
    ) -> None:
        self._config, self._work, self._over = config, work, over
        labels = ("event_type",) if config.by_type else ()
        self._took = Histogram("handler_duration_seconds", "Duration of a handler.", labels, registry=registry)
        statistics = Statistics(config.client_id, registry)
        settings = {
            "bootstrap.servers": config.bootstrap,
            "group.id": config.group,
            "client.id": config.client_id,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "statistics.interval.ms": _STATISTICS_MS,
            "stats_cb": statistics.show,
            **config.kafka,
        }
        self._consumer = Consumer(settings)
        self._pool = ThreadPoolExecutor(config.threads) if config.threads else None
        self._ended: SimpleQueue[tuple[_Job, bool]] = SimpleQueue()
        self._in_flight = 0
        self._progress: dict[int, _Progress] = {}
        self._paused: dict[int, float] = {}
        self._committed_at = time.monotonic()

    def run(self) -> None:
        """Until it is over."""
        self._consumer.subscribe([self._config.topic], on_revoke=self._revoked)
        while not self._over.is_set():
            self._finish()
            self._resume()
            if time.monotonic() - self._committed_at >= self._config.commit_seconds:
                self._commit(wait=False)
            if self._in_flight >= self._config.in_flight:
                continue
            message = self._consumer.poll(_POLL_SECONDS)
            if message is not None and message.error() is None:
                self._take(message)
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._consumer.close()

    def _take(self, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        headers = dict(headers_of(message) or ())
        progress = self._progress.setdefault(partition, _Progress(offset))
        progress.open.add(offset)
        progress.next = offset + 1
        kind = headers.get(EVENT_TYPE_HEADER)
        name = kind.decode() if isinstance(kind, bytes) else str(kind)
        job = _Job(partition, offset, progress, progress.turn, name, POISON_HEADER in headers)
        self._in_flight += 1
        if self._pool is None:
            self._handle(job)
        else:
            self._pool.submit(self._handle, job)

    def _handle(self, job: _Job) -> None:
        took = self._took.labels(job.event_type) if self._config.by_type else self._took
        try:
            with took.time():
                self._work.work(job.event_type, poison=job.poison)
        except ValueError:
            self._ended.put((job, False))
        else:
            self._ended.put((job, True))

    def _finish(self) -> None:
        """Take in what has ended; without room for more, wait for it."""
        wait = self._in_flight >= self._config.in_flight
        with suppress(Empty):
            while True:
                job, fine = self._ended.get(timeout=_POLL_SECONDS) if wait else self._ended.get_nowait()
                wait = False
                self._in_flight -= 1
                progress = job.progress
                if job.turn != progress.turn and job.offset >= progress.next:
                    continue  # it is read again
                if fine:
                    progress.open.discard(job.offset)
                elif self._progress.get(job.partition) is progress:
                    self._again(job)

    def _again(self, job: _Job) -> None:
        progress = job.progress
        progress.turn += 1
        progress.open = {offset for offset in progress.open if offset < job.offset}
        progress.next = job.offset
        place = TopicPartition(self._config.topic, job.partition, job.offset)
        with suppress(KafkaException):  # it has just been taken away
            self._consumer.pause([place])
            self._consumer.seek(place)
            self._paused[job.partition] = time.monotonic() + _RETRY_SECONDS

    def _resume(self) -> None:
        due = [partition for partition, at in self._paused.items() if at <= time.monotonic()]
        for partition in due:
            del self._paused[partition]
            with suppress(KafkaException):
                self._consumer.resume([TopicPartition(self._config.topic, partition)])

    def _commit(self, *, wait: bool) -> None:
        self._committed_at = time.monotonic()
        offsets = []
        for partition, progress in self._progress.items():
            if progress.done != progress.committed:
                progress.committed = progress.done
                offsets.append(TopicPartition(self._config.topic, partition, progress.done))
        if offsets and wait:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        elif offsets:
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with suppress(KafkaException):  # somebody else reads them already
            self._commit(wait=True)
        for place in partitions:
            self._progress.pop(place.partition, None)
            self._paused.pop(place.partition, None)


def main(config: Path, behaviour: Path, address: Path) -> None:
    """Run until SIGTERM."""
    over = threading.Event()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    settings = LoopConfig.model_validate_json(config.read_text(encoding="utf-8"))
    loop = Loop(settings, LoopWork(Watched(behaviour, Behaviour), name=settings.client_id, over=over), over)
    start_http_server(settings.metrics_port, "127.0.0.1")
    write_text(address, json.dumps({"metrics": f"127.0.0.1:{settings.metrics_port}"}))
    loop.run()


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]))
