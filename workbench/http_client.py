"""HTTP client of this project: it sends only what is configured, and reads nothing without a limit.

Redirects to another origin are refused, because a token in a header would go with them. `~/.netrc` is not read. Proxies come from the
environment (including `NO_PROXY`), but never for this computer itself. An answer has a deadline in total (the timeout of requests is
per read, and a slow trickle never reaches it), and a size limit after decompression.
"""

from __future__ import annotations

import io
import os
import re
import socket
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import requests
from requests.utils import get_environ_proxies
from urllib3 import HTTPConnectionPool, HTTPResponse, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ReadTimeoutError

from workbench.local_server_request import is_here

# Hours of a fleet's samples are hundreds of MB of JSON; no valid answer is larger than this.
MAX_ANSWER_BYTES = 1 << 30
_READ_BYTES = 1 << 18
# Metrics compress by a factor of 10 to 30. A larger factor is an attack or an error.
_MOST_GROWTH = 100
_GROWTH_FROM_BYTES = 16 << 20
_MOST_REDIRECTS = 5
_PORTS = {"http": 80, "https": 443}
_ENCODINGS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class RedirectRefusedError(requests.RequestException):
    """The server redirects to another origin, which must not receive this request."""


class AnswerTooLargeError(requests.RequestException, ValueError):
    """An answer above its size limit."""


class WebSession(requests.Session):
    """HTTP session with the rules of this module.

    Args:
        deadline_seconds: for a complete answer; a request's `timeout` overrides it.
        max_bytes: size limit of an answer after decompression.
        headers: sent with every request.
        by_proxy: whether the environment's proxies may be used.
    """

    def __init__(
        self,
        *,
        deadline_seconds: float,
        max_bytes: int = MAX_ANSWER_BYTES,
        headers: Mapping[str, str] | None = None,
        by_proxy: bool = True,
    ) -> None:
        super().__init__()
        self.trust_env = False  # otherwise ~/.netrc would override the configured token
        self.headers["Accept-Encoding"] = "gzip"  # encodings that `read_body` can limit
        self.headers.update(headers or {})
        self._deadline_seconds, self._max_bytes, self._by_proxy = deadline_seconds, max_bytes, by_proxy

    def mount(self, prefix: str | bytes, adapter: Any) -> None:
        """See `requests.Session.mount`; connections of any adapter respect the deadline."""
        super().mount(prefix, adapter)
        if isinstance(adapter, requests.adapters.HTTPAdapter):
            adapter.poolmanager.pool_classes_by_scheme = _POOLS

    def request(self, method: str | bytes, url: str | bytes, *args: Any, **kwargs: Any) -> requests.Response:
        """See `requests.Session.request`; the body is complete when this returns, unless `stream` is set.

        Raises:
            RedirectRefusedError: if the server redirects to another origin.
            AnswerTooLargeError: if the answer is above its size limit.
            requests.Timeout: if it is not complete in time.
            requests.RequestException: for all other errors.
        """
        timeout = kwargs.setdefault("timeout", self._deadline_seconds)
        deadline = time.monotonic() + (timeout if isinstance(timeout, int | float) else self._deadline_seconds)
        streamed = kwargs.pop("stream", False)
        follow = kwargs.pop("allow_redirects", True)
        text = url.decode() if isinstance(url, bytes) else url
        kwargs.setdefault("proxies", self._proxies(text))
        kwargs["verify"] = _authorities(kwargs.get("verify"), self.verify)
        if kwargs.get("auth") is None and self._has_authorization(kwargs.get("headers")):
            kwargs["auth"] = _as_it_is  # a password in the URL must not replace it
        for _ in range(_MOST_REDIRECTS + 1):
            asked = {**kwargs, "stream": True, "allow_redirects": False}
            with _until(deadline):
                response = super().request(method, text, *args, **asked)
            target = self._target(response) if follow else None
            if target is None:
                break
            response.close()
            text, kwargs["params"] = target, None
        else:
            raise requests.TooManyRedirects(f"more than {_MOST_REDIRECTS} redirects", response=response)
        if not streamed:
            response._content = read_body(response, deadline=deadline, max_bytes=self._max_bytes)
        return response

    def _target(self, response: requests.Response) -> str | None:
        """Target of a redirect; None for an answer."""
        place = response.headers.get("Location")
        if not place or response.status_code not in (301, 302, 303, 307, 308):
            return None
        if response.request.method not in ("GET", "HEAD") and response.status_code not in (307, 308):
            return None  # a browser would continue with GET, which is another request
        target = urljoin(response.url, place)
        if _origin(urlsplit(target)) != _origin(urlsplit(response.url)):
            response.close()
            raise RedirectRefusedError("it redirects to another address", response=response)
        return target

    def _proxies(self, url: str) -> dict[str, str]:
        if not self._by_proxy or is_here(urlsplit(url).hostname or ""):
            return {}
        return dict(get_environ_proxies(url))

    def _has_authorization(self, headers: Mapping[str, str] | None) -> bool:
        return any(name.lower() == "authorization" for name in (*self.headers, *(headers or {})))


