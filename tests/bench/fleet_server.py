"""A Prometheus that has scraped a fleet: `python -m tests.bench.fleet_server SUBSCRIPTIONS SLOT_SECONDS STEP_SECONDS WIRE`.

In a process of its own, so that its memory is not that of who asks. It answers remote read in streamed chunks, or (WIRE `json`) range
selectors in JSON, with the samples of `tests.fleet` under the names of kafka_exporter. Prints its URL when it is ready.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa

from tests.chunks import answer, encode
from tests.fleet import slot_series
from workbench.profiles import load_profile

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
    def __init__(self, subscriptions: int, slot_seconds: int, step_seconds: int) -> None:
        self._sizes = subscriptions, slot_seconds, step_seconds

    def series(self, asked: str, end_ms: int) -> Iterator[tuple[dict[str, str], bytes, bytes]]:
        """(labels, times, values) of the metrics that are asked for, in the slot that ends then."""
        subscriptions, slot, step = self._sizes
        table = slot_series(subscriptions, datetime.fromtimestamp(end_ms / 1000, UTC), slot, step)
        starts, lengths = table.starts, table.lengths
        for at, name in enumerate(table.names.select(["signal", "group", "topic", "partition"]).to_pylist()):
            rule = _RULES[name["signal"]]
            if rule.metric not in asked:  # none is a part of another's name
                continue
            span = slice(starts[at], starts[at] + lengths[at])
            labels = {theirs: str(name[ours]) for ours, theirs in rule.labels.items()}
            yield (
                {"__name__": rule.metric, "instance": "kafka-exporter:9308", "job": "kafka", **labels},
                table.ts_us[span].tobytes(),
                table.values[span].tobytes(),
            )

    def chunks(self, request: bytes) -> Iterator[bytes]:
        """The stream that answers a read request, a frame for each series."""
        asked = request.decode("latin-1")
        for labels, times, values in self.series(asked, _end_ms(request)):
            stamps = memoryview(times).cast("q")
            yield answer((labels, [_chunk(times, values)], 1), times=(stamps[0] // 1000, stamps[-1] // 1000))

    def json(self, query: str, end_ms: int) -> Iterator[bytes]:
        """The matrix that answers a range selector."""
        yield b'{"status":"success","data":{"resultType":"matrix","result":['
        between = ""
        for labels, times, values in self.series(query, end_ms):
            named = ",".join(f'"{name}":"{value}"' for name, value in labels.items())
            yield f'{between}{{"metric":{{{named}}},"values":[{_pairs(times, values)}]}}'.encode()
            between = ","
        yield b"]}}"


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
