"""Dead letters: what was given up, kept where a person can look at it. The offset completes only when the letter is safe."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from workbench.runtime.event import Event

_log = logging.getLogger(__name__)


class DeadLetters:
    """Writes given-up events to a topic, with headers that say where they came from and why."""

    def __init__(self, topic: str, properties: dict[str, Any]) -> None:
        self._topic = topic
        self._producer = Producer(
            # linger 5 ms: letters are rare, and each holds a commit back
            {"enable.idempotence": True, "linger.ms": 5, **properties}, logger=_log
        )  # fmt: skip

    def put(self, event: Event, code: str, *, safe: Callable[[], None]) -> None:
        """Write one letter; `safe` is called (on the thread that polls) once the broker has it.

        A letter that the broker refuses is tried again until it is taken: completing its offset without it would lose the event.
        """

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                safe()
                return
            _log.error("a dead letter was not delivered, trying again: %s", error)
            self._produce(event, code, delivered)

        self._produce(event, code, delivered)

    def _produce(self, event: Event, code: str, delivered: Callable[[KafkaError | None, Message], None]) -> None:
        record = event.record
        headers = [
            *(record.headers or ()),
            ("wb_topic", record.topic.encode()),
            ("wb_partition", str(record.partition).encode()),
            ("wb_offset", str(record.offset).encode()),
            ("wb_timestamp_ms", str(record.timestamp_ms).encode()),
            ("wb_attempts", str(event.attempt).encode()),
            ("wb_code", code.encode()),
        ]
        while True:
            try:
                self._producer.produce(
                    self._topic, value=record.value, key=record.key, headers=headers, on_delivery=delivered
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def poll(self) -> None:
        """Serve delivery reports."""
        self._producer.poll(0)

    def close(self, seconds: float) -> None:
        """Wait for what is on its way."""
        self._producer.flush(seconds)
