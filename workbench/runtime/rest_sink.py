"""A processor that hands events to a stateless HTTP service.

The protocol of a consumer proxy: the service answers 2xx for done, 429 and 5xx for "retry later", and codes such as 600 or 700 for
events that must go to the dead-letter topic.
"""

from __future__ import annotations

import http.client
import io
import re
import socket
import threading
import time
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import urlsplit

from workbench.errors import ConfigError
from workbench.runtime.event import Dead, Done, Event, Failed, Outcome, Retry

DEAD_CODES = frozenset({600, 700})
# Caused by the service or its configuration, as all but 4xx are, and not by the event: a retry may succeed. A redirect is not followed:
# it is that of a login whose session has ended, or to another address.
RETRY_CODES = frozenset({401, 403, 404, 405, 407, 408, 421, 425, 429})
_MAX_RETRY_AFTER_SECONDS = 60.0
_FIRST_BYTES = 16_384
_MOST_ANSWER_BYTES = 1 << 20  # only the status is used
_PLAIN = re.compile(rb"HTTP/1\.1 (2\d\d)[ \r]")  # HTTP/1.0 closes its connections


class RestSink:
    """Posts each event's payload to a URL; thread-safe, with one kept-alive connection per processor thread.

    If no request succeeds for `outage_after_seconds`, the service counts as down: failures then do not count as attempts until an
    event is `outage_patience_seconds` old. So an outage does not fill the dead-letter topic, but a poison record, which fails while
    others succeed, still ends there.

    Args:
        url: http(s) address.
        dead_codes: status codes that mean "dead-letter this event".
        timeout_seconds: of one request.
        headers: sent with each request (for example an API key).
    """

    def __init__(
        self,
        url: str,
        *,
        dead_codes: Collection[int] = DEAD_CODES,
        timeout_seconds: float = 10.0,
        outage_after_seconds: float = 2.0,
        outage_patience_seconds: float = 600.0,
        headers: dict[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("REST sink: the URL is not an http or https URL.")
        self._make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = {"Host": parts.netloc.rpartition("@")[2], "Content-Type": "application/octet-stream", **(headers or {})}
        self._head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        if not self._head.isascii() or self._head.count("\n") != len(lines) + 1 or " " in path:
            raise ConfigError("REST sink: the URL or a header has a character that is not allowed there.")
        self._dead_codes = frozenset(dead_codes)
        self._timeout = timeout_seconds
        self._outage_after = outage_after_seconds
        self._patience = outage_patience_seconds
        self._clock = clock
        self._local = threading.local()
        self._last_success = clock()
        self._failing_since: float | None = None

    def __call__(self, event: Event) -> Outcome:
        """Post one event."""
        try:
            code, retry_after = self._post(event)
        except (OSError, http.client.HTTPException):
            self._close()
            return self._later(event, None)
        if 200 <= code < 300:
            self._last_success = self._clock()
            self._failing_since = None
            return _DONE
        if code in self._dead_codes:
            return Dead(str(code))
        if 400 <= code < 500 and code not in RETRY_CODES:
            return Failed(f"http_{code}")
        return self._later(event, retry_after)

    def _later(self, event: Event, after: float | None) -> Retry:
        now = self._clock()
        if self._failing_since is None:
            self._failing_since = now
        out = now - self._failing_since >= self._outage_after
        return Retry(after, counted=not out or now - event.decoded_at > self._patience)

    def _post(self, event: Event) -> tuple[int, float | None]:
        reused = getattr(self._local, "connection", None) is not None
        try:
            return self._exchange(event)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # The server may have closed a kept-alive connection; that is not a failed attempt yet.
            self._close()
            if not reused:
                raise
            return self._exchange(event)

    def _exchange(self, event: Event) -> tuple[int, float | None]:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._make(self._host, self._port, timeout=self._timeout)
            connection.connect()
            self._local.connection = connection
        # Head and body in one write: http.client makes two, and each is a system call and a packet.
        connection.sock.sendall(self._request(event))
        first = connection.sock.recv(_FIRST_BYTES)
        if (code := plain_status(first)) is not None:
            return code, None
        response = http.client.HTTPResponse(_Again(first, connection.sock), method="POST")  # type: ignore[arg-type]
        response.begin()
        response.read(_MOST_ANSWER_BYTES)
        if response.will_close or not response.isclosed():  # do not read an endless answer
            self._close()
        return response.status, _retry_after(response.getheader("Retry-After"))

    def _request(self, event: Event) -> bytes:
        record = event.record
        body = record.value or b""
        # The key is the same for every attempt, also after a crash: the service can recognise a repeat.
        head = (
            f"{self._head}X-Event-Type: {_header_safe(event.type)}\r\n"
            f"Idempotency-Key: {_header_safe(record.topic)}/{record.partition}/{record.offset}\r\n"
            f"X-Attempt: {event.tries}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("ascii") + body

    def _close(self) -> None:
        connection = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            connection.close()


_DONE = Done()


class _Again(io.RawIOBase):
    """Socket whose first bytes were already read."""

    def __init__(self, first: bytes, sock: socket.socket) -> None:
        self._first = first
        self._sock = sock

    def makefile(self, _mode: str) -> io.BufferedReader:
        """File object that http.client reads from."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the earlier bytes first, then the socket."""
        if not self._first:
            return self._sock.recv_into(buffer)
        size = min(len(buffer), len(self._first))
        buffer[:size], self._first = self._first[:size], self._first[size:]
        return size


def plain_status(answer: bytes) -> int | None:
    """Status code of a complete, plain success; None for any other answer.

    Most answers are like this, and http.client needs a third of an event's time to parse their headers.
    """
    head, end, body = answer.partition(b"\r\n\r\n")
    match = _PLAIN.match(head)
    if not end or match is None:
        return None
    fields = head.lower()
    if (
        b"\r\nconnection: close" in fields
        or b"\r\ntransfer-encoding:" in fields
        or fields.count(b"\r\ncontent-length:") != 1
    ):
        return None
    length = fields.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0].strip()
    return int(match[1]) if length.isdigit() and int(length) == len(body) else None


def _header_safe(text: str) -> str:
    """Escape a value for a header: event types come from producers and may contain line breaks."""
    if text.isascii() and text.isprintable():
        return text[:200]
    return "".join(char if 32 <= ord(char) < 127 else "?" for char in text)[:200]


def _retry_after(value: str | None) -> float | None:
    """Seconds from `Retry-After`; None for a date or an invalid value: the processor's back-off applies."""
    try:
        return min(_MAX_RETRY_AFTER_SECONDS, max(0.0, float(value))) if value is not None else None
    except ValueError:
        return None
