"""Lag of many groups: beside Kafka's own tool, and of more groups than that is asked for."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.bench.harness import Result, median_seconds, result
from tests.lab.conftest import commit_many, kafka_describe_all
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.lab.kafka_jars import TOOLS, ensure
from workbench.lab.lab_broker import create_topic, start_broker

GROUPS, MANY_GROUPS, PARTITIONS = 2_000, 20_000, 12


def lag_snapshot() -> Result:
    """Groups, members, commits and ends of all groups, as whole processes; every number compared."""
    ensure(TOOLS)
    with _broker_with(GROUPS) as bootstrap:
        snapshot = KafkaCluster(bootstrap).snapshot()
        ours_told = {
            key: (committed, snapshot.ends[key[1:]], snapshot.lag(*key)) for key, committed in snapshot.commits.items()
        }
        assert ours_told == kafka_describe_all(bootstrap), "not equal number by number"
        assert len(ours_told) == GROUPS * PARTITIONS
        ours = median_seconds(lambda: _in_a_process(bootstrap))
        peer = median_seconds(lambda: kafka_describe_all(bootstrap))
    return result(
        "lag_snapshot",
        f"{GROUPS:,} groups × {PARTITIONS} partitions, whole processes, equal number by number",
        ours,
        peer=peer,
        peer_name="kafka-consumer-groups --all-groups --describe",
    )


def lag_snapshot_20k() -> Result:
    """Ten times as many; the memory is that of the process that asks."""
    with _broker_with(MANY_GROUPS) as bootstrap:
        began = time.perf_counter()
        peak_mb, requests = _in_a_process(bootstrap)
        seconds = time.perf_counter() - began
    assert requests <= MANY_GROUPS / 50, "more than one request for each fifty groups"
    found = result(
        "lag_snapshot_20k",
        f"{MANY_GROUPS:,} groups × {PARTITIONS} partitions, whole process; {requests:,} calls, peak {peak_mb:.0f} MB",
        seconds,
    )
    return Result(**{**{name: getattr(found, name) for name in found.__slots__}, "peak_memory_mb": round(peak_mb)})


_CHILD = """
import resource, sys
from workbench.kafka.cluster_snapshot import KafkaCluster
cluster = KafkaCluster(sys.argv[1], deadline_seconds=120)
snapshot = cluster.snapshot()
assert snapshot.incomplete == (), snapshot.incomplete[:3]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, cluster.requests)
"""


def _in_a_process(bootstrap: str) -> tuple[float, int]:
    """A snapshot in a new process: its peak memory in MB, and the calls it made."""
    shown = subprocess.run([sys.executable, "-c", _CHILD, bootstrap], capture_output=True, text=True, check=True).stdout
    memory, requests = shown.split()
    return float(memory), int(requests)


@contextmanager
def _broker_with(groups: int) -> Iterator[str]:
    """A broker with so many groups that have committed, each somewhere else."""
    with tempfile.TemporaryDirectory() as room:
        broker = start_broker(Path(room) / "kafka", for_load=True)
        try:
            create_topic(broker.bootstrap, "t", PARTITIONS)
            producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50, "log_level": 0})
            for number in range(PARTITIONS * 100):
                producer.produce("t", b"x", partition=number % PARTITIONS)
            assert producer.flush(60) == 0
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            commits = {
                f"group-{number}": {part: (number + part) % 101 for part in range(PARTITIONS)}
                for number in range(groups)
            }
            commit_many(admin, commits, "t")
            yield broker.bootstrap
        finally:
            broker.stop()
