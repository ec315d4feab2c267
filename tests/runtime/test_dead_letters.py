"""Rules of dead letters: each one is safe in the end or its partition's next owner has it; none holds up another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from tests.runtime.helpers import Clock, event, until
from tests.runtime.mock import MockCluster, mock_cluster
from workbench.kafka.runtime.dead_letters import LEFT_OUT_HEADER, VALUE_BYTES_HEADER, DeadLetters
from workbench.runtime.event import Event, UnreadableHeaders


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    """librdkafka's mock."""
    with mock_cluster() as made:
        yield made


def letter(offset: int, *, size: int = 1) -> Event:
    """An event whose value has so many bytes."""
    made = event(offset)
    made.record = made.record._replace(value=b"v" * size)
    return made


def read(cluster: MockCluster, topic: str, count: int) -> list[Message]:
    """The first `count` records of partition 0 to 3 of a topic."""
    reader = cluster.consumer("reader")
    reader.assign([TopicPartition(topic, number, 0) for number in range(4)])
    found: list[Message] = []
    until(lambda: len(found.extend(reader.consume(count, 0.2)) or found) >= count)
    reader.close()
    return found


class Wordless:
    """A code that cannot be written."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("first", "code", "kept"),
    [
        (letter(0), "600", b"600"),
        (letter(0, size=999_950), "600", b"600"),
        (letter(0), 600, b"600"),
        (letter(0), Wordless(), b"Wordless"),
        (letter(0), "caf\udce9", b"caf\\udce9"),
        (letter(0), None, b"None"),
    ],
    ids=["plain", "over_a_megabyte_with_headers", "number", "wordless", "lone_surrogate", "nothing"],
)
def test_whatever_the_first_letter_is_all_are_written(
    cluster: MockCluster, request: pytest.FixtureRequest, first: Event, code: object, kept: bytes
) -> None:
    """A large record or an odd code holds up neither itself nor the letters behind it."""
    topic, safe = f"dlq-{request.node.callspec.id}", []
    letters = DeadLetters(topic, {"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    letters.put(first, code, safe=lambda: safe.append(0))
    for number in range(1, 4):
        letters.put(letter(number), "ok", safe=lambda number=number: safe.append(number))
    until(lambda: sorted(safe) == [0, 1, 2, 3])
    letters.close(5)
    codes = {
        dict(item.headers() or ())["wb_offset"]: dict(item.headers() or ())["wb_code"]
        for item in read(cluster, topic, 4)
    }
    assert codes == {b"0": kept, b"1": b"ok", b"2": b"ok", b"3": b"ok"}


@dataclass
class Sent:
    """One message that a made-up producer was given."""

    value: bytes | None
    key: bytes | None
    headers: dict[str, bytes]
    alone: bool


class FakeProducer:
    """A producer whose broker answers by `answer`; reports come inside of `poll` and `flush`, as the client's do."""

    def __init__(
        self, properties: dict[str, Any], made: list[FakeProducer], answer: Callable[[Sent], int | None]
    ) -> None:
        self._alone = properties.get("batch.num.messages") == 1
        self._answer = answer
        self._reports: deque[tuple[Any, KafkaError | None]] = deque()
        self.dead = False
        self.sent: list[Sent] = []
        made.append(self)

    def produce(self, _topic: str, *, value: Any, key: Any, headers: Any, on_delivery: Any) -> None:
        if self.dead:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        if not isinstance(value, bytes | None):
            raise TypeError("a bytes-like object is required")
        message = Sent(value, key, dict(headers), self._alone)
        self.sent.append(message)
        code = self._answer(message)
        self.dead |= code == KafkaError._FATAL
        self._reports.append((on_delivery, None if code is None else KafkaError(code)))

    def poll(self, timeout: float) -> None:
        while self._reports:
            report, error = self._reports.popleft()
            report(error, None)

    def purge(self) -> None:
        """Nothing is under way here but reports."""

    def flush(self, timeout: float) -> None:
        self.poll(timeout)


class Made:
    """Dead letters on made-up producers, driven by a clock."""

    def __init__(self, answer: Callable[[Sent], int | None]) -> None:
        self.clock = Clock()
        self.producers: list[FakeProducer] = []
        self.safe: list[int] = []
        self.letters = DeadLetters(
            "dlq",
            {},
            make_producer=lambda properties: FakeProducer(properties, self.producers, answer),  # type: ignore[arg-type,return-value]
            clock=self.clock,
        )

    def put(self, *events: Event) -> None:
        for item in events:
            self.letters.put(item, "code", safe=lambda offset=item.record.offset: self.safe.append(offset))

    @property
    def sent(self) -> list[Sent]:
        return [message for producer in self.producers for message in producer.sent]


