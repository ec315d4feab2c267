"""A cluster's measurements for tests of brokers: groups, readers and the brokers' own signals, as lines over 25 minutes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from workbench.features.broker_features import Neighbourhood, neighbourhood
from workbench.queues.snapshot_views import GroupView, Member, views_table
from workbench.samples import GROUPS_SCHEMA, SampleBatch
from workbench.window import Window

END = datetime(2026, 11, 26, 3, 0, tzinfo=UTC)
WINDOW = Window(baseline_start=END - timedelta(minutes=25), start=END - timedelta(minutes=10), end=END)
EVERY = 15.0  # seconds between two samples
RECORD = 1000.0  # bytes

Line = Callable[[np.ndarray], np.ndarray]  # of minutes before the end (below 0) to values


def at(level: float) -> Line:
    """Always the same, but for noise of a hundredth."""
    return lambda minutes: level * (1 + 0.01 * np.sin(minutes * 7))


def after(begin: float, level: float, *, before: float = 0.0, until: float = 1.0) -> Line:
    """Another level from one minute to another."""
    return lambda minutes: np.where((minutes >= begin) & (minutes < until), level, before)


class Made:
    """Collects a cluster; broker 1 is at "kafka-1:9404", and so on."""

    def __init__(self, brokers: int = 3, *, window: Window = WINDOW) -> None:
        self.window = window
        self.at = np.arange(window.baseline_start.timestamp(), END.timestamp() + 1, EVERY)
        self.minutes = (self.at - END.timestamp()) / 60
        self.batch = SampleBatch("c", "made")
        self.views: list[GroupView] = []
        self._partitions: dict[int, list[tuple[str, int]]] = {}
        for broker in range(1, brokers + 1):
            self.own(broker, "server_start_time", at(1.7e9), kind=str(broker))

    def add(self, signal: str, labels: Mapping[str, object], values: np.ndarray, *, stat: str = "value") -> None:
        """One series."""
        self.batch.add(signal, labels, np.round(self.at * 1e6).astype(np.int64), values, stat=stat)

    def own(self, broker: int, signal: str, line: Line, *, kind: str = "value") -> None:
        """A broker's own signal."""
        self.add(signal, {"broker": f"kafka-{broker}:9404"}, line(self.minutes), stat=kind)

    def well(self, *brokers: int) -> None:
        """All signals that would show a strain, and do not."""
        for broker in brokers:
            self.own(broker, "request_handler_idle", at(0.9))
            self.own(broker, "network_idle", at(0.95))
            for signal in ("request_queue_time", "request_local_time", "response_send_time"):
                self.own(broker, signal, at(0.004), kind="FetchConsumer")

    def group(
        self,
        name: str,
        broker: int,
        arriving: Line,
        share: Line | None = None,
        *,
        topic: str | None = None,
        clients: int = 0,
        backlog: float = 0.0,
    ) -> None:
        """A group on a partition that a broker leads: what arrives, which share it reads (default: all), what waits before."""
        topic = topic or name
        part = (topic, broker)
        arrivals = arriving(self.minutes)
        reads = arrivals * (np.ones(len(arrivals)) if share is None else share(self.minutes))
        ends = 1e6 + backlog + np.cumsum(arrivals) * EVERY
        commits = 1e6 - 5 * arrivals[0] + np.cumsum(reads) * EVERY
        labels = {"group": name, "topic": topic, "partition": broker}
        self.add("consumer_lag", labels, np.maximum(ends - commits, 0))
        self.add("committed_offset", labels, commits)
        self.add("log_end_offset", {"topic": topic, "partition": broker}, ends)
        self.batch.add("leader", {"topic": topic, "partition": broker}, [round(self.at[-1] * 1e6)], [broker])
        if clients:
            members = tuple(
                Member(member_id=f"{name}-{it}", client_id=f"{name}-{it}", host="h", partitions=(part,))
                for it in range(clients)
            )
            self.views.append(GroupView(group=name, state="stable", protocol="classic", coordinator=1, members=members))

    def reads(self, client: str, broker: int, line: Line) -> None:
        """Bytes/s that a broker gives to a client id."""
        self.add("client_reads", {"broker": f"kafka-{broker}:9404", "member": client}, line(self.minutes))

    def count(self, broker: int, signal: str, line: Line, *, kind: str = "value") -> None:
        """A broker's own counter, by its rate per second."""
        self.own(broker, signal, lambda minutes: np.cumsum(line(minutes)) * EVERY, kind=kind)

    def asks(self, client: str, broker: int, line: Line) -> None:
        """Time of a broker's threads that a client id's requests take; 1 is one thread."""
        self.add("client_request_time", {"broker": f"kafka-{broker}:9404", "member": client}, line(self.minutes))

    def traffic(self, broker: int, line: Line, *, kind: str = "BytesOutPerSec") -> None:
        """Bytes/s that a broker gives in all."""
        self.count(broker, "broker_traffic", line, kind=kind)

    def samples(self) -> pa.Table:
        """In `SAMPLES_SCHEMA`."""
        return self.batch.to_arrow()

    def groups(self) -> pa.Table:
        """In `GROUPS_SCHEMA`."""
        return views_table(self.views, "c", END.timestamp()) if self.views else GROUPS_SCHEMA.empty_table()

    def seen(self) -> Neighbourhood:
        """On the grid."""
        return neighbourhood(self.samples(), self.groups(), self.window)
