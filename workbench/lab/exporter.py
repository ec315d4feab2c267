"""A group-side exporter process with the metric names of danielqsj/kafka_exporter, plus the group's state.

Run as `python -m workbench.lab.exporter BOOTSTRAP ADDRESS.json [PROPERTIES.json]`, with librdkafka's properties if the cluster is
secured. It stands in for the exporter that most clusters have: what it shows lives on when the consumers are dead. Files in the
folder `faults` beside the address make it go wrong for single groups.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from workbench.errors import WorkbenchError
from workbench.files import write_text
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.lab.client_spec import ExporterFault
from workbench.queues.snapshot_views import Snapshot
from workbench.safe_output import tell
from workbench.signals import GROUP_STATES

_PERIOD_SECONDS = 1.0
_STALE_SECONDS = 5.0  # a snapshot older than this is not shown: no value is better than an old one
# Nobody has looked for so long: no snapshots, which cost a broker with some hundred partitions a fifth of a core, and this a tenth.
_REST_AFTER_SECONDS = 10.0
_WAKE_SECONDS = 5.0
_NEVER = -1  # what kafka_exporter says for "no committed offset"


class KafkaExporter(Collector):
    """Shows the latest snapshot under kafka_exporter's names."""

    def __init__(self, bootstrap: str, faults: Path, properties: Mapping[str, str]) -> None:
        self._cluster = KafkaCluster(bootstrap, properties)
        self._faults = faults
        self._snapshot: Snapshot | None = None
        self._changed = threading.Condition()
        self._tries = 0
        self._looked = -math.inf

    def run(self) -> None:
        """Take snapshots until killed, while somebody looks at them."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._rests())
            started = time.monotonic()
            try:
                self._snapshot = self._cluster.snapshot(every_kind=False)  # as exporters do
            except WorkbenchError as error:
                tell(str(error))
            with self._changed:
                self._tries += 1
                self._changed.notify_all()
            time.sleep(max(0.0, _PERIOD_SECONDS - (time.monotonic() - started)))

    def _rests(self) -> bool:
        return time.monotonic() - self._looked > _REST_AFTER_SECONDS

    def _look(self) -> None:
        """Have snapshots taken; who comes after a rest waits for the first one, which may have failed."""
        with self._changed:
            has_rested, tried = self._rests(), self._tries
            self._looked = time.monotonic()
            if has_rested:
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._tries > tried, _WAKE_SECONDS)

    def collect(self) -> Iterator[Metric]:
        """Metrics of the latest snapshot."""
        self._look()
        snapshot = self._snapshot
        if snapshot is None or time.time() - snapshot.taken_at > _STALE_SECONDS:
            return
        faults = self._current_faults()
        hidden = {fault.topic for fault in faults.values() if fault.mode == "hidden"}
        yield from self._topics(snapshot, hidden)
        group_labels = ["consumergroup", "topic", "partition"]
        current = GaugeMetricFamily("kafka_consumergroup_current_offset", "Committed offset.", labels=group_labels)
        lag = GaugeMetricFamily("kafka_consumergroup_lag", "Approximate lag in messages.", labels=group_labels)
        for (group, topic, number), committed in snapshot.commits.items():
            labels = [group, topic, str(number)]
            behind = snapshot.behind(group, topic, number)  # as kafka_exporter: negative for a commit above the end
            if group in faults:
                if faults[group].mode != "hidden":
                    current.add_metric(labels, _NEVER)
                    lag.add_metric(labels, math.nan if faults[group].mode == "nan" else _NEVER)
                continue
            current.add_metric(labels, _NEVER if committed is None else committed)
            lag.add_metric(labels, _NEVER if behind is None else behind)
        members = GaugeMetricFamily("kafka_consumergroup_members", "Members of the group.", labels=["consumergroup"])
        state = GaugeMetricFamily("wb_group_state", "State of the group, 0 dead to 4 stable.", labels=["group"])
        for view in snapshot.groups:
            if view.group in faults and faults[view.group].mode == "hidden":
                continue
            if view.member_count is not None:
                members.add_metric([view.group], view.member_count)
            if view.state in GROUP_STATES:
                state.add_metric([view.group], GROUP_STATES[view.state])
        yield from (current, lag, members, state)

    def _current_faults(self) -> dict[str, ExporterFault]:
        found = [
            ExporterFault.model_validate_json(path.read_text(encoding="utf-8")) for path in self._faults.glob("*.json")
        ]
        return {fault.group: fault for fault in found}

    def _topics(self, snapshot: Snapshot, hidden: set[str]) -> Iterator[Metric]:
        for name, text, offsets in (
            ("kafka_topic_partition_current_offset", "Current offset of a partition.", snapshot.ends),
            ("kafka_topic_partition_oldest_offset", "Oldest offset of a partition.", snapshot.starts),
        ):
            family = GaugeMetricFamily(name, text, labels=["topic", "partition"])
            for (topic, number), offset in offsets.items():
                if topic not in hidden:
                    family.add_metric([topic, str(number)], offset)
            yield family

    def describe(self) -> Iterator[Metric]:
        """Nothing ahead of time."""
        return iter(())


def main(bootstrap: str, address: Path, properties: Path | None = None) -> None:
    """Serve until killed."""
    known = json.loads(properties.read_text(encoding="utf-8")) if properties is not None else {}
    registry = CollectorRegistry()
    exporter = KafkaExporter(bootstrap, address.parent / "faults", known)
    registry.register(exporter)
    server, _ = start_http_server(0, "127.0.0.1", registry=registry)
    write_text(address, json.dumps({"metrics": f"127.0.0.1:{server.server_port}"}))
    thread = threading.Thread(target=exporter.run, daemon=True)
    thread.start()
    thread.join()


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
