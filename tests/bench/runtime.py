"""The runtime's speed with all metrics on, each beside a peer in the same run, on a real broker."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from prometheus_client import Counter, Histogram

from tests.bench.harness import Result, result
from workbench.kafka.runtime.kafka_source import KafkaSource
from workbench.lab.lab import start_lab
from workbench.lab.lab_broker import create_topic
from workbench.runtime import Event, ProcessorConfig, Record, RestSink, Runtime, RuntimeConfig, running
from workbench.runtime.config import AuditConfig
from workbench.runtime.event import decode_by_header
from workbench.runtime.runtime_metrics import ENQUEUE_TIME_BUCKETS, PROCESS_TIME_BUCKETS

PARTITIONS = 8
KEYS = 5000
VALUE = b"x" * 100


@contextmanager
def _topic(records: int) -> Iterator[str]:
    """The bootstrap address of a broker whose topic "t" holds so many records of 100 B."""
    with tempfile.TemporaryDirectory() as room, start_lab(Path(room) / "lab", with_prometheus=False) as lab:
        create_topic(lab.bootstrap, "t", PARTITIONS)
        producer = Producer(
            {"bootstrap.servers": lab.bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000}
        )
        for number in range(records):
            producer.produce("t", VALUE, str(number % KEYS).encode(), headers=[("event_type", b"x")])
            if number % 5000 == 0:
                producer.poll(0)
        producer.flush()
        del producer  # or it complains of the broker's end
        yield lab.bootstrap


def _settings(
    bootstrap: str, group: str, processor: ProcessorConfig, audit: AuditConfig | None = None
) -> RuntimeConfig:
    return RuntimeConfig(
        bootstrap=bootstrap,
        group=group,
        topics=["t"],
        client_id="bench",
        processors={"x": processor},
        shutdown_seconds=5,
        audit=audit,
    )


def _rate(
    bootstrap: str,
    group: str,
    handler: Callable[[Event], object],
    processor: ProcessorConfig,
    count: int,
    audit: AuditConfig | None = None,
) -> float:
    """Records per second from the first that is read to the last that is handled and committed."""
    runtime = Runtime(_settings(bootstrap, group, processor, audit), {"x": handler})
    with running(runtime):
        metrics = runtime.task.metrics
        began = None
        while (done := metrics.totals()["processed"]) < count:
            if began is None and done:
                began, already = time.perf_counter(), done
            time.sleep(0.02)
        assert began is not None
        seconds = time.perf_counter() - began
        while not runtime.task.is_settled:
            time.sleep(0.02)
        assert set(metrics.sentinels.readings().values()) == {0}
    return (count - already) / seconds


def _bare_loop(bootstrap: str, group: str, count: int, handler: Callable[[Event], object]) -> float:
    """One thread that polls, decodes, handles, updates the same metrics, and commits each second."""
    config = _settings(bootstrap, group, ProcessorConfig())
    entry_time = Histogram("entry", "", ("group", "topic", "partition"), registry=None, buckets=ENQUEUE_TIME_BUCKETS)
    entry = {number: entry_time.labels(group, "t", str(number)) for number in range(PARTITIONS)}
    deserialized = Counter("deserialized", "", ("group", "topic"), registry=None).labels(group, "t")
    process_time = Histogram("process", "", ("group", "type"), registry=None, buckets=PROCESS_TIME_BUCKETS).labels(
        group, "x"
    )
    processed = Counter("processed", "", ("group", "type", "outcome"), registry=None).labels(group, "x", "ok")
    source = KafkaSource(config, member="bare")
    ready = threading.Event()

    class Listener:
        def on_assigned(self, *_committed: object) -> None:
            ready.set()

        def on_revoked(self, _partitions: object) -> None: ...

        def on_lost(self, _partitions: object) -> None: ...

    source.subscribe(["t"], Listener())
    began, done, positions, last_commit = None, 0, {}, time.monotonic()
    while done < count:
        for record in source.poll(500, 0.05):
            if began is None:
                began = time.perf_counter()
            event = decode_by_header(record)
            deserialized.inc()
            at = time.monotonic()
            entry[record.partition].observe(time.monotonic() - at)
            handler(event)
            process_time.observe(time.monotonic() - at)
            processed.inc()
            positions[record.topic, record.partition] = record.offset + 1
            done += 1
        if time.monotonic() - last_commit > 1 and positions:
            source.commit(positions, wait=False)
            last_commit = time.monotonic()
    source.commit(positions, wait=True)
    assert began is not None
    seconds = time.perf_counter() - began
    source.close()
    return done / seconds


def runtime_noop() -> Result:
    """What the machinery itself costs."""
    count = 400_000
    with _topic(count) as bootstrap:
        ours, peers = [], []
        for turn in range(3):
            ours.append(
                _rate(
                    bootstrap, f"ours-{turn}", lambda _e: None, ProcessorConfig(threads=4, queue_capacity=5000), count
                )
            )
            peers.append(_bare_loop(bootstrap, f"bare-{turn}", count, lambda _e: None))
    return result(
        "runtime_noop",
        f"{count:,} records of 100 B, {KEYS:,} keys, 4 processor threads that do nothing, all metrics",
        statistics.median(ours),
        unit="records/s",
        peer=statistics.median(peers),
        peer_name="one-thread poll loop with the same metrics",
    )


def runtime_audit() -> Result:
    """What telling an audit costs, in turns: a record without marks of its own, as most are."""
    count = 400_000
    processor = ProcessorConfig(threads=4, queue_capacity=5000)
    with _topic(count) as bootstrap:
        create_topic(bootstrap, "rows", 1)
        ours, peers = [], []
        for turn in range(5):
            audit = AuditConfig(topic="rows", layer=f"layer-{turn}")
            ours.append(_rate(bootstrap, f"told-{turn}", lambda _e: None, processor, count, audit))
            peers.append(_rate(bootstrap, f"untold-{turn}", lambda _e: None, processor, count))
    return result(
        "runtime_audit",
        f"{count:,} records of 100 B, handlers that do nothing, and rows for an audit",
        statistics.median(ours),
        unit="records/s",
        peer=statistics.median(peers),
        peer_name="without an audit",
    )


def runtime_io_bound() -> Result:
    """Handlers that wait: 64 threads × 10 ms are 6,400/s at best."""
    count, threads, seconds = 60_000, 64, 0.010

    def wait(_event: Event) -> None:
        time.sleep(seconds)

    with _topic(count) as bootstrap:
        ours = _rate(bootstrap, "ours", wait, ProcessorConfig(threads=threads, queues=8), count)
        peer = _bare_loop(bootstrap, "bare", 500, wait)
    return result(
        "runtime_io_bound",
        f"{threads} processor threads on 8 queues × {seconds * 1000:.0f} ms (ideal {threads / seconds:,.0f}/s)",
        ours,
        unit="records/s",
        peer=peer,
        peer_name="one-thread poll loop",
    )


SERVER = """
import asyncio, sys
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            length = int(head.lower().split(b"content-length:", 1)[1].split(b"\\r\\n", 1)[0])
            await reader.readexactly(length)
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def runtime_rest() -> Result:
    """Events posted to a local HTTP service that shares the processor."""
    count = 60_000
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            url = f"http://127.0.0.1:{int(service.stdout.readline())}/events"
            with _topic(count) as bootstrap:
                ours = _rate(bootstrap, "ours", RestSink(url), ProcessorConfig(threads=32, queues=8), count)
                peer = _bare_loop(bootstrap, "bare", 10_000, RestSink(url))
        finally:
            service.kill()
    return result(
        "runtime_rest",
        "32 processor threads on 8 queues post 100 B each over kept connections",
        ours,
        unit="requests/s",
        peer=peer,
        peer_name="one-thread poll loop",
    )


