"""Messages that are read again, as audits and redrives do: the same ones, at the same places, as the runtime has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tests.pulsar.broker import entry
from workbench.pulsar.pulsar_wire import Command, CommandKind, Fields, field, sealed
from workbench.pulsar.redrive.letter_reader import PulsarLetters
from workbench.pulsar.runtime.partition_consumer import Seat
from workbench.pulsar.runtime.places_as_offsets import offset_of_packed
from workbench.pulsar.topic_brokers import PulsarBrokers
from workbench.pulsar.topic_names import TopicName
from workbench.queues.position import packed, unpacked

LEDGER = 5


def chunk(name: str, number: int, text: str) -> bytes:
    """One of two chunks."""
    own = field(26, name) + field(27, 2) + field(29, number)
    return sealed(field(1, "p") + field(2, 0) + field(3, 1_000) + own, text.encode())


def command(number: int, payload: bytes) -> Command:
    """An entry of the log as a broker sends it."""
    place = field(1, LEDGER) + field(2, number)
    return Command(CommandKind.MESSAGE, Fields.parse(field(2, place)), payload)


class Log:
    """A broker that has some entries, and its one connection."""

    def __init__(self, *entries: bytes) -> None:
        self.entries, self.begin_at = entries, 0
        self.put: Callable[[Command | None], None] = lambda _: None

    def owner(self, _name: str) -> Log:
        return self

    def listen(self, _number: int, put: Callable[[Command | None], None]) -> None:
        self.put = put

    def ask(self, kind: CommandKind, fields: Callable[[int], bytes], *, what: str) -> Fields:
        if kind is CommandKind.GET_LAST_MESSAGE_ID:
            return Fields.parse(field(1, field(1, LEDGER) + field(2, len(self.entries) - 1)))
        self.begin_at = Fields.parse(fields(1)).message(9).signed(2) + 1
        return Fields.parse(b"")

    def send(self, _data: bytes) -> None:
        for number in range(self.begin_at, len(self.entries)):
            self.put(command(number, self.entries[number]))
        self.begin_at = len(self.entries)

    def begin(self, _kind: CommandKind, _fields: Callable[[int], bytes]) -> None:
        self.put(None)

    def forget(self, _number: int) -> None:
        """Nothing more comes."""

    def read(self, start: int, stop: int) -> list[tuple[int, bytes | None]]:
        """Offsets and contents by the reader of letters."""
        topic = cast("TopicName", TopicName.parse("persistent://t/n/orders"))
        reader = PulsarLetters(cast("PulsarBrokers", self), "orders", lambda _topic, _number: (topic, 0), seconds=2)
        return [(it.offset, it.value) for batch, _ in reader.read({0: start}, {0: stop}) for it in batch]


def at(number: int) -> int:
    """Packed position of an entry."""
    found = packed((LEDGER, number, 0))
    assert found is not None
    return found


def by_the_runtime(log: Log) -> list[tuple[int, bytes | None]]:
    """The same by a partition of the runtime."""
    seat: Any = Seat(("orders", 0), "orders")
    for number, payload in enumerate(log.entries):
        seat.take_in(command(number, payload), 0.0)
    return [(it.offset, it.value) for it in seat.waiting]


def test_a_message_in_chunks_is_at_one_place_for_everybody() -> None:
    """That of its first chunk, also if just this message is read again: the others lie behind the place that was asked for."""
    one, two = entry(("a", "1")), entry(("a", "2"))
    log = Log(chunk("m", 0, "ab"), one, chunk("n", 0, "AB"), chunk("m", 1, "cd"), two, chunk("n", 1, "CD"), one)
    found = log.read(at(0), at(7))
    assert [(unpacked(offset)[1], value) for offset, value in found] == [
        (0, b"abcd"), (1, b"1"), (2, b"ABCD"), (4, b"2"), (6, b"1"),
    ]  # fmt: skip
    assert [(offset_of_packed(offset), value) for offset, value in found] == by_the_runtime(log)
    assert [log.read(offset, offset + 1) for offset, _ in found] == [[it] for it in found]
    assert log.read(at(3), at(6)) == [found[3]]


def test_a_message_that_is_never_whole_holds_up_nothing() -> None:
    """At the log's end it is no message yet."""
    log = Log(chunk("m", 0, "ab"), entry(("a", "1")), chunk("n", 0, "ab"))
    assert log.read(at(0), at(3)) == [(at(1), b"1")]
