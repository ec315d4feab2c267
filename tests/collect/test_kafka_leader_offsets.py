"""Offsets that leaders tell at once: one request for each question, in order, and nothing half known."""

from __future__ import annotations

import struct
import time

import pytest

from tests.collect.wire_broker import WireBroker, int16, int32, int64
from workbench.kafka import offset_lookup
from workbench.kafka.connection import KafkaConnection
from workbench.kafka.leader_offsets import EARLIEST, LATEST, OffsetQuestion, ToldOffset, ask_leaders
from workbench.kafka.wire import array, text
from workbench.queues.snapshot_views import Partition

LIST_OFFSETS = 2
QUESTIONS = [
    OffsetQuestion(LATEST),
    OffsetQuestion(EARLIEST),
    OffsetQuestion(LATEST, settled=True),
    OffsetQuestion(5_000),
]
P, Q = ("t", 0), ("t", 1)


def _answer(offsets: dict[int, tuple[int, int, int]]) -> bytes:
    """An answer to ListOffsets 6: partition to (error, timestamp, offset)."""
    parts = [
        int32(number) + int16(error) + int64(stamp, offset) + int32(0) + b"\0"
        for number, (error, stamp, offset) in offsets.items()
    ]
    return int32(0) + array([text("t") + array(parts) + b"\0"]) + b"\0"


@pytest.mark.parametrize("versions", [(0, 6), (1, 9), (2, 11)])
def test_every_question_is_one_request_for_all_partitions_in_the_order_given(versions: tuple[int, int]) -> None:
    """The ends before the times: what comes in between is then replayed, and not lost."""
    with WireBroker() as broker:
        broker.brokers = [(1, "127.0.0.1", broker.port)]
        broker.versions |= {LIST_OFFSETS: versions}
        broker.answers = {LIST_OFFSETS: _answer({0: (0, 7, 42), 1: (6, -1, -1), 9: (0, 7, 1)})}
        found = ask_leaders(broker.address, {}, {P: 1, Q: 1, ("t", 2): 8}, QUESTIONS, seconds=5, silence=2)
        asked = [body for key, _, body in broker.asked if key == LIST_OFFSETS]
    assert found == [{P: ToldOffset(42, 7)}] * 4, "an error, a stranger and a broker that is not there are left out"
    for body, question in zip(asked, QUESTIONS, strict=True):
        wanted = [struct.pack(">iiq", number, -1, question.time_ms) + b"\0" for number in (0, 1)]
        expected = struct.pack(">ib", -1, question.settled) + array([text("t") + array(wanted) + b"\0"])
        assert expected in body


def test_a_broker_that_is_too_old_or_silent_tells_nothing() -> None:
    """Whoever needs the reason asks the client."""
    with WireBroker() as broker:
        broker.brokers = [(1, "127.0.0.1", broker.port)]
        broker.versions |= {LIST_OFFSETS: (0, 5)}
        assert ask_leaders(broker.address, {}, {P: 1}, QUESTIONS, seconds=5, silence=1) == [{}] * 4
    assert ask_leaders("127.0.0.1:9", {}, {P: 1}, QUESTIONS, seconds=1, silence=0.5) == [{}] * 4
    assert (
        ask_leaders("127.0.0.1:9", {"sasl.mechanism": "GSSAPI"}, {P: 1}, QUESTIONS, seconds=1, silence=0.5) == [{}] * 4
    )


class _Topic:
    """As confluent-kafka tells of a topic."""

    def __init__(self, *numbers: int) -> None:
        self.partitions = {number: type("Part", (), {"leader": 1})() for number in numbers}


def test_only_a_partition_that_has_answered_everything_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """An end that is asked for again later than a time would lie behind records that the time's answer does not have."""
    no_record = ToldOffset(-1, -1)
    told = [
        {P: ToldOffset(9, -1), Q: ToldOffset(9, -1), ("t", 2): no_record},
        {P: ToldOffset(0, -1), Q: ToldOffset(0, -1), ("t", 2): ToldOffset(0, -1)},
        {P: ToldOffset(9, -1), ("t", 2): ToldOffset(9, -1)},
        {P: no_record, Q: ToldOffset(3, 6_000), ("t", 2): no_record},
    ]
    monkeypatch.setattr(offset_lookup, "ask_leaders", lambda *_, **__: told)
    kafka = KafkaConnection("127.0.0.1:9")
    topics = {"t": _Topic(0, 1, 2)}
    known = offset_lookup.told_by_leaders(kafka, [P, Q, ("t", 2)], topics, QUESTIONS, time.monotonic() + 5)
    assert known == [{P: told[0][P]}, {P: told[1][P]}, {P: told[2][P]}, {P: no_record}]


def test_what_is_known_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is part of the answer."""
    asked: list[Partition] = []

    def list_offsets(
        _kafka: object, wanted: dict[Partition, object], *_: object, **__: object
    ) -> dict[Partition, object]:
        asked.extend(wanted)
        return {}

    monkeypatch.setattr(offset_lookup, "list_offsets", list_offsets)
    known = {P: ToldOffset(9, -1)}
    one = offset_lookup.Lookup(KafkaConnection("127.0.0.1:9"), None, None, time.monotonic() + 5, known=known)
    one.send([P, Q], {})
    assert asked == [Q]
    assert one.gather() == known
