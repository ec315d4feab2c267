"""Connections to brokers of a Pulsar, in its binary protocol: which broker has a topic, requests with their answers, and what comes
unasked. One thread for each connection reads; any thread may send.
"""

from __future__ import annotations

import itertools
import logging
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from urllib.parse import urlsplit

from workbench.errors import ConfigError, SourceUnreachableError
from workbench.humanize import printable
from workbench.pulsar.pulsar_wire import (
    CONSUMER_ID,
    PRODUCER_ID,
    REQUEST_ID,
    Command,
    CommandKind,
    Fields,
    PulsarWireError,
    field,
    frame,
)

_log = logging.getLogger(__name__)

_PROTOCOL = 19  # acknowledgements with an answer, answers with the mark-delete position; 4.0 has 21
_CLIENT = "Workbench"
_MOST_BYTES = 160 << 20  # of one frame; brokers take messages of 5 MB (maxMessageSize)
_READ_BYTES = 1 << 18
_SILENCE_SECONDS = 60.0  # a broker asks for a sign of life every 30 s
_PING_SECONDS = 20.0
_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}

# Receives what comes unasked for one consumer or producer, on the connection's thread; None: the connection has ended.
Listener = Callable[[Command | None], None]


class RefusedError(SourceUnreachableError):
    """The broker answers with an error.

    Attributes:
        code: of `ServerRefusal`, or another number.
        words: of the broker.
    """

    def __init__(self, code: int, words: str, *, what: str) -> None:
        super().__init__(f"The broker refuses {what}: {printable(words) or f'error {code}'}.")
        self.code, self.words = code, words


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarAccess:
    """Where a cluster is, and who asks.

    Attributes:
        urls: service URLs, `pulsar://host:port` or `pulsar+ssl://host:port`; the first that answers is asked.
        seconds: for each request.
    """

    urls: tuple[str, ...]
    token: str | None = None
    ca_file: str | None = None
    seconds: float = 10.0

    @classmethod
    def of(cls, service_url: str, *, token: str | None, ca_file: str | None, seconds: float = 10.0) -> PulsarAccess:
        """Access by a service URL, which may have several hosts.

        Raises:
            ConfigError: if it is none.
        """
        scheme, _, hosts = service_url.partition("://")
        urls = tuple(f"{scheme.lower()}://{host.strip()}" for host in hosts.split(",") if host.strip())
        for url in urls:
            service_address(url)
        if not urls:
            raise ConfigError(f"{service_url!r} is no service URL of a Pulsar.", hint="For example: pulsar://host:6650")
        return cls(urls=urls, token=token, ca_file=ca_file, seconds=seconds)

    def tls(self) -> ssl.SSLContext:
        """Trust in the configured authorities, or the system's.

        Raises:
            ConfigError: if their file cannot be read.
        """
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"{self.ca_file} cannot be read as certificate authorities: {error}.") from None


