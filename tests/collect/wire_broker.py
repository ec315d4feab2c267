"""A broker of a few requests on a loopback port: versions, login, brokers, groups. It misbehaves on request."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from workbench.kafka.wire import WireAnswer, array, text

VERSIONS = {
    3: (0, 13), 9: (1, 10), 10: (0, 6), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 4), 36: (0, 2), 77: (1, 1), 89: (0, 0),
    90: (0, 1),
}  # fmt: skip


def old(value: str) -> bytes:
    """A string of the versions that are not flexible."""
    return struct.pack(">h", len(value)) + value.encode()


def int16(*numbers: int) -> bytes:
    """Numbers of two bytes."""
    return struct.pack(f">{len(numbers)}h", *numbers)


def int32(*numbers: int) -> bytes:
    """Numbers of four bytes."""
    return struct.pack(f">{len(numbers)}i", *numbers)


def int64(*numbers: int) -> bytes:
    """Numbers of eight bytes."""
    return struct.pack(f">{len(numbers)}q", *numbers)


def listing(groups: Mapping[str, tuple[str, str, str]], *, code: int = 0) -> bytes:
    """An answer to ListGroups 5: group to (protocol type, state, type)."""
    items = [b"".join(map(text, (name, *of))) + b"\0" for name, of in groups.items()]
    return int32(0) + int16(code) + array(items) + b"\0"


def shares(name: str, members: Mapping[str, tuple[str, tuple[int, ...]]], *, code: int = 0) -> bytes:
    """An answer to ShareGroupDescribe 1: a group whose members read partitions of one topic."""

    def member(client: str, topic: str, parts: tuple[int, ...]) -> bytes:
        assigned = array([bytes(16) + text(topic) + array(int32(part) for part in parts) + b"\0"]) + b"\0"
        head = text(f"{client}-id") + text(None) + int32(1) + text(client) + text("/127.0.0.1")
        return head + array([text(topic)]) + assigned + b"\0"

    people = array(member(client, topic, parts) for client, (topic, parts) in members.items())
    group = int16(code) + text(None) + text(name) + text("Stable") + int32(3, 3) + text("simple") + people
    return int32(0) + array([group + int32(-(2**31)) + b"\0"]) + b"\0"


def share_offsets(name: str, topic: str, parts: Mapping[int, tuple[int, int]], *, code: int = 0) -> bytes:
    """An answer to DescribeShareGroupOffsets 1: partition to (start, lag)."""
    lines = array(
        int32(number) + int64(start) + int32(0) + int64(lag) + int16(0) + text(None) + b"\0"
        for number, (start, lag) in parts.items()
    )
    topics = array([text(topic) + bytes(16) + lines + b"\0"])
    return int32(0) + array([text(name) + topics + int16(code) + text(None) + b"\0"]) + b"\0"


def classic(name: str, protocol_type: str, clients: tuple[str, ...]) -> bytes:
    """An answer to DescribeGroups 5."""
    people = array(
        text(f"{it}-id") + text(None) + text(it) + text("/h") + text("meta") + text("data") + b"\0" for it in clients
    )
    group = int16(0) + text(name) + text("Stable") + text(protocol_type) + text("sessioned") + people
    return int32(0) + array([group + int32(-(2**31)) + b"\0"]) + b"\0"


def streams(name: str, client: str, topic: str, now: tuple[int, ...], target: tuple[int, ...]) -> bytes:
    """An answer to StreamsGroupDescribe 0: one member, one part of a topology with a repartition topic."""
    info = text(f"{name}-repartition") + int32(2) + int16(1) + array([text("a") + text("b") + b"\0"]) + b"\0"
    part = text("0") + array([text(topic)]) + array([]) + array([info]) + array([info]) + b"\0"
    topology = b"\x01" + int32(1) + array([part]) + b"\0"

    def tasks(numbers: tuple[int, ...]) -> bytes:
        active = array([text("0") + array(int32(it) for it in numbers) + b"\0"])
        return active + array([]) + array([text("0") + array([int32(9)]) + b"\0"]) + b"\0"

    endpoint = b"\x01" + text("host") + int16(80) + b"\0"
    offset = text("0") + int32(0) + int64(5) + b"\0"
    member = text(f"{client}-id") + int32(1) + text(None) + text(None) + text(client) + text("/h") + int32(1)
    member += text("process") + endpoint + array([]) + array([offset]) + array([offset]) + tasks(now) + tasks(target)
    member += b"\0" + b"\0"
    group = int16(0) + text(None) + text(name) + text("Reconciling") + int32(4, 4) + topology + array([member])
    return int32(0) + array([group + int32(-(2**31)) + b"\0"]) + b"\0"


def coordinators(groups: Mapping[str, tuple[int, str, int] | int]) -> bytes:
    """An answer to FindCoordinator 4: group to (broker, host, port), or to an error."""
    return int32(0) + array(
        text(name) + int32(-1) + text("") + int32(-1) + int16(of) + text("no") + b"\0"
        if isinstance(of, int)
        else text(name) + int32(of[0]) + text(of[1]) + int32(of[2]) + int16(0) + text(None) + b"\0"
        for name, of in groups.items()
    )


def commits(
    groups: Mapping[str, Mapping[tuple[str, int], int] | int], *, errors: Mapping[int, int] | None = None
) -> bytes:
    """An answer to OffsetFetch 8: group to (topic, partition) to offset, or to an error; `errors` are those of partitions."""

    def part(number: int, offset: int) -> bytes:
        return int32(number) + int64(offset) + int32(3) + text("note") + int16((errors or {}).get(number, 0)) + b"\0"

    def group(name: str, of: Mapping[tuple[str, int], int] | int) -> bytes:
        known = {} if isinstance(of, int) else of
        topics = array(
            text(topic) + array(part(number, at) for (which, number), at in known.items() if which == topic) + b"\0"
            for topic in dict.fromkeys(topic for topic, _ in known)
        )
        return text(name) + topics + int16(of if isinstance(of, int) else 0) + b"\0"

    return int32(0) + array(group(*item) for item in groups.items()) + b"\0"


def texts(body: bytes, at: int) -> list[str]:
    """Groups that a request asks for, from the compact array of names at some place of it."""
    answer = WireAnswer(body[at:])
    return answer.array(answer.text)


Coordinated = tuple[int, Sequence[int], Sequence[int]]


@dataclass
class WireBroker:
    """Serves connections until it is closed.

    Attributes:
        answers: request key to the body of its answer (flexible requests), or to what makes it from the request's body.
        users: names with their passwords; without any there is no login.
        lies: the proof of the server is wrong; a text: its last message.
        hangs: it accepts connections, and says nothing.
        brokers: of the cluster; None: this one.
        operations: that the client may do on the cluster, a bit for each; 8 is DESCRIBE.
        coordination: partitions of the topic of the groups' commits, each with leader, replicas and those in sync; or an error. What
            it gives changes with each call of it.
    """

    answers: dict[int, bytes | Callable[[bytes], bytes]] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    lies: bool | str = False
    hangs: bool = False
    brokers: list[tuple[int, str, int]] | None = None
    operations: int = 1 << 8
    coordination: Callable[[], Sequence[Coordinated] | int] = lambda: [(1, [1], [1])]
    versions: dict[int, tuple[int, int]] = field(default_factory=lambda: dict(VERSIONS))
    asked: list[tuple[int, int, bytes]] = field(default_factory=list)

    def __enter__(self) -> WireBroker:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)  # a thread that waits for a connection would take one more
        self._server.close()

    @property
    def address(self) -> str:
        """For `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, struct.error), connection:
            if self.hangs:
                threading.Event().wait(60)
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            login = _Login(self)
            while True:
                size = struct.unpack(">i", self._read(connection, 4))[0]
                data = self._read(connection, size)
                key, version, number, name = struct.unpack_from(">hhih", data)
                body = data[10 + name :]
                answer = self._answer(key, version, body, login)
                connection.sendall(struct.pack(">i", 4 + len(answer)) + int32(number) + answer)

    def _read(self, connection: socket.socket, size: int) -> bytes:
        found = b""
        while len(found) < size:
            if not (part := connection.recv(size - len(found))):
                raise OSError("gone")
            found += part
        return found

    def _answer(self, key: int, version: int, body: bytes, login: _Login) -> bytes:
        self.asked.append((key, version, body))
        if key == 18:
            rows = b"".join(int16(key, *of) for key, of in self.versions.items())
            return int16(0) + int32(len(self.versions)) + rows
        if key == 17:
            return login.handshake(body)
        if key == 36:
            return login.step(body)
        if self.users and not login.done:
            raise OSError("not logged in")
        if key == 3:
            known = self.brokers if self.brokers is not None else [(1, "127.0.0.1", self.port)]
            rows = array(int32(it) + text(host) + int32(port) + text(None) + b"\0" for it, host, port in known)
            topics = array([self._topic()] if body[1] > 1 else [])
            return b"\0" + int32(0) + rows + text("id") + int32(1) + topics + int32(self.operations) + b"\0"
        said = self.answers[key]
        return b"\0" + (said if isinstance(said, bytes) else said(body))

    def _topic(self) -> bytes:
        told = self.coordination()
        parts = [] if isinstance(told, int) else told

        def part(number: int, leader: int, replicas: Sequence[int], in_sync: Sequence[int]) -> bytes:
            return int16(0) + int32(number, leader, 7) + array(map(int32, replicas)) + array(map(int32, in_sync))

        rows = array(part(number, *it) + array([]) + b"\0" for number, it in enumerate(parts))
        code = told if isinstance(told, int) else 0
        return int16(code) + text("__consumer_offsets") + b"\x01" + rows + int32(0) + b"\0"


class _Login:
    """The server's half of SASL."""

    def __init__(self, broker: WireBroker) -> None:
        self.broker, self.done, self.mechanism, self.first = broker, False, "", ""

    def handshake(self, body: bytes) -> bytes:
        self.mechanism = body[2:].decode()
        offered = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        code = 0 if self.mechanism in offered else 33
        return int16(code) + int32(len(offered)) + b"".join(map(old, offered))

    def step(self, body: bytes) -> bytes:
        message = body[4:].decode()
        said = self._plain(message) if self.mechanism == "PLAIN" else self._scram(message)
        if said is None:
            return int16(58) + old("Authentication failed") + int32(0) + int64(0)
        return int16(0) + int16(-1) + int32(len(said)) + said.encode() + int64(0)

    def _plain(self, message: str) -> str | None:
        _, user, password = message.split("\0")
        self.done = self.broker.users.get(user) == password
        return "" if self.done else None

    def _scram(self, message: str) -> str | None:
        algorithm = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[self.mechanism]
        parts = dict(item.split("=", 1) for item in message.removeprefix("n,,").split(","))
        if not self.first:
            self.first = message.removeprefix("n,,")
            self.user = parts["n"].replace("=2C", ",").replace("=3D", "=")
            self.salt = os.urandom(16)
            self.said = f"r={parts['r']}server,s={base64.b64encode(self.salt).decode()},i=4096"
            return self.said
        password = self.broker.users.get(self.user, "")
        salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), self.salt, 4096)
        key = hmac.digest(salted, b"Client Key", algorithm)
        signed = f"{self.first},{self.said},{message.rpartition(',p=')[0]}".encode()
        signature = hmac.digest(hashlib.new(algorithm, key).digest(), signed, algorithm)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        if self.user not in self.broker.users or base64.b64decode(parts["p"]) != proof:
            return None
        self.done = True
        server = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
        if isinstance(self.broker.lies, str):
            return self.broker.lies
        return f"v={base64.b64encode(b'?' * 32 if self.broker.lies else server).decode()}"
