"""Kafka's protocol for the few requests that librdkafka does not have: encoding, frames, and a blocking connection with a deadline.

Only flexible versions (compact lengths, tagged fields) are encoded; they have existed since Kafka 2.4. An answer is untrusted: every
length is checked against what was received, what is built of it against a budget, and anything else than the expected form is a
`WireError`.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

_MOST_BYTES = 256 << 20  # of one answer: a broker with a million groups sends a quarter of it
_MOST_EARLY_BYTES = 64 << 10  # before and during the login: a broker has some hundred requests, of 6 bytes each
# Items that may be built of one answer, of some 100 bytes each: names, numbers and structs. A byte is an item at most; only partitions
# of Streams tasks are more than was sent. A broker with a million groups sends a few million.
_MOST_ITEMS = 10_000_000
_ITEMS_PER_BYTE, _ITEMS_OF_ANY = 4, 100_000
_READ_BYTES = 1 << 16
SILENCE_SECONDS = 3.0  # a broker that sends nothing for so long is given up; others may answer
_CLIENT_ID = "workbench"

_API_VERSIONS = 18

Address = tuple[str, int]  # host and port


class WireError(ValueError):
    """The broker's answer does not have the expected form, it refuses, or it lacks a request."""


class Api(NamedTuple):
    """A request that this module can encode, in the versions from `lowest` to `highest`."""

    name: str
    key: int
    lowest: int
    highest: int


def text(value: str | None) -> bytes:
    """A compact string; None is null."""
    if value is None:
        return b"\x00"
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        raise WireError(f"the name {value!r} is not UTF-8") from None
    return _uvarint(len(encoded) + 1) + encoded


def array(items: Iterable[bytes]) -> bytes:
    """A compact array of encoded items."""
    encoded = list(items)
    return _uvarint(len(encoded) + 1) + b"".join(encoded)


def old_text(value: str) -> bytes:
    """A string of the versions that are not flexible."""
    encoded = value.encode(errors="replace")
    return struct.pack(">h", len(encoded)) + encoded


def c_text(raw: bytes) -> str:
    """A string of others; what is not UTF-8 is replaced.

    It ends at a zero byte: confluent-kafka (2.16) sends that of a C string as a part of a commit's metadata.
    """
    return raw.partition(b"\0")[0].decode(errors="replace")


