"""Dead letters: where a record came from and why it failed, by the headers of the framework that wrote it.

Headers come from any producer of the topic, so every value here is untrusted: numbers are range-checked, texts are shortened, and a
source topic is used only if its name is valid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from workbench.queues.position import packed
from workbench.read_kafka_headers import UNREADABLE, Headers

__all__ = ["UNREADABLE", "Headers"]  # from there, for the readers of letters

ROUND_HEADER = "wb_redrive_round"  # how often the record was redriven; the poison guard reads it
PLAN_HEADER = "wb_redrive_plan"  # the plan that produced the record
LETTER_HEADER = "wb_redrive_letter"  # the dead letter it was made from: partition:offset
_OWN = frozenset({ROUND_HEADER, PLAN_HEADER, LETTER_HEADER})
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
# Without the partition: Pulsar's clients name it or not.
_PERSISTENT_TOPIC = re.compile(r"persistent://([-=:.\w]+/[-=:.\w]+/[^\s/][^\s]*?)(?:-partition-(\d{1,9}))?")
# `1:2:3` or `1:2:3:4` of Java's client, `(1,2,3,4)` of the others.
_MESSAGE_ID = re.compile(r"\(?(\d{1,18})[:,](\d{1,18})[:,](-1|\d{1,9})(?:[:,](-1|\d{1,9}))?\)?", re.ASCII)
_MAX_TEXT = 200
_MAX_MESSAGE = 500
_MAX_OFFSET = 1 << 62
DECATON_HEADER = "dt_meta"
_DECATON_RETRIES = (4, 5)  # fields retry_count and scheduled_time_millis of TaskMetadataProto


class Letter(NamedTuple):
    """One record of a dead-letter topic; `timestamp_ms` is -1 if it has none. The last two are of Pulsar, as of `PulsarMessage`."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    event_ms: int = 0
    ordering_key: bytes | None = None

    @property
    def size(self) -> int:
        """Bytes of keys, value and headers."""
        total = len(self.key or b"") + len(self.value or b"") + len(self.ordering_key or b"")
        for name, value in self.headers:  # the path of every letter: a loop takes half the time of a sum
            total += len(name)
            if value is not None:
                total += len(value)
        return total


class Origin(NamedTuple):
    """What the headers of a letter say.

    Attributes:
        framework: name of the convention; "unknown" if none fits.
        topic, partition, offset: of the record that failed; None if the headers do not say it.
        error: class or code of the error; "(none)" without one.
        message: its text.
        round: how often the record was redriven before.
        group: consumer group that gave the record up; None if the headers do not say it.
        left_out: whether the letter lacks a part of the record: what was too large, or headers that cannot be read.
    """

    framework: str
    topic: str | None
    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    error: str
    message: str | None
    round: int
    left_out: bool
    group: str | None = None


@dataclass(frozen=True)
class Convention:
    """Names of the headers that a framework writes; the first that a letter has counts.

    Attributes:
        marks: a letter with one of these headers is of this framework.
        place: header with all of that but the topic: a message id of Pulsar, `ledger:entry:partition` or with the index in a batch.
        strip: pattern of the header names that belong to the letter and not to the record.
    """

    name: str
    marks: tuple[str, ...]
    topic: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    offset: tuple[str, ...] = ()
    timestamp: tuple[str, ...] = ()
    error: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    group_prefix: str = ""
    place: tuple[str, ...] = ()
    strip: str = "(?!)"

    @cached_property
    def stripped(self) -> re.Pattern[str]:
        """Pattern of the whole name."""
        return re.compile(self.strip)


