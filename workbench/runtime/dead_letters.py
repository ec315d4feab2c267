"""Dead letters: what was given up, kept where a person can look at it. The offset completes only when the letter is safe."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from workbench.runtime.event import Event

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_AGAIN_SECONDS = 1.0  # between tries of a letter that the broker has refused
_MAX_CODE_LENGTH = 200  # a code may come from outside (a service's words)


class DeadLetters:
    """Writes given-up events to a topic, with headers that say where they came from and why.

    One thread of its own serves the delivery reports. `put` may be called from any thread, and never waits for the broker: what the
    producer's buffer does not take now waits in line here. Both are bounded by what the runtime holds uncommitted.
    """

    def __init__(self, topic: str, properties: dict[str, Any]) -> None:
        self._topic = topic
        self._producer = Producer(
            # linger 5 ms: letters are rare, and each holds a commit back
            {"enable.idempotence": True, "linger.ms": 5, **properties}, logger=_log
        )  # fmt: skip
        self._line: deque[tuple[Event, str, Callable[[], None]]] = deque()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dead-letters", daemon=True)
        self._thread.start()

    def put(self, event: Event, code: str, *, safe: Callable[[], None]) -> None:
        """Write one letter; `safe` is called (on this object's thread) once the broker has it.

        A letter that the broker refuses is tried again until it is taken: completing its offset without it would lose the event.
        """
        self._line.append((event, code, safe))

    def _run(self) -> None:
        while not self._stopping.is_set():
            if not self._send_line():
                self._stopping.wait(_AGAIN_SECONDS)
            self._producer.poll(_POLL_SECONDS)

    def _send_line(self) -> bool:
        """Hand the waiting letters to the producer; whether it took what it was given."""
        while self._line:
            event, code, safe = self._line.popleft()
            try:
                self._produce(event, code, safe)
            except BufferError:
                self._line.appendleft((event, code, safe))
                return True  # the poll that follows makes room
            except KafkaException as error:
                _log.error("a dead letter was not taken, trying again: %s", error)
                self._line.appendleft((event, code, safe))
                return False
        return True

    def _produce(self, event: Event, code: str, safe: Callable[[], None]) -> None:
        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                _log.error("a dead letter was not delivered, trying again: %s", error)
                self._line.append((event, code, safe))
                return
            safe()

        record = event.record
        self._producer.produce(
            self._topic,
            value=record.value,
            key=record.key,
            headers=[
                *(record.headers or ()),
                ("wb_topic", record.topic.encode()),
                ("wb_partition", str(record.partition).encode()),
                ("wb_offset", str(record.offset).encode()),
                ("wb_timestamp_ms", str(record.timestamp_ms).encode()),
                ("wb_attempts", str(event.attempt).encode()),
                ("wb_code", code[:_MAX_CODE_LENGTH].encode()),
            ],
            on_delivery=delivered,
        )

    def close(self, seconds: float) -> None:
        """Wait for what is on its way; what is not safe then is read again by the partition's next owner."""
        self._stopping.set()
        self._thread.join(seconds)
        self._send_line()
        self._producer.flush(seconds)