def read_body(response: requests.Response, *, deadline: float, max_bytes: int = MAX_ANSWER_BYTES) -> bytes:
    """Read the body of a streamed answer.

    Args:
        response: made with `stream=True`.
        deadline: in monotonic time.
        max_bytes: size limit after decompression, checked during the transfer.

    Raises:
        requests.Timeout: if it is not complete by the deadline.
        AnswerTooLargeError: if it is too large.
        requests.RequestException: if it is truncated or damaged, or has an encoding that was not requested.
    """
    body, received = io.BytesIO(), 0  # hands over what it holds without a copy
    unpack = _Unpacker(response)
    try:
        while chunk := response.raw.read1(_READ_BYTES, decode_content=False):
            received += len(chunk)
            for piece in unpack(chunk):
                body.write(piece)
                if body.tell() > max_bytes:
                    raise AnswerTooLargeError(f"an answer of over {max(1, max_bytes >> 20)} MB")
                if body.tell() > max(_GROWTH_FROM_BYTES, _MOST_GROWTH * received):
                    raise AnswerTooLargeError(f"an answer that decompresses to more than {_MOST_GROWTH} times its size")
                if time.monotonic() > deadline:
                    raise requests.Timeout("no complete answer in time")
        unpack.end()
    except ReadTimeoutError:
        response.close()
        raise requests.Timeout("no complete answer in time") from None
    except HTTPError as error:
        response.close()
        raise requests.ConnectionError(f"the answer breaks off ({type(error).__name__})") from None
    except BaseException:
        response.close()
        raise
    response.raw.release_conn()
    return body.getvalue()


# Deadline for the headers of this thread's answer. Otherwise a server could send single headers forever.
_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def _until(deadline: float) -> Iterator[None]:
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


class _Bounded(HTTPConnection):
    """Connection that is closed if the headers of an answer are not complete by the deadline."""

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        """See the base class.

        Raises:
            TimeoutError: if it was closed; truncated headers would look complete.
        """
        deadline, sock = _deadline.get(), self.sock
        if deadline is None or sock is None:
            return super().getresponse()
        late = threading.Event()

        def cut() -> None:
            late.set()
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(max(0.0, deadline - time.monotonic()), cut)
        timer.daemon = True
        timer.start()
        try:
            answer = super().getresponse()
        except Exception:
            if late.is_set():
                raise TimeoutError("no answer in time") from None
            raise
        finally:
            timer.cancel()
        if late.is_set():
            raise TimeoutError("no answer in time")
        return answer


class _BoundedSecure(_Bounded, HTTPSConnection):
    """The same with TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Bounded


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _BoundedSecure


_POOLS = {"http": _Pool, "https": _SecurePool}


class _Unpacker:
    """Decompression in small pieces, so a small chunk cannot become a large one before its size is checked."""

    def __init__(self, response: requests.Response) -> None:
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
        if encoding != "identity" and encoding not in _ENCODINGS:
            raise requests.exceptions.ContentDecodingError("an answer in an encoding that was not requested")
        self._bits = _ENCODINGS.get(encoding)
        self._zlib = zlib.decompressobj(self._bits) if self._bits is not None else None
        self._begun = False

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        if self._zlib is None or self._bits is None:
            yield chunk
            return
        try:
            while chunk:
                self._begun = True
                piece = self._zlib.decompress(chunk, _READ_BYTES)
                yield piece
                chunk = self._zlib.unconsumed_tail
                if self._zlib.eof and (chunk := self._zlib.unused_data):  # another gzip member
                    self._zlib = zlib.decompressobj(self._bits)
        except zlib.error:
            raise requests.exceptions.ContentDecodingError("an answer with damaged compression") from None

    def end(self) -> None:
        """Finish the stream.

        Raises:
            requests.RequestException: if the compressed stream is truncated.
        """
        if self._zlib is not None and self._begun and not self._zlib.eof:
            raise requests.exceptions.ContentDecodingError("a truncated answer")


_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_NOT_TRUSTED = "certificate verify failed"

# Texts of the operating system and of OpenSSL, found anywhere in an error that libraries have wrapped, and what they mean.
_CAUSES = {
    "Connection refused": "connection refused",
    "Name or service not known": "name or service not known",
    "No address associated with hostname": "name or service not known",
    "Temporary failure in name resolution": "temporary failure in name resolution",
    "certificate verify failed": _NOT_TRUSTED,
    "WRONG_VERSION_NUMBER": "no TLS there (http instead of https?)",
    "No route": "no route",
    "Network is unreachable": "network is unreachable",
    "Connection reset": "connection reset",
    "Remote end closed connection": "connection closed without an answer",
    "timed out": "no answer in time",
    "the answer breaks off": "the answer breaks off",
}
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def cause(error: BaseException) -> str:
    """The innermost cause of a failed request in words, without URLs: a URL may contain a password."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"it answers with status {response.status_code}"
    if isinstance(error, requests.Timeout | TimeoutError | ReadTimeoutError):
        return "no answer in time"
    text = str(error)
    known = next((words for mark, words in _CAUSES.items() if mark in text), None)
    return known or _CAPITAL.sub(" ", type(error).__name__).lower().removesuffix(" error")


def trust_hint(error: BaseException) -> str | None:
    """What to do about a certificate that is not trusted; None for another error."""
    return (
        "Trust its authority, a file in PEM: export SSL_CERT_FILE=/path/ca.pem"
        if cause(error) == _NOT_TRUSTED
        else None
    )


def _origin(parts: SplitResult) -> tuple[str, str, int | None]:
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)


def _authorities(asked: Any, own: Any) -> Any:
    """Certificates to trust: as requested, or else the environment's bundle, as in requests, and then as Python itself."""
    chosen = own if asked is None else asked
    return next(filter(None, map(os.environ.get, _BUNDLES)), True) if chosen is True else chosen


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request
