"""Limits on requests: size and duration of a body, duration of headers and of an answer, security headers of every answer.

Whoever has shown no token or visit in the headers of a request may send a form of 64 KiB and nothing else: the limit rises in `let_in`,
so a body is read after its sender is known.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from workbench.humanize import one_line, printable
from workbench.serve.connection_limits import Connection, Connections, Stage
from workbench.serve.limited_peer_warnings import warn
from workbench.serve.own_metrics import Metrics

MAX_BODY_BYTES = 4 << 20  # as for alerts in a file
MAX_FORM_BYTES = 64 << 10  # of anybody; the longest note has 48 kB as a form
BODY_SECONDS = 10.0
HEADER_SECONDS = 10.0
ANSWER_SECONDS = 60.0  # to take a whole answer: the largest report at 100 kB/s
STALL_SECONDS = 10.0  # to take anything of it
_MOST_LOGGED = 200
# Scripts and styles are files of ours; nothing is loaded from other hosts, and no other page may show these in a frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Admission:
    """Whether a request has shown that it comes from somebody with a token."""

    trusted: bool = False


def let_in(scope: Scope) -> None:
    """Note that a request has a good token or visit: it may send a large body, and its connection is kept."""
    admission = scope.get("state", {}).get("admission")
    if admission is not None:
        admission.trusted = True


class _RefusedError(Exception):
    """A body that is not read to its end."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


class _Body:
    """The body of a request, as the application reads it."""

    def __init__(self, scope: Scope, receive: Receive, admission: _Admission) -> None:
        self._receive, self._admission = receive, admission
        self._announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        self._received, self._whole = 0, False
        self._asks_first = any(name == b"expect" for name, _ in scope["headers"])
        self._until: float | None = None
        self.refusal: _RefusedError | None = None
        self.is_cut_off = False

    async def receive(self) -> Message:
        """Receive the next part within the limits.

        Raises:
            _RefusedError: if there is too much of it, or it takes too long.
        """
        if self._whole:
            return await self._receive()  # it waits for the end of the connection
        if self._until is None:
            self._until = time.monotonic() + BODY_SECONDS
            self._check(int(self._announced) if self._announced.isdigit() else MAX_BODY_BYTES + 1)
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, self._until - time.monotonic()))
        except TimeoutError:
            raise self._refused(408, "The body took too long.") from None
        self._received += len(message.get("body", b""))
        self._check(self._received)
        self.is_cut_off = message["type"] == "http.disconnect"
        self._whole = self.is_cut_off or not message.get("more_body", False)
        return message

    @property
    def is_awaited(self) -> bool:
        """Whether the sender waits for our word before it sends the body (`Expect: 100-continue`), and has not got it."""
        return self._asks_first and self._until is None

    def _check(self, size: int) -> None:
        most = MAX_BODY_BYTES if self._admission.trusted else MAX_FORM_BYTES
        if size > most:
            raise self._refused(413, f"The body may have {most:,} bytes at most.")

    def _refused(self, status: int, words: str) -> _RefusedError:
        self.refusal = _RefusedError(status, words)
        return self.refusal


