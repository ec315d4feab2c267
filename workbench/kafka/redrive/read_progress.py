"""Reading of what a plan has committed: positions with their marks, and never "nothing" where a coordinator has not answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from workbench.kafka.errors import is_denied
from workbench.redrive.commit_marks import Mark, PlanProgress
from workbench.redrive.planfile import RedrivePlan

_PAUSE_SECONDS = 0.2


def read_progress(
    properties: Mapping[str, Any],
    plan: RedrivePlan,
    *,
    timeout_seconds: float,
    unreachable: Callable[[str, Any], Exception],
) -> PlanProgress:
    """Read the commits of a plan's groups, once no transaction is about to change them.

    A consumer asks, which joins nothing: an AdminClient (librdkafka 2.16) has no group of its own, and ends the process when the answer
    is that the coordinator has moved or is new (seen: a segmentation fault in rd_kafka_cgrp_op, called by rd_kafka_handle_OffsetFetch).

    Args:
        properties: of clients of confluent-kafka.
        unreachable: makes the error of what cannot be done, from the client's error.

    Raises:
        SourceUnreachableError: if they cannot be read until the deadline; a coordinator that moves has not said "no position".
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    def commits(group: str, numbers: Collection[int]) -> Mapping[int, Any]:
        own = {
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }  # waits for open ones
        try:
            reader = Consumer({**properties, **own})
        except KafkaException as failure:
            raise unreachable("read its progress", failure) from None
        asked, deadline = [TopicPartition(plan.topic, it) for it in numbers], time.monotonic() + timeout_seconds
        try:
            while True:
                try:
                    parts: list[Any] = reader.committed(asked, timeout=timeout_seconds)
                    errors = [part.error for part in parts if part.error is not None]
                    if not errors:
                        return {part.partition: part for part in parts if part.offset >= 0}
                    error = errors[0]
                except KafkaException as failure:
                    error = failure.args[0]
                if time.monotonic() > deadline or is_denied(error):
                    raise unreachable("read its progress", error)
                time.sleep(_PAUSE_SECONDS)
        finally:
            reader.close()

    found = commits(plan.id, [part.partition for part in plan.partitions])
    ordered = commits(plan.order_group, [0]) if plan.ordered and found else {}
    return PlanProgress(
        positions={number: part.offset for number, part in found.items()},
        ordered=ordered[0].offset if 0 in ordered else None,
        marks={number: Mark.parse(part.metadata) for number, part in found.items()},
    )