def runtime_enqueue_p99() -> Result:
    """Time from decoded to placed while there is room: 2,000 records/s for 15 s, in milliseconds, from the runtime's own histogram."""
    seconds, rate = 15, 2000
    with tempfile.TemporaryDirectory() as room, start_lab(Path(room) / "lab", with_prometheus=False) as lab:
        create_topic(lab.bootstrap, "t", PARTITIONS)
        producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 5})
        waits: list[float] = []
        runtime = Runtime(
            _settings(lab.bootstrap, "ours", ProcessorConfig(threads=8)), {"x": lambda _e: time.sleep(0.001)}
        )
        observe = runtime.task.consumers[0]._placing._observe_entry

        def spy(batch: list[Event], refused: list[Event]) -> None:
            now = time.monotonic()
            waits.extend(now - event.decoded_at for event in batch[: len(batch) - len(refused)])
            observe(batch, refused)

        runtime.task.consumers[0]._placing._observe_entry = spy  # type: ignore[method-assign]
        with running(runtime):
            began = time.monotonic()
            for number in range(seconds * rate):
                producer.produce("t", VALUE, str(number % KEYS).encode(), headers=[("event_type", b"x")])
                if number % 20 == 0:
                    producer.poll(0)
                    time.sleep(max(0.0, began + number / rate - time.monotonic()))
            producer.flush()
            while runtime.task.metrics.totals()["processed"] < seconds * rate:
                time.sleep(0.02)
    waits.sort()
    return result(
        "runtime_enqueue_p99", f"{rate:,} records/s for {seconds} s", waits[int(len(waits) * 0.99)] * 1000, unit="ms"
    )


