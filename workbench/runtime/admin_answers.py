"""Answers of the admin API as plain values."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from workbench.runtime.consumer_thread import ConsumerThread
from workbench.runtime.group_task import Task
from workbench.runtime.partition_state import PartitionState
from workbench.runtime.ranges_to_process import RangeTable

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

SCHEMA = "workbench.runtime-status/1"


class Running(Protocol):
    """A runtime as its pages see it."""

    task: Task
    replay: tuple[str, datetime] | None
    switch_error: str | None

    @property
    def state(self) -> Enum:
        """Where it is in its life."""

    @property
    def uptime_seconds(self) -> float:
        """Seconds since its start."""

    @property
    def registries(self) -> list[CollectorRegistry]:
        """Prometheus registries of the metrics page."""

    def drain(self) -> bool:
        """Stop reading; finish and commit what was read. False: not in this state."""

    def resume(self) -> bool:
        """Continue after a drain. False: not in this state."""

    def switch_group(
        self, group: str, since: datetime, max_bytes_per_second: int | None, ranges: RangeTable | None
    ) -> bool:
        """Go on in another group. False: not in this state."""


def status(runtime: Running) -> dict[str, Any]:
    """Status: state, members, partitions with their offsets, totals."""
    task = runtime.task
    return {
        "schema": SCHEMA,
        "client_id": task.config.client_id,
        "group": task.config.group,
        "topics": task.config.topics,
        "state": runtime.state.value,
        "uptime_seconds": round(runtime.uptime_seconds, 3),
        "rebalances": sum(consumer.rebalances for consumer in task.consumers),
        **task.metrics.totals(),
        "sentinels": task.metrics.sentinels.readings(),
        "keeps_switch": task.config.switch_file is not None,
        "switch_error": runtime.switch_error,
        "replay": {"group": runtime.replay[0], "since": runtime.replay[1].isoformat()} if runtime.replay else None,
        "ranges_complete": task.is_complete if task.config.ranges is not None else None,
        "members": [_member(task, consumer) for consumer in task.consumers],
    }


def assignment(runtime: Running) -> dict[str, Any]:
    """Partitions by member."""
    return {
        "group": runtime.task.config.group,
        "members": {
            consumer.member: [{"topic": topic, "partition": number} for topic, number in sorted(consumer.partitions)]
            for consumer in runtime.task.consumers
        },
    }


def queues(runtime: Running) -> dict[str, Any]:
    """Queues by processor, and the delay queues."""
    return {
        "processors": {
            pool.name: [
                {
                    "queue": slot.index,
                    "length": len(slot.queue),
                    "capacity": slot.queue.capacity,
                    "threads": len(slot.workers),
                    "in_flight": slot.in_flight,
                }
                for slot in pool.slots
            ]
            for pool in runtime.task.processors
        },
        "delayed": {
            consumer.member: {"length": len(consumer.delayed), "capacity": consumer.delayed.capacity}
            for consumer in runtime.task.consumers
        },
    }


def _member(task: Task, consumer: ConsumerThread) -> dict[str, Any]:
    now = monotonic()
    return {
        "member": consumer.member,
        "poll_age_seconds": round(now - consumer.last_poll, 3),
        "partitions": [_partition(task, state, now) for _, state in sorted(consumer.partitions.items())],
    }


def _partition(task: Task, state: PartitionState, now: float) -> dict[str, Any]:
    topic, number = state.partition
    oldest = state.tracker.oldest
    shown, end = task.queue.shown, task.log_end(topic, number)
    return {
        "topic": topic,
        "partition": number,
        "first_offset": None if state.first_offset is None else shown(state.first_offset),
        "position": None if state.position is None else shown(state.position),
        "committed": None if state.committed is None else shown(state.committed),
        "log_end": None if end is None else shown(end),
        "oldest_incomplete_offset": shown(oldest[0]) if oldest is not None else None,
        "oldest_incomplete_age_seconds": round(now - oldest[2], 3) if oldest is not None else None,
        "uncommitted": state.uncommitted,
        "held": state.held_events,
        "held_bytes": state.all_held_bytes,
        "skipped": [list(it) for it in state.note.skipped] if state.note.is_readable else None,
        "completed": state.completed,
        "paused": state.paused,
    }