# Sources: our dead_letters.py; Spring Kafka's DeadLetterPublishingRecoverer and RetryTopic headers; Kafka Connect's
# DeadLetterQueueReporter; kafbat/kafka-ui #1920 and the spring-cloud-stream binder; Parallel Consumer's draft (astubbs #8, no release
# writes dead letters); Decaton's TaskMetadataProto; SmallRye's KafkaDeadLetterQueue; Kafka's own, of Streams
# (KIP-1034) and of share groups (KIP-1191); Pulsar's RetryMessageUtil.
CONVENTIONS = (
    Convention(
        "runtime",
        ("wb_topic",),
        topic=("wb_topic",),
        partition=("wb_partition",),
        offset=("wb_offset",),
        timestamp=("wb_timestamp_ms",),
        error=("wb_code",),
        strip="wb_(topic|partition|offset|timestamp_ms|attempts|code|left_out|value_bytes)",
    ),
    Convention(
        "spring",
        ("kafka_dlt-original-topic", "kafka_dlt-exception-fqcn"),
        topic=("kafka_original-topic", "kafka_dlt-original-topic"),
        partition=("kafka_original-partition", "kafka_dlt-original-partition"),
        offset=("kafka_original-offset", "kafka_dlt-original-offset"),
        timestamp=("kafka_original-timestamp", "kafka_dlt-original-timestamp"),
        error=("kafka_dlt-exception-cause-fqcn", "kafka_dlt-exception-fqcn"),
        message=("kafka_dlt-exception-message",),
        group=("kafka_dlt-original-consumer-group",),
        strip="kafka_(dlt-|original-|exception-).*|retry_topic-.*|springDeserializerException.*",
    ),
    Convention(
        "connect",
        ("__connect.errors.topic", "__connect.errors.connector.name"),
        topic=("__connect.errors.topic",),
        partition=("__connect.errors.partition",),
        offset=("__connect.errors.offset",),
        error=("__connect.errors.exception.class.name",),
        message=("__connect.errors.exception.message",),
        group=("__connect.errors.connector.name",),
        group_prefix="connect-",
        strip=r"__connect\.errors\..*",
    ),
    Convention(
        "parallel_consumer",
        ("pc-failure-count", "pc-last-failure-cause"),
        topic=("pc-topic",),
        partition=("pc-partition",),
        offset=("pc-offset",),
        timestamp=("pc-timestamp",),
        error=("pc-last-failure-cause",),
        strip="pc-(failure-count|last-failure-.*|topic|partition|offset|timestamp)",
    ),
    Convention(
        "smallrye",
        ("dead-letter-reason", "dead-letter-topic"),
        topic=("dead-letter-topic",),
        partition=("dead-letter-partition",),
        offset=("dead-letter-offset",),
        error=("dead-letter-exception-class-name", "dead-letter-reason"),
        message=("dead-letter-reason",),
        strip="dead-letter-.*",
    ),
    Convention(
        "kafbat",
        ("x-original-topic",),
        topic=("x-original-topic",),
        partition=("x-original-partition",),
        offset=("x-original-offset",),
        timestamp=("x-original-timestamp",),
        error=("x-exception-fqcn", "x-error-class", "x-error-type", "x-error-name", "x-error", "x-exception-message"),
        message=("x-exception-message", "x-error-message", "x-error"),
        strip="x-(original|exception|error)-.*|x-error",
    ),
    Convention(
        "kafka_streams",
        ("__streams.errors.topic", "__streams.errors.exception"),
        topic=("__streams.errors.topic",),
        partition=("__streams.errors.partition",),
        offset=("__streams.errors.offset",),
        error=("__streams.errors.exception",),
        message=("__streams.errors.message",),
        strip=r"__streams\.errors\..*",
    ),
    Convention(
        "share_group",
        ("__dlq.errors.topic", "__dlq.errors.group"),
        topic=("__dlq.errors.topic",),
        partition=("__dlq.errors.partition",),
        offset=("__dlq.errors.offset",),
        group=("__dlq.errors.group",),
        strip=r"__dlq\.errors\..*",
    ),
    Convention(
        "pulsar",
        ("REAL_TOPIC", "ORIGIN_MESSAGE_ID", "ORIGIN_MESSAGE_IDY_TIME"),
        topic=("REAL_TOPIC",),
        timestamp=("wb_timestamp_ms",),
        # Of our runtime; Pulsar's clients do not say why. Functions and connectors do.
        error=("wb_code", "exception"),
        group=("REAL_SUBSCRIPTION",),
        place=("ORIGIN_MESSAGE_ID", "ORIGIN_MESSAGE_IDY_TIME"),
        strip="REAL_(TOPIC|SUBSCRIPTION)|ORIGIN_MESSAGE_IDY?(_TIME)?|RECONSUMETIMES|DELAY_TIME|RETRY_TOPIC"
        "|wb_(code|timestamp_ms|left_out|value_bytes)",
    ),
    Convention("decaton", (DECATON_HEADER,)),
)
_UNKNOWN = Convention("unknown", ())