def runtime_slow_key() -> Result:
    """Throughput of all other keys while one key is slow, beside the same without a slow key."""
    return _held_up("runtime_slow_key", "one key in 5,000 takes 1 s, 64 threads on one queue", slow_key=True)


def runtime_slow_type() -> Result:
    """Throughput of the other type while one type is slow, beside the same without a slow type."""
    return _held_up(
        "runtime_slow_type", "one event in 100 is of a type that takes 1 s, 64 threads for the other", slow_key=False
    )


def _held_up(name: str, work: str, *, slow_key: bool) -> Result:
    count = 30_000
    fast = ProcessorConfig(threads=64, queues=1 if slow_key else 64, queue_capacity=5000)
    processors = {"x": fast, "slow": ProcessorConfig(threads=1, queue_capacity=100)}

    def decode(record: Record) -> Event:
        event = decode_by_header(record)
        if is_slow and not slow_key and record.offset % 100 == 0:
            event.type = "slow"
        return event

    def handle(event: Event) -> None:
        nonlocal done
        if is_slow and (event.type == "slow" or (slow_key and event.key == b"7")):
            time.sleep(1.0)
            return
        time.sleep(0.010)
        with lock:
            done += 1

    rates: dict[bool, list[float]] = {False: [], True: []}
    lock = threading.Lock()
    with _topic(count) as bootstrap:
        for turn in range(6):
            is_slow, done = turn % 2 == 1, 0
            config = _settings(bootstrap, f"{name}-{turn}", fast).model_copy(
                update={"processors": processors, "shutdown_seconds": 0.1, "rebalance_drain_seconds": 0.1}
            )
            with running(Runtime(config, {"x": handle, "slow": handle}, decode=decode)):
                while done < count * 0.1:
                    time.sleep(0.005)
                began, already = time.perf_counter(), done
                while done < count * 0.9:
                    time.sleep(0.005)
                rates[is_slow].append((done - already) / (time.perf_counter() - began))
    return result(
        name,
        work,
        statistics.median(rates[True]),
        unit="records/s",
        peer=statistics.median(rates[False]),
        peer_name="without",
    )
