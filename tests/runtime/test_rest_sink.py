"""Rules of the REST sink: what each answer of the service means, and that its outage is nobody's fault."""

from __future__ import annotations

import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.runtime.helpers import Clock, event
from tests.servers import Script, scripted
from workbench.errors import ConfigError
from workbench.runtime import Dead, Done, Failed, RestSink, Retry
from workbench.runtime.rest_sink import plain_status


class Service:
    """An HTTP service that answers as it is told and keeps what it got."""

    def __init__(self) -> None:
        self.code, self.headers, self.drop = 200, {}, False  # type: ignore[var-annotated]
        self.requests: list[Any] = []
        self.connections = 0
        self.url = ""

    @contextmanager
    def up(self) -> Iterator[Service]:
        """Serve until the end of the block."""
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                service.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.requests.append((self.path, dict(self.headers), body))
                self.send_response(service.code)
                for name, value in service.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()
                if service.drop:
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}/refunds?v=1"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (200, Done()),
        (204, Done()),
        (600, Dead("600")),
        (700, Dead("700")),
        (400, Failed("http_400")),
        (422, Failed("http_422")),
        (302, Retry()),
        (308, Retry()),
        (429, Retry()),
        (404, Retry()),
        (500, Retry()),
        (503, Retry()),
        (599, Retry()),
    ],
)
def test_what_an_answer_means(code: int, outcome: Any) -> None:
    """2xx done, 429, 5xx and redirects (of a login) later, configured codes dead, what the event itself is to blame for failed."""
    with Service().up() as service:
        service.code = code
        assert RestSink(service.url)(event(7, key=b"k")) == outcome
        [(path, headers, body)] = service.requests
        assert (path, body) == ("/refunds?v=1", b"v")
        assert headers["Idempotency-Key"] == "t/0/7"
        assert headers["X-Event-Type"] == "x"


def test_one_connection_is_kept_and_a_closed_one_is_replaced_without_a_failed_attempt() -> None:
    """A service may close a connection between two requests."""
    with Service().up() as service:
        sink = RestSink(service.url)
        for offset in range(5):
            assert sink(event(offset)) == Done()
        assert service.connections == 1
        service.drop = True
        for offset in range(5, 8):
            assert sink(event(offset)) == Done()
        assert len(service.requests) == 8


def test_a_service_that_is_away_is_a_retry() -> None:
    """Refused connections are no event's fault for ever."""
    sink = RestSink("http://127.0.0.1:9/")
    assert isinstance(sink(event(0)), Retry)


def test_the_service_may_say_when() -> None:
    """Retry-After in seconds is obeyed, up to a minute; nonsense is not."""
    with Service().up() as service:
        service.code = 429
        for value, after in (("3", 3.0), ("9999", 60.0), ("-5", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None)):
            service.headers = {"Retry-After": value}
            assert RestSink(service.url)(event(0)) == Retry(after)


def test_an_outage_does_not_count_as_attempts_but_a_poison_record_does() -> None:
    """While nothing succeeds for a while, retries are not counted; as soon as something does, they are; and not for ever."""
    clock = Clock()
    with Service().up() as service:
        sink = RestSink(service.url, outage_after_seconds=2.0, outage_patience_seconds=600.0, clock=clock)
        poison = event(0)
        poison.decoded_at = clock.now
        service.code = 500
        assert sink(poison) == Retry(counted=True)
        clock.now += 3
        assert sink(poison) == Retry(counted=False)
        service.code = 200
        assert sink(event(1)) == Done()
        service.code = 500
        assert sink(poison) == Retry(counted=True)
        clock.now += 601
        assert sink(poison) == Retry(counted=True)


def test_a_hostile_event_type_makes_no_header() -> None:
    """Types come from producers."""
    with Service().up() as service:
        hostile = event(0, kind="x\r\nX-Admin: 1\r\n")
        assert RestSink(service.url)(hostile) == Done()
        [(_, headers, _)] = service.requests
        assert "X-Admin" not in headers


def test_headers_of_ones_own_are_sent_and_checked() -> None:
    """An API key goes along; a line break in one is refused at once."""
    with Service().up() as service:
        assert RestSink(service.url, headers={"X-Api-Key": "abc"})(event(0)) == Done()
        assert service.requests[0][1]["X-Api-Key"] == "abc"
    with pytest.raises(ConfigError, match="header"):
        RestSink("http://x/", headers={"X-Api-Key": "abc\r\nX-Admin: 1"})


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200),
        (b"HTTP/1.1 204 No\r\ncontent-length: 0\r\n\r\n", 204),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", None),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\nContent-Le", None),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", None),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", None),
        (b"HTTP/1.1 2000\r\nContent-Length: 0\r\n\r\n", None),
        (b"", None),
    ],
)
def test_only_a_whole_and_plain_success_is_taken_without_the_library(answer: bytes, code: int | None) -> None:
    """Everything else it parses, from the first byte on."""
    assert plain_status(answer) == code


def test_an_answer_in_pieces_or_chunks_is_read_whole() -> None:
    """By the library, over the bytes that have come already; the connection stays usable."""
    pieces = [b"HTTP/1.1 20", b"0 OK\r\nTransfer-Encoding: chu", b"nked\r\n\r\n2\r\nok\r\n0\r\n", b"\r\n"]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                for _ in range(3):
                    while b"\r\n\r\nv" not in peer.recv(4096):
                        pass
                    for piece in pieces:
                        peer.sendall(piece)
                        time.sleep(0.02)

        threading.Thread(target=serve, daemon=True).start()
        sink = RestSink(f"http://127.0.0.1:{server.getsockname()[1]}/")
        assert [sink(event(offset)) for offset in range(3)] == [Done()] * 3


@pytest.mark.parametrize("url", ["refunds", "ftp://x/", "http://", ""])
def test_a_wrong_url_is_refused_at_once(url: str) -> None:
    """Not at the first event."""
    with pytest.raises(ConfigError, match="URL"):
        RestSink(url)


def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    """Only the status counts; a service cannot fill the memory of whoever hands it events."""
    with scripted(Script(body=b"x" * (32 << 20))) as server:
        sink = RestSink(server.url)
        tracemalloc.start()
        try:
            assert isinstance(sink(event(0)), Done)
            assert isinstance(sink(event(0)), Done)
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()
