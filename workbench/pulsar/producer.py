"""A producer of single messages on one topic or partition. What it has sent and has no receipt of may be there, or not."""

from __future__ import annotations

import base64
import itertools
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from workbench.errors import SourceUnreachableError
from workbench.pulsar.connection import RefusedError
from workbench.pulsar.entry_messages import MessagePlace
from workbench.pulsar.pulsar_wire import Command, CommandKind, field, frame, pair, sealed
from workbench.pulsar.topic_brokers import PulsarBrokers

_NUMBERS = itertools.count(1)  # of producers, in this process
_FRAME_BYTES = 10 << 10  # of a frame beside metadata and value; brokers leave as much room (MESSAGE_SIZE_FRAME_PADDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message to send; `event_ms` is 0 if it has no time of its own."""

    key: bytes | None
    value: bytes | None
    properties: Sequence[tuple[str, str]]
    event_ms: int = 0
    ordering_key: bytes | None = None

    def metadata(self, producer: str, sequence: int) -> bytes:
        """As it is sent."""
        key, flag = None, None
        if self.key is not None:
            try:
                key = self.key.decode()
            except UnicodeDecodeError:
                key, flag = base64.b64encode(self.key).decode(), 1
        return b"".join(
            (
                field(1, producer),
                field(2, sequence),
                field(3, round(time.time() * 1000)),
                *(pair(4, name, value) for name, value in self.properties),
                field(6, key),
                field(12, self.event_ms or None),
                field(17, flag),
                field(18, self.ordering_key),
                field(25, 1 if self.value is None else None),
            )
        )


class PulsarProducer:
    """See the module.

    Args:
        topic: with `persistent://`, and with its partition.
        name: the same for all that may send the same messages: the broker takes one at a time, and with deduplication no
            sequence twice.

    Raises:
        SourceUnreachableError: if the broker does not answer, or refuses.
    """

    def __init__(self, brokers: PulsarBrokers, topic: str, *, name: str | None = None) -> None:
        self._topic, self._number = topic, next(_NUMBERS)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[MessagePlace]] = {}
        self._is_open = True
        self._connection = brokers.owner(topic)
        self._connection.listen(self._number, self._told, is_producer=True)
        try:
            told = self._connection.ask(
                CommandKind.PRODUCER,
                lambda request: b"".join(
                    (
                        field(1, topic),
                        field(2, self._number),
                        field(3, request),
                        field(4, name),
                        field(9, int(name is not None)),
                    )
                ),
                what=f"producing to {topic}",
            )
        except BaseException:  # the broker may have it, or make it yet: nobody else would get the name
            self.close(0.0)
            raise
        self.name = told.text(2)
        self.last_sequence = told.signed(3, -1)  # of this name; -1 if the broker keeps none
        self._next = self.last_sequence + 1

    @property
    def is_open(self) -> bool:
        """Whether it can still send."""
        return self._is_open

    def fits(self, message: OutgoingMessage) -> bool:
        """Whether the broker takes a message of this size; it would close the connection."""
        size = len(message.value or b"") + len(message.metadata(self.name, self._next))
        return size <= self._connection.most_bytes - _FRAME_BYTES

    def send(self, message: OutgoingMessage, *, sequence: int | None = None) -> Future[MessagePlace]:
        """Send one; its place comes with the receipt.

        Args:
            sequence: larger than all before; None: the next.

        Raises:
            SourceUnreachableError: if the connection has ended.
        """
        with self._lock:
            number = self._next if sequence is None else sequence
            self._next = number + 1
            receipt = self._waiting[number] = Future()
            payload = sealed(message.metadata(self.name, number), message.value or b"")
            try:
                self._connection.send(
                    frame(CommandKind.SEND, field(1, self._number), field(2, number), field(3, 1), payload=payload)
                )
            except SourceUnreachableError:
                self._waiting.pop(number, None)
                raise
        if not self._is_open:
            self._fail("the connection has ended")
        return receipt

    def _told(self, command: Command | None) -> None:
        if command is None or command.kind is CommandKind.CLOSE_PRODUCER:
            self._is_open = False
            self._fail("the broker has closed the producer")
            return
        receipt = self._waiting.pop(command.body.number(2), None)
        if receipt is None or not receipt.set_running_or_notify_cancel():
            return
        if command.kind is CommandKind.SEND_ERROR:
            receipt.set_exception(
                RefusedError(command.body.number(3), command.body.text(4), what=f"a message to {self._topic}")
            )
        else:
            place = command.body.message(3)
            # A broker that has the sequence already, by deduplication, tells no place.
            receipt.set_result(MessagePlace(max(0, place.signed(1)), max(0, place.signed(2))))

    def _fail(self, why: str) -> None:
        for number in list(self._waiting):
            receipt = self._waiting.pop(number, None)
            if receipt is not None and receipt.set_running_or_notify_cancel():
                receipt.set_exception(
                    SourceUnreachableError(f"It is not known whether {self._topic} took a message: {why}.")
                )

    def close(self, seconds: float = 5.0) -> None:
        """Close it at the broker."""
        if not self._is_open:
            return
        self._is_open = False
        self._connection.forget(self._number, is_producer=True)
        try:
            self._connection.begin(
                CommandKind.CLOSE_PRODUCER, lambda request: field(1, self._number) + field(2, request)
            ).result(seconds)
        except (SourceUnreachableError, TimeoutError):
            return