class Reader:
    """Reads the headers of letters by the known conventions, and by one of the settings before them."""

    def __init__(self, mapping: Mapping[str, str] | None = None) -> None:
        """`mapping`: topic, partition, offset, timestamp, error, message to a header's name, from the settings."""
        own: tuple[Convention, ...] = ()
        if mapping:
            names: Any = {name: (header,) for name, header in mapping.items()}
            headers = tuple(mapping.values())
            own = (Convention("mapping", headers, strip="|".join(map(re.escape, headers)), **names),)
        self._conventions = (*own, *CONVENTIONS)

    def convention(self, headers: Mapping[str, bytes | None]) -> Convention:
        """The first convention that has a mark among the headers."""
        for each in self._conventions:
            for mark in each.marks:
                if mark in headers:
                    return each
        return _UNKNOWN

    def origin(self, headers: Headers) -> Origin:
        """Origin of a letter; of headers with the same name the last one counts."""
        found = dict(headers)
        by = self.convention(found)
        message = _text(_first(found, by.message), _MAX_MESSAGE) if by.message else None
        partition, offset = _place(_first(found, by.place), _first(found, by.topic)) if by.place else (None, None)
        return Origin(
            by.name,
            _topic(_first(found, by.topic)),
            _number(_first(found, by.partition), (1 << 31) - 1) if partition is None else partition,
            _number(_first(found, by.offset), _MAX_OFFSET) if offset is None else offset,
            _number(_first(found, by.timestamp), _MAX_OFFSET),
            _text(_first(found, by.error), _MAX_TEXT) or "(none)",
            message,
            _number(found.get(ROUND_HEADER), 1_000_000) or 0,
            bool(found.get("wb_left_out")),
            f"{by.group_prefix}{group}" if by.group and (group := _text(_first(found, by.group), _MAX_TEXT)) else None,
        )

    def restored(self, headers: Headers, *, plan: str, letter: str, round_: int) -> list[tuple[str, bytes | None]]:
        """The record's own headers as they were before it failed, with ours of this redrive."""
        strip = self.convention(dict(headers)).stripped.fullmatch
        kept = [
            (name, _without_retries(value) if name == DECATON_HEADER else value)
            for name, value in headers
            if name not in _OWN and strip(name) is None
        ]
        kept.append((ROUND_HEADER, str(round_).encode()))
        kept.append((PLAN_HEADER, plan.encode()))
        kept.append((LETTER_HEADER, letter.encode()))
        return kept


def _first(headers: Mapping[str, bytes | None], names: Sequence[str]) -> bytes | None:
    for name in names:
        if (value := headers.get(name)) is not None:
            return value
    return None


def _text(value: bytes | None, most: int) -> str | None:
    return value[: 4 * most].decode(errors="replace")[:most] if value is not None else None


def _topic(value: bytes | None) -> str | None:
    if value is None or len(value) > 249:
        return None
    text = value.decode(errors="replace")
    if (found := _PERSISTENT_TOPIC.fullmatch(text)) is not None:
        return found[1]
    return text if _TOPIC_NAME.fullmatch(text) and text not in (".", "..") else None


def _place(value: bytes | None, topic: bytes | None) -> tuple[int | None, int | None]:
    """Partition and packed position of a message id of Pulsar. Who reads a topic without partitions, or one partition by its name, has
    the partition -1 there: it is the one of the name, and else 0, as everywhere here.
    """
    found = _MESSAGE_ID.fullmatch(value[:100].decode(errors="replace")) if value is not None else None
    if found is None:
        return None, None
    partition = int(found[3])
    if partition < 0:
        named = _PERSISTENT_TOPIC.fullmatch((topic or b"")[:300].decode(errors="replace"))
        partition = int(named[2] or 0) if named is not None else 0
    return partition, packed((int(found[1]), int(found[2]), max(0, int(found[4] or 0))))


def _number(value: bytes | None, most: int) -> int | None:
    """A number as decimal text, or as Spring's big-endian int or long: as text, such bytes would be too large.

    Bytes that are a text are none of these: `null` or `none` is no partition 1,853,189,228.
    """
    if not value or len(value) > 20:
        return None
    if value.isdigit():
        number = int(value)
    elif len(value) in (4, 8) and not value.decode("latin-1").isprintable():
        number = int.from_bytes(value, "big", signed=True)
    else:
        return None
    return number if 0 <= number <= most else None


def _without_retries(value: bytes | None) -> bytes | None:
    """Decaton's metadata without its retry count and schedule: with them, the task would be given up at its first failure.

    What is not a valid message is kept as it is.
    """
    at, out = 0, bytearray()
    data = value or b""
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(data, at)
        elif kind == 1:
            at += 8
        elif kind == 2:
            length, at = _varint(data, at)
            at += length
        elif kind == 5:
            at += 4
        else:
            return value
        if tag < 8 or not start < at <= len(data):
            return value
        if tag >> 3 not in _DECATON_RETRIES:
            out += data[start:at]
    return bytes(out) if value is not None else None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Value and the next position; a position after the end if it is cut off."""
    number = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
    return 0, len(data) + 1
