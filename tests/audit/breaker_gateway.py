"""A gateway with two Kafka clusters and a breaker between them, a process of its own: `python -m tests.audit.breaker_gateway CONFIG`.

It takes batches by HTTP, and answers 200 when Kafka has them all, else 429: come again later. `GET /metrics` has its counters.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from confluent_kafka import Message, Producer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, generate_latest

SEND_SECONDS = 0.5
LARGEST_SHARE, OPENS_AT, WINDOW_SECONDS, LEAST = 0.6, 0.5, 2.0, 20


class Breaker:
    """Open while at least so many of the last seconds' sends to the normal cluster failed; a share of the batches goes on to it."""

    def __init__(self) -> None:
        self.ended: deque[tuple[float, int, int]] = deque()
        self.is_open, self._owed = False, 0.0

    def destination(self) -> str:
        self._owed += LARGEST_SHARE if self.is_open else 0.0
        if self._owed < 1:
            return "normal"
        self._owed -= 1
        return "failover"

    def count(self, sends: int, failed: int) -> None:
        now = time.monotonic()
        self.ended.append((now, sends, failed))
        while self.ended[0][0] < now - WINDOW_SECONDS:
            self.ended.popleft()
        total = sum(it[1] for it in self.ended)
        if total >= LEAST:
            self.is_open = sum(it[2] for it in self.ended) >= OPENS_AT * total


def serve(config: dict[str, Any]) -> None:
    """Until it is killed."""
    registry, breaker, lock = CollectorRegistry(), Breaker(), threading.Lock()
    sends = Counter("gw_kafka_sends", "Records sent.", ["kafka", "result"], registry=registry)
    answers = Counter("gw_http_answers", "Answers given.", ["code"], registry=registry)
    for code in ("200", "429"):
        answers.labels(code)
    producers = {}
    for name in ("normal", "failover"):
        for result in ("success", "error"):
            sends.labels(name, result)
        producers[name] = Producer(
            {
                "bootstrap.servers": config[name],
                "message.timeout.ms": int(1000 * SEND_SECONDS),
                "reconnect.backoff.max.ms": 500,
            }
        )

    def send(batch: list[dict[str, Any]]) -> bool:
        """Whether all of it was delivered."""
        to, failed = breaker.destination(), 0

        def ended(error: object, _message: Message) -> None:
            nonlocal failed
            failed += error is not None
            sends.labels(to, "success" if error is None else "error").inc()

        for it in batch:
            producers[to].produce(config["topic"], b"x", it["id"].encode(), on_delivery=ended)
        assert producers[to].flush(10 * SEND_SECONDS) == 0
        if to == "normal":
            breaker.count(len(batch), failed)
        return not failed

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            batch = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                code = 200 if send(batch) else 429
            answers.labels(str(code)).inc()
            self.send_response(code)
            self.end_headers()

        def do_GET(self) -> None:
            page = generate_latest(registry)
            self.send_response(200)
            self.send_header("content-type", CONTENT_TYPE_LATEST)
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing to say."""

    ThreadingHTTPServer(("127.0.0.1", int(config["port"])), Handler).serve_forever()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