class Limits:
    """Outermost layer of the application."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer; it reads the body within the limits, if it wants one at all."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        admission = _Admission()
        scope["state"] = {**scope.get("state", {}), "admission": admission}
        body = _Body(scope, receive, admission)
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Content-Security-Policy", POLICY)
                if body.is_awaited:  # what comes next could be the body or another request
                    headers["Connection"] = "close"
                if message["status"] >= 400:
                    self._note(scope, message["status"])
            await send(message)

        async def unless_refused(message: Message) -> None:
            # Nothing of what the application makes of an error in the middle of a body.
            if started or (body.refusal is None and not body.is_cut_off):
                await answer(message)

        try:
            await self._app(scope, body.receive, unless_refused)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:  # the server stops, and this request has not ended in the time for that
            if started:
                raise
            words = {"error": "The server stops. Try again."}
            await JSONResponse(words, 503, headers={"Connection": "close", "Retry-After": "10"})(scope, receive, answer)
            return
        except Exception:
            if body.refusal is None or started:
                raise
        if body.refusal is not None and not started:
            await _refuse(body.refusal, scope, receive, answer)

    def _note(self, scope: Scope, status: int) -> None:
        self._metrics.refused.labels(str(status)).inc()
        client = scope.get("client")
        warn(
            _log,
            "refused with %d: %s %s from %s",
            status,
            scope["method"],
            printable(scope["path"])[:_MOST_LOGGED],
            client[0] if client else "?",
            kind=str(status),
        )


async def _refuse(refusal: _RefusedError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer before the body was read to its end.

    What still comes of it is thrown away for `HEADER_SECONDS`, so that the client gets to read the answer.
    """
    headers = {"Connection": "close"} if refusal.status == 408 else None
    await JSONResponse({"error": one_line(refusal.words)}, refusal.status, headers=headers)(scope, receive, send)


_connections: WeakKeyDictionary[Any, Connections] = WeakKeyDictionary()  # of servers with a listener of another kind


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, with limits that it does not have: on connections, and on the time that a peer takes to speak and to read.

    Args:
        connections: those of the server; its `Listener` counts them before they come here.
    """

    def __init__(self, *arguments: Any, connections: Connections | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if connections is None:
            connections = _connections.setdefault(self.server_state, Connections())
        self._all = connections
        self._connection: Connection | None = None
        self._header_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See the base class."""
        super().connection_made(transport)
        descriptor = transport.get_extra_info("socket").fileno()
        found = self._all.at(descriptor)
        if found is None or found.timer is None:
            found = self._all.enter(descriptor, self.client[0] if self.client else "?", cut=transport.abort)
        if found is None:
            transport.abort()
            return
        if found.timer is not None:  # the handshake is done
            found.timer.cancel()
        found.cut, found.stage = transport.abort, self._stage
        self._connection = found
        if found.ending:
            transport.abort()
            return
        transport.set_write_buffer_limits(high=1, low=0)  # we are told as soon as the peer does not take what is sent
        self._limit()

    def _stage(self) -> Stage:
        if (self.cycle is None or self.cycle.response_complete) and self._answer_timer is None:
            return Stage.WAITING
        admission = self.scope["state"].get("admission")
        return Stage.TRUSTED if admission is not None and admission.trusted else Stage.ASKING

    def data_received(self, data: bytes) -> None:
        """See the base class."""
        if self._header_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._limit()
        super().data_received(data)

    def handle_events(self) -> None:
        """See the base class; a request whose headers are complete has a cycle of its own."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._unlimit()

    def pause_writing(self) -> None:
        """See the base class; the peer does not read, or not as fast as the answer is written."""
        super().pause_writing()
        if self._answer_timer is None:
            self._watch_reader(self.loop.time() + ANSWER_SECONDS)

    def resume_writing(self) -> None:
        """See the base class; the peer has read everything."""
        self._taken()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """See the base class."""
        warn(_log, "refused what is no HTTP from %s", self.client[0] if self.client else "?")
        super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        """See the base class."""
        self._unlimit()
        self._taken()
        if self._connection is not None:
            self._all.leave(self._connection)
        super().connection_lost(exc)

    def _limit(self) -> None:
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def _unlimit(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _taken(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _too_slow(self) -> None:
        self._header_timer = None
        if not self.transport.is_closing():
            warn(_log, "closed a connection without a complete request after %g s", HEADER_SECONDS)
            self.transport.close()

    def _watch_reader(self, until: float) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._answer_timer = self.loop.call_later(
            min(STALL_SECONDS, max(0.0, until - self.loop.time())), self._look_at_reader, until, waiting
        )

    def _look_at_reader(self, until: float, before: int) -> None:
        if self.loop.time() < until and self.transport.get_write_buffer_size() < before:
            self._watch_reader(until)
            return
        self._answer_timer = None
        warn(_log, "closed a connection that did not take its answer in time")
        self.transport.abort()