def service_address(url: str) -> tuple[str, str, int]:
    """Scheme, host and port.

    Raises:
        ConfigError: if it is no service URL.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        host, port = None, None
    if host is None or port is None or parts.scheme not in _PORTS:
        raise ConfigError("This is no service URL of a Pulsar, such as pulsar://host:6650.")
    return parts.scheme, host, port


class PulsarConnection:
    """One connection.

    Args:
        url: of the server that is connected to.
        broker: host and port of the broker behind it, if it is a proxy.

    Raises:
        SourceUnreachableError: if it does not answer, or refuses (`RefusedError`); all methods likewise.
    """

    def __init__(self, access: PulsarAccess, url: str, *, broker: str | None = None) -> None:
        self.url = url
        self.most_bytes = 5 << 20  # of a message; what brokers take that do not tell
        self._access = access
        self._lock = threading.Lock()
        self._requests = itertools.count(1)
        self._answers: dict[int, Future[Command]] = {}
        self._listeners: dict[tuple[bool, int], Listener] = {}
        self._ended: str | None = None
        self._heard = monotonic()
        self._rest = bytearray()
        try:
            self._socket = self._open()
            try:
                self._greet(broker)
            except BaseException:
                self._socket.close()
                raise
        except (OSError, UnicodeError) as error:
            raise self._unreachable(str(error)) from None
        except PulsarWireError as error:
            raise self._unreachable(f"it does not speak Pulsar's protocol here ({error})") from None
        self._socket.settimeout(_PING_SECONDS)
        self._thread = threading.Thread(target=self._run, name="pulsar", daemon=True)
        self._thread.start()

    def _open(self) -> socket.socket:
        scheme, host, port = service_address(self.url)
        plain = socket.create_connection((host, port), timeout=self._access.seconds)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if scheme == "pulsar":
                return plain
            return self._access.tls().wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise

    def _greet(self, broker: str | None) -> None:
        self._socket.sendall(
            frame(
                CommandKind.CONNECT,
                field(1, _CLIENT),
                *self._credentials(3, 5),
                field(4, _PROTOCOL),
                field(6, broker),
                field(10, field(1, 1) + field(5, 1)),
            )
        )
        while True:
            answer = self._receive()
            if answer.kind is CommandKind.ERROR:
                raise RefusedError(answer.body.number(2), answer.body.text(3), what="the connection")
            if answer.kind is CommandKind.CONNECTED:
                self.most_bytes = answer.body.number(3) or self.most_bytes
                return
            self._note(answer)

    def _credentials(self, data: int, name: int) -> tuple[bytes, ...]:
        token = self._access.token
        return (field(data, token), field(name, "token")) if token else ()

    def _unreachable(self, why: str) -> SourceUnreachableError:
        return SourceUnreachableError(f"The Pulsar at {self.url} cannot be reached: {why}.")

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self._ended is None

    # Sending

    def send(self, data: bytes) -> None:
        """Send a frame."""
        if self._ended is not None:
            raise self._unreachable(self._ended)
        try:
            with self._lock:
                self._socket.sendall(data)
        except OSError as error:
            self._end(str(error))
            raise self._unreachable(str(error)) from None

    def begin(self, kind: CommandKind, fields: Callable[[int], bytes]) -> Future[Command]:
        """Send a request; `fields` makes it for the request's number."""
        number, answer = next(self._requests), Future[Command]()
        self._answers[number] = answer
        try:
            self.send(frame(kind, fields(number)))
        except SourceUnreachableError:
            self._answers.pop(number, None)
            raise
        if self._ended is not None:  # since then: nobody else will tell
            self._fail_all(self._ended)
        return answer

    def ask(self, kind: CommandKind, fields: Callable[[int], bytes], *, what: str) -> Fields:
        """Send a request and wait for its answer."""
        answer = self.begin(kind, fields)
        try:
            return checked_answer(answer.result(self._access.seconds), what=what)
        except TimeoutError:
            raise self._unreachable(f"no answer within {self._access.seconds:g} s to {what}") from None

    def listen(self, number: int, listener: Listener, *, is_producer: bool = False) -> None:
        """Receive what comes for a consumer or a producer."""
        self._listeners[is_producer, number] = listener
        if self._ended is not None:
            listener(None)

    def forget(self, number: int, *, is_producer: bool = False) -> None:
        """Receive no more of it."""
        self._listeners.pop((is_producer, number), None)

    def close(self) -> None:
        """End it; nobody is told."""
        self._listeners.clear()
        self._end("closed")

    # Reading, on the connection's thread

    def _run(self) -> None:
        while self._ended is None:
            try:
                self._note(self._receive())
            except TimeoutError:
                if monotonic() - self._heard > _SILENCE_SECONDS:
                    self._end("it has sent nothing for a minute")
                else:
                    with suppress(SourceUnreachableError):
                        self.send(frame(CommandKind.PING))
            except SourceUnreachableError:
                return  # of an answer: it has ended
            except (OSError, ValueError) as error:  # ValueError: a frame that is none, or the socket is closed
                self._end(str(error) or type(error).__name__)
            except Exception as error:
                _log.exception("a connection to a Pulsar ends")
                self._end(type(error).__name__)

    def _receive(self) -> Command:
        """The next frame.

        Raises:
            TimeoutError: if nothing comes; what came so far is kept.
        """
        while True:
            if len(self._rest) >= 4:
                size = struct.unpack_from(">I", self._rest)[0]
                if size > _MOST_BYTES:
                    raise PulsarWireError("a frame is too large")
                if len(self._rest) >= 4 + size:
                    data = bytes(memoryview(self._rest)[4 : 4 + size])
                    del self._rest[: 4 + size]
                    return Command.parse(data)
            if (part := self._part()) is None:
                continue
            if not part:
                raise ConnectionError("the broker closed the connection")
            self._heard = monotonic()
            self._rest += part

    def _part(self) -> bytes | None:
        """What has come; empty at the end. With TLS nobody may write meanwhile, so it is not waited for inside of it."""
        tls = self._socket
        if not isinstance(tls, ssl.SSLSocket):
            return tls.recv(_READ_BYTES)
        seconds = tls.gettimeout() or _PING_SECONDS
        if not tls.pending() and not self._is_readable(seconds):
            raise TimeoutError
        with self._lock:
            tls.settimeout(0)
            try:
                return tls.recv(_READ_BYTES)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return None
            finally:
                tls.settimeout(seconds)

    def _is_readable(self, seconds: float) -> bool:
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(seconds * 1000))

    def _note(self, command: Command) -> None:
        kind, body = command.kind, command.body
        if kind is None:
            return
        if kind is CommandKind.PING:
            self.send(frame(CommandKind.PONG))
        elif kind is CommandKind.AUTH_CHALLENGE:
            self.send(
                frame(
                    CommandKind.AUTH_RESPONSE,
                    field(1, _CLIENT),
                    field(2, b"".join(self._credentials(2, 1))),
                    field(3, _PROTOCOL),
                )
            )
        elif kind in REQUEST_ID:
            answer = self._answers.pop(body.number(REQUEST_ID[kind]), None)
            if answer is not None and answer.set_running_or_notify_cancel():
                answer.set_result(command)
        elif kind in CONSUMER_ID or kind in PRODUCER_ID:
            is_producer = kind in PRODUCER_ID
            listener = self._listeners.get((is_producer, body.number(1)))
            if listener is not None:
                listener(command)

    def _end(self, why: str) -> None:
        with self._lock:
            if self._ended is not None:
                return
            self._ended = why
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._fail_all(why)
        listeners, self._listeners = list(self._listeners.values()), {}
        for listener in listeners:
            listener(None)

    def _fail_all(self, why: str) -> None:
        for number in list(self._answers):
            answer = self._answers.pop(number, None)
            if answer is not None and answer.set_running_or_notify_cancel():
                answer.set_exception(self._unreachable(why))


def checked_answer(answer: Command, *, what: str) -> Fields:
    """Fields of an answer.

    Raises:
        RefusedError: if it is an error.
    """
    errors = {CommandKind.ERROR: (2, 3), CommandKind.ACK_RESPONSE: (4, 5)}
    answered = {CommandKind.PARTITIONED_METADATA_RESPONSE: (3, 1, 4, 5), CommandKind.LOOKUP_RESPONSE: (3, 2, 6, 7)}
    body = answer.body
    if answer.kind in answered:
        state, failed, code, words = answered[answer.kind]
        if body.number(state) == failed:
            raise RefusedError(body.number(code), body.text(words), what=what)
    elif answer.kind in errors and (answer.kind is CommandKind.ERROR or 4 in body.found):
        code, words = errors[answer.kind]
        raise RefusedError(body.number(code), body.text(words), what=what)
    return body