def test_a_letter_that_the_topic_does_not_take_goes_without_what_is_too_large() -> None:
    """First alone (the batch may have been too large), then without its value, then with our headers only."""
    made = Made(lambda message: KafkaError.MSG_SIZE_TOO_LARGE if message.key or message.value else None)
    made.put(letter(7, size=50))
    until(lambda: made.safe == [7])
    made.letters.close(1)
    assert [(len(sent.value or b""), sent.key, sent.alone) for sent in made.sent] == [
        (50, b"k", False),
        (50, b"k", True),
        (0, b"k", True),
        (0, None, True),
    ]
    last = made.sent[-1].headers
    assert (last[LEFT_OUT_HEADER], last[VALUE_BYTES_HEADER]) == (b"value,key,headers", b"50")
    assert (last["wb_topic"], last["wb_partition"], last["wb_offset"]) == (b"t", b"0", b"7")
    assert "event_type" not in last


def test_a_letter_without_readable_headers_says_each_thing_that_it_lacks() -> None:
    """Its value goes only where it is too large as well."""
    made = Made(lambda message: KafkaError.MSG_SIZE_TOO_LARGE if message.value else None)
    bare = letter(7, size=50)
    bare.record = bare.record._replace(headers=UnreadableHeaders())
    made.put(bare)
    until(lambda: made.safe == [7])
    made.letters.close(1)
    assert [(sent.value, sent.key, sent.headers[LEFT_OUT_HEADER]) for sent in made.sent] == [
        (b"v" * 50, b"k", b"headers"),
        (b"v" * 50, b"k", b"headers"),
        (None, b"k", b"value,headers"),
    ]


def test_a_refused_letter_waits_behind_the_others_and_longer_each_time() -> None:
    """A refusal is not answered with a storm, and the letters of other partitions pass."""
    made = Made(lambda message: KafkaError.NOT_ENOUGH_REPLICAS if message.headers["wb_offset"] == b"0" else None)
    made.put(letter(0), letter(1), letter(2))
    until(lambda: made.safe == [1, 2])
    assert len(made.sent) == 3
    for tries, pause in ((2, 1.0), (3, 2.0), (4, 4.0)):
        made.clock.now += pause * 0.9
        made.put(letter(10 * tries))
        until(lambda tries=tries: 10 * tries in made.safe)
        assert sum(sent.headers["wb_offset"] == b"0" for sent in made.sent) == tries - 1
        made.clock.now += pause * 0.1
        until(lambda tries=tries: sum(sent.headers["wb_offset"] == b"0" for sent in made.sent) == tries)
    made.letters.close(1)
    assert 0 not in made.safe


def test_a_producer_that_has_failed_for_good_is_replaced() -> None:
    """The letter that met the failure, and those behind it, are written by the next one."""
    made = Made(lambda _message: KafkaError._FATAL if len(made.producers) == 1 else None)
    made.put(letter(0), letter(1))
    until(lambda: len(made.producers) == 2)
    made.clock.now += 60
    until(lambda: sorted(made.safe) == [0, 1])
    made.letters.close(1)


def test_letters_of_a_partition_that_was_given_away_are_dropped() -> None:
    """Its next owner reads the event again and writes a letter of its own."""

    class Owner:
        revoked = False

    made = Made(lambda _message: KafkaError.NOT_ENOUGH_REPLICAS)
    mine = letter(0)
    mine.owner = Owner()
    made.put(mine)
    until(lambda: len(made.sent) == 1 and len(made.letters) == 1)
    mine.owner.revoked = True
    made.clock.now += 60
    until(lambda: len(made.letters) == 0)
    assert len(made.sent) == 1
    made.letters.close(1)


def test_a_record_that_is_no_message_is_told_by_its_place() -> None:
    """A decoder may have put anything into an event's record."""
    made = Made(lambda _message: None)
    odd = letter(5)
    odd.record = odd.record._replace(value={"not": "bytes"})  # type: ignore[arg-type]
    made.put(odd, letter(6))
    until(lambda: sorted(made.safe) == [5, 6])
    made.letters.close(1)
    assert {sent.headers.get(LEFT_OUT_HEADER) for sent in made.sent} == {None, b"value,key,headers"}


def test_what_ends_the_thread_is_kept() -> None:
    """So that the task can end with it: no offset completes through a letter any more."""

    def answer(_message: Sent) -> int | None:
        raise RuntimeError("the client is broken")

    made = Made(answer)
    made.put(letter(0))
    until(lambda: made.letters.failure is not None)
    assert isinstance(made.letters.failure, RuntimeError)
    made.letters.close(1)
