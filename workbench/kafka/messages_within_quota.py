"""How many messages a second quotas let each group read: what is set for its members, and how large the records of its topics are.

Clients tell how long brokers throttle them, if they tell anything. Brokers tell what is set, for any client. It is one request
while nothing is limited; else one more per leader, and the ends of the topics concerned.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from workbench.errors import WorkbenchError
from workbench.kafka.connection import KafkaConnection
from workbench.kafka.groups import NotListedError, own_security
from workbench.kafka.leaders import leader_of, places_of, topics_of
from workbench.kafka.patient_reads import ClusterReading, read
from workbench.kafka.quotas import Limit, all_limits, limits_reading, read_bytes_per_second
from workbench.kafka.read_offsets_for_snapshot import offsets_of
from workbench.kafka.wire import Api, WireAnswer, WireError, topics_array
from workbench.kafka.wire_tls_and_login import logged_in
from workbench.queues.snapshot_views import SOURCE, Partition
from workbench.samples import SampleBatch

_LOG_DIRS = Api("DescribeLogDirs", 35, 2, 4)
_SECONDS, _SILENCE_SECONDS = 2.0, 0.7  # nobody waits long for what only some clusters have
_MOST_PARTITIONS = 2_000  # of a group; the mean size of a record needs no more
_FEW_RECORDS = 100  # their mean says little


@dataclass(slots=True)
class _Reader:
    clients: set[str] = field(default_factory=set)
    partitions: set[Partition] = field(default_factory=set)


def samples_of(found: Mapping[str, float], cluster: str, at: float) -> pa.Table:
    """Limits of `read_limits` in `SAMPLES_SCHEMA`, as of a time in seconds since the epoch."""
    batch = SampleBatch(cluster, SOURCE)
    for group, rate in found.items():
        batch.add("read_quota", {"group": group}, [round(at * 1e6)], [rate])
    return batch.to_arrow()


def read_limits(kafka: KafkaConnection, views: pa.Table) -> dict[str, float]:
    """Messages/s that quotas let each group read, all its members together; groups without a limit, or without an answer, are left out.

    Needs DESCRIBE_CONFIGS and DESCRIBE on the cluster. Without these rights nothing is known, as with clients that tell nothing.

    Args:
        kafka: the cluster.
        views: groups, members and assignments in `GROUPS_SCHEMA`.
    """
    limits = all_limits(kafka.bootstrap, kafka.properties, seconds=_SECONDS, silence=_SILENCE_SECONDS)
    limited = limits_reading(limits or ())
    readers = {name: it for name, it in _readers(views).items() if it.clients and it.partitions} if limited else {}
    readers = {name: it for name, it in readers.items() if read_bytes_per_second(limited, it.clients) is not None}
    if not readers:
        return {}
    try:
        return read(kafka, lambda reading: _messages(reading, limited, readers))
    except WorkbenchError:
        return {}


def _readers(views: pa.Table) -> dict[str, _Reader]:
    found: dict[str, _Reader] = {}
    rows = views.select(["group", "client_id", "topic", "partition"]).to_pylist()
    for row in rows:
        one = found.setdefault(row["group"], _Reader())
        if row["client_id"]:
            one.clients.add(row["client_id"])
        if row["topic"] is not None and len(one.partitions) < _MOST_PARTITIONS:
            one.partitions.add((row["topic"], row["partition"]))
    return found


def _messages(reading: ClusterReading, limits: Sequence[Limit], readers: Mapping[str, _Reader]) -> dict[str, float]:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import OffsetSpec

    parts = sorted({part for reader in readers.values() for part in reader.partitions})
    try:
        topics = topics_of(reading.kafka, {topic for topic, _ in parts}, reading.metadata_seconds)
    except KafkaException:
        return {}
    leaders = {part: leader for part in parts if (leader := leader_of(topics, part)) is not None}
    sizes = _sizes(reading.kafka.bootstrap, reading.kafka.properties, leaders)
    ends, starts = offsets_of(
        reading, sorted(sizes), {"latest offset": OffsetSpec.latest(), "earliest offset": OffsetSpec.earliest()}
    )
    found = {}
    for name, reader in readers.items():
        known = [part for part in reader.partitions if part in sizes and part in ends and part in starts]
        records = sum(ends[part] - starts[part] for part in known)
        size = sum(sizes[part] for part in known)
        limit = read_bytes_per_second(limits, reader.clients)
        if limit is not None and size and records >= _FEW_RECORDS:
            brokers = len({leaders[part] for part in reader.partitions if part in leaders})
            found[name] = limit * brokers * records / size
    return found


def _sizes(bootstrap: str, properties: Mapping[str, Any], leaders: Mapping[Partition, int]) -> dict[Partition, int]:
    """Bytes of partitions on their leaders' disks, which is how they are sent; those without an answer are left out."""
    deadline = time.monotonic() + _SECONDS
    places = places_of(bootstrap, properties, deadline, silence=_SILENCE_SECONDS)
    found: dict[Partition, int] = {}
    for number in sorted(set(leaders.values()) & places.keys()):
        wanted = [part for part, leader in leaders.items() if leader == number]
        body = topics_array(wanted, lambda partition: partition.to_bytes(4, "big"))
        try:
            with logged_in(places[number], own_security(properties), deadline, silence=_SILENCE_SECONDS) as wire:
                found |= parse_log_dirs(*wire.ask(_LOG_DIRS, lambda _version, body=body: body))  # type: ignore[misc]
        except (OSError, WireError, NotListedError):
            continue
    return {part: size for part, size in found.items() if part in leaders}


def parse_log_dirs(version: int, answer: WireAnswer) -> dict[Partition, int]:
    """Bytes by partition (DescribeLogDirs 2 to 4); folders with an error, and copies that are being moved, do not count.

    Raises:
        WireError: if the broker refuses, or the answer has another form.
    """
    answer.int32()
    if version >= 3 and (code := answer.int16()):
        raise WireError(f"log dirs: error {code}")
    found: dict[Partition, int] = {}

    def partition() -> tuple[int, int, bool]:
        number, size = answer.int32(), answer.int64()
        answer.int64()  # how far behind a copy is
        is_future = bool(answer.int8())
        answer.tags()
        return number, size, is_future

    def topic() -> None:
        name, parts = answer.text(), answer.array(partition)
        answer.tags()
        found.update({(name, number): size for number, size, is_future in parts if not is_future and size >= 0})

    def folder() -> None:
        answer.int16()  # an error's folder has no topics
        answer.text()
        answer.array(topic)
        if version >= 4:
            answer.int64()
            answer.int64()
        answer.tags()

    answer.array(folder)
    return found
