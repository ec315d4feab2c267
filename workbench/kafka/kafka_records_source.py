"""`spark.read.format("kafka_records")`: records of Kafka topics as a Spark frame, without a jar.

A Python Data Source with confluent-kafka. The offset ranges are fixed during planning, so a retried task reads the same records.
Consumers use assign(), join no group and never commit. Of the package it needs `read_kafka_headers.py` alone: if Spark's executors
do not have the package, `spark.addArtifacts(path, pyfile=True)` with a zip of these two files at their places is enough.

    from workbench.kafka.kafka_records_source import KafkaRecords
    spark.dataSource.register(KafkaRecords)
    spark.read.format("kafka_records").option("bootstrap", "localhost:9092").option("topics", "orders").load()

Options:
    bootstrap: host:port of some brokers.
    topics: names separated by commas; all partitions, from `since_ms` (or the log start) to `until_ms` (or the log end at planning).
    since_ms, until_ms: from the first record at or after `since_ms` up to the first one at or after `until_ms`, exclusive; epoch ms.
    ranges: instead of topics: JSON `[[topic, partition, start, stop], …]`, stop exclusive.
    columns: which of `SCHEMA`, separated by commas; default all. Other columns are not copied.
    type_header: the header that `event_type` is read from; default `event_type`.
    isolation: `read_committed` (default) or `read_uncommitted`.
    records_per_task: a range longer than this is split, and shorter ones share a task; default 500,000.
    timeout_seconds: longest wait for the broker; default 30.
    kafka.*: further librdkafka properties (security).
"""

from __future__ import annotations

import gc
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from workbench.read_kafka_headers import UNREADABLE, Headers, headers_of

# Column to Spark type. `timestamp` is null if the record has none; `value_bytes` is the length of the value, 0 for null. `headers` is
# empty without headers, and null where the client cannot decode them.
SCHEMA = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "event_type": "string",
    "value_bytes": "int",
}
_BATCH = 10_000
_SMALL = 5_000  # shorter ranges are read together with others
_RANGES_PER_TASK = 500
_LONG = 100_000  # larger fetches pay off from here on; for a short range they would fetch unneeded records
_LONG_FETCH_BYTES = 8 << 20  # of one partition; the client's default is 1 MB
_RECORDS_PER_TASK = 500_000
_CONSUME_SECONDS = 0.2

Range = tuple[str, int, int, int]


