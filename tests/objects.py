"""Object storage on loopback (moto, which checks signatures and permissions), and a proxy before it that fails on demand."""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.waiting import wait_for
from workbench.lab.process import free_port

BUCKET = "fleet"
_SET_UP_CALLS = 3  # so many without a signature, to make the user


@dataclass(frozen=True)
class Objects:
    """Where it listens, and a user who may do everything with its buckets."""

    port: int
    key: str
    secret: str

    def env(self, port: int | None = None) -> dict[str, str]:
        """As AWS's own tools read it."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_REGION": "us-east-1",
        }


@contextmanager
def object_storage(room: Path) -> Iterator[Objects]:
    """A server with one bucket, until the end of the block."""
    port = free_port()
    env = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(_SET_UP_CALLS)}
    with (room / "objects.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], env=env, stdout=log, stderr=log
        )
    try:
        wait_for(lambda: _listens(port) or server.poll() is not None, 60)
        yield _with_a_user(port)
    finally:
        server.terminate()
        server.wait(30)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _with_a_user(port: int) -> Objects:
    import boto3

    at = {"region_name": "us-east-1", "endpoint_url": f"http://127.0.0.1:{port}"}
    iam = boto3.client("iam", aws_access_key_id="none", aws_secret_access_key="none", **at)
    iam.create_user(UserName="workbench")
    key = iam.create_access_key(UserName="workbench")["AccessKey"]
    allowed = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    iam.put_user_policy(UserName="workbench", PolicyName="all", PolicyDocument=json.dumps(allowed))
    found = Objects(port, key["AccessKeyId"], key["SecretAccessKey"])
    s3 = boto3.client("s3", aws_access_key_id=found.key, aws_secret_access_key=found.secret, **at)
    s3.create_bucket(Bucket=BUCKET)
    return found


@dataclass
class Weather:
    """What the proxy does: `fails` of ten requests are answered with 500, or are cut before or within the answer."""

    port: int = 0
    fails: int = 0
    delay_seconds: float = 0.0
    trickles: bool = False  # a byte now and then, and no end
    asked: int = 0
    failed: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(7))


@contextmanager
def proxied(objects: Objects) -> Iterator[Weather]:
    """A proxy before the server, until the end of the block."""
    weather, over = Weather(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sent = self._sent()
            weather.asked += 1
            end = time.monotonic() + weather.delay_seconds
            while time.monotonic() < end and weather.delay_seconds and not over.wait(0.02):
                pass
            trouble = (
                weather.chance.choice(("500", "before", "within"))
                if weather.chance.random() * 10 < weather.fails
                else ""
            )
            weather.failed += bool(trouble)
            if trouble == "500":
                self._answer(500, [], b"<Error><Code>InternalError</Code></Error>")
                return None
            if trouble == "before" and weather.chance.random() < 0.5:
                return self._cut()
            upstream = http.client.HTTPConnection("127.0.0.1", objects.port, timeout=60)
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "expect":
                    upstream.putheader(name, value)
            upstream.endheaders(sent)
            answer = upstream.getresponse()
            body = answer.read()
            upstream.close()
            if trouble == "before":  # it has been done, and nobody knows
                return self._cut()
            return self._answer(answer.status, answer.getheaders(), body, cut=trouble == "within")

        do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815

        def _sent(self) -> bytes:
            """The body as it was sent, chunks and all."""
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            lines = []
            while True:
                lines.append(self.rfile.readline())
                if (size := int(lines[-1].partition(b";")[0], 16)) == 0:
                    break
                lines.append(self.rfile.read(size + 2))
            while lines[-1].strip():  # what follows the last chunk ends with an empty line
                lines.append(self.rfile.readline())
            return b"".join(lines)

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: bool = False) -> None:
            self.send_response_only(status)
            has_length = False
            for name, value in headers:
                if name.lower() in ("transfer-encoding", "connection"):
                    continue
                has_length |= name.lower() == "content-length"
                self.send_header(name, value)
            if not has_length:
                self.send_header("Content-Length", str(len(body)))
            with suppress(OSError):
                self.end_headers()
                while weather.trickles and not over.is_set():
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    over.wait(0.3)
                if cut:
                    self.wfile.write(body[: len(body) // 2])
                    self._cut()
                    return
                if self.command != "HEAD":
                    self.wfile.write(body)

        def _cut(self) -> None:
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True

        def finish(self) -> None:
            with suppress(OSError, ValueError):
                super().finish()

        def log_message(self, format: str, *args: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, request: object, client_address: object) -> None:
            return  # the client has given up, or was cut off

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    weather.port = server.server_address[1]
    try:
        yield weather
    finally:
        over.set()
        server.shutdown()
        server.server_close()
