"""Reading of what a plan has committed: positions with their marks, and never "nothing" where a coordinator has not answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from workbench.kafka.groups import NotListedError
from workbench.kafka.librdkafka_errors import is_denied
from workbench.kafka.offset_fetch import FetchLimits, read_commits
from workbench.redrive.commit_marks import Mark, PlanProgress
from workbench.redrive.planfile import RedrivePlan

_PAUSE_SECONDS = 0.2
# A killed run leaves a transaction open: the broker ends it after its timeout of 60 s, at one of its looks each 10 s (70 s, seen).
OPEN_SECONDS = 90.0
_ANSWER_SECONDS = 3.0  # for a coordinator's first answer; twice as long each time after that

Told = Mapping[int, tuple[int, str]]  # partition to its offset and note


def read_progress(
    bootstrap: str,
    properties: Mapping[str, Any],
    plan: RedrivePlan,
    *,
    timeout_seconds: float,
    unreachable: Callable[[str, Any], Exception],
) -> PlanProgress:
    """Read the commits of a plan's groups, once no transaction is about to change them.

    Args:
        bootstrap, properties: as for librdkafka.
        timeout_seconds: for a coordinator that does not answer; one that tells of an open transaction is asked until that must be over.
        unreachable: makes the error of what cannot be done, from the client's error or from words.

    Raises:
        SourceUnreachableError: if they cannot be read until the deadline; a coordinator that moves has not said "no position".
    """

    def commits(group: str, numbers: Collection[int]) -> Told:
        now = time.monotonic()
        until = now + max(timeout_seconds, OPEN_SECONDS)
        limits = FetchLimits(
            deadline=until, moved_until=until, lost_until=now + timeout_seconds, silence_seconds=_ANSWER_SECONDS
        )
        try:
            return _commits(bootstrap, properties, group, plan.topic, limits, unreachable)
        except NotListedError:
            return _by_librdkafka(
                {**properties, "bootstrap.servers": bootstrap}, group, plan.topic, numbers, until, unreachable
            )

    found = commits(plan.id, [part.partition for part in plan.partitions])
    ordered = commits(plan.order_group, [0]) if plan.ordered and found else {}
    return PlanProgress(
        positions={number: offset for number, (offset, _) in found.items()},
        ordered=ordered[0][0] if 0 in ordered else None,
        marks={number: Mark.parse(note) for number, (_, note) in found.items()},
    )


def _commits(
    bootstrap: str,
    properties: Mapping[str, Any],
    group: str,
    topic: str,
    limits: FetchLimits,
    unreachable: Callable[[str, Any], Exception],
) -> Told:
    from confluent_kafka import KafkaError

    told = read_commits(bootstrap, properties, [group], limits, is_stable=True)
    if told.denied:
        raise unreachable("read its progress", KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    for words in (*told.missing.values(), *told.errors.values()):
        raise unreachable("read its progress", words)
    notes = told.notes()
    return {
        number: (offset, notes.get((group, of, number), ""))
        for (_, of, number), offset in told.offsets.items()
        if of == topic and offset is not None
    }


def _by_librdkafka(
    properties: Mapping[str, Any],
    group: str,
    topic: str,
    numbers: Collection[int],
    deadline: float,
    unreachable: Callable[[str, Any], Exception],
) -> Told:
    """For logins that our own requests do not know.

    A consumer asks, which joins nothing: an AdminClient (librdkafka 2.16) has no group of its own, and ends the process when the answer
    is that the coordinator has moved or is new (seen: a segmentation fault in rd_kafka_cgrp_op, called by rd_kafka_handle_OffsetFetch).
    Of a group that may not be read, a consumer says only that it timed out.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    own = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}  # waits for open ones
    try:
        reader = Consumer({**properties, **own})
    except KafkaException as failure:
        raise unreachable("read its progress", failure) from None
    asked = [TopicPartition(topic, it) for it in numbers]
    try:
        while True:
            try:
                parts: list[Any] = reader.committed(asked, timeout=max(_PAUSE_SECONDS, deadline - time.monotonic()))
                errors = [part.error for part in parts if part.error is not None]
                if not errors:
                    return {part.partition: (part.offset, part.metadata) for part in parts if part.offset >= 0}
                error = errors[0]
            except KafkaException as failure:
                error = failure.args[0]
            if time.monotonic() > deadline or is_denied(error):
                raise unreachable("read its progress", error)
            time.sleep(_PAUSE_SECONDS)
    finally:
        reader.close()
