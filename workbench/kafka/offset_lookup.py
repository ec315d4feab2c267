"""Offset lookup for many partitions: in batches, with retries after a leader change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import SourceUnreachableError
from workbench.kafka.connection import KafkaConnection, is_over, seconds_left
from workbench.kafka.leader_offsets import OffsetQuestion, ToldOffset, ask_leaders
from workbench.kafka.leaders import leader_of, list_offsets, topics_of
from workbench.kafka.librdkafka_errors import error_words, is_denied, is_lost, is_moved, is_unknown_topic
from workbench.queues.snapshot_views import Partition

# The client's work is quadratic in the partitions of a call: 10,000 in one call took 0.65 s of CPU, in ten calls 0.27 s.
_LOOKUP_BATCH = 1_000
_NO_RECORD = -1  # the broker's answer to a time after the last record
_NOTHING_SAID = "its leader has not answered"
_RETRY_PAUSE_SECONDS = 0.3  # grows with each retry
_LOST_PAUSE_SECONDS = 1.0  # others take over after some seconds
_MOVES = 6  # so often a moved leader is asked for again


def topics_for(kafka: KafkaConnection, partitions: Sequence[Partition], deadline: float) -> dict[str, Any]:
    """Topics of partitions, from any broker that answers: one that hangs does not hold this up.

    Raises:
        SourceUnreachableError: if none answers.
    """
    from confluent_kafka import KafkaException

    names = {topic for topic, _ in partitions}
    try:
        return topics_of(kafka, names, kafka.quiet_seconds)
    except KafkaException:
        kafka.reconnect(kafka.look())
    try:
        return topics_of(kafka, names, seconds_left(deadline))
    except KafkaException as error:
        raise kafka.unreachable(error) from None


def told_by_leaders(
    kafka: KafkaConnection,
    partitions: Sequence[Partition],
    topics: Mapping[str, Any],
    questions: Sequence[OffsetQuestion],
    deadline: float,
) -> list[dict[Partition, ToldOffset]]:
    """What the leaders tell at once: the answers to each question, only of partitions that have answered all of them.

    The rest is for `Lookup`, which asks again, and knows why there is no answer.
    """
    leaders = {part: leader for part in partitions if (leader := leader_of(topics, part)) is not None}
    told = ask_leaders(
        kafka.own_servers, kafka.properties, leaders, questions, seconds=seconds_left(deadline) / 2, silence=kafka.quiet_seconds
    )  # fmt: skip
    answered = [
        {part for part, it in answers.items() if it.offset >= (_NO_RECORD if question.time_ms >= 0 else 0)}
        for question, answers in zip(questions, told, strict=True)
    ]
    complete = set.intersection(*answered)
    kafka.requests += len(questions) if complete else 0
    return [{part: it for part, it in answers.items() if part in complete} for answers in told]


@dataclass(slots=True)
class Lookup:
    """Offset lookup for many partitions, with retries after a leader change."""

    kafka: KafkaConnection
    spec: Any
    isolation: Any
    deadline: float
    errors: dict[Partition, str] = field(default_factory=dict)
    denied: set[Partition] = field(default_factory=set)
    is_time: bool = False  # whether it looks for the first record at or after a time
    known: Mapping[Partition, Any] = field(default_factory=dict)  # answers of others, which are not asked for
    sleep: Callable[[float], None] = time.sleep
    _futures: dict[Partition, Future[Any]] = field(default_factory=dict)
    _attempts: Iterator[float] | None = None
    _limit: float = 0.0

    def send(self, partitions: Sequence[Partition], topics: Mapping[str, Any]) -> None:
        """Send the requests, in batches; `topics` are those of `topics_for`."""
        self._attempts = self._attempts or self.kafka.attempts(self.deadline)
        self._limit = min(self.deadline, time.monotonic() + next(self._attempts, 0.0))
        self._futures = {}
        partitions = [part for part in partitions if part not in self.known] if self.known else partitions
        for at in range(0, len(partitions), _LOOKUP_BATCH):
            self._futures |= list_offsets(
                self.kafka,
                dict.fromkeys(partitions[at : at + _LOOKUP_BATCH], self.spec),
                topics,
                isolation_level=self.isolation,
                request_timeout=seconds_left(self._limit),
            )

    def gather(self) -> dict[Partition, Any]:
        """Wait for the answers; partitions without one are in `errors`.

        A partition whose leader has moved, or does not answer, is asked for again: within some seconds it has another one.

        Raises:
            SourceUnreachableError: if no partition answered.
        """
        good: dict[Partition, Any] = dict(self.known)
        refusals: list[BaseException] = []
        moves = 0
        again, is_lost_one = self._collect(good, refusals)
        while again and not is_over(self.deadline) and moves < _MOVES:
            if is_lost_one:
                self.kafka.reconnect(self.kafka.look())
                self.sleep(_LOST_PAUSE_SECONDS)
            else:
                moves += 1
                self.sleep(_RETRY_PAUSE_SECONDS * moves)
            self.send(again, topics_for(self.kafka, again, self.deadline))
            again, is_lost_one = self._collect(good, refusals)
        if refusals and not good:
            raise self.kafka.unreachable(refusals[-1], needs=f"DESCRIBE on topic {sorted(self.denied)[0][0]!r}")
        if self.errors and not good:
            (topic, number), words = next(iter(self.errors.items()))
            raise SourceUnreachableError(
                f"Kafka at {self.kafka.bootstrap} does not answer for {topic}-{number}: {words}."
            )
        return good

    def _collect(self, good: dict[Partition, Any], refusals: list[BaseException]) -> tuple[list[Partition], bool]:
        """Take the answers; return the partitions to ask for again, and whether one of them has had no answer at all."""
        from confluent_kafka import KafkaException

        again: list[Partition] = []
        is_lost_one = False
        for key, future in self._futures.items():
            self.errors.pop(key, None)
            self.denied.discard(key)
            try:
                found = self.kafka.wait(future, self._limit)
                if found.offset < (_NO_RECORD if self.is_time else 0):
                    # The client may call a lookup a success although the leader was lost and has said nothing.
                    self.errors[key] = _NOTHING_SAID
                    again.append(key)
                    is_lost_one = True
                else:
                    good[key] = found
            except (KafkaException, TimeoutError) as error:
                self.errors[key] = error_words(error)
                if is_denied(error):
                    self.denied.add(key)
                    refusals.append(error)
                elif isinstance(error, TimeoutError) or is_lost(error):
                    again.append(key)
                    is_lost_one = True
                elif is_moved(error) or is_unknown_topic(error):  # a new leader may not know its topic yet
                    again.append(key)
        return again, is_lost_one
