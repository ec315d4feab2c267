"""A consumer process on a client library written in Python alone: aiokafka in an event loop, or kafka-python in a poll loop.

Run as `python -m evaluation.others.python_clients CONFIG.json BEHAVIOUR.json ADDRESS.json`; the last one is written when it is up. Its
page has a histogram of the handlers, and nothing about its client: neither library brings an exporter.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from prometheus_client import REGISTRY, CollectorRegistry, Histogram, start_http_server

from evaluation.others.loop import LoopWork
from evaluation.others.spec import PythonConfig
from workbench.errors import SetupError
from workbench.extras import how_to_install
from workbench.files import write_text
from workbench.lab.client_spec import POISON_HEADER, Behaviour, Watched
from workbench.runtime.event import EVENT_TYPE_HEADER

_RETRY_SECONDS = 1.0
_POLL_SECONDS = 0.2
_AT_ONCE = 50  # records of one poll


class _Record(Protocol):
    """What both libraries give."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


class Handling:
    """The handlers with their histogram, and where each partition goes on."""

    def __init__(self, config: PythonConfig, work: LoopWork, *, registry: CollectorRegistry = REGISTRY) -> None:
        labels = ("event_type",) if config.by_type else ()
        self._took = Histogram("handler_duration_seconds", "Duration of a handler.", labels, registry=registry)
        self._by_type, self._work = config.by_type, work
        self.done: dict[Any, int] = {}  # partition → next offset to commit
        self.waiting: dict[Any, float] = {}  # partition → when its record is tried again
        self._committed_at, self._every = time.monotonic(), config.commit_seconds

    def one(self, record: _Record) -> bool:
        """Handle a record; false if it cannot be."""
        headers = dict(record.headers)
        name = headers.get(EVENT_TYPE_HEADER, b"").decode()
        took = self._took.labels(name) if self._by_type else self._took
        try:
            with took.time():
                self._work.work(name, poison=POISON_HEADER in headers)
        except ValueError:
            return False
        return True

    def due(self) -> dict[Any, int]:
        """What to commit now, if it is time."""
        if time.monotonic() - self._committed_at < self._every or not self.done:
            return {}
        self._committed_at = time.monotonic()
        found, self.done = self.done, {}
        return found

    def again(self, partition: Any) -> None:
        """Its record failed: it is read again after a while."""
        self.waiting[partition] = time.monotonic() + _RETRY_SECONDS

    def ready(self) -> list[Any]:
        """Partitions whose wait is over."""
        found = [partition for partition, at in self.waiting.items() if at <= time.monotonic()]
        for partition in found:
            del self.waiting[partition]
        return found


def settings_of(config: PythonConfig) -> dict[str, Any]:
    """The properties as the libraries spell them."""
    own = {
        "bootstrap_servers": config.bootstrap,
        "group_id": config.group,
        "client_id": config.client_id,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
    }
    return {**own, **{name.replace(".", "_"): value for name, value in config.kafka.items()}}


async def run_aiokafka(config: PythonConfig, work: LoopWork, over: threading.Event, handling: Handling) -> None:
    """Until it is over; a handler runs in a thread, so that the event loop goes on with its heartbeats."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka.errors import KafkaError

    consumer = AIOKafkaConsumer(config.topic, **settings_of(config))
    await consumer.start()
    try:
        while not over.is_set():
            _hold(consumer, work, handling)
            found = await consumer.getmany(timeout_ms=round(_POLL_SECONDS * 1000), max_records=_AT_ONCE)
            for partition, records in found.items():
                for record in records:
                    if over.is_set() or partition not in consumer.assignment():
                        break
                    if not await asyncio.to_thread(handling.one, record):
                        consumer.seek(partition, record.offset)
                        consumer.pause(partition)
                        handling.again(partition)
                        break
                    handling.done[partition] = record.offset + 1
                    with suppress(KafkaError):  # a partition that has just been taken away
                        await _commit(consumer.commit, handling)
            with suppress(KafkaError):
                await _commit(consumer.commit, handling)
    finally:
        await consumer.stop()


async def _commit(commit: Callable[[Mapping[Any, int]], Any], handling: Handling) -> None:
    if due := handling.due():
        await commit(due)


def run_kafka_python(config: PythonConfig, work: LoopWork, over: threading.Event, handling: Handling) -> None:
    """Until it is over."""
    from kafka import KafkaConsumer, OffsetAndMetadata
    from kafka.errors import KafkaError

    consumer = KafkaConsumer(config.topic, **settings_of(config))

    def commit() -> None:
        if due := handling.due():
            with suppress(KafkaError):
                consumer.commit({partition: OffsetAndMetadata(offset, "", -1) for partition, offset in due.items()})

    try:
        while not over.is_set():
            _hold(consumer, work, handling)
            found = consumer.poll(timeout_ms=round(_POLL_SECONDS * 1000), max_records=_AT_ONCE)
            for partition, records in found.items():
                for record in records:
                    if over.is_set():
                        break
                    if not handling.one(record):
                        consumer.seek(partition, record.offset)
                        consumer.pause(partition)
                        handling.again(partition)
                        break
                    handling.done[partition] = record.offset + 1
                    commit()
            commit()
    finally:
        consumer.close()


def _hold(consumer: Any, work: LoopWork, handling: Handling) -> None:
    """Pause all partitions where the behaviour wants it; resume what may go on."""
    mine = consumer.assignment()
    if work.held:
        consumer.pause(*mine)
        return
    ready = [partition for partition in handling.ready() if partition in mine]
    free = [partition for partition in mine & set(consumer.paused()) if partition not in handling.waiting]
    if ready or free:
        consumer.resume(*{*ready, *free})


def main(config: Path, behaviour: Path, address: Path) -> None:
    """Run until SIGTERM.

    Raises:
        SetupError: if the library is not installed.
    """
    over = threading.Event()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    settings = PythonConfig.model_validate_json(config.read_text(encoding="utf-8"))
    work = LoopWork(Watched(behaviour, Behaviour), name=settings.client_id, over=over)
    handling = Handling(settings, work)
    start_http_server(settings.metrics_port, "127.0.0.1")
    write_text(address, json.dumps({"metrics": f"127.0.0.1:{settings.metrics_port}"}))
    try:
        if settings.library == "aiokafka":
            asyncio.run(run_aiokafka(settings, work, over, handling))
        else:
            run_kafka_python(settings, work, over, handling)
    except ImportError as error:
        name = settings.library.replace("_", "-")
        raise SetupError(f"The lab's {name} consumers need {name}.", hint=f"Try: {how_to_install('lab')}") from error


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]))
