"""Where brokers' own disks begin: the request and its answer, and silence where it is not known."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collect.wire_broker import WireBroker, int16, int32, int64
from workbench.kafka.leader_offsets import parse_offsets
from workbench.kafka.local_log_starts import local_starts as asked
from workbench.kafka.wire import WireAnswer, WireError, array, text
from workbench.queues.snapshot_views import Partition, log_samples

LIST_OFFSETS = 2


def local_starts(offsets: Mapping[Partition, int], *, errors: Mapping[Partition, int] | None = None) -> bytes:
    """An answer to ListOffsets 8."""

    def one(part: Partition, offset: int) -> bytes:
        return int32(part[1]) + int16((errors or {}).get(part, 0)) + int64(-1, offset) + int32(0) + b"\0"

    return int32(0) + array([text(part[0]) + array([one(part, it)]) + b"\0" for part, it in offsets.items()]) + b"\0"


def test_a_partition_with_an_error_is_left_out() -> None:
    """Its leader has moved, or it is not there."""
    data = local_starts({("t", 0): 21_680, ("t", 1): 5}, errors={("t", 1): 6})
    assert parse_offsets(WireAnswer(data)) == {("t", 0): (21_680, -1)}


@given(st.binary(max_size=80))
def test_a_broken_answer_is_an_error(data: bytes) -> None:
    """Of the wire, and no other."""
    try:
        parse_offsets(WireAnswer(data))
    except WireError:
        return


@pytest.mark.parametrize(("versions", "found"), [((0, 7), {}), ((1, 8), {("t", 0): 42}), ((1, 10), {("t", 0): 42})])
def test_a_broker_is_asked_that_knows_the_request(versions: tuple[int, int], found: dict[Partition, int]) -> None:
    """Before Kafka 3.6 nothing is known, and nothing is sent."""
    with WireBroker() as broker:
        broker.brokers = [(1, "127.0.0.1", broker.port)]
        broker.versions |= {LIST_OFFSETS: versions}
        broker.answers = {LIST_OFFSETS: local_starts({("t", 0): 42, ("other", 0): 1})}
        assert asked(broker.address, {}, {("t", 0): 1, ("t", 7): 2}) == found
        assert (LIST_OFFSETS in [key for key, _, _ in broker.asked]) == bool(found)


def test_nobody_who_answers_is_no_error() -> None:
    """Then nothing is known."""
    assert asked("127.0.0.1:9", {}, {("t", 0): 1}) == {}


def test_the_samples_are_of_the_log() -> None:
    """Of no group: every reader of the partition has the same."""
    [row] = log_samples("local_start_offset", {("t", 3): 42}, "c", 1.5e9).to_pylist()
    assert (row["signal"], row["group"], row["topic"], row["partition"], row["value"]) == (
        "local_start_offset",
        None,
        "t",
        3,
        42,
    )
