"""A broker of Pulsar's binary protocol: what it is told is kept, and what it says is scripted."""

from __future__ import annotations

import itertools
import select
import socket
import ssl
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from workbench.pulsar.pulsar_wire import Command, CommandKind, Fields, field, frame, pair, sealed


def entry(*messages: tuple[str, str], publish_ms: int = 1_795_000_000_000) -> bytes:
    """An entry as it is stored: of one message, or a batch of several, each with key and content."""
    common = field(1, "producer") + field(2, 0) + field(3, publish_ms)
    if len(messages) == 1:
        [(key, text)] = messages
        return sealed(common + pair(4, "kind", "single") + field(6, key), text.encode())
    content = b""
    for key, text in messages:
        single = pair(1, "kind", "batched") + field(2, key) + field(3, len(text))
        content += struct.pack(">I", len(single)) + single + text.encode()
    return sealed(common + field(11, len(messages)), content)


class FakeBroker:
    """See the module.

    Attributes:
        told: commands that came, by kind.
        last, mark: places of the last entry, and of the last that is acknowledged.
        refusals: error code and words of the next subscriptions.
        withheld: how many of the next answers to a command do not come.
    """

    def __init__(self, *, partitions: int = 0, tls: ssl.SSLContext | None = None, secret: str | None = None) -> None:
        self.told: dict[CommandKind, list[Fields]] = defaultdict(list)
        self.refusals: list[tuple[int, str]] = []
        self.withheld: dict[CommandKind, int] = defaultdict(int)
        self.last = self.mark = (5, -1)
        self._partitions, self._tls, self._secret = partitions, tls, secret
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._of: dict[int, socket.socket] = {}
        self._entries = itertools.count()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"pulsar{'+ssl' if self._tls else ''}://127.0.0.1:{self._listening.getsockname()[1]}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = self._listening.accept()
                if self._tls is not None:
                    try:
                        accepted = self._tls.wrap_socket(accepted, server_side=True)
                    except OSError:  # the client does not trust it
                        continue
                self._connections.append(accepted)
                threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while len(head := self._read(connection, 4)) == 4:
                command = Command.parse(self._read(connection, struct.unpack(">I", head)[0]))
                if command.kind is not None:
                    answers = list(self._answers(command.kind, command.body, connection))
                    self.told[command.kind].append(command.body)
                    if answers and self.withheld[command.kind]:
                        self.withheld[command.kind] -= 1
                        continue
                    for answer in answers:
                        self._write(connection, answer)

    def _read(self, connection: socket.socket, size: int) -> bytes:
        """So many bytes; fewer at the end. Nobody may write to a TLS connection meanwhile."""
        found = b""
        while len(found) < size:
            if not (isinstance(connection, ssl.SSLSocket) and connection.pending()):
                waiting = select.poll()
                waiting.register(connection, select.POLLIN)
                waiting.poll()
            with self._lock:
                connection.settimeout(0)
                try:
                    part = connection.recv(size - len(found))
                except (ssl.SSLWantReadError, BlockingIOError):
                    continue
            if not part:
                break
            found += part
        return found

    def _write(self, connection: socket.socket, data: bytes) -> None:
        with self._lock:
            connection.settimeout(10)
            connection.sendall(data)

    def _answers(self, kind: CommandKind, body: Fields, connection: socket.socket) -> Iterator[bytes]:
        if kind is CommandKind.CONNECT:
            if self._secret is not None and (body.text(5), body.text(3)) != ("token", self._secret):
                yield frame(CommandKind.ERROR, field(1, 0), field(2, 3), field(3, "Unable to authenticate"))
                return
            yield frame(CommandKind.CONNECTED, field(1, "fake"), field(2, 21))
            yield frame(CommandKind.PING)
        elif kind is CommandKind.PARTITIONED_METADATA:
            yield frame(CommandKind.PARTITIONED_METADATA_RESPONSE, field(1, self._partitions), field(2, body.number(2)))
        elif kind is CommandKind.LOOKUP:
            where = field(2 if self._tls else 1, self.url)
            yield frame(CommandKind.LOOKUP_RESPONSE, where, field(3, 1), field(4, body.number(2)))
        elif kind is CommandKind.SUBSCRIBE:
            if self.refusals:
                code, words = self.refusals.pop(0)
                yield frame(CommandKind.ERROR, field(1, body.number(5)), field(2, code), field(3, words))
                return
            self._of[body.number(4)] = connection
            yield frame(CommandKind.SUCCESS, field(1, body.number(5)))
        elif kind is CommandKind.GET_LAST_MESSAGE_ID:
            ledger, number = self.last
            place = field(1, ledger) + field(2, number)
            mark = field(1, self.mark[0]) + field(2, self.mark[1])
            yield frame(
                CommandKind.GET_LAST_MESSAGE_ID_RESPONSE, field(1, place), field(2, body.number(2)), field(3, mark)
            )
        elif kind is CommandKind.ACK:
            yield frame(CommandKind.ACK_RESPONSE, field(1, body.number(1)), field(6, body.number(8)))
        elif kind is CommandKind.CLOSE_CONSUMER:
            yield frame(CommandKind.SUCCESS, field(1, body.number(2)))

    def consumers(self) -> list[int]:
        """Numbers of all that have subscribed, in order."""
        return [it.number(4) for it in self.told[CommandKind.SUBSCRIBE]]

    def permits(self, consumer: int) -> int:
        """That a consumer has given."""
        return sum(it.number(2) for it in self.told[CommandKind.FLOW] if it.number(1) == consumer)

    def activate(self, consumer: int, *, active: bool = True) -> None:
        """Say who is active."""
        self._say(consumer, frame(CommandKind.ACTIVE_CONSUMER_CHANGE, field(1, consumer), field(2, int(active))))

    def send(
        self, consumer: int, content: bytes, *, acknowledged: Sequence[int] = (), number: int | None = None
    ) -> int:
        """Send an entry, or one again; returns its number in the ledger 5."""
        if number is None:
            number = next(self._entries)
            self.last = (5, number)
        place = field(1, 5) + field(2, number)
        own = b"".join(field(4, word) for word in acknowledged)
        self._say(consumer, frame(CommandKind.MESSAGE, field(1, consumer), field(2, place), own, payload=content))
        return number

    def close_consumer(self, consumer: int) -> None:
        """As when a topic is unloaded."""
        self._say(consumer, frame(CommandKind.CLOSE_CONSUMER, field(1, consumer), field(2, 0)))

    def _say(self, consumer: int, data: bytes) -> None:
        self._write(self._of[consumer], data)

    def cut(self) -> None:
        """End all connections."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """End it."""
        self._listening.close()
        self.cut()


@contextmanager
def broker(
    *, partitions: int = 0, tls: ssl.SSLContext | None = None, secret: str | None = None
) -> Iterator[FakeBroker]:
    """A running one; `secret` is the token that it wants."""
    made = FakeBroker(partitions=partitions, tls=tls, secret=secret)
    try:
        yield made
    finally:
        made.stop()
