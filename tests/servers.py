"""Small HTTP servers on loopback that misbehave on demand, for what a real one cannot be made to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


@dataclass
class Script:
    """What the server answers, and what it was asked."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    trickle_seconds: float = 0.0
    until_closed: bool = False  # nothing but the end of the connection says where the body ends
    answer: Callable[[str, dict[str, list[str]]], bytes] | None = None  # by path and query; instead of the body
    requests: list[tuple[str, dict[str, list[str]], dict[str, str]]] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)  # of these, in the same order
    url: str = ""


@contextmanager
def scripted(script: Script) -> Iterator[Script]:
    """A server that follows the script, until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            sent = (
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.command in ("POST", "PUT")
                else b""
            )
            query = parse_qs(parts.query or sent.decode("latin-1"))
            body = script.body if script.answer is None else script.answer(parts.path, query)
            script.methods.append(self.command)
            script.requests.append((parts.path, parse_qs(parts.query), dict(self.headers)))
            time.sleep(script.delay_seconds)
            self.send_response(script.status)
            for name, value in script.headers.items():
                self.send_header(name, value)
            if not script.until_closed:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                if not script.trickle_seconds:
                    self.wfile.write(body)
                    return
                for at in range(len(body)):
                    self.wfile.write(body[at : at + 1])
                    self.wfile.flush()
                    time.sleep(script.trickle_seconds)
            except OSError:
                return  # the client has given up, as it should

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()


def with_own_share(program: Path, *options: str) -> list[str]:
    """Command of a program of an unpacked Debian package whose files are looked for in /usr/share: a view of the files of its own."""
    words = [str(program), *options]
    share = program.parents[2] / "usr" / "share"
    if program.parents[1].parent == Path("/") or not share.is_dir():
        return words
    bind = f'mount --bind "{share}" /usr/share && exec "$0" "$@"'
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", bind, *words]