class KafkaRecords(DataSource):
    """The data source; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        """Name for `format(…)`."""
        return "kafka_records"

    def schema(self) -> str:
        """The requested columns."""
        return ", ".join(f"{column} {SCHEMA[column]}" for column in _columns(self.options))

    def reader(self, schema: Any) -> KafkaRecordsReader:
        """Make the reader for these options."""
        del schema
        return KafkaRecordsReader(dict(self.options))


@dataclass
class RangesPartition(InputPartition):
    """Offset ranges that one task reads."""

    ranges: list[Range]


class KafkaRecordsReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        if not self.options.get("bootstrap"):
            raise ValueError("kafka_records: the option 'bootstrap' is missing")
        if not self.options.get("topics") and not self.options.get("ranges"):
            raise ValueError("kafka_records: one of the options 'topics' and 'ranges' is required")
        _columns(self.options)

    def partitions(self) -> Sequence[RangesPartition]:
        """The tasks, with their ranges fixed."""
        given = self.options.get("ranges")
        ranges = [_range(item) for item in json.loads(given)] if given else self._ask_for_ranges()
        limit = int(self.options.get("records_per_task", _RECORDS_PER_TASK))
        return [RangesPartition(task) for task in pack(ranges, limit)] or [RangesPartition([])]

    def _ask_for_ranges(self) -> list[Range]:
        from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

        consumer = self._consumer()
        timeout = float(self.options.get("timeout_seconds", 30))
        try:
            wanted = [name.strip() for name in self.options["topics"].split(",") if name.strip()]
            known = consumer.list_topics(timeout=timeout).topics
            missing = [name for name in wanted if name not in known]
            if missing:
                raise ValueError(f"kafka_records: the cluster has no topic {missing[0]!r}")
            parts = [(name, number) for name in wanted for number in sorted(known[name].partitions)]

            def ask(instant: int) -> dict[tuple[str, int], int]:
                found = consumer.offsets_for_times([TopicPartition(*part, instant) for part in parts], timeout=timeout)
                for part in found:
                    if part.error is not None:
                        raise ValueError(f"kafka_records: {part.topic}-{part.partition}: {part.error.str()}")
                return {(part.topic, part.partition): part.offset for part in found}

            # In ListOffsets, the timestamps -2 and -1 mean log start and log end; one request covers all partitions.
            starts, ends = ask(OFFSET_BEGINNING), ask(OFFSET_END)
            since, until = self.options.get("since_ms"), self.options.get("until_ms")
            low = ask(int(since)) if since else starts
            high = ask(int(until)) if until else ends
        finally:
            consumer.close()
        found = []
        for part in parts:
            start = low[part] if low[part] >= 0 else ends[part]
            stop = min(high[part], ends[part]) if high[part] >= 0 else ends[part]
            if start < stop:
                found.append((*part, start, stop))
        return found

    def _consumer(self, *, long: bool = False) -> Any:
        from confluent_kafka import Consumer

        own = {name[6:]: value for name, value in self.options.items() if name.startswith("kafka.")}
        return Consumer(
            {
                "client.id": "workbench-records",
                "log_level": 0,
                "fetch.wait.max.ms": 50,
                "fetch.queue.backoff.ms": 2,  # by default the client sleeps for a second whenever its queue was full
                **({"max.partition.fetch.bytes": _LONG_FETCH_BYTES} if long else {}),
                "check.crcs": False,
                **own,
                "bootstrap.servers": self.options["bootstrap"],
                "group.id": f"workbench-records-{uuid.uuid4().hex}",  # the client requires a group id; nothing is committed to it
                "isolation.level": self.options.get("isolation", "read_committed"),
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",  # deleted records must be an error, not a silent jump
            }
        )

    def read(self, partition: RangesPartition) -> Iterator[Any]:  # type: ignore[override] # its own `partitions` come back
        """Read the ranges of one task as Arrow batches."""
        if not partition.ranges:
            return
        columns = _columns(self.options)
        header = self.options.get("type_header", "event_type")
        consumer = self._consumer(long=any(stop - start >= _LONG for *_, start, stop in partition.ranges))
        collecting = gc.isenabled()
        gc.disable()  # messages have no cycles, and the garbage collector's search among ten thousand took as long as reading them
        try:
            timeout = float(self.options.get("timeout_seconds", 30))
            small = [part for part in partition.ranges if part[3] - part[2] < _SMALL]
            if small:
                for messages in consume_together(consumer, small, timeout):
                    yield to_arrow(messages, columns, header)
            for part in partition.ranges:
                if part[3] - part[2] >= _SMALL:
                    for messages in consume_one(consumer, part, timeout):
                        yield to_arrow(messages, columns, header, of=part[:2])
        finally:
            if collecting:
                gc.enable()
            consumer.close()


def consume_one(consumer: Any, part: Range, timeout: float) -> Iterator[list[Any]]:
    """Yield the messages of one range, in lists; per message it only checks for an error.

    A range ends at its stop; or, if its last offsets have no record (transaction markers, compaction), where the client tells the
    partition's end behind them. An end before the stop is none: a new leader tells it for a moment.
    """
    from confluent_kafka import KafkaError, TopicPartition

    topic, number, at, stop = part
    consumer.assign([TopicPartition(topic, number, at)])
    heard = time.monotonic()
    while at < stop:
        messages = without_group(consumer.consume(min(_BATCH, stop - at), _CONSUME_SECONDS))
        if not messages:
            if time.monotonic() - heard > timeout:
                raise TimeoutError(
                    f"kafka_records: no record of {topic}-{number} in {timeout:g} s, offsets left: {stop - at}"
                )
            continue
        heard = time.monotonic()
        told = zip(messages, map(type(messages[0]).error, messages), strict=True)
        ends = [message for message, error in told if error is not None]
        for message in ends:
            if message.error().code() != KafkaError._PARTITION_EOF:
                raise _failure(f"{topic}-{number}", message.error())
        good = [message for message in messages if message.error() is None] if ends else messages
        if good:
            at = good[-1].offset() + 1
            if at > stop:
                good = [message for message in good if message.offset() < stop]
            if good:
                yield good
        if any(message.offset() >= stop for message in ends):
            return


def without_group(messages: list[Any]) -> list[Any]:
    """Drop the answer that the group may not be used: nobody joins it or commits to it, and reading needs rights on the topic alone."""
    from confluent_kafka import KafkaError

    denied = KafkaError.GROUP_AUTHORIZATION_FAILED
    return [it for it in messages if (error := it.error()) is None or error.code() != denied]


def consume_together(consumer: Any, ranges: Sequence[Range], timeout: float) -> Iterator[list[Any]]:
    """Yield the messages of many short ranges of different partitions together: each alone would wait for a separate fetch."""
    from confluent_kafka import KafkaError, TopicPartition

    stops = {(topic, number): stop for topic, number, _, stop in ranges}
    left = {(topic, number): stop - start for topic, number, start, stop in ranges}
    consumer.assign([TopicPartition(topic, number, start) for topic, number, start, _ in ranges])
    heard = time.monotonic()
    while left:
        messages = without_group(consumer.consume(min(_BATCH, sum(left.values())), _CONSUME_SECONDS))
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > timeout:
            (topic, number), count = next(iter(left.items()))
            raise TimeoutError(f"kafka_records: no record of {topic}-{number} in {timeout:g} s, offsets left: {count}")
        good: list[Any] = []
        over: list[TopicPartition] = []
        for message in messages:
            part = (message.topic(), message.partition())
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    if message.offset() >= stops[part]:
                        left.pop(part, None)
                    continue
                raise _failure(f"{part[0]}-{part[1]}" if part[0] is not None else "the cluster", error)
            if part not in left:
                continue
            offset, stop = message.offset(), stops[part]
            if offset < stop:
                good.append(message)
                left[part] = stop - offset - 1
            if offset >= stop - 1:
                del left[part]
                over.append(TopicPartition(*part))
        if over and left:
            consumer.pause(over)
        if good:
            yield good


def _failure(where: str, error: Any) -> RuntimeError:
    from confluent_kafka import KafkaError

    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        return RuntimeError(f"kafka_records: {where}: its first records are deleted ({error.str()})")
    return RuntimeError(f"kafka_records: {where}: {error.str()}")


def to_arrow(messages: Sequence[Any], columns: Sequence[str], type_header: str, *, of: Any = None) -> Any:
    """Convert messages to one batch with these columns of `SCHEMA`; `of`: their common (topic, partition), if they have one."""
    import pyarrow as pa

    many, kind = len(messages), type(messages[0])

    def all_of(method: Any) -> list[Any]:
        return list(map(method, messages))  # a method of a C class: no Python byte code per message

    headers = [headers_of(message) for message in messages] if {"headers", "event_type"} & {*columns} else []
    made = {
        "topic": lambda: pa.repeat(of[0], many) if of else pa.array(all_of(kind.topic), pa.string()),
        "partition": lambda: (
            pa.repeat(pa.scalar(of[1], pa.int32()), many) if of else pa.array(all_of(kind.partition), pa.int32())
        ),
        "offset": lambda: pa.array(all_of(kind.offset), pa.int64()),
        "timestamp": lambda: _timestamps(all_of(kind.timestamp)),
        "key": lambda: pa.array(all_of(kind.key), pa.binary()),
        "value": lambda: pa.array(all_of(kind.value), pa.binary()),
        "headers": lambda: pa.array(
            [None if some is UNREADABLE else [{"key": k, "value": v} for k, v in some or ()] for some in headers],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
        "event_type": lambda: pa.array([_header(some, type_header) for some in headers], pa.string()),
        "value_bytes": lambda: pa.array([len(value or b"") for value in all_of(kind.value)], pa.int32()),
    }
    return pa.record_batch([made[column]() for column in columns], names=list(columns))


def _timestamps(pairs: Sequence[tuple[int, int]]) -> Any:
    import numpy as np
    import pyarrow as pa

    # Kafka's -1 means "no timestamp"; and a producer may write any number.
    highest = 253_402_300_799_999  # the end of the year 9999, Spark's limit
    values = np.fromiter((pair[1] for pair in pairs), np.int64, len(pairs))
    unknown = (values < 0) | (values > highest)
    return pa.array(np.where(unknown, 0, values) * 1000, pa.timestamp("us", tz="UTC"), mask=unknown)


def _header(headers: Headers | None, name: str) -> str | None:
    if headers is UNREADABLE:
        return None
    for key, value in reversed(headers or ()):
        if key == name:
            return value.decode(errors="replace") if value is not None else None
    return None


def _columns(options: Mapping[str, str]) -> list[str]:
    asked = options.get("columns")
    columns = [name.strip() for name in asked.split(",") if name.strip()] if asked else list(SCHEMA)
    unknown = [name for name in columns if name not in SCHEMA]
    if unknown:
        raise ValueError(f"kafka_records: there is no column {unknown[0]!r}; columns: {', '.join(SCHEMA)}")
    return columns


def _range(item: Any) -> Range:
    topic, number, start, stop = item
    if not (isinstance(topic, str) and all(isinstance(value, int) and value >= 0 for value in (number, start, stop))):
        raise ValueError(f"kafka_records: {item!r} is not [topic, partition, start, stop]")
    return topic, number, start, stop


def pack(ranges: Sequence[Range], limit: int) -> list[list[Range]]:
    """Divide ranges into tasks: long ones are split at `limit` offsets, short ones share a task; a task has each partition once."""
    if limit < 1:
        raise ValueError(f"kafka_records: records_per_task is {limit}, but must be at least 1")
    tasks: list[list[Range]] = []
    filling: list[Range] = []
    filled = 0
    for topic, number, start, stop in ranges:
        at = start
        while stop - at > limit:
            tasks.append([(topic, number, at, at + limit)])
            at += limit
        if at >= stop:
            continue
        twice = any(part[:2] == (topic, number) for part in filling)
        if filling and (twice or filled + stop - at > limit or len(filling) >= _RANGES_PER_TASK):
            tasks.append(filling)
            filling, filled = [], 0
        filling.append((topic, number, at, stop))
        filled += stop - at
    return [*tasks, filling] if filling else tasks
