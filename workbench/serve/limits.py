"""Limits on requests: size and duration of a body, duration of the headers, security headers of every answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from workbench.humanize import one_line, printable
from workbench.serve.metrics import Metrics

MAX_BODY_BYTES = 4 << 20  # as for alerts in a file
BODY_SECONDS = 10.0
HEADER_SECONDS = 10.0
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


class Limits:
    """Outermost layer of the application."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body within its limits, then let the application answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Content-Security-Policy", POLICY)
                if message["status"] >= 400:
                    self._note(scope, message["status"])
            await send(message)

        try:
            body = await asyncio.wait_for(self._body(scope, receive), BODY_SECONDS)
        except TimeoutError:
            await _refuse(408, "The body took too long.", scope, receive, answer)
            return
        if body is None:
            words = f"The body may have {MAX_BODY_BYTES:,} bytes at most."
            await _refuse(413, words, scope, receive, answer)
            return
        given = False

        async def whole() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, whole, answer)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body; None if it is too large."""
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value) > MAX_BODY_BYTES):
                return None
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return bytes(body)
            body += message.get("body", b"")
            if len(body) > MAX_BODY_BYTES:
                return None
            if not message.get("more_body", False):
                return bytes(body)

    def _note(self, scope: Scope, status: int) -> None:
        self._metrics.refused.labels(str(status)).inc()
        client = scope.get("client")
        _log.warning(
            "refused with %d: %s %s from %s",
            status,
            scope["method"],
            printable(scope["path"]),
            client[0] if client else "?",
        )


async def _refuse(status: int, words: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer before the body was read to its end, so the connection cannot go on."""
    await JSONResponse({"error": one_line(words)}, status, headers={"Connection": "close"})(scope, receive, send)


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, with a time limit for the headers of a request: it has none of its own."""

    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See the base class."""
        super().connection_made(transport)
        self._limit()

    def data_received(self, data: bytes) -> None:
        """See the base class."""
        if self._header_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._limit()
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._unlimit()

    def connection_lost(self, exc: Exception | None) -> None:
        """See the base class."""
        self._unlimit()
        super().connection_lost(exc)

    def _limit(self) -> None:
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def _unlimit(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _too_slow(self) -> None:
        self._header_timer = None
        if not self.transport.is_closing():
            _log.warning("closed a connection without a complete request after %g s", HEADER_SECONDS)
            self.transport.close()
