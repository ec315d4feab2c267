"""Offset lookup for many partitions: in batches, with retries after a leader change."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_incrementing

from workbench.collect.kafka_connection import KafkaConnection, error_words, is_denied, seconds_left
from workbench.errors import SourceUnreachableError
from workbench.replay.gateway import Partition

# The client's work is quadratic in the partitions of a call: 10,000 in one call took 0.65 s of CPU, in ten calls 0.27 s.
_LOOKUP_BATCH = 1_000
_LEADER_MOVES = ("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PART", "FENCED_LEADER_EPOCH")
_RETRY_PAUSE_SECONDS = 0.3  # grows with each retry
_ATTEMPTS = 4


@dataclass(slots=True)
class Lookup:
    """Offset lookup for many partitions, with retries after a leader change."""

    kafka: KafkaConnection
    spec: Any
    isolation: Any
    deadline: float
    errors: dict[Partition, str] = field(default_factory=dict)
    denied: set[Partition] = field(default_factory=set)
    sleep: Callable[[float], None] = time.sleep
    _futures: dict[Any, Any] = field(default_factory=dict)

    def send(self, partitions: Sequence[Partition]) -> None:
        """Send the requests, in batches."""
        from confluent_kafka import TopicPartition

        admin = self.kafka.connect()
        self._futures = {}
        for at in range(0, len(partitions), _LOOKUP_BATCH):
            batch = dict.fromkeys((TopicPartition(*part) for part in partitions[at : at + _LOOKUP_BATCH]), self.spec)
            self._futures |= self.kafka.ask(
                lambda batch=batch: admin.list_offsets(  # type: ignore[misc]
                    batch, isolation_level=self.isolation, request_timeout=seconds_left(self.deadline)
                )
            )

    def gather(self) -> dict[Partition, Any]:
        """Wait for the answers; partitions without one are in `errors`.

        Raises:
            SourceUnreachableError: if no partition answered.
        """
        good: dict[Partition, Any] = {}
        refusals: list[BaseException] = []
        moved: list[Partition] = []

        def collect() -> list[Partition]:
            if moved:
                self.send(moved)
            moved[:] = self._collect(good, refusals)
            return moved

        Retrying(
            retry=retry_if_result(bool),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_incrementing(start=_RETRY_PAUSE_SECONDS, increment=_RETRY_PAUSE_SECONDS),
            sleep=self.sleep,
            retry_error_callback=lambda _state: None,  # partitions without an answer by then are in `errors`
        )(collect)
        if refusals and not good:
            raise self.kafka.unreachable(refusals[-1])
        if self.errors and not good:
            raise SourceUnreachableError(
                f"Kafka at {self.kafka.bootstrap} does not answer: {next(iter(self.errors.values()))}."
            )
        return good

    def _collect(self, good: dict[Partition, Any], refusals: list[BaseException]) -> list[Partition]:
        """Take the answers; return the partitions whose leader has changed."""
        from confluent_kafka import KafkaException

        moved: list[Partition] = []
        for part, future in self._futures.items():
            key = (part.topic, part.partition)
            self.errors.pop(key, None)
            self.denied.discard(key)
            try:
                good[key] = future.result(seconds_left(self.deadline))
            except (KafkaException, TimeoutError) as error:
                self.errors[key] = error_words(error)
                if is_denied(error):
                    self.denied.add(key)
                    refusals.append(error)
                if isinstance(error, KafkaException) and error.args[0].name() in _LEADER_MOVES:
                    moved.append(key)
        return moved