def topics_array(partitions: Iterable[tuple[str, int]], one: Callable[[int], bytes]) -> bytes:
    """A compact array of topics, each with an array of its partitions."""
    by_topic: dict[str, list[bytes]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(one(number))
    return array(text(topic) + array(items) + b"\x00" for topic, items in by_topic.items())


def old_array(items: Iterable[bytes]) -> bytes:
    """An array of the versions that are not flexible."""
    encoded = list(items)
    return struct.pack(">i", len(encoded)) + b"".join(encoded)


def _uvarint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


class WireAnswer:
    """Reads an answer from its beginning to its end; all reads raise `WireError` where the bytes do not suffice.

    What is built of it has a budget. Arrays pay for their items by themselves; who makes more of them than were read (each topic with
    each number, as in a Streams task) calls `pay` first.
    """

    __slots__ = ("_at", "_data", "_items_left")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._items_left = min(_MOST_ITEMS, _ITEMS_OF_ANY + _ITEMS_PER_BYTE * len(data))

    def pay(self, items: int) -> None:
        """Take items from the budget, before they are built."""
        self._items_left -= items
        if self._items_left < 0:
            raise WireError("the answer has more items than any broker's")

    def _number(self, form: str, size: int) -> int:
        at = self._at
        self._at = at + size
        try:
            return int(struct.unpack_from(form, self._data, at)[0])
        except struct.error:
            raise WireError("the answer ends too early") from None

    def int8(self) -> int:
        """One byte, signed."""
        return self._number(">b", 1)

    def int16(self) -> int:
        """Two bytes, signed."""
        return self._number(">h", 2)

    def int32(self) -> int:
        """Four bytes, signed."""
        return self._number(">i", 4)

    def int64(self) -> int:
        """Eight bytes, signed."""
        return self._number(">q", 8)

    def record(self, form: struct.Struct) -> tuple[Any, ...]:
        """Several fields of fixed length at once: a snapshot reads hundreds of thousands of them."""
        at = self._at
        self._at = at + form.size
        try:
            return form.unpack_from(self._data, at)
        except struct.error:
            raise WireError("the answer ends too early") from None

    def uvarint(self) -> int:
        """A number of variable length, up to 32 bits."""
        number = shift = 0
        while shift < 35:
            try:
                byte = self._data[self._at]
            except IndexError:
                raise WireError("the answer ends too early") from None
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
        raise WireError("a length has more than 32 bits")

    def raw(self, size: int) -> bytes:
        """So many bytes."""
        at = self._at
        if size < 0 or size > len(self._data) - at:
            raise WireError("a length is beyond the end of the answer")
        self._at = at + size
        return self._data[at : self._at]

    def maybe_text(self) -> str | None:
        """A compact string; None for null."""
        size = self.uvarint()
        if size == 0:
            return None
        try:
            return self.raw(size - 1).decode()
        except UnicodeDecodeError:
            raise WireError("a name is not UTF-8") from None

    def text(self) -> str:
        """A compact string; null is empty."""
        return self.maybe_text() or ""

    def text_bytes(self) -> bytes:
        """A compact string of others that may hold anything, as it is; null is empty."""
        return self.raw(max(0, self.uvarint() - 1))

    def skip_bytes(self) -> None:
        """Compact bytes that nobody needs."""
        size = self.uvarint()
        self.raw(max(0, size - 1))

    def array(self, item: Callable[[], T]) -> list[T]:
        """A compact array, read item by item; null is empty."""
        return self._items(self.uvarint() - 1, item)

    def old_array(self, item: Callable[[], T]) -> list[T]:
        """An array of the versions that are not flexible."""
        return self._items(self.int32(), item)

    def _items(self, size: int, item: Callable[[], T]) -> list[T]:
        if size > len(self._data) - self._at:  # an item has at least one byte
            raise WireError("a length is beyond the end of the answer")
        self.pay(max(0, size))
        return [item() for _ in range(size)]

    def old_text(self) -> str:
        """A string of the versions that are not flexible; null is empty."""
        size = self.int16()
        return self.raw(max(0, size)).decode(errors="replace")

    def old_bytes(self) -> bytes:
        """Bytes of the versions that are not flexible; null is empty."""
        return self.raw(max(0, self.int32()))

    def tags(self) -> None:
        """Skip the tagged fields that end a structure."""
        for _ in range(self.uvarint()):
            self.uvarint()
            self.raw(self.uvarint())


def addresses(bootstrap: str) -> list[Address]:
    """Host and port of each server of `bootstrap.servers`; the port is 9092 if none is given."""
    found = []
    for item in bootstrap.split(","):
        server = item.strip().rpartition("://")[2]
        host, colon, port = server.rpartition(":")
        if not colon or "]" in port or (":" in host and not host.endswith("]")):
            host, port = server, "9092"
        if server and port.isdigit():
            found.append((host.strip("[]"), int(port)))
    return found


@dataclass(slots=True)
class Wire:
    """A connection to one broker. Use it in `with`, by `wire_tls_and_login.logged_in`.

    Args:
        address: host and port.
        tls: None for a plain connection.
        deadline: monotonic; every read and write ends by then.
        silence: seconds; a broker that sends nothing for so long is given up.

    Raises (all methods):
        OSError: if the broker does not answer in time, or the network or TLS fails.
        WireError: if its answer cannot be understood.
    """

    address: Address
    tls: ssl.SSLContext | None
    deadline: float
    silence: float = SILENCE_SECONDS
    requests: int = 0
    versions: dict[int, tuple[int, int]] = field(default_factory=dict)
    _socket: socket.socket | None = None
    _count: itertools.count[int] = field(default_factory=itertools.count)

    def __enter__(self) -> Wire:
        """Connect, and ask which requests the broker has."""
        try:
            self._connect()
            self.versions = self._ask_versions()
        except UnicodeError:  # a broker may advertise any text
            self.__exit__()
            raise WireError("its host has no valid name") from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def _connect(self) -> None:
        """Connect to an address that may be anything: it is what a broker tells of another."""
        host, port = self.address
        if not 0 < port < 65_536:  # getaddrinfo takes the last 16 bits of it
            raise WireError(f"the port {port} is none")
        try:
            plain = socket.create_connection(self.address, timeout=self._left())
            self._socket = plain
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                plain.settimeout(self._left())
                self._socket = self.tls.wrap_socket(plain, server_hostname=host)
        except OSError:  # a certificate that is refused is a ValueError, too
            raise
        except ValueError:  # UnicodeError: an empty label, or one of more than 63 letters; ssl: a dot in front
            raise WireError(f"the name of the host {host[:80]!r} cannot be looked up") from None

    def __exit__(self, *_: object) -> None:
        """Close it."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()

    def has(self, api: Api) -> bool:
        """Whether the broker has a version of this request that can be sent."""
        lowest, highest = self.versions.get(api.key, (0, -1))
        return max(lowest, api.lowest) <= min(highest, api.highest)

    def version(self, api: Api) -> int:
        """The highest version of this request that both sides know."""
        if not self.has(api):
            raise WireError(f"this broker does not have the request {api.name}")
        return min(self.versions[api.key][1], api.highest)

    def ask(self, api: Api, body: Callable[[int], bytes]) -> tuple[int, WireAnswer]:
        """Send a request in the highest version that both sides know; return that version, and the answer.

        Args:
            api: which request.
            body: encodes it for a version, without the last tagged fields.
        """
        version = self.version(api)
        return version, next(self.ask_each(api, [body(version)]))

    def ask_each(self, api: Api, bodies: Iterable[bytes]) -> Iterator[WireAnswer]:
        """Send several requests of that version before the first answer is read; the answers, one by one.

        Args:
            api: which request.
            bodies: few and small ones, without the last tagged fields.
        """
        version = self.version(api)
        # Tagged fields: none in the header, none in the body.
        for number in [self._post(api.key, version, b"\x00" + body + b"\x00") for body in bodies]:
            answer = self._answer(number, _MOST_BYTES)
            answer.tags()
            yield answer

    def ask_old(self, key: int, version: int, body: bytes) -> WireAnswer:
        """Send a request in a version that is not flexible, such as those of the login; its answer is small."""
        return self._answer(self._post(key, version, body), _MOST_EARLY_BYTES)

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        answer = self.ask_old(_API_VERSIONS, 0, b"")
        if code := answer.int16():
            raise WireError(f"it refuses to tell its versions (error {code})")
        found = answer.old_array(lambda: (answer.int16(), answer.int16(), answer.int16()))
        return {key: (lowest, highest) for key, lowest, highest in found}

    def _post(self, key: int, version: int, body: bytes) -> int:
        number = next(self._count) & 0x7FFFFFFF
        name = _CLIENT_ID.encode()
        head = struct.pack(">hhih", key, version, number, len(name)) + name
        self.requests += 1
        self._open().sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        return number

    def _answer(self, number: int, most_bytes: int) -> WireAnswer:
        size = struct.unpack(">i", self._receive(4))[0]
        if not 4 <= size <= _MOST_BYTES:
            raise WireError("it does not speak Kafka's protocol here; is this a port for TLS?")
        if size > most_bytes:
            raise WireError(f"an answer of {size:,} bytes, which is more than any broker's")
        answer = WireAnswer(self._receive(size))
        if answer.int32() != number:
            raise WireError("it answered another request")
        return answer

    def _receive(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            part = self._open().recv(min(size - len(found), _READ_BYTES))
            if not part:
                raise ConnectionError("the broker closed the connection")
            found += part
        return bytes(found)

    def _open(self) -> socket.socket:
        """The socket, with the time that is left."""
        if self._socket is None:
            raise ConnectionError("not connected")
        self._socket.settimeout(self._left())
        return self._socket

    def _left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        return min(left, self.silence)
