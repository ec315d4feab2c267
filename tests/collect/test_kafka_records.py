"""How ranges become tasks, and messages columns (the reading itself is tested on a real broker, in tests/lab)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from workbench.kafka.kafka_records_source import (
    SCHEMA,
    KafkaRecords,
    KafkaRecordsReader,
    consume_one,
    consume_together,
    pack,
    to_arrow,
)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 40)), max_size=30), st.integers(1, 25))
def test_every_offset_is_in_exactly_one_task(drawn: list[tuple[int, int]], limit: int) -> None:
    """No task has more than the limit, nor a partition twice (a consumer can be assigned it once)."""
    ranges = [("t", number, start, start + length) for number, (start, length) in enumerate(drawn)]
    tasks = pack(ranges, limit)
    seen = Counter((part[1], offset) for task in tasks for part in task for offset in range(part[2], part[3]))
    assert seen == Counter(
        {(number, offset): 1 for number, (start, n) in enumerate(drawn) for offset in range(start, start + n)}
    )
    for task in tasks:
        assert 0 < sum(stop - start for _, _, start, stop in task) <= limit
        assert len({part[:2] for part in task}) == len(task)


def test_many_small_partitions_share_few_tasks() -> None:
    """Ten thousand of a few records each must not be ten thousand tasks."""
    assert len(pack([("t", number, 0, 3) for number in range(10_000)], 250_000)) == 20


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "bootstrap"),
        ({"bootstrap": "b"}, "topics"),
        ({"bootstrap": "b", "topics": "t", "columns": "offset,vlaue"}, "vlaue"),
        ({"bootstrap": "b", "ranges": '[["t", 0, -1, 5]]'}, r"\['t', 0, -1, 5\]"),
        ({"bootstrap": "b", "ranges": '[["t", 0, 1, 5]]', "records_per_task": "0"}, "records_per_task"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], words: str) -> None:
    """Before anything is read."""
    with pytest.raises(ValueError, match=words):
        KafkaRecordsReader(options).partitions()


def test_given_ranges_need_no_broker_to_be_planned() -> None:
    """They are fixed by who asks, so a second plan of the same frame is the same."""
    ranges = json.dumps([["t", 0, 5, 25], ["t", 1, 0, 3]])
    reader = KafkaRecordsReader({"bootstrap": "127.0.0.1:9", "ranges": ranges, "records_per_task": "10"})
    first, second = reader.partitions(), reader.partitions()
    assert [task.ranges for task in first] == [task.ranges for task in second]
    assert [task.ranges for task in first] == [[("t", 0, 5, 15)], [("t", 0, 15, 25)], [("t", 1, 0, 3)]]


class Message:
    """What confluent-kafka hands out."""

    def __init__(self, **fields: Any) -> None:
        self._fields = {
            "topic": "t",
            "partition": 0,
            "offset": 1,
            "key": None,
            "value": None,
            "headers": None,
            **fields,
        }


def _field(name: str) -> Any:
    return lambda message: message._fields[name]


for _name in ("topic", "partition", "offset", "timestamp", "key", "value", "headers"):
    setattr(Message, _name, _field(_name))


def test_columns_of_every_kind_of_record() -> None:
    """Null keys and values, no time, an absurd time, headers with bytes that are no text, a type given twice."""
    messages = [
        Message(
            timestamp=(1, 1_000),
            key=b"k",
            value=b"abc",
            headers=[("event_type", b"a"), ("event_type", b"b"), ("x", None)],
        ),
        Message(offset=2, timestamp=(0, -1)),
        Message(offset=3, timestamp=(1, 2**62), value=b"", headers=[("event_type", b"\xff")]),
    ]
    batch = to_arrow(messages, list(SCHEMA), "event_type")
    assert batch.schema.names == list(SCHEMA)
    rows = batch.to_pylist()
    assert [row["event_type"] for row in rows] == ["b", None, "\ufffd"]
    assert [row["value_bytes"] for row in rows] == [3, 0, 0]
    assert [row["value"] for row in rows] == [b"abc", None, b""]
    assert [row["timestamp"] is None for row in rows] == [False, True, True]
    assert rows[0]["headers"][2] == {"key": "x", "value": None}
    same = to_arrow(messages, ["topic", "partition"], "event_type", of=("t", 0))
    assert same == batch.select(["topic", "partition"])


def test_headers_that_cannot_be_read_spoil_their_record_only() -> None:
    """They are null, which is not "none"; the message is asked once, whatever columns need them: asked again, the client may crash."""

    class Bad(Message):
        asked = 0

        def headers(self) -> Any:
            Bad.asked += 1
            raise SystemError("returned a result with an exception set")

    messages = [Message(timestamp=(1, 1), headers=[("event_type", b"a")]), Bad(offset=2, timestamp=(1, 1))]
    messages.append(Message(offset=3, timestamp=(1, 1)))
    rows = to_arrow(messages, list(SCHEMA), "event_type").to_pylist()
    assert [row["headers"] for row in rows] == [[{"key": "event_type", "value": b"a"}], None, []]
    assert [row["event_type"] for row in rows] == ["a", None, None]
    assert Bad.asked == 1


def test_the_schema_is_what_was_asked_for() -> None:
    """In the order that was asked."""
    assert KafkaRecords({"columns": "offset, topic"}).schema() == "offset bigint, topic string"
    assert KafkaRecords({}).schema().startswith("topic string, partition int")


class _Brief:
    """A consumer that is told an end for a moment before there are more records, as by a leader that has just been elected."""

    def __init__(self) -> None:
        end = KafkaError(KafkaError._PARTITION_EOF)
        self._answers = [[_at(0), _at(1), _at(2, end)], [], [_at(2), _at(3, None)], [_at(6, end)]]

    def assign(self, _parts: Any) -> None: ...

    def pause(self, _parts: Any) -> None: ...

    def consume(self, _most: int, _seconds: float) -> list[Any]:
        return self._answers.pop(0) if self._answers else []


def _at(offset: int, error: KafkaError | None = None) -> Any:
    return Read(offset=offset, error=error)


class Read(Message):
    """A message, or an event."""

    def error(self) -> KafkaError | None:
        found: KafkaError | None = self._fields["error"]
        return found


def test_an_end_before_the_stop_ends_no_range() -> None:
    """What comes after it would count as no record. The end behind the last record does end it: markers have none."""
    alone = [it.offset() for some in consume_one(_Brief(), ("t", 0, 0, 6), 5.0) for it in some]  # type: ignore[attr-defined]
    others = [it.offset() for some in consume_together(_Brief(), [("t", 0, 0, 6)], 5.0) for it in some]  # type: ignore[attr-defined]
    assert alone == others == [0, 1, 2, 3]
    with pytest.raises(TimeoutError, match="offsets left: 5"):
        list(consume_one(_Brief(), ("t", 0, 0, 9), 0.05))
