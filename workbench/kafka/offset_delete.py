"""Commits of some partitions are taken away from a group, by a request of our own: confluent-kafka (2.16) has none for it.

To delete the group instead, and to commit the rest again, loses what these credentials do not see: a coordinator does not tell commits
on topics that they may not describe, and deletes them with the group.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Mapping

from workbench.kafka.connection import KafkaConnection
from workbench.kafka.group_answers import error_text
from workbench.kafka.groups import LOADING, NotListedError, own_security
from workbench.kafka.offset_fetch import FetchLimits, find_coordinator
from workbench.kafka.wire import Api, WireAnswer, WireError, old_array, old_text
from workbench.kafka.wire_tls_and_login import logged_in
from workbench.queues.snapshot_views import Partition

_DELETE = Api("OffsetDelete", 47, 0, 0)
_SILENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.3
_BATCH = 2_000  # partitions of one request: its answer must be small
_NO_PARTITION = {3: "there is no such topic or partition"}
_HEAD = struct.Struct(">i")


def delete_commits(
    kafka: KafkaConnection, group: str, partitions: Collection[Partition], deadline: float
) -> dict[Partition, str]:
    """Take commits away; return the error of each partition where that failed. Takes DELETE on the group and READ on the topics."""
    wanted, failed = sorted(partitions), dict[Partition, str]()
    for at in range(0, len(wanted), _BATCH):
        failed |= _of_batch(kafka, group, wanted[at : at + _BATCH], deadline)
    return failed


def _of_batch(
    kafka: KafkaConnection, group: str, partitions: Collection[Partition], deadline: float
) -> dict[Partition, str]:
    while True:
        try:
            code, found = _once(kafka, group, partitions, deadline)
        except NotListedError as error:
            return dict.fromkeys(partitions, f"its commit cannot be taken away: {error}")
        except (OSError, WireError) as error:  # the caller reads the commits back and decides
            return dict.fromkeys(partitions, str(error) or "no answer in time")
        if code not in LOADING or time.monotonic() + _PAUSE_SECONDS >= deadline:
            break
        time.sleep(_PAUSE_SECONDS)
    if code:
        return dict.fromkeys(partitions, error_text(code))
    silent = {key: "the broker gave no result for it" for key in partitions if key not in found}
    return silent | {
        key: _NO_PARTITION.get(code) or error_text(code) for key, code in found.items() if code and key in partitions
    }


def _once(
    kafka: KafkaConnection, group: str, partitions: Collection[Partition], deadline: float
) -> tuple[int, Mapping[Partition, int]]:
    """Error code of the group, and that of each partition."""
    limits = FetchLimits.until(deadline, silence_seconds=_SILENCE_SECONDS)
    address = find_coordinator(kafka.own_servers, kafka.properties, group, limits)
    topics: dict[str, list[bytes]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(_HEAD.pack(number))
    body = old_text(group) + old_array(old_text(name) + old_array(numbers) for name, numbers in topics.items())
    with logged_in(address, own_security(kafka.properties), deadline, silence=_SILENCE_SECONDS) as wire:
        if not wire.has(_DELETE):
            raise WireError("this broker does not have the request OffsetDelete")
        answer = wire.ask_old(_DELETE.key, 0, body)
        kafka.requests += wire.requests
        return parse_deleted(answer)


def parse_deleted(answer: WireAnswer) -> tuple[int, dict[Partition, int]]:
    """Error code of the group, and that of each partition (OffsetDelete 0).

    Raises:
        WireError: if the answer cannot be understood.
    """
    code = answer.int16()
    answer.int32()  # throttle time

    def topic() -> tuple[str, list[tuple[int, int]]]:
        return answer.old_text(), answer.old_array(lambda: (answer.int32(), answer.int16()))

    return code, {(name, number): error for name, parts in answer.old_array(topic) for number, error in parts}
