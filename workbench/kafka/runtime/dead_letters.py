"""Dead letters: failed events in a topic, for a person to inspect. An offset completes only when its letter is delivered."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from workbench.kafka.clients_without_brokers import STATISTICS, is_stranded, made_in
from workbench.runtime.event import Event

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
# Back-off between attempts for a rejected letter; doubles, so that an outage causes no storm.
_AGAIN_SECONDS = 1.0
_AGAIN_MOST_SECONDS = 30.0
_HEAL_SECONDS = 1.0  # for the delivery reports of an abandoned producer
_MAX_CODE_LENGTH = 200  # a code may come from outside (from a service)
# Only the topic's limit must count, not the producer's (librdkafka's default is 1 MB; brokers may allow more).
_MAX_MESSAGE_BYTES = 1_000_000_000

LEFT_OUT_HEADER = "wb_left_out"  # what was left out of a letter: it was too large, or its headers cannot be read
VALUE_BYTES_HEADER = "wb_value_bytes"  # and the size of its value; topic, partition and offset identify the record


class _Size(IntEnum):
    """How much of its record a letter carries; the next size is tried when the broker reports that it is too large."""

    WHOLE = 0
    ALONE = 1  # complete, but in a separate request: the batch may have been too large
    NO_VALUE = 2
    HEADERS_ONLY = 3  # no value, no key, only our own headers


@dataclass(slots=True, eq=False)
class _Letter:
    event: Event
    code: str
    safe: Callable[[], None]
    size: _Size = _Size.WHOLE
    tries: int = 0

    @property
    def is_wanted(self) -> bool:
        """Whether its partition is still assigned; if not, the next owner reads the event again and writes its own letter."""
        return not getattr(self.event.owner, "revoked", False)


def make_producer(properties: dict[str, Any]) -> Producer:
    """Make a producer that writes to our log."""
    return Producer(properties, logger=_log)


class DeadLetters:
    """Writes failed events to the dead-letter topic, with headers for their origin and error.

    A separate thread handles the delivery reports. `put` may be called from any thread and never waits for the broker: letters that
    the producer's buffer does not take wait here. Both are bounded by the number of uncommitted records.

    A rejected letter goes behind the others and is retried later, so it delays only its own partition. A letter that is too large is
    sent without its value, then without key and headers. A producer with a fatal error, or without brokers, is replaced.

    Attributes:
        failure: the error that ended the thread; no more letters are delivered, so the runtime must end.
    """

    def __init__(
        self,
        topic: str,
        properties: dict[str, Any],
        *,
        make_producer: Callable[[dict[str, Any]], Producer] = make_producer,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.failure: BaseException | None = None
        self._topic = topic
        self._clock = clock
        common: dict[str, Any] = {
            "enable.idempotence": True,
            "linger.ms": 5,  # letters are rare, and each delays a commit
            "message.max.bytes": _MAX_MESSAGE_BYTES,
            # The record may have been compressed, and the topic's limit applies to the compressed size.
            "compression.type": "zstd",
            **STATISTICS,
            **properties,
        }
        self._make_producer, self._properties = make_producer, common
        self._producers: dict[bool, Producer] = {False: self._make(False)}  # by whether each message is sent alone
        self._broken: set[bool] = set()  # those that will write nothing more
        self._line: deque[_Letter] = deque()
        self._later: list[tuple[float, int, _Letter]] = []  # rejected ones, by the time of the next attempt
        self._number = itertools.count()  # breaks ties in that heap
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dead-letters", daemon=True)
        self._thread.start()

    def _make(self, alone: bool) -> Producer:
        def told(statistics: str) -> None:
            if is_stranded(statistics, made_seconds=made_seconds):
                self._broken.add(alone)

        own: dict[str, Any] = {"batch.num.messages": 1} if alone else {}
        made, made_seconds = made_in(lambda: self._make_producer({**self._properties, **own, "stats_cb": told}))
        return made

    def __len__(self) -> int:
        """Letters that wait for their first or next attempt."""
        return len(self._line) + len(self._later)

    def put(self, event: Event, code: object, *, safe: Callable[[], None]) -> None:
        """Write one letter; `safe` is called (on this object's thread) once the broker has acknowledged it.

        A letter that the broker rejects is retried until it is accepted: completing its offset without it would lose the event.
        """
        # A handler may have put anything into the code, for example an HTTP status as a number.
        try:
            words = str(code)
        except (
            BaseException
        ):  # the handler's object, on a processor's thread: an error would end the thread, and the process
            words = type(code).__name__
        words = words[:_MAX_CODE_LENGTH].encode("utf-8", "backslashreplace").decode()
        self._line.append(_Letter(event, words, safe))

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._send_line()
                for producer in list(self._producers.values()):
                    producer.poll(_POLL_SECONDS / len(self._producers))
                self._replace_broken()
        except BaseException as error:
            self.failure = error
            _log.exception("dead letters can no longer be written")

    def _send_line(self) -> None:
        """Send the letters that are due to the producers."""
        while self._later and self._later[0][0] <= self._clock():
            self._line.append(heapq.heappop(self._later)[2])
        while self._line:
            letter = self._line.popleft()
            if not letter.is_wanted:
                continue
            try:
                self._produce(letter)
            except BufferError:
                self._line.appendleft(letter)
                return  # the following poll makes room
            except KafkaException as error:
                self._refused(letter, error.args[0])
            except (TypeError, ValueError) as error:  # what a decoder has put into the record is not a valid message
                if letter.size is _Size.HEADERS_ONLY:
                    raise
                _log.error("a dead letter cannot be written as it is: %s", error)
                letter.size = _Size.HEADERS_ONLY
                self._line.append(letter)

    def _produce(self, letter: _Letter) -> None:
        alone = letter.size is not _Size.WHOLE
        if alone not in self._producers:
            self._producers[alone] = self._make(alone)

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                letter.safe()
            else:
                self._refused(letter, error)

        record = letter.event.record
        self._producers[alone].produce(
            self._topic,
            value=record.value if letter.size < _Size.NO_VALUE else None,
            key=record.key if letter.size < _Size.HEADERS_ONLY else None,
            headers=_headers(letter),
            on_delivery=delivered,
        )

    def _refused(self, letter: _Letter, error: KafkaError) -> None:
        letter.tries += 1
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._broken.add(letter.size is not _Size.WHOLE)
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE and letter.size < _Size.HEADERS_ONLY:
            letter.size = _Size(letter.size + 1)
            self._line.append(letter)
        else:
            pause = min(_AGAIN_MOST_SECONDS, _AGAIN_SECONDS * 2.0 ** min(letter.tries - 1, 10))
            heapq.heappush(self._later, (self._clock() + pause, next(self._number), letter))
            _log.error("a dead letter was rejected, retrying in %g s: %s", pause, error)

    def _replace_broken(self) -> None:
        """Replace the producers with a fatal error or without brokers; the letters that they still had are retried."""
        while self._broken:
            alone = self._broken.pop()
            _log.error("the producer of dead letters has a fatal error or no brokers left, and is replaced")
            producer = self._producers.pop(alone)
            producer.purge()
            producer.flush(_HEAL_SECONDS)
            self._broken.discard(alone)  # the reports of the purged messages have added it again
            self._producers[alone] = self._make(alone)

    def close(self, seconds: float) -> None:
        """Wait for letters in flight; an event whose letter is not delivered is read again by the partition's next owner."""
        self._stopping.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            return  # it is stuck in the client and still uses the list
        self._send_line()
        for producer in list(self._producers.values()):
            producer.flush(seconds)


def _headers(letter: _Letter) -> list[tuple[str, str | bytes | None]]:
    record = letter.event.record
    left_out = {_Size.NO_VALUE: ["value"], _Size.HEADERS_ONLY: ["value", "key"]}.get(letter.size, [])
    theirs: list[tuple[str, str | bytes | None]] = []
    try:
        if letter.size is _Size.HEADERS_ONLY:
            left_out.append("headers")
        else:
            theirs += record.headers or ()
    except ValueError:  # `UnreadableHeaders`: their bytes are only in the record
        left_out.append("headers")
    return [
        *theirs,
        ("wb_topic", record.topic.encode()),
        ("wb_partition", str(record.partition).encode()),
        ("wb_offset", str(record.offset).encode()),
        ("wb_timestamp_ms", str(record.timestamp_ms).encode()),
        ("wb_attempts", str(letter.event.attempt).encode()),
        ("wb_code", letter.code.encode()),
        *([(LEFT_OUT_HEADER, ",".join(left_out).encode())] if left_out else []),
        *([(VALUE_BYTES_HEADER, str(len(record.value or b"")).encode())] if "value" in left_out else []),
    ]
