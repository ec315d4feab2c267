"""One partition of a member: its consumer at the broker, the messages that wait here, and the permits for more.

The keeper's thread connects it, the connection's thread puts what comes into the member's inbox, and the rest is done by the member's
own thread.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import inf
from typing import Any

from workbench.errors import SourceUnreachableError
from workbench.pulsar.commands import Command, CommandKind, Fields, frame
from workbench.pulsar.commands import field as wire_field
from workbench.pulsar.connection import PulsarConnection
from workbench.pulsar.entries import (
    ChunkPart,
    MessagePlace,
    PulsarMessage,
    identifier_fields,
    read_entry,
    whole_message,
)
from workbench.pulsar.runtime.place_numbers import offset_behind, offset_of
from workbench.runtime.event import Record, TopicPartition, UnreadableHeaders

_NUMBERS = itertools.count(1)  # of consumers, in this process
_CUMULATIVE = 1
_EARLIEST = 1
_CHUNKED_SECONDS = (
    60.0  # a message whose producer has sent no further chunk for so long was never published; as of Java's client
)
_FIRST_GUESS_BYTES = 1000.0
_MEAN_WEIGHT = 0.1
_MOST_PERMITS = 1000  # as of Pulsar's clients (receiverQueueSize)


@dataclass(slots=True, eq=False)
class Link:
    """One consumer at a broker, from its subscription to its end. A later one of the same partition is another."""

    connection: PulsarConnection
    number: int
    is_over: bool = False

    def ask_last(self) -> Future[Command]:
        """Ask for the last message of the topic, and the mark-delete position of the subscription.

        Raises:
            SourceUnreachableError: if the connection has ended.
        """
        return self.connection.begin(CommandKind.GET_LAST_MESSAGE_ID, self._number)

    def last(self, what: str) -> Fields:
        """The same, and wait for the answer.

        Raises:
            SourceUnreachableError: if there is none.
        """
        return self.connection.ask(CommandKind.GET_LAST_MESSAGE_ID, self._number, what=what)

    def _number(self, request: int) -> bytes:
        return wire_field(1, self.number) + wire_field(2, request)


# What comes for a link: a command, what `Link.last` told when it had subscribed, or None at its end.
Occurrence = tuple["Seat", Link, Command | Fields | None, str]
CAME, JOINED, ENDED = "came", "joined", "ended"


@dataclass(slots=True, eq=False)
class Seat:
    """See the module."""

    partition: TopicPartition
    name: str  # of the topic of this partition
    link: Link | None = None  # of the keeper
    # Of the member's thread, from here on. `held` is the link whose partition is assigned; None: it is not.
    joined: Link | None = None
    held: Link | None = None
    acknowledged: int | None = None  # offset behind everything that was acknowledged when it was told last
    takes_over_at: float = inf  # when a consumer that has become active begins, monotonic
    told: Future[Command] | None = None  # what is acknowledged then
    waiting: deque[Record] = field(default_factory=deque)
    paused: bool = False
    _granted: int = 0  # permits that the broker still has; it may send the rest of a batch without one
    _mean_bytes: float = _FIRST_GUESS_BYTES
    _next: int = 0  # offset behind the last record of this link
    _batches: OrderedDict[tuple[int, int], int] = field(
        default_factory=OrderedDict
    )  # sizes of entries that are not acknowledged
    # A message in chunks, and what came since its first one: it waits, so that offsets rise.
    _chunked: dict[str, list[bytes]] = field(default_factory=dict)
    _behind_chunks: list[Record | ChunkPart] = field(default_factory=list)
    _chunked_since: float = 0.0

    def subscribe(
        self, connection: PulsarConnection, fields: Mapping[str, Any], tell: Callable[[Occurrence], None]
    ) -> Link:
        """Subscribe, on the keeper's thread.

        Args:
            fields: subscription, type, member.

        Raises:
            SourceUnreachableError: if the broker does not answer, or refuses.
        """
        link = Link(connection, next(_NUMBERS))

        def listen(command: Command | None) -> None:
            if command is None or command.kind is CommandKind.CLOSE_CONSUMER:
                if not link.is_over:
                    link.is_over = True
                    connection.forget(link.number)
                    tell((self, link, None, ENDED))
            else:
                tell((self, link, command, CAME))

        connection.listen(link.number, listen)
        try:
            connection.ask(
                CommandKind.SUBSCRIBE,
                lambda request: b"".join(
                    (
                        wire_field(1, self.name),
                        wire_field(2, fields["subscription"]),
                        wire_field(3, fields["type"]),
                        wire_field(4, link.number),
                        wire_field(5, request),
                        wire_field(6, fields["member"]),
                        wire_field(13, _EARLIEST),
                        wire_field(15, 0),  # a topic is not made by who reads it
                    )
                ),
                what=f"the subscription {fields['subscription']} on {self.name}",
            )
            told = link.last(f"the last message of {self.name}")
        except BaseException:
            link.is_over = True
            connection.forget(link.number)
            raise
        self.link = link
        tell((self, link, told, JOINED))
        return link

    # On the member's thread

    def join(self, link: Link, told: Fields) -> None:
        """A new consumer begins."""
        self.joined = link
        self.begin_again()
        self._granted = 0
        self.begin_behind(told)

    def begin_behind(self, told: Fields) -> None:
        """What is acknowledged by now is not handled, although the broker has sent it; `told` is as of `Link.last`."""
        mark = told.message(3) if told.raw(3) is not None else None
        self.acknowledged = None
        if mark is None or mark.signed(1) < 0 or mark.signed(2) < -1:
            return  # not told
        self.acknowledged = offset_behind(mark.signed(1), mark.signed(2))
        while self.waiting and self.waiting[0].offset < self.acknowledged:
            self.waiting.popleft()

    def begin_again(self) -> None:
        """It is no longer active. When it is again, the broker begins behind what is acknowledged."""
        self.clear()
        self._next = 0

    def clear(self) -> None:
        """What waits is not taken; the broker sends it again, here or elsewhere."""
        self.waiting.clear()
        self._batches.clear()
        self._chunked.clear()
        self._behind_chunks.clear()

    def take_in(self, command: Command, now: float) -> None:
        """Put the messages of a command in line."""
        found, permits = read_entry(command.body, command.payload)
        self._granted -= permits
        if self._behind_chunks and now - self._chunked_since > _CHUNKED_SECONDS:
            self._release(whole=False)
        if isinstance(found, ChunkPart):
            self._take_chunk(found, now)
            return
        for message in found:
            record = self._record(message)
            if record.offset < self._next:
                continue  # it came already
            self._next = record.offset + 1
            self._mean_bytes += _MEAN_WEIGHT * (len(record.value or b"") - self._mean_bytes)
            (self._behind_chunks if self._behind_chunks else self.waiting).append(record)
            self._batches[message.place.ledger, message.place.entry] = message.place.of

    def _record(self, message: PulsarMessage) -> Record:
        topic, number = self.partition
        headers = message.headers if message.headers is not None else UnreadableHeaders()
        return Record(topic, number, offset_of(message.place), message.key, message.value, message.publish_ms, headers)

    def _take_chunk(self, chunk: ChunkPart, now: float) -> None:
        """A message in chunks has the place of its first one, and what comes between them waits for it.

        So an acknowledgement never stands between the chunks of a message that is not handled. Chunks whose first one is not here
        belong to a message that was handled, or was never whole.
        """
        offset = offset_of(chunk.place)
        if offset < self._next:
            return
        self._next = offset + 1
        if chunk.number == 0:
            self._chunked[chunk.name] = []
            self._behind_chunks.append(chunk)
            self._batches[chunk.place.ledger, chunk.place.entry] = 1
            self._chunked_since = now
        parts = self._chunked.get(chunk.name)
        if parts is None or len(parts) != chunk.number:
            return
        parts.append(chunk.value)
        self._chunked_since = now
        if all(len(self._chunked[it.name]) == it.of for it in self._behind_chunks if isinstance(it, ChunkPart)):
            self._release(whole=True)

    def _release(self, *, whole: bool) -> None:
        """Put what has waited for chunks in line; with `whole`, all are there."""
        for item in self._behind_chunks:
            if isinstance(item, Record):
                self.waiting.append(item)
            elif whole or len(self._chunked[item.name]) == item.of:
                self.waiting.append(
                    self._record(whole_message(item.place, item.metadata, b"".join(self._chunked[item.name])))
                )
        self._chunked.clear()
        self._behind_chunks.clear()

    def grant(self, *, bytes_here: float) -> None:
        """Let the broker send more if half of what may wait here is taken; so many bytes may.

        Raises:
            SourceUnreachableError: if the connection has ended.
        """
        link = self.joined
        if link is None or link.is_over or self.paused:
            return
        most = max(1, min(_MOST_PERMITS, int(bytes_here / max(1.0, self._mean_bytes))))
        wanted = most - self._granted - len(self.waiting)
        if wanted * 2 > most:
            link.connection.send(frame(CommandKind.FLOW, wire_field(1, link.number), wire_field(2, wanted)))
            self._granted += wanted

    def acknowledge(self, offset: int) -> Future[Command]:
        """Acknowledge everything below an offset, which is behind a message that came.

        Raises:
            SourceUnreachableError: if the consumer at which it came has ended: of another one, the position may have been reset.
        """
        link = self.held
        if link is None or link.is_over:
            raise SourceUnreachableError("the broker has closed the consumer")
        at = offset - 1
        index, entry, ledger = at & 0xFFFFFF, at >> 24 & 0xFFFFFFFF, at >> 56
        place = MessagePlace(ledger, entry, index, self._batches.get((ledger, entry), index + 1))
        answer = link.connection.begin(
            CommandKind.ACK,
            lambda request: b"".join(
                (
                    wire_field(1, link.number),
                    wire_field(2, _CUMULATIVE),
                    wire_field(3, identifier_fields(place)),
                    wire_field(8, request),
                )
            ),
        )
        while self._batches and next(iter(self._batches)) < (ledger, entry):
            self._batches.popitem(last=False)
        return answer

    def leave(self, seconds: float) -> None:
        """Close the consumer at the broker, so that another one is active at once."""
        link, self.link = self.link, None
        if link is None or link.is_over:
            return
        link.is_over = True
        link.connection.forget(link.number)
        try:
            link.connection.begin(
                CommandKind.CLOSE_CONSUMER, lambda request: wire_field(1, link.number) + wire_field(2, request)
            ).result(seconds)
        except (SourceUnreachableError, TimeoutError):
            return
