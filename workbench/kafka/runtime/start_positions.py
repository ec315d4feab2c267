"""Where reading starts and goes on: what the runtime decides itself, because the client would move a position without a word."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, Consumer, KafkaException, TopicPartition
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

from workbench.commit_note import CommitNote, format_note, parse_note
from workbench.errors import ConfigError, GuardError
from workbench.runtime.event import TopicPartition as Partition
from workbench.runtime.ranges_to_process import Ranges

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 10.0
_PAUSE_SECONDS = 0.5
_LIST_SECONDS = 2.0  # for the partitions of all topics, in a poll; at first
_TRIES = 3  # the start of a replay must be known; reading from another offset would be a silent error
# What librdkafka (2.16) says of a log that was truncated below the position, if the records up to the cut are still the same.
_CUT = re.compile(r"log truncation detected .*broker end offset is (\d+)")


class Policy(StrEnum):
    """`auto.offset.reset`: where a partition without any start begins. A start that is known and lost is no matter of policy."""

    EARLIEST = "earliest"
    LATEST = "latest"
    ERROR = "error"

    @classmethod
    def of(cls, value: object) -> Policy:
        """Policy of the client's property.

        Raises:
            ConfigError: if there is no such policy.
        """
        named = {
            **{it.value: it for it in cls},
            **dict.fromkeys(("smallest", "beginning"), cls.EARLIEST),
            **dict.fromkeys(("largest", "end"), cls.LATEST),
            "none": cls.ERROR,
        }
        if (found := named.get(str(value))) is None:
            raise ConfigError(
                f"kafka: auto.offset.reset: {value} is not a policy.", hint="Use earliest, latest or error."
            )
        return found

    @property
    def start(self) -> int:
        """Offset to assign to a partition without a start; the end of a log is asked for (`FirstStart`)."""
        return OFFSET_BEGINNING if self is Policy.EARLIEST else OFFSET_STORED


def persistently(ask: Callable[[], list[TopicPartition]]) -> list[TopicPartition]:
    """Ask the broker, with retries.

    Raises:
        KafkaException: the error of the last attempt, for the request or for one partition.
    """

    @retry(
        retry=retry_if_exception_type(KafkaException),
        stop=stop_after_attempt(_TRIES),
        wait=wait_fixed(_PAUSE_SECONDS),
        before_sleep=lambda state: _log.warning(
            "asking the broker again: %s", state.outcome and state.outcome.exception()
        ),
        reraise=True,
    )
    def answered() -> list[TopicPartition]:
        answers = ask()
        for part in answers:
            if part.error is not None:
                raise KafkaException(part.error)
        return answers

    return answered()


def begin_at(consumer: Consumer, partitions: Sequence[Partition], start_at_ms: int) -> dict[Partition, int]:
    """Start offsets of partitions without a commit; they must be committed.

    The commit makes the start durable: otherwise a partition without new records would have no commit, and would start at the log
    start after a restart without `start_at`.

    Raises:
        KafkaException: if the broker does not answer.
    """
    begin = _at_or_after(consumer, start_at_ms, partitions)
    none_yet = [partition for partition, offset in begin.items() if offset < 0]
    # They start at the log end. Request the end first and the timestamp again after it, to find records that arrive in between.
    ends = _at_or_after(consumer, OFFSET_END, none_yet)
    again = _at_or_after(consumer, start_at_ms, none_yet)
    return begin | {part: again[part] if again[part] >= 0 else end for part, end in ends.items()}


class FirstStart:
    """Which partitions a group with `latest` begins at their end: those that were there when it began. All others are new to it, and
    what they have came after it.

    Members that begin together see commits of each other, so these say how many partitions the topic had.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] | None = None  # of partitions, by topic, before the group was joined
        self._patience_seconds = _LIST_SECONDS

    @property
    def is_known(self) -> bool:
        """Whether it is known what was there."""
        return self._counts is not None

    def learn(self, consumer: Consumer) -> bool:
        """Ask what is there, outside of the client's callbacks (see `check_ranges`); return whether the broker has answered."""
        try:
            topics = consumer.list_topics(timeout=self._patience_seconds).topics
        except KafkaException as error:
            _log.warning("the partitions of the topics are not known yet: %s", error)
            self._patience_seconds = min(2 * self._patience_seconds, _TIMEOUT_SECONDS)  # there may be very many
            return False
        self._counts = {name: len(topic.partitions) for name, topic in topics.items()}
        return True

    def is_over(self) -> None:
        """The group is joined anew: whatever has no commit then is new."""
        self._counts = {}

    def begin(
        self, consumer: Consumer, partitions: Iterable[Partition]
    ) -> tuple[dict[Partition, int], dict[Partition, str]]:
        """Start offsets of partitions without a commit, and the notes to commit with them, so that both outlast this member: the end
        is another one at the next assignment, and what arrived meanwhile would be skipped.

        Raises:
            KafkaException: if the broker does not answer.
        """
        counts = self._counts or {}
        there = [part for part in partitions if part[1] < counts.get(part[0], 0)]
        new = {part for part in partitions if part not in there}
        asked = [TopicPartition(topic, number) for topic in {it for it, _ in there} for number in range(counts[topic])]
        found: dict[str, int] = {}  # topics with commits, and the most partitions that one of those says
        for it in persistently(lambda: consumer.committed(asked, timeout=_TIMEOUT_SECONDS)) if asked else []:
            if it.offset >= 0:
                found[it.topic] = max(found.get(it.topic, 0), parse_note(it.metadata).partitions or 0)
        new |= {part for part in there if part[1] >= found.get(part[0], counts[part[0]])}
        first = [part for part in there if part not in new]
        # In ListOffsets, these are timestamps of the log's start and end; one request covers all partitions.
        offsets = _at_or_after(consumer, OFFSET_BEGINNING, sorted(new)) | _at_or_after(consumer, OFFSET_END, first)
        return offsets, {part: format_note(CommitNote(partitions=counts[part[0]])) for part in first}


