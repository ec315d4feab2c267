"""An agent, a gateway and a collector, each a process of its own: `python -m tests.audit.processes ROLE CONFIG`.

The agent reads a file of records and posts them; the gateway takes them by HTTP into Kafka; the collector writes them to a file. Each
tells an audit what it does, keeps where it is, and may be killed at any moment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
from confluent_kafka import Consumer, TopicPartition

from workbench.kafka.audit_rows import KafkaRows
from workbench.kafka.audited_producer import AuditedProducer
from workbench.layers.meter import Meter
from workbench.layers.record_marks import CREATED_HEADER, ID_HEADER

BATCH = 40
WINDOW_MS = 10_000


def writer(config: dict[str, Any]) -> Any:
    """Writes rows, and waits until they are safe."""
    rows = KafkaRows(config["rows"], {"bootstrap.servers": config["bootstrap"]})

    def write(lines: Any) -> None:
        under_way = rows.put(lines)
        while not under_way.is_over:
            time.sleep(0.002)
        if rows.given_up:
            raise OSError("rows were not written")

    return write


def keep(path: Path, value: Any) -> None:
    """Write a file as a whole or not at all."""
    path.with_suffix(".new").write_text(json.dumps(value))
    path.with_suffix(".new").replace(path)


def agent(config: dict[str, Any]) -> None:
    """From a file to the gateway; its position is kept behind the rows."""
    folder = Path(config["folder"])
    records = [json.loads(line) for line in (folder / "source.jsonl").read_text().splitlines()]
    kept = folder / "agent.json"
    at = json.loads(kept.read_text()) if kept.exists() else 0
    meter = Meter(
        "orders", "agent", topic="source.jsonl", partition=0, start=at, write=writer(config), window_ms=WINDOW_MS
    )
    while at < len(records):
        batch = records[at : at + BATCH]
        for offset, it in enumerate(batch, at):
            meter.count("in", offset, it["id"].encode(), created_ms=it["created_ms"])
        while True:
            try:
                if requests.post(config["gateway"], json=batch, timeout=20).status_code == 200:
                    break
            except requests.RequestException:
                pass
            time.sleep(0.05)
        for offset, it in enumerate(batch, at):
            meter.count("out", offset, it["id"].encode(), created_ms=it["created_ms"])
        at += len(batch)
        meter.flush(at)
        keep(kept, at)
        time.sleep(config["pause"])
    while True:  # nothing more to come, and alive
        meter.flush(at)
        time.sleep(0.5)


def gateway(config: dict[str, Any]) -> None:
    """From HTTP to Kafka; a request is answered when its records and rows are safe."""
    producer = AuditedProducer(
        {"bootstrap.servers": config["bootstrap"]}, stream="orders", layer="gateway", rows_topic=config["rows"],
        window_ms=WINDOW_MS,
    )  # fmt: skip

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            batch = json.loads(self.rfile.read(int(self.headers["content-length"])))
            for it in batch:
                producer.produce(
                    config["topic"], b"x", it["id"].encode(), record_id=it["id"].encode(), created_ms=it["created_ms"]
                )
            producer.settle(15)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing to say."""

    port = int(config["gateway"].rpartition(":")[2].strip("/"))
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.timeout = 0.5
    while True:
        server.handle_request()
        try:
            producer.settle(5)  # also when nobody has sent anything: it lives
        except Exception:
            sys.exit(1)


def collector(config: dict[str, Any]) -> None:
    """From Kafka to a file; loses and doubles what it is told to."""
    folder = Path(config["folder"])
    lost, doubled = set(config["lost"]), set(config["doubled"])
    consumer = Consumer(
        {
            "bootstrap.servers": config["bootstrap"], "group.id": "collector", "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "session.timeout.ms": 6000,
        }
    )  # fmt: skip
    meters: dict[int, Meter] = {}
    write = writer(config)
    sink = (folder / f"sink-{os.getpid()}.jsonl").open("a", buffering=1)

    def commit(stops: dict[int, int]) -> None:
        for number, stop in stops.items():
            meters[number].flush(stop)
        if stops:
            consumer.commit(offsets=[TopicPartition(config["topic"], *it) for it in stops.items()], asynchronous=False)

    def assigned(_consumer: Any, parts: Any) -> None:
        for part, kept in zip(parts, consumer.committed(parts, timeout=10), strict=True):
            start = max(0, kept.offset)
            meters[part.partition] = Meter(
                "orders", "collector", topic=config["topic"], partition=part.partition, start=start, write=write, window_ms=WINDOW_MS
            )  # fmt: skip

    def revoked(_consumer: Any, parts: Any) -> None:
        for part in parts:
            meters.pop(part.partition, None)

    consumer.subscribe([config["topic"]], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    spoken = time.monotonic()
    while True:
        stops: dict[int, int] = {}
        for message in consumer.consume(BATCH, 0.1):
            number, offset = message.partition(), message.offset()
            if message.error() or number not in meters or offset < meters[number].start:
                continue
            headers = dict(message.headers())
            name, created = headers[ID_HEADER], int(headers[CREATED_HEADER])
            meter = meters[number]
            meter.count("in", offset, name, created_ms=created)
            for _ in range(0 if name.decode() in lost else 2 if name.decode() in doubled else 1):
                sink.write(json.dumps({"id": name.decode(), "partition": number, "offset": offset}) + "\n")
                meter.count("out", offset, name, created_ms=created)
            stops[number] = offset + 1
        if not stops and time.monotonic() - spoken > 0.5:
            stops = {number: meter.start for number, meter in meters.items()}
        if stops:
            spoken = time.monotonic()
            try:
                commit(stops)
            except Exception:
                sys.exit(1)  # whoever gets the partition begins at the last commit


if __name__ == "__main__":
    {"agent": agent, "gateway": gateway, "collector": collector}[sys.argv[1]](json.loads(sys.argv[2]))
