"""A Prometheus that has scraped a fleet: `python -m tests.bench.fleet_server SUBSCRIPTIONS SLOT_SECONDS STEP_SECONDS WIRE`.

In a process of its own, so that its memory is not that of who asks. It answers remote read in streamed chunks, or (WIRE `json`) range
selectors in JSON, with the samples of `tests.fleet` under the names of kafka_exporter. Prints its URL when it is ready.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa

from tests.chunks import encode, encoded, frame
from tests.fleet import END, slot_series
from workbench.profiles import load_profile

_LABELS = ["signal", "group", "topic", "partition"]
_RULES = load_profile("kafka_exporter").signals


@cache
def _chunk(stamps: bytes, values: bytes) -> bytes:
    """Of few different kinds, since the subscriptions of the fleet are alike."""
    times = [at // 1000 for at in memoryview(stamps).cast("q")]
    return encode(list(zip(times, memoryview(values).cast("Q"), strict=True)))


@cache
def _pairs(stamps: bytes, values: bytes) -> str:
    """The same in JSON."""
    times, numbers = memoryview(stamps).cast("q"), memoryview(values).cast("d")
    return ",".join(f'[{at // 1000 / 1000:.3f},"{value!r}"]' for at, value in zip(times, numbers, strict=True))


class _Fleet:
    """The work of a server, which is not what is measured, is done once: labels are encoded once, and the last slots are kept."""

    def __init__(self, subscriptions: int, slot_seconds: int, step_seconds: int) -> None:
        self._slot = lru_cache(maxsize=2)(
            lambda end_ms: slot_series(
                subscriptions, datetime.fromtimestamp(end_ms / 1000, UTC), slot_seconds, step_seconds
            )
        )
        self.names = [
            _named(name) for name in self._slot(round(END.timestamp() * 1000)).names.select(_LABELS).to_pylist()
        ]
        self._stream_heads = [encoded(labels) for labels in self.names]

    def series(self, asked: str, end_ms: int) -> Iterator[tuple[int, bytes, bytes]]:
        """(place, times, values) of the metrics that are asked for, in the slot that ends then."""
        table = self._slot(end_ms)
        starts, lengths = table.starts, table.lengths
        # None is the end of another's name, but some are the beginning: those of sums.
        wanted = {rule.metric for rule in _RULES.values() if re.search(rf"{rule.metric}(?!\w)", asked)}
        for at, labels in enumerate(self.names):
            if labels["__name__"] in wanted:
                span = slice(starts[at], starts[at] + lengths[at])
                yield at, table.ts_us[span].tobytes(), table.values[span].tobytes()

    def chunks(self, request: bytes) -> Iterator[bytes]:
        """The stream that answers a read request, a frame for each series."""
        for at, times, values in self.series(request.decode("latin-1"), _end_ms(request)):
            stamps = memoryview(times).cast("q")
            span = stamps[0] // 1000, stamps[-1] // 1000
            yield frame(self._stream_heads[at], [_chunk(times, values)], times=span)

    def json(self, query: str, end_ms: int) -> Iterator[bytes]:
        """The matrix that answers a range selector."""
        yield b'{"status":"success","data":{"resultType":"matrix","result":['
        between = ""
        for at, times, values in self.series(query, end_ms):
            named = ",".join(f'"{name}":"{value}"' for name, value in self.names[at].items())
            yield f'{between}{{"metric":{{{named}}},"values":[{_pairs(times, values)}]}}'.encode()
            between = ","
        yield b"]}}"


def _named(series: dict[str, Any]) -> dict[str, str]:
    rule = _RULES[series["signal"]]
    own = {theirs: str(series[ours]) for ours, theirs in rule.labels.items()}
    return {"__name__": rule.metric, "instance": "kafka-exporter:9308", "job": "kafka", **own}


def _end_ms(request: bytes) -> int:
    """The end of the first query of a ReadRequest: its second field, behind the start."""
    from workbench.collect.remote_read import _fields, _uvarint

    _, first, last = next(_fields(request, 0, len(request)))
    found = {number: start for number, start, _ in _fields(request, first, last)}
    return _uvarint(request, found[2])[0]


def serve(fleet: _Fleet, wire: str) -> ThreadingHTTPServer:
    """The server, not yet at work."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path == "/api/v1/read" and wire == "remote_read":
                request = pa.decompress(body, decompressed_size=_varint_at(body), codec="snappy", asbytes=True)
                kind = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"
                self._send(kind, fleet.chunks(request))
            else:
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            end_ms = round(float(asked["time"][0]) * 1000)
            self._send("application/json", fleet.json(asked["query"][0], end_ms))

        def _send(self, kind: str, parts: Iterator[bytes]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            held: list[bytes] = []
            size = 0
            for part in parts:
                held.append(part)
                size += len(part)
                if size > 1 << 20:
                    self.wfile.write(b"%x\r\n%s\r\n" % (size, b"".join(held)))
                    held, size = [], 0
            if size:
                self.wfile.write(b"%x\r\n%s\r\n" % (size, b"".join(held)))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: object) -> None:
            return

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def _varint_at(body: bytes) -> int:
    """How long a snappy block is when it is unpacked: it begins with that."""
    from workbench.collect.remote_read import _uvarint

    return _uvarint(body, 0)[0]


@contextmanager
def fleet_server(subscriptions: int, *, slot_seconds: int, step_seconds: int, wire: str) -> Iterator[str]:
    """Its URL, in a process of its own that ends with the block."""
    words = [str(it) for it in (subscriptions, slot_seconds, step_seconds, wire)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.fleet_server", *words], stdout=subprocess.PIPE, text=True, cwd=root
    ) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def main() -> None:
    """Serve until the end."""
    subscriptions, slot, step = (int(word) for word in sys.argv[1:4])
    server = serve(_Fleet(subscriptions, slot, step), sys.argv[4])
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
