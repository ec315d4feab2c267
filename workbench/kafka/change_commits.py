"""Commits of some partitions are taken away from a group, or written with their metadata, by requests of our own.

confluent-kafka (2.16) has no request to take them away. To delete the group instead, and to commit the rest again, loses what these
credentials do not see: a coordinator does not tell commits on topics that they may not describe, and deletes them with the group. And
with the metadata of a commit it sends the zero byte of a C string: what a framework keeps there (Kafka Streams, a consumer that
processes a partition's records beside each other) could not be read any more.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from workbench.kafka.connection import KafkaConnection
from workbench.kafka.group_answers import error_text
from workbench.kafka.groups import LOADING, NotListedError, own_security
from workbench.kafka.offset_fetch import FetchLimits, find_coordinator
from workbench.kafka.wire import Api, Wire, WireAnswer, WireError, old_array, old_text
from workbench.kafka.wire_tls_and_login import logged_in
from workbench.queues.replay_port import KeptCommit
from workbench.queues.snapshot_views import Partition

_DELETE = Api("OffsetDelete", 47, 0, 0)
_COMMIT = Api("OffsetCommit", 8, 7, 7)
_SILENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.3
_BATCH = 2_000  # partitions of one request: its answer must be small
# A coordinator writes them as one batch of at most 1 MiB; the metadata of each has 4 KiB at most.
_BATCH_WITH_METADATA = 100
_NO_PARTITION = {3: "there is no such topic or partition"}
_HEAD = struct.Struct(">i")
_AT = struct.Struct(">iqi")  # partition, offset, leader epoch
_NO_EPOCH = -1
# Generation, member, and no fixed name of one.
_NO_MEMBER = struct.pack(">i", -1) + old_text("") + struct.pack(">h", -1)

_Result = tuple[int, dict[Partition, int]]  # error code of the group, and that of each partition


def delete_commits(
    kafka: KafkaConnection, group: str, partitions: Collection[Partition], deadline: float
) -> dict[Partition, str]:
    """Take commits away; return the error of each partition where that failed. Takes DELETE on the group and READ on the topics."""

    def ask(wire: Wire, batch: Sequence[Partition]) -> _Result:
        return parse_deleted(
            wire.ask_old(_DELETE.key, 0, old_text(group) + _by_topic(batch, lambda key: _HEAD.pack(key[1])))
        )

    return _in_batches(kafka, group, sorted(partitions), deadline, _DELETE, ask, _BATCH)


def write_with_metadata(
    kafka: KafkaConnection, group: str, commits: Mapping[Partition, KeptCommit], deadline: float
) -> dict[Partition, str]:
    """Commit offsets with their metadata for a group without members; return the error of each partition where that failed."""

    def one(key: Partition) -> bytes:
        offset, metadata = commits[key]
        return _AT.pack(key[1], offset, _NO_EPOCH) + struct.pack(">h", len(metadata)) + metadata

    def ask(wire: Wire, batch: Sequence[Partition]) -> _Result:
        return 0, parse_committed(
            wire.ask_old(_COMMIT.key, _COMMIT.highest, old_text(group) + _NO_MEMBER + _by_topic(batch, one))
        )

    return _in_batches(kafka, group, sorted(commits), deadline, _COMMIT, ask, _BATCH_WITH_METADATA)


def _by_topic(partitions: Collection[Partition], one: Callable[[Partition], bytes]) -> bytes:
    topics: dict[str, list[bytes]] = {}
    for key in partitions:
        topics.setdefault(key[0], []).append(one(key))
    return old_array(old_text(name) + old_array(items) for name, items in topics.items())


def _in_batches(
    kafka: KafkaConnection,
    group: str,
    wanted: Sequence[Partition],
    deadline: float,
    api: Api,
    ask: Callable[[Wire, Sequence[Partition]], _Result],
    size: int,
) -> dict[Partition, str]:
    failed = dict[Partition, str]()
    for at in range(0, len(wanted), size):
        batch = wanted[at : at + size]
        failed |= _of_batch(kafka, group, batch, deadline, api, lambda wire, batch=batch: ask(wire, batch))  # type: ignore[misc]
    return failed


def _of_batch(
    kafka: KafkaConnection,
    group: str,
    partitions: Collection[Partition],
    deadline: float,
    api: Api,
    ask: Callable[[Wire], _Result],
) -> dict[Partition, str]:
    while True:
        try:
            code, found = _once(kafka, group, deadline, api, ask)
        except NotListedError as error:
            return dict.fromkeys(partitions, f"the request {api.name} cannot be sent: {error}")
        except (OSError, WireError) as error:  # the caller reads the commits back and decides
            return dict.fromkeys(partitions, str(error) or "no answer in time")
        loading = code in LOADING or (bool(found) and all(it in LOADING for it in found.values()))
        if not loading or time.monotonic() + _PAUSE_SECONDS >= deadline:
            break
        time.sleep(_PAUSE_SECONDS)
    if code:
        return dict.fromkeys(partitions, error_text(code))
    silent = {key: "the broker gave no result for it" for key in partitions if key not in found}
    return silent | {
        key: _NO_PARTITION.get(code) or error_text(code) for key, code in found.items() if code and key in partitions
    }


def _once(kafka: KafkaConnection, group: str, deadline: float, api: Api, ask: Callable[[Wire], _Result]) -> _Result:
    limits = FetchLimits.until(deadline, silence_seconds=_SILENCE_SECONDS)
    address = find_coordinator(kafka.own_servers, kafka.properties, group, limits)
    with logged_in(address, own_security(kafka.properties), deadline, silence=_SILENCE_SECONDS) as wire:
        if not wire.has(api):
            raise WireError(f"this broker does not have the request {api.name}")
        try:
            return ask(wire)
        finally:
            kafka.requests += wire.requests


def parse_committed(answer: WireAnswer) -> dict[Partition, int]:
    """Error code of each partition (OffsetCommit 7).

    Raises:
        WireError: if the answer cannot be understood.
    """
    answer.int32()  # throttle time
    return _codes(answer)


def parse_deleted(answer: WireAnswer) -> _Result:
    """Error code of the group, and that of each partition (OffsetDelete 0).

    Raises:
        WireError: if the answer cannot be understood.
    """
    code = answer.int16()
    answer.int32()  # throttle time
    return code, _codes(answer)


def _codes(answer: WireAnswer) -> dict[Partition, int]:
    def topic() -> tuple[str, list[tuple[int, int]]]:
        return answer.old_text(), answer.old_array(lambda: (answer.int32(), answer.int16()))

    return {(name, number): error for name, parts in answer.old_array(topic) for number, error in parts}
