"""Letters of a topic, read with confluent-kafka: many partitions at once, committed records only, nothing joined or committed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.errors import SourceUnreachableError
from workbench.kafka.kafka_gateway import reading_properties
from workbench.read_kafka_headers import headers_of
from workbench.redrive.letter_headers import Headers, Letter
from workbench.redrive.redrive_ports import LettersGoneError, Positions

_BATCH = 5_000
_CONSUME_SECONDS = 0.2
_FETCH_BYTES = 4 << 20  # of one partition
_NO_HEADERS: Headers = ()


class KafkaLetters:
    """Reads one topic by assignment."""

    def __init__(
        self,
        bootstrap: str,
        properties: Mapping[str, Any],
        topic: str,
        *,
        timeout_seconds: float = 30.0,
        batch: int = _BATCH,
    ) -> None:
        self._bootstrap, self._properties, self._topic = bootstrap, properties, topic
        self._timeout, self._batch = timeout_seconds, batch

    def read(self, start: Positions, stop: Positions) -> Iterator[tuple[list[Letter], Positions]]:
        """See `LetterReader.read`."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        left = {number: at for number, at in start.items() if at < stop[number]}
        if not left:
            return
        consumer = Consumer(
            {
                "fetch.wait.max.ms": 50,
                "fetch.queue.backoff.ms": 2,
                "max.partition.fetch.bytes": _FETCH_BYTES,
                **reading_properties(self._bootstrap, self._properties),
                "isolation.level": "read_committed",
            }
        )
        try:
            consumer.assign([TopicPartition(self._topic, number, at) for number, at in left.items()])
            heard = time.monotonic()
            while left:
                messages: list[Any] = consumer.consume(self._batch, _CONSUME_SECONDS)
                if any(it.partition() is not None for it in messages):
                    heard = time.monotonic()
                elif time.monotonic() - heard > self._timeout:
                    number, at = next(iter(left.items()))
                    raise SourceUnreachableError(
                        f"No record of {self._topic}-{number} from {at:,} on in {self._timeout:g} s."
                    )
                letters, over = [], []
                for message in messages:
                    number, error = message.partition(), message.error()
                    if error is not None:
                        if error.code() == KafkaError._PARTITION_EOF:
                            # The end of what may be read: the last offsets before the stop have no record, or were aborted.
                            if number in left and message.offset() >= stop[number]:
                                over.append(number)
                            continue
                        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                            continue  # the client asks for its group, which nobody joins or commits to
                        if error.code() == KafkaError._AUTO_OFFSET_RESET:
                            raise LettersGoneError(f"{self._topic}-{number}: {error.str()}")
                        raise SourceUnreachableError(f"{self._topic} cannot be read: {error.str()}.")
                    if number not in left:
                        continue
                    offset = message.offset()
                    if offset < stop[number]:
                        letters.append(_letter(message, number, offset))
                        left[number] = offset + 1
                    if offset + 1 >= stop[number]:
                        over.append(number)
                for number in over:
                    left.pop(number, None)
                if over and left:
                    consumer.pause([TopicPartition(self._topic, number) for number in set(over)])
                yield letters, {**left, **{number: stop[number] for number in over}}
        finally:
            consumer.close()


def _letter(message: Any, number: int, offset: int) -> Letter:
    headers = headers_of(message) or _NO_HEADERS
    return Letter(number, offset, message.timestamp()[1], message.key(), message.value(), headers)
