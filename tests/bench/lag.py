"""Lag of many groups, beside Kafka's own tool."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.bench.harness import Result, median_seconds, result
from tests.lab.conftest import commit
from workbench.collect.kafka import KafkaCluster
from workbench.java import find_java
from workbench.lab.jars import TOOLS, ensure
from workbench.lab.kafka import create_topic
from workbench.lab.lab import start_lab

GROUPS, PARTITIONS = 200, 12


def lag_snapshot() -> Result:
    """Groups, members, commits and ends of all groups, as whole processes would see them."""
    ensure(TOOLS)
    with tempfile.TemporaryDirectory() as room, start_lab(Path(room) / "lab", with_prometheus=False) as lab:
        create_topic(lab.bootstrap, "t", PARTITIONS)
        admin = AdminClient({"bootstrap.servers": lab.bootstrap})
        for number in range(GROUPS):
            commit(admin, f"group-{number}", "t", dict.fromkeys(range(PARTITIONS), 0))
        command = [
            str(find_java().program), "-cp", TOOLS.classpath,
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            "--bootstrap-server", lab.bootstrap, "--all-groups", "--describe",
        ]  # fmt: skip
        ours = median_seconds(lambda: KafkaCluster(lab.bootstrap).snapshot())
        peer = median_seconds(lambda: subprocess.run(command, capture_output=True, check=True))
    return result(
        "lag_snapshot",
        f"{GROUPS} groups × {PARTITIONS} partitions",
        ours,
        peer=peer,
        peer_name="kafka-consumer-groups --all-groups --describe",
    )
