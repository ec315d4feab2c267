"""Reading of what a plan has committed: positions with their marks, and never "nothing" where a coordinator has not answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from workbench.collect.kafka_errors import is_absent, is_denied
from workbench.redrive.marks import Mark, Progress
from workbench.redrive.planfile import RedrivePlan

_PAUSE_SECONDS = 0.2


def read_progress(
    admin: Any, plan: RedrivePlan, *, timeout_seconds: float, unreachable: Callable[[str, Any], Exception]
) -> Progress:
    """Read the commits of a plan's groups, once no transaction is about to change them.

    Args:
        admin: client of confluent-kafka.
        unreachable: makes the error of what cannot be done, from the client's error.

    Raises:
        SourceUnreachableError: if they cannot be read until the deadline; a coordinator that moves has not said "no position".
    """

    def commits(group: str) -> Mapping[int, Any]:
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

        deadline = time.monotonic() + timeout_seconds
        while True:
            error: Any
            try:
                future = admin.list_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group)], require_stable=True, request_timeout=timeout_seconds
                )[group]
                parts = future.result(timeout_seconds).topic_partitions
                errors = [part.error for part in parts if part.error is not None]
                if not errors:
                    return {part.partition: part for part in parts if part.topic == plan.topic and part.offset >= 0}
                error = errors[0]
            except KafkaException as failure:
                error = failure.args[0]
                if is_absent(error):
                    return {}
            except TimeoutError as failure:
                error = failure
            if time.monotonic() > deadline or (not isinstance(error, TimeoutError) and is_denied(error)):
                raise unreachable("read its progress", error)
            time.sleep(_PAUSE_SECONDS)

    found, ordered = commits(plan.id), commits(plan.order_group)
    return Progress(
        positions={number: part.offset for number, part in found.items()},
        ordered=ordered[0].offset if 0 in ordered else None,
        marks={number: Mark.parse(part.metadata) for number, part in found.items()},
    )
