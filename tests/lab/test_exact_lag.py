"""The lag in a finding is what Kafka's own tool prints at the same quiet moment, partition by partition."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit, kafka_describe, produce, workbench
from workbench.collect.capture import Capture
from workbench.collect.capture_in_memory import collect, observe
from workbench.errors import UnknownGroupError
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.lab.lab import LAB_THRESHOLDS, Lab
from workbench.lab.lab_broker import create_topic
from workbench.triage.triage_engine import triage
from workbench.window import Window

pytestmark = [pytest.mark.lab, pytest.mark.jvm]

# Partition to (records, committed offset): ahead, behind, level, empty, at the start, and never committed.
SHAPE = {0: (120, 20), 1: (300, 300), 2: (50, 0), 3: (0, 0), 4: (1000, 999), 5: (77, None)}


@pytest.fixture(scope="module")
def quiet(lab: Lab) -> tuple[str, str]:
    """A group and a topic on which nothing moves."""
    name = uuid.uuid4().hex[:8]
    group, topic = f"quiet-{name}", f"quiet-{name}"
    create_topic(lab.bootstrap, topic, len(SHAPE))
    produce(lab, topic, {partition: records for partition, (records, _) in SHAPE.items()})
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    commit(admin, group, topic, {p: offset for p, (_, offset) in SHAPE.items() if offset is not None})
    return group, topic


def check(capture: Capture, lab: Lab, quiet: tuple[str, str], spark: Any) -> None:
    """Every partition of the finding against the tool's."""
    group, topic = quiet
    [finding] = triage(capture, spark, groups=[group]).findings
    printed = kafka_describe(lab, group)
    assert printed, "the tool printed nothing"
    found = {(topic, part.partition): (part.committed, part.log_end, part.lag_messages) for part in finding.partitions}
    assert found == printed
    assert finding.lag_messages == sum(lag for _, _, lag in printed.values() if lag is not None)


def test_through_the_recorder(lab: Lab, quiet: tuple[str, str], spark: Any) -> None:
    """Kafka's own state, polled by ourselves."""
    cluster = lab.cluster(profiles=["runtime"]).model_copy(update={"prometheus": None})
    check(observe(cluster, 5, thresholds=LAB_THRESHOLDS, groups=[quiet[0]]), lab, quiet, spark)


@pytest.mark.usefixtures("prometheus_url")
def test_through_prometheus(lab: Lab, quiet: tuple[str, str], spark: Any) -> None:
    """An exporter's metrics, out of Prometheus."""
    time.sleep(8)
    from datetime import UTC, datetime, timedelta

    window = Window.ending(datetime.now(UTC), length=timedelta(seconds=5), baseline=timedelta(seconds=1))
    check(collect(lab.cluster(), window, thresholds=LAB_THRESHOLDS, groups=[quiet[0]]), lab, quiet, spark)


def test_the_snapshot_command_prints_the_same(lab: Lab, quiet: tuple[str, str], settings_file: Path) -> None:
    """`workbench snapshot --json`."""
    group, _ = quiet
    shown = workbench("snapshot", "--cluster", "mine", "--group", group, "--json", "--config", str(settings_file))
    assert shown.returncode == 0, shown.stderr
    rows = json.loads(shown.stdout)["partitions"]
    found = {(row["topic"], row["partition"]): (row["committed"], row["log_end"], row["lag_messages"]) for row in rows}
    assert found == kafka_describe(lab, group)


def test_a_snapshot_costs_few_requests(lab: Lab, admin: AdminClient) -> None:
    """One for each group and a handful for the rest, whatever the number of partitions."""
    name = uuid.uuid4().hex[:8]
    create_topic(lab.bootstrap, f"wide-{name}", 100)
    groups = [f"wide-{name}-{number}" for number in range(5)]
    for group in groups:
        commit(admin, group, f"wide-{name}", dict.fromkeys(range(100), 0))
    cluster = KafkaCluster(lab.bootstrap)
    snapshot = cluster.snapshot(groups=groups)
    assert len(snapshot.commits) == 500
    assert cluster.requests <= len(groups) + 15


def test_an_unknown_group_is_refused_with_the_nearest_names(lab: Lab, quiet: tuple[str, str]) -> None:
    """The cluster answers, and has no such group."""
    with pytest.raises(UnknownGroupError) as caught:
        KafkaCluster(lab.bootstrap).snapshot(groups=[quiet[0][:-1]])
    assert quiet[0] in (caught.value.hint or "")
