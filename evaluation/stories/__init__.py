"""Builds measurements of a subscription as a story: who reads what, how fast, and what goes wrong. Nothing here knows the tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from workbench.samples import SampleBatch, concat
from workbench.thresholds import Thresholds
from workbench.window import Window

END = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
WINDOW_SECONDS, BASELINE_SECONDS, STEP_SECONDS = 60, 120, 2
WINDOW = Window.ending(END, length=timedelta(seconds=WINDOW_SECONDS), baseline=timedelta(seconds=BASELINE_SECONDS))
THRESHOLDS = Thresholds(time_lag_objective_seconds=10.0, stale_after_seconds=10.0, poll_age_seconds=10.0)

# Seconds relative to the window's end, oldest first.
TIMES = np.arange(-(WINDOW_SECONDS + BASELINE_SECONDS), 0.5, STEP_SECONDS, dtype=float)
TS_US = [round((END.timestamp() + seconds) * 1e6) for seconds in TIMES]
IN_WINDOW = -WINDOW_SECONDS < TIMES

Shape = float | Sequence[float] | Callable[[np.ndarray], np.ndarray]


def values(shape: Shape) -> np.ndarray:
    """A constant, a list, or a function of time as one value for each of `TIMES`."""
    if callable(shape):
        return np.asarray(shape(TIMES), dtype=float)
    return np.broadcast_to(np.asarray(shape, dtype=float), TIMES.shape).copy()


def growing(per_second: float, *, start: float = 0.0, since: float = TIMES[0]) -> Callable[[np.ndarray], np.ndarray]:
    """`start` until `since`, then growing."""
    return lambda times: start + per_second * np.maximum(0.0, times - since)


def steps(before: float, after: float, *, at: float = -WINDOW_SECONDS) -> Callable[[np.ndarray], np.ndarray]:
    """One value before an instant, another from then on."""
    return lambda times: np.where(times > at, after, before)


@dataclass
class Story:
    """One subscription; by default healthy: 4 partitions at 50/s each, 2 members, 2 processors with 2 queues each."""

    group: str = "payments"
    topic: str = "orders"
    partitions: int = 4
    members: int | None = 4
    source: str = "runtime"
    cluster: str = "test"
    batches: list[pa.Table] = field(default_factory=list)

    def add(
        self, signal: str, shape: Shape, *, keep: np.ndarray | None = None, stat: str = "value", **labels: Any
    ) -> Story:
        """One series; `keep` is a mask of the samples that exist."""
        batch = SampleBatch(self.cluster, self.source)
        mask = np.ones(len(TIMES), dtype=bool) if keep is None else keep
        series = values(shape)
        batch.add(signal, labels, np.array(TS_US)[mask], series[mask], stat=stat)
        self.batches.append(batch.to_arrow())
        return self

    def partition(
        self,
        number: int,
        *,
        rate: float = 50.0,
        lag: Shape = 5.0,
        time_lag: Shape | None = 0.1,
        keep: np.ndarray | None = None,
    ) -> Story:
        """A partition that gets `rate` messages/s and whose lag has a shape; the commit follows from the two."""
        labels = {"group": self.group, "topic": self.topic, "partition": number}
        end = 1_000_000 + rate * (TIMES - TIMES[0])
        behind = values(lag)
        self.add("log_end_offset", end.tolist(), topic=self.topic, partition=number)
        self.add("log_start_offset", 0.0, topic=self.topic, partition=number)
        self.add("consumer_lag", behind.tolist(), keep=keep, **labels)
        self.add("committed_offset", (end - behind).tolist(), keep=keep, **labels)
        if time_lag is not None:
            self.add("time_lag", time_lag, keep=keep, **labels)
        return self

    def all_partitions(self, **shape: Any) -> Story:
        """The same for every partition."""
        for number in range(self.partitions):
            self.partition(number, **shape)
        return self

    def people(
        self,
        *,
        rebalances: Shape = 2.0,
        poll_age: Shape = 0.05,
        keep: np.ndarray | None = None,
        throttle: Shape = 0.0,
        rtt: Shape = 0.01,
        delay_fill: float = 0.0,
        group_members: Shape | None = None,
    ) -> Story:
        """The group's members and what they say of themselves."""
        count = self.members or 0
        if group_members is not None or self.members is not None:
            self.add("group_members", count if group_members is None else group_members, group=self.group)
        for number in range(count):
            labels = {"group": self.group, "member": f"m-{number}"}
            self.add("rebalances", rebalances, keep=keep, **labels)
            self.add("poll_age", poll_age, keep=keep, **labels)
            self.add("heartbeat_age", 0.5, keep=keep, **labels)
            self.add("delayed_length", delay_fill * 1000, keep=keep, **labels)
            self.add("delayed_capacity", 1000.0, keep=keep, **labels)
            self.add("throttle_time", throttle, keep=keep, broker="1", **labels)
            self.add("broker_rtt", rtt, keep=keep, broker="1", **labels)
        return self

    def fetch_queue(self, messages: Shape = 0.0) -> Story:
        """Messages that wait in the client, of each partition."""
        for number in range(self.partitions):
            self.add("fetch_queue_length", messages, group=self.group, topic=self.topic, partition=number)
        return self

    def processor(
        self,
        name: str,
        *,
        seconds: Shape = 0.01,
        rate: float = 100.0,
        fill: Shape | Sequence[Shape] = 0.0,
        queues: int = 2,
        member: str = "m-0",
        topic: str | None = "",
    ) -> Story:
        """A processor with its process time and its queues; `fill` for all queues, or one for each."""
        per_event = values(seconds)
        counts = rate * (TIMES - TIMES[0])
        sums = np.concatenate([[0.0], np.cumsum(np.diff(counts) * per_event[1:])])
        labels = {
            "group": self.group,
            "topic": self.topic if topic == "" else topic,
            "member": member,
            "processor": name,
        }
        self.add("process_time", counts.tolist(), stat="count", **labels)
        self.add("process_time", sums.tolist(), stat="sum", **labels)
        self.add("processed", counts.tolist(), stat="ok", **labels)
        fills = list(fill) if isinstance(fill, (list, tuple)) else [fill] * queues
        for number, share in enumerate(fills):
            queue = {"group": self.group, "member": member, "processor": name, "queue": str(number)}
            self.add("queue_length", (values(share) * 100).tolist(), **queue)
            self.add("queue_capacity", 100.0, **queue)
        return self

    def enqueue(self, seconds: Shape = 0.0005) -> Story:
        """Mean entry time into queues, of each partition."""
        per_event = values(seconds)
        counts = 50.0 * (TIMES - TIMES[0])
        sums = np.concatenate([[0.0], np.cumsum(np.diff(counts) * per_event[1:])])
        for number in range(self.partitions):
            labels = {"group": self.group, "topic": self.topic, "partition": number, "member": "m-0"}
            self.add("enqueue_time", counts.tolist(), stat="count", **labels)
            self.add("enqueue_time", sums.tolist(), stat="sum", **labels)
        return self

    def calm(self) -> Story:
        """Everything inside of the process as it should be."""
        return self.people().processor("order").processor("refund").enqueue().fetch_queue()

    def samples(self) -> pa.Table:
        """The measurements."""
        return concat(self.batches)


LAG_GROWS = growing(20.0, start=5.0, since=-90.0)
LATE_GROWS = growing(0.5, start=0.1, since=-90.0)


def lagging(story: Story | None = None) -> Story:
    """Every partition falls behind from 90 s before the end."""
    return (story or Story()).all_partitions(lag=LAG_GROWS, time_lag=LATE_GROWS)
