"""Where the broker's own disk begins in each partition (KIP-405): ListOffsets -4, which the client has no call for.

What is before it is in remote storage alone. Of a topic without remote storage it is the log's start.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from workbench.kafka.groups import NotListedError, own_security
from workbench.kafka.leaders import places_of
from workbench.kafka.login import logged_in
from workbench.kafka.wire import Api, WireAnswer, WireError, array, text
from workbench.queues.views import SOURCE, Partition

if TYPE_CHECKING:
    import pyarrow as pa

_LIST_OFFSETS = Api("ListOffsets", 2, 8, 9)  # the first version that knows "earliest local": Kafka 3.6
_EARLIEST_LOCAL = -4
_CLIENT, _ANY_EPOCH = -1, -1
_HEAD = struct.Struct(">ihqqi")  # partition, error, timestamp, offset, leader epoch
_SECONDS, _SILENCE_SECONDS = 3.0, 1.0  # worth no longer wait


def samples_of(starts: Mapping[Partition, int], cluster: str, at: float) -> pa.Table:
    """Starts in `SAMPLES_SCHEMA`, as of a time in seconds since the epoch."""
    from workbench.samples import SampleBatch

    batch = SampleBatch(cluster, SOURCE)
    for (topic, partition), offset in sorted(starts.items()):
        batch.add("local_start_offset", {"topic": topic, "partition": partition}, [round(at * 1e6)], [offset])
    return batch.to_arrow()


def local_starts(
    bootstrap: str, properties: Mapping[str, Any], leaders: Mapping[Partition, int]
) -> dict[Partition, int]:
    """Ask each leader once. What has no answer is left out: a broker before Kafka 3.6, one that is silent, or no right (DESCRIBE).

    Args:
        bootstrap, properties: as for librdkafka.
        leaders: partition to broker id.
    """
    deadline = time.monotonic() + _SECONDS
    places = places_of(bootstrap, properties, deadline, silence=_SILENCE_SECONDS)
    found: dict[Partition, int] = {}
    for broker in sorted(set(leaders.values()) & places.keys()):
        wanted = [part for part, leader in leaders.items() if leader == broker]
        try:
            with logged_in(places[broker], own_security(properties), deadline, silence=_SILENCE_SECONDS) as wire:
                _, answer = wire.ask(_LIST_OFFSETS, lambda _version, wanted=wanted: _body(wanted))  # type: ignore[misc]
                found |= parse_starts(answer)
        except (OSError, WireError, NotListedError):
            continue
    return {part: offset for part, offset in found.items() if part in leaders}


def _body(partitions: Collection[Partition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    one = struct.Struct(">iiq")
    asked = array(
        text(topic) + array(one.pack(number, _ANY_EPOCH, _EARLIEST_LOCAL) + b"\x00" for number in numbers) + b"\x00"
        for topic, numbers in by_topic.items()
    )
    return struct.pack(">ib", _CLIENT, 0) + asked


def parse_starts(answer: WireAnswer) -> dict[Partition, int]:
    """Offset by partition (ListOffsets 8 and 9); those with an error do not count.

    Raises:
        WireError: if the answer has another form.
    """
    answer.int32()
    found: dict[Partition, int] = {}

    def partition() -> tuple[int, int, int]:
        number, error, _, offset, _ = answer.record(_HEAD)
        answer.tags()
        return number, error, offset

    def topic() -> None:
        name, parts = answer.text(), answer.array(partition)
        answer.tags()
        found.update({(name, number): offset for number, error, offset in parts if not error and offset >= 0})

    answer.array(topic)
    return found
