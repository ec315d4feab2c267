"""HTTP endpoints of a runtime: public metrics, and the admin API with a bearer token.

GET /metrics; with `Authorization: Bearer TOKEN`: GET /status, /assignment, /queues; POST /drain, /resume, /replay. JSON in and out.
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from prometheus_client.exposition import choose_encoder
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from workbench.humanize import message
from workbench.limited_reads import first_problem
from workbench.runtime import admin_answers
from workbench.runtime.ranges_to_process import RangeTable, checked_ranges

if TYPE_CHECKING:
    from workbench.runtime.admin_answers import Running

# The ranges of a plan: 4 MiB are about 100,000 of them. Only a client with the token can send as much.
_MAX_BODY_BYTES = 4 << 20
_DISCARD_BYTES = 64 * 1024
_REQUEST_SECONDS = 10.0  # a client that stalls must not keep a thread


class ReplayOrder(BaseModel):
    """Body of POST /replay."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid")

    group: str = Field(min_length=1)
    since: AwareDatetime
    max_bytes_per_second: int | None = Field(default=None, ge=1000)
    ranges: dict[str, dict[int, list[tuple[int, int]]]] | None = None

    @field_validator("ranges")
    @classmethod
    def _in_order(cls, value: RangeTable | None) -> RangeTable | None:
        if value is not None:
            checked_ranges(value)
        return value


class _Refused(Exception):  # noqa: N818 - an answer, not an error
    def __init__(self, code: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.code = code


class HttpServer:
    """HTTP server of one runtime.

    Raises:
        OSError: if the address cannot be used.
    """

    def __init__(self, runtime: Running, address: str, port: int, *, token: str | None) -> None:
        handler = type("_BoundHandler", (_Handler,), {"runtime": runtime, "token": token})
        self._server = _Server((address, port), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="http", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a stalled client must not delay the stop

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect during an answer."""


class _Handler(BaseHTTPRequestHandler):
    runtime: Running
    token: str | None
    timeout = _REQUEST_SECONDS
    protocol_version = "HTTP/1.1"
    server_version = "workbench"
    sys_version = ""

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress access logs on standard error."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer errors of the base class in the same format as all others, without echoing the request."""
        del message, explain
        status_code = HTTPStatus(code)
        self._send(status_code, json.dumps({"error": status_code.phrase}).encode() + b"\n", "application/json")

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in ("/metrics", "/"):
            self._metrics()
            return
        views: dict[str, Callable[[Running], Any]] = {
            "/status": admin_answers.status,
            "/assignment": admin_answers.assignment,
            "/queues": admin_answers.queues,
        }
        self._answer(lambda: (HTTPStatus.OK, views[path](self.runtime)) if path in views else _unknown(path))

    def do_POST(self) -> None:
        orders = {"/drain": self._drain, "/resume": self._resume, "/replay": self._replay}
        path = self.path.partition("?")[0]
        self._answer(lambda: orders[path](self._body()) if path in orders else _unknown(path))

    def _metrics(self) -> None:
        try:
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        except (TypeError, ValueError):  # the library expects numbers for any version in the header
            encode, content_type = choose_encoder("")
        pages = [encode(registry) for registry in self.runtime.registries]
        end = b"# EOF\n"  # OpenMetrics requires it once, at the end
        body = b"".join(page.removesuffix(end) for page in pages) + (end if pages[0].endswith(end) else b"")
        self._send(HTTPStatus.OK, body, content_type)

    def _answer(self, make: Callable[[], tuple[HTTPStatus, Any]]) -> None:
        try:
            self._check_token()
            code, value = make()
        except _Refused as refusal:
            code, value = refusal.code, {"error": message(str(refusal))}
        self._send(code, json.dumps(value).encode() + b"\n", "application/json")

    def _send(self, code: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if code >= HTTPStatus.BAD_REQUEST:
            # The request's body may be unread; the next request would start in the middle of it.
            self.send_header("Connection", "close")
            self.close_connection = True
        if code == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def _check_token(self) -> None:
        if self.token is None:
            raise _Refused(HTTPStatus.FORBIDDEN, "the admin API is off: set admin_token")
        given = self.headers.get("Authorization", "")
        # Compare in constant time: the duration must not reveal how much of a guess was right.
        if not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            raise _Refused(HTTPStatus.UNAUTHORIZED, "a bearer token is required")

    def _body(self) -> Any:
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            raise _Refused(HTTPStatus.BAD_REQUEST, "Content-Length is not a number") from None
        if not 0 <= length <= _MAX_BODY_BYTES:
            left = min(length, 4 * _MAX_BODY_BYTES)
            while left > 0 and (read := self.rfile.read(min(left, _DISCARD_BYTES))):
                left -= len(read)  # a client that still sends would not see the answer
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body may have {_MAX_BODY_BYTES} bytes at most")
        try:
            return json.loads(self.rfile.read(length) or b"{}")
        except (ValueError, RecursionError):
            raise _Refused(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None

    # Commands

    def _drain(self, _body: Any) -> tuple[HTTPStatus, Any]:
        return self._accepted(self.runtime.drain())

    def _resume(self, _body: Any) -> tuple[HTTPStatus, Any]:
        return self._accepted(self.runtime.resume())

    def _replay(self, body: Any) -> tuple[HTTPStatus, Any]:
        try:
            order = ReplayOrder.model_validate(body)
        except ValidationError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, str(first_problem(error, whole="the body"))) from None
        since: datetime = order.since
        return self._accepted(self.runtime.switch_group(order.group, since, order.max_bytes_per_second, order.ranges))

    def _accepted(self, taken: bool) -> tuple[HTTPStatus, Any]:
        if not taken:
            raise _Refused(HTTPStatus.CONFLICT, f"not while the runtime is {self.runtime.state.value}")
        return HTTPStatus.ACCEPTED, {"state": self.runtime.state.value}


def _unknown(path: str) -> tuple[HTTPStatus, Any]:
    raise _Refused(HTTPStatus.NOT_FOUND, f"there is no {path[:100]}")
