"""Letters of a topic of a Pulsar, read by consumers that leave nothing behind: of a cursor that is not kept."""

from __future__ import annotations

import queue
import secrets
from collections.abc import Callable, Iterator
from time import monotonic

from workbench.errors import EvidenceError, SourceUnreachableError
from workbench.pulsar.chunked_messages import MessageLine
from workbench.pulsar.entry_messages import ChunkPart, MessagePlace, PulsarMessage, read_entry
from workbench.pulsar.pulsar_wire import Command, CommandKind, Fields, PulsarWireError, field, frame
from workbench.pulsar.topic_brokers import PulsarBrokers
from workbench.pulsar.topic_names import TopicName, part_name
from workbench.queues.position import packed, unpacked
from workbench.read_kafka_headers import UNREADABLE
from workbench.redrive.letter_headers import Letter
from workbench.redrive.redrive_ports import Positions

_PERMITS = 1000
_NUMBERS = iter(range(1 << 32, 1 << 62))  # of consumers; those of the runtime begin at 1


class PulsarLetters:
    """See `LetterReader`.

    Args:
        place: topic and partition as Pulsar has them, of a topic and a number.
    """

    def __init__(
        self,
        brokers: PulsarBrokers,
        topic: str,
        place: Callable[[str, int], tuple[TopicName, int]],
        *,
        seconds: float = 30.0,
        batch: int = 1000,
    ) -> None:
        self._brokers, self._topic, self._place, self._seconds, self._batch = brokers, topic, place, seconds, batch

    def read(self, start: Positions, stop: Positions) -> Iterator[tuple[list[Letter], Positions]]:
        """See `LetterReader`: one partition after the other."""
        at = dict(start)
        for number in sorted(start):
            if start[number] >= stop[number]:
                continue
            for letters in self._partition(number, start[number], stop[number]):
                if letters:
                    at[number] = letters[-1].offset + 1
                yield letters, dict(at)
            at[number] = stop[number]
            yield [], dict(at)

    def _partition(self, number: int, start: int, stop: int) -> Iterator[list[Letter]]:
        name = f"persistent://{part_name(*self._place(self._topic, number))}"
        connection, consumer = self._brokers.owner(name), next(_NUMBERS)
        came: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        connection.listen(consumer, came.put)
        ledger, entry, _ = unpacked(start)
        try:
            connection.ask(
                CommandKind.SUBSCRIBE,
                lambda request: b"".join(
                    (
                        field(1, name),
                        field(2, f"workbench-letters-{secrets.token_hex(5)}"),
                        field(3, 0),
                        field(4, consumer),
                        field(5, request),
                        field(8, 0),
                        field(9, field(1, ledger) + field(2, entry - 1)),
                        field(15, 0),
                    )
                ),
                what=f"reading {name}",
            )
            yield from self._until(
                number,
                stop,
                name,
                came,
                lambda more: connection.send(frame(CommandKind.FLOW, field(1, consumer), field(2, more))),
                start,
                lambda: connection.ask(
                    CommandKind.GET_LAST_MESSAGE_ID,
                    lambda request: field(1, consumer) + field(2, request),
                    what=f"the last message of {name}",
                ).message(1),
            )
            connection.begin(CommandKind.CLOSE_CONSUMER, lambda request: field(1, consumer) + field(2, request))
        finally:
            connection.forget(consumer)

    def _until(
        self,
        number: int,
        stop: int,
        name: str,
        came: queue.SimpleQueue[Command | None],
        grant: Callable[[int], None],
        start: int,
        last: Callable[[], Fields],
    ) -> Iterator[list[Letter]]:
        grant(_PERMITS)
        letters: list[Letter] = []
        used, deadline = 0, monotonic() + self._seconds
        line, end = MessageLine(), stop
        while True:
            try:
                command = came.get(timeout=min(0.2, self._seconds))
            except queue.Empty:
                if monotonic() > deadline:
                    raise SourceUnreachableError(f"Nothing comes of {name} in {self._seconds:g} s.") from None
                yield letters
                letters = []
                continue
            if command is None or command.kind is CommandKind.CLOSE_CONSUMER:
                raise SourceUnreachableError(f"The broker has closed the reader of {name}.", hint="Repeat the command.")
            if command.kind is not CommandKind.MESSAGE:
                continue
            deadline = monotonic() + self._seconds
            try:
                found, permits = read_entry(command.body, command.payload)
            except PulsarWireError as error:
                raise SourceUnreachableError(f"A message of {name} cannot be read: {error}.") from None
            used += permits
            where = command.body.message(2)
            for one in [found] if isinstance(found, ChunkPart) else found:
                is_further = isinstance(one, ChunkPart) and one.number > 0
                if is_further or start <= _offset(number, one.place) < stop:
                    line.add(one)
            letters += [_letter(number, it) for it in line.take()]
            over = _behind(where)
            if over is not None and over >= end == stop and line:  # further chunks of a message may lie behind
                end = max(stop, _behind(last()) or 0)
            if over is None or over >= end or (over >= stop and not line):
                yield letters + [_letter(number, it) for it in line.rest()]
                return
            if used * 2 >= _PERMITS:
                grant(used)
                used = 0
            if len(letters) >= self._batch:
                yield letters
                letters = []


def _behind(where: Fields) -> int | None:
    """Packed position behind an entry; None: it is too large."""
    return packed((where.number(1), where.number(2) + 1, 0))


def _offset(number: int, place: MessagePlace) -> int:
    found = packed((place.ledger, place.entry, place.within))
    if found is None:
        raise EvidenceError(f"The message {place.identifier(number)} has a place that is too large to be told here.")
    return found


def _letter(number: int, message: PulsarMessage) -> Letter:
    offset = _offset(number, message.place)
    headers = UNREADABLE if message.headers is None else message.headers
    own = (message.event_ms, message.ordering_key)
    return Letter(number, offset, message.publish_ms, message.key, message.value, headers, *own)
