"""One partition of a member: its consumer at the broker, the messages that wait here, and the permits for more.

The keeper's thread connects it, the connection's thread puts what comes into the member's inbox, and the rest is done by the member's
own thread.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

from workbench.errors import SourceUnreachableError
from workbench.pulsar.chunked_messages import ChunkedMessage, MessageLine
from workbench.pulsar.connection import PulsarConnection
from workbench.pulsar.entry_messages import (
    ChunkPart,
    MessagePlace,
    PulsarMessage,
    identifier_fields,
    read_entry,
)
from workbench.pulsar.pulsar_wire import Command, CommandKind, Fields, frame
from workbench.pulsar.pulsar_wire import field as wire_field
from workbench.pulsar.runtime.places_as_offsets import offset_behind, offset_of
from workbench.runtime.event import Record, TopicPartition, UnreadableHeaders

_NUMBERS = itertools.count(1)  # of consumers, in this process
_CUMULATIVE = 1
_EARLIEST = 1
# A message whose producer has sent no further chunk for so long was never published; as of Java's client.
_CHUNKED_SECONDS = 60.0
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

    def close(self) -> Future[Command]:
        """Close it at the broker.

        Raises:
            SourceUnreachableError: if the connection has ended.
        """
        return self.connection.begin(CommandKind.CLOSE_CONSUMER, self._number)

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
    is_leaving: bool = False  # another consumer is active, and what is in flight of this assignment ends
    acknowledged: int | None = None  # offset behind everything that was acknowledged when it was told last
    takes_over_at: float = inf  # when a consumer that has become active begins, monotonic
    told: Future[Command] | None = None  # what is acknowledged then
    told_by: float = inf  # when that is asked again, monotonic
    # The broker has said that another consumer is active: what it had on its way here, it sends again to who is active next.
    is_standby: bool = False
    waiting: deque[Record] = field(default_factory=deque)
    paused: bool = False
    _granted: int = 0  # permits that the broker still has; it may send the rest of a batch without one
    _mean_bytes: float = _FIRST_GUESS_BYTES
    _next: int = 0  # offset behind the last record of this link
    _batches: OrderedDict[tuple[int, int], int] = field(
        default_factory=OrderedDict
    )  # sizes of entries that are not acknowledged
    _line: MessageLine = field(default_factory=MessageLine)
    _came_at: float = 0.0
    _published_ms: int = 0  # of what came last

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
            # The broker may have it, or make it yet. It would be the active one as long as the connection lives, and nobody would read.
            link.is_over = True
            connection.forget(link.number)
            with suppress(SourceUnreachableError):
                link.close()
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
        self.is_standby = False
        self.begin_behind(told)

    def begin_behind(self, told: Fields) -> None:
        """What is acknowledged by now is not handled, although the broker has sent it; `told` is as of `Link.last`."""
        mark = told.message(3) if told.raw(3) is not None else None
        self.acknowledged = None
        if mark is None or mark.signed(1) < 0 or mark.signed(2) < -1:
            return  # not told
        self.acknowledged = offset_behind(mark.signed(1), mark.signed(2))
        self._next = max(self._next, self.acknowledged)  # the broker may have it on its way
        while self.waiting and self.waiting[0].offset < self.acknowledged:
            self.waiting.popleft()
        acknowledged = self.acknowledged
        self._line.drop_while(lambda place: offset_of(place) < acknowledged)

    def begin_again(self) -> None:
        """It is no longer active. When it is again, the broker begins behind what is acknowledged."""
        self.clear()
        self._next = 0

    def clear(self) -> None:
        """What waits is not taken; the broker sends it again, here or elsewhere."""
        self.waiting.clear()
        self._batches.clear()
        self._line.clear()

    def take_in(self, command: Command, now: float) -> None:
        """Put the messages of a command in line."""
        found, permits = read_entry(command.body, command.payload)
        self._granted -= permits
        if self.is_standby:
            return
        self._came_at = now
        if isinstance(found, ChunkPart):
            self._take_chunk(found, now)
        else:
            for message in found:
                record = self._record(message)
                if record.offset < self._next:
                    continue  # it came already, or is acknowledged
                self._next = record.offset + 1
                self._came(len(record.value or b""), record.timestamp_ms)
                if self._line:
                    self._line.add(message)
                else:
                    self.waiting.append(record)
                self._batches[message.place.ledger, message.place.entry] = message.place.of
        self.go_on(now)

    def _came(self, size: int, published_ms: int) -> None:
        self._mean_bytes += _MEAN_WEIGHT * (size - self._mean_bytes)
        self._published_ms = published_ms

    def _record(self, message: PulsarMessage) -> Record:
        topic, number = self.partition
        headers = message.headers if message.headers is not None else UnreadableHeaders()
        place, own = offset_of(message.place), (message.event_ms, message.ordering_key)
        return Record(topic, number, place, message.key, message.value, message.publish_ms, headers, None, *own)

    def _take_chunk(self, chunk: ChunkPart, now: float) -> None:
        offset = offset_of(chunk.place)
        if offset < self._next:
            return
        self._next = offset + 1
        self._came(len(chunk.value), chunk.metadata.number(3))
        if chunk.number == 0:
            self._batches[chunk.place.ledger, chunk.place.entry] = 1
        self._line.add(chunk, now)

    def go_on(self, now: float) -> None:
        """Take what has waited for chunks; one that can no longer become whole cannot be read, so that somebody sees it."""
        self.waiting.extend(map(self._record, self._line.take(lambda it: self._is_given_up(it, now))))

    def _is_given_up(self, message: ChunkedMessage, now: float) -> bool:
        """Time alone says nothing: the next chunk may wait at the broker while nothing is wanted here. So what came last must be
        younger by as much, or the broker must have been free to send all the time.
        """
        if message.is_abandoned or now - message.since <= _CHUNKED_SECONDS:
            return False
        is_passed = self._published_ms - message.published_ms > _CHUNKED_SECONDS * 1000
        return is_passed or (self._granted > 0 and now - self._came_at > _CHUNKED_SECONDS)

    def grant(self, now: float, *, bytes_here: float) -> None:
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
            if self._granted <= 0:
                self._came_at = now  # it could send nothing before
            self._granted += wanted

    def batch_size(self, ledger: int, entry: int) -> int | None:
        """Number of messages of an entry that came; None: not known any more."""
        return self._batches.get((ledger, entry))

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
            link.close().result(seconds)
        except (SourceUnreachableError, TimeoutError):
            return
