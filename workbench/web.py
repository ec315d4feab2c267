"""The one way by which this project asks HTTP servers: nothing is sent that was not configured, nothing is read without a bound.

No redirect leaves the origin, since a token in any header would go with it. `~/.netrc` is not read: what the settings say is sent, and
nothing else. Proxies are those of the environment (`NO_PROXY` too), never for this computer itself. An answer has a deadline for the
whole of it (requests' own timeout is for each read, and a trickle never meets it), and a size that is counted after decompression.
"""

from __future__ import annotations

import ipaddress
import os
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

# A fleet's samples of hours are hundreds of MB of JSON; more than this is no answer to a question of ours.
MAX_ANSWER_BYTES = 1 << 30
_READ_BYTES = 1 << 18
# Metrics compress to a tenth or a thirtieth. What grows beyond is made to, or is broken.
_MOST_GROWTH = 100
_GROWTH_FROM_BYTES = 16 << 20
_MOST_REDIRECTS = 5
_PORTS = {"http": 80, "https": 443}
_ENCODINGS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class RedirectRefusedError(requests.RequestException):
    """The server sends us to another one, which must not get what was meant for this one."""


class AnswerTooLargeError(requests.RequestException, ValueError):
    """An answer beyond its bound."""


class WebSession(requests.Session):
    """A session under the rules of this module.

    Args:
        deadline_seconds: for a whole answer; a request's own `timeout` stands over it.
        max_bytes: the most that an answer may hold, decompressed.
        headers: sent with every request.
        by_proxy: whether the environment's proxies may be asked.
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
        self.trust_env = False  # else ~/.netrc would stand over the configured token
        self.headers["Accept-Encoding"] = "gzip"  # what `read_body` can bound
        self.headers.update(headers or {})
        self._deadline_seconds, self._max_bytes, self._by_proxy = deadline_seconds, max_bytes, by_proxy

    def mount(self, prefix: str | bytes, adapter: Any) -> None:
        """See `requests.Session.mount`; connections of any adapter know the deadline."""
        super().mount(prefix, adapter)
        if isinstance(adapter, requests.adapters.HTTPAdapter):
            adapter.poolmanager.pool_classes_by_scheme = _POOLS

    def request(self, method: str | bytes, url: str | bytes, *args: Any, **kwargs: Any) -> requests.Response:
        """See `requests.Session.request`; the body is read when this returns, unless `stream` is asked for.

        Raises:
            RedirectRefusedError: if the server points to another origin.
            TooLargeError: if the answer is over its bound.
            requests.Timeout: if it is not complete in time.
            requests.RequestException: for all other trouble.
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
        """Where to ask instead; None if this is the answer."""
        place = response.headers.get("Location")
        if not place or response.status_code not in (301, 302, 303, 307, 308):
            return None
        if response.request.method not in ("GET", "HEAD") and response.status_code not in (307, 308):
            return None  # a browser would ask with GET now, which is another question
        target = urljoin(response.url, place)
        if _origin(urlsplit(target)) != _origin(urlsplit(response.url)):
            response.close()
            raise RedirectRefusedError("it redirects to another address", response=response)
        return target

    def _proxies(self, url: str) -> dict[str, str]:
        if not self._by_proxy or _is_here(urlsplit(url).hostname or ""):
            return {}
        return dict(get_environ_proxies(url))

    def _has_authorization(self, headers: Mapping[str, str] | None) -> bool:
        return any(name.lower() == "authorization" for name in (*self.headers, *(headers or {})))


def read_body(response: requests.Response, *, deadline: float, max_bytes: int = MAX_ANSWER_BYTES) -> bytes:
    """The body of a streamed answer.

    Args:
        response: made with `stream=True`.
        deadline: in monotonic time.
        max_bytes: more than this, decompressed, is refused while it comes in.

    Raises:
        requests.Timeout: if it is not complete by the deadline.
        TooLargeError: if it is too long.
        requests.RequestException: if it breaks off, or is compressed in a way that was not asked for, or damaged.
    """
    body, received = bytearray(), 0
    unpack = _Unpacker(response)
    try:
        while chunk := response.raw.read1(_READ_BYTES, decode_content=False):
            received += len(chunk)
            for piece in unpack(chunk):
                body += piece
                if len(body) > max_bytes:
                    raise AnswerTooLargeError(f"an answer of over {max(1, max_bytes >> 20)} MB")
                if len(body) > max(_GROWTH_FROM_BYTES, _MOST_GROWTH * received):
                    raise AnswerTooLargeError(
                        f"an answer that grows to more than {_MOST_GROWTH} times of what was sent"
                    )
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
    return bytes(body)


# When the request of this thread must have its answer's head. A server may send a header now and then for ever.
_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def _until(deadline: float) -> Iterator[None]:
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


class _Bounded(HTTPConnection):
    """A connection that is cut when the head of an answer is not there by the deadline."""

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        """See the base class.

        Raises:
            TimeoutError: if it was cut; a head that ends early would pass for a whole one.
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
    """The same, by TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Bounded


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _BoundedSecure


_POOLS = {"http": _Pool, "https": _SecurePool}


class _Unpacker:
    """Decompression a piece at a time, so that a small chunk cannot become a large one before anybody has counted."""

    def __init__(self, response: requests.Response) -> None:
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
        if encoding != "identity" and encoding not in _ENCODINGS:
            raise requests.exceptions.ContentDecodingError("an answer in an encoding that was not asked for")
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
                if self._zlib.eof and (chunk := self._zlib.unused_data):  # a further member
                    self._zlib = zlib.decompressobj(self._bits)
        except zlib.error:
            raise requests.exceptions.ContentDecodingError("an answer whose compression is damaged") from None

    def end(self) -> None:
        """No more will come.

        Raises:
            requests.RequestException: if the compressed stream is cut off.
        """
        if self._zlib is not None and self._begun and not self._zlib.eof:
            raise requests.exceptions.ContentDecodingError("an answer that is cut off")


def _origin(parts: SplitResult) -> tuple[str, str, int | None]:
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)


def _authorities(asked: Any, own: Any) -> Any:
    """The certificates to trust: what is asked for, else the environment's bundle as requests itself would take it."""
    chosen = own if asked is None else asked
    return (
        os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True if chosen is True else chosen
    )


def _is_here(host: str) -> bool:
    """Whether a host is this computer: a proxy elsewhere cannot reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request