def _at_or_after(consumer: Consumer, at_ms: int, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """Offset of the first record at or after a timestamp; -1 if there is none."""
    if not partitions:
        return {}
    asked = [TopicPartition(topic, number, at_ms) for topic, number in partitions]
    answers = persistently(lambda: consumer.offsets_for_times(asked, timeout=_TIMEOUT_SECONDS))
    return {(part.topic, part.partition): part.offset for part in answers}


def check_ranges(consumer: Consumer, ranges: Ranges, assigned: Iterable[Partition]) -> bool:
    """Refuse ranges that no log has: their group would wait for their end forever. Returns whether the broker has answered.

    Not to be called in a callback of the client (2.16): after `list_topics` it no longer knows that it is in a call, and aborts the
    process at its next callback.

    Raises:
        GuardError: naming a partition that its topic does not have, or a range that goes beyond its log's end.
    """
    assigned = list(assigned)
    try:
        there = {
            topic: consumer.list_topics(topic, timeout=_TIMEOUT_SECONDS).topics[topic].partitions
            for topic, _ in assigned
        }
        ends = {
            part: consumer.get_watermark_offsets(TopicPartition(*part), timeout=_TIMEOUT_SECONDS)[1]
            for part in assigned
            if ranges.end(part)
        }
    except KafkaException as error:
        _log.warning("the ranges cannot be checked yet: %s", error)
        return False
    for topic, number in sorted(ranges.ends):
        if number not in there.get(topic, (number,)):
            raise GuardError(
                f"There are ranges for {topic}-{number}, and topic {topic} has no such partition.",
                hint="Correct the ranges, or make a new plan.",
            )
    for partition, log_end in ends.items():
        if ranges.end(partition) > log_end:
            raise GuardError(
                f"The ranges of {partition[0]}-{partition[1]} go to {ranges.end(partition)}, and its log ends at {log_end}.",
                hint="Correct the ranges. If the log was truncated or recreated, make a new plan.",
            )
    return True


def next_offset(lost: int | None, why: str, low: int, high: int) -> int | None:
    """Offset at which to go on after a position was outside of the log [low, high); None where there was no position.

    Whatever the policy, as little as possible is skipped, and nothing of a log that was truncated: what it has now are other records.
    """
    if (cut := _CUT.search(why)) is not None:
        return max(low, min(int(cut[1]), high))
    return None if lost is None and "truncat" not in why else low


def place(
    consumer: Consumer, partition: Partition, offset: int, *, incremental: bool, begun: dict[Partition, int]
) -> None:
    """Have a partition that is assigned be read from an offset, when the client has given it up (it refuses to seek then).

    Without incremental assignments, all partitions are placed anew: where they are, or where they were to begin. `begun` keeps that:
    until their next record, the client does not know where they are.

    Raises:
        KafkaException: if the client refuses.
    """
    if incremental:
        consumer.incremental_unassign([TopicPartition(*partition)])
        consumer.incremental_assign([TopicPartition(*partition, offset)])
        return
    placed = []
    part: Any
    for part in consumer.position(consumer.assignment()):
        where = (part.topic, part.partition)
        at = part.offset if part.offset >= 0 else begun.get(where, OFFSET_STORED)
        begun[where] = offset if where == partition else at
        placed.append(TopicPartition(*where, begun[where]))
    consumer.assign(placed)


def offsets_of(answers: Sequence[TopicPartition]) -> dict[Partition, int | None]:
    """Committed offsets; None if there is none, or if it is not known."""
    return {
        (part.topic, part.partition): part.offset if part.error is None and part.offset >= 0 else None
        for part in answers
    }


def failures_of(answers: Sequence[TopicPartition]) -> dict[Partition, str]:
    """Errors of single partitions."""
    return {(part.topic, part.partition): str(part.error) for part in answers if part.error is not None}
