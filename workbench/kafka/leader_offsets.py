"""Offsets of many partitions from the brokers that lead them, by our own requests: one for each question and broker.

The client makes a future for each partition and question: for 10,000 partitions and four questions that took a quarter of a plan's
time. What has no answer here is left out; who needs to know why asks the client.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from workbench.background import in_background
from workbench.kafka.groups import NotListedError, own_security
from workbench.kafka.leaders import places_of
from workbench.kafka.wire import Address, Api, WireAnswer, WireError, topics_array
from workbench.kafka.wire_tls_and_login import logged_in
from workbench.queues.snapshot_views import Partition

LATEST, EARLIEST, EARLIEST_LOCAL = -1, -2, -4  # instead of a time
_CLIENT, _ANY_EPOCH = -1, -1
_LOCAL_FROM = 8  # the first version that knows "earliest local": Kafka 3.6
_FLEXIBLE_FROM, _HIGHEST = 6, 9
_ASKED = struct.Struct(">iiqx")  # partition, leader epoch, time, no tagged fields
_HEAD = struct.Struct(">ihqqi")  # partition, error, timestamp, offset, leader epoch


class OffsetQuestion(NamedTuple):
    """What is asked of each partition: the first offset at or after a time in ms, or one of the constants.

    `settled`: only below open transactions.
    """

    time_ms: int
    settled: bool = False


class ToldOffset(NamedTuple):
    """An offset, and the record's timestamp in ms; both -1 if no record is so late."""

    offset: int
    timestamp: int


def ask_leaders(
    bootstrap: str,
    properties: Mapping[str, Any],
    leaders: Mapping[Partition, int],
    questions: Sequence[OffsetQuestion],
    *,
    seconds: float,
    silence: float,
) -> list[dict[Partition, ToldOffset]]:
    """The answers to each question, which are asked of each broker in this order. No answer is no error.

    Args:
        bootstrap, properties: as for librdkafka.
        leaders: partition to broker id.
        questions: in order.
        seconds: for all of it; silence: for one answer.
    """
    deadline = time.monotonic() + seconds
    places = places_of(bootstrap, properties, deadline, silence=silence)

    def ask(place: Address, wanted: Sequence[Partition]) -> list[dict[Partition, ToldOffset]]:
        told: list[dict[Partition, ToldOffset]] = []
        try:
            with logged_in(place, own_security(properties), deadline, silence=silence) as wire:
                for question in questions:
                    lowest = _LOCAL_FROM if question.time_ms == EARLIEST_LOCAL else _FLEXIBLE_FROM
                    body = _body(wanted, question)
                    _, answer = wire.ask(Api("ListOffsets", 2, lowest, _HIGHEST), lambda _version, body=body: body)  # type: ignore[misc]
                    told.append(parse_offsets(answer))
        except (OSError, WireError, NotListedError):
            pass
        return told

    of_broker: dict[int, list[Partition]] = {}
    for part, leader in leaders.items():
        of_broker.setdefault(leader, []).append(part)
    asked = [
        in_background(lambda place=places[broker], wanted=wanted: ask(place, wanted))  # type: ignore[misc]
        for broker, wanted in of_broker.items()
        if broker in places
    ]
    found: list[dict[Partition, ToldOffset]] = [{} for _ in questions]
    for future in asked:
        for all_of_it, told in zip(found, future.result(), strict=False):
            all_of_it |= told
    return [{part: it for part, it in told.items() if part in leaders} for told in found]


def _body(partitions: Collection[Partition], question: OffsetQuestion) -> bytes:
    asked = topics_array(partitions, lambda number: _ASKED.pack(number, _ANY_EPOCH, question.time_ms))
    return struct.pack(">ib", _CLIENT, question.settled) + asked


def parse_offsets(answer: WireAnswer) -> dict[Partition, ToldOffset]:
    """Offset by partition (ListOffsets 6 to 9); those with an error do not count.

    Raises:
        WireError: if the answer has another form.
    """
    answer.int32()
    found: dict[Partition, ToldOffset] = {}

    def partition() -> tuple[Any, ...]:
        told = answer.record(_HEAD)
        answer.tags()
        return told

    def topic() -> None:
        name, parts = answer.text(), answer.array(partition)
        answer.tags()
        found.update({(name, it[0]): ToldOffset(it[3], it[2]) for it in parts if not it[1]})

    answer.array(topic)
    return found
