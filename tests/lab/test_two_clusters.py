"""One Prometheus for two clusters that share the names of groups and topics, with a replica pair and two exporters of one of them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit, kafka_describe_all, produce, workbench
from tests.waiting import wait_for
from workbench.collect.capture_in_memory import collect_series
from workbench.errors import MixedSourcesError, WorkbenchError
from workbench.lab import process
from workbench.lab.lab_broker import Broker, create_topic, start_broker
from workbench.lab.prometheus import PrometheusServer, start_prometheus
from workbench.settings import Cluster
from workbench.window import Window

pytestmark = pytest.mark.lab

GROUP, TOPIC, PARTITIONS = "pay", "orders", 3


@dataclass
class TwoClusters:
    """Two brokers under one Prometheus."""

    brokers: dict[str, Broker]
    prometheus: PrometheusServer
    exporters: dict[str, list[str]]

    def cluster(self, **settings: object) -> Cluster:
        """Settings without Kafka: only what Prometheus says counts."""
        return Cluster.model_validate({"name": "c", "prometheus": self.prometheus.url, **settings})

    def sums(self, **settings: object) -> tuple[dict[int, tuple[int, int]], tuple[str, ...]]:
        """Partition to (committed, lag) of the last minute's end, and what is said of the sources."""
        now = datetime.now(UTC)
        window = Window.ending(now, length=timedelta(seconds=40), baseline=timedelta(seconds=1))
        found = collect_series(self.cluster(**settings), window)
        last: dict[tuple[str, int], float] = {}
        for row in sorted(found.series.to_samples().to_pylist(), key=lambda row: row["ts"]):
            if row["group"] == GROUP and row["partition"] is not None and row["value"] is not None:
                last[row["signal"], row["partition"]] = row["value"]
        return {
            number: (int(last["committed_offset", number]), int(last["consumer_lag", number]))
            for number in range(PARTITIONS)
        }, found.sources


def fill(broker: Broker, counts: list[int], commits: list[int]) -> None:
    """Records, and the commits of a group."""
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    produce(broker, TOPIC, dict(enumerate(counts)))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    commit(admin, GROUP, TOPIC, dict(enumerate(commits)))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    """eu with two exporters, each scraped by a replica pair; us with one."""
    room = tmp_path_factory.mktemp("both")
    children: list[process.Child] = []
    brokers: dict[str, Broker] = {}
    prometheus = start_prometheus(room / "prometheus")
    try:
        with ThreadPoolExecutor(2) as pool:
            made = pool.map(lambda name: (name, start_broker(room / name)), ("eu", "us"))
            brokers.update(made)
        fill(brokers["eu"], [900, 700, 500], [300, 650, 500])
        fill(brokers["us"], [90, 40, 70], [90, 10, 0])
        exporters: dict[str, list[str]] = {"eu": [], "us": []}
        for name, number in (("eu", 0), ("eu", 1), ("us", 0)):
            folder = room / f"exporter-{name}-{number}"
            folder.mkdir()
            address = folder / "address.json"
            child = process.start(
                f"exporter-{name}-{number}",
                [sys.executable, "-m", "workbench.lab.exporter", brokers[name].bootstrap, address],
                folder=folder,
            )
            children.append(child)
            process.wait_until(address.exists, child=child, seconds=30, what="the exporter")
            exporters[name].append(json.loads(address.read_text())["metrics"])
        targets = [
            {"targets": [it], "labels": {"cluster": name, "prometheus_replica": replica}}
            for name, pages in exporters.items()
            for it in pages
            for replica in ("a", "b")
        ]
        (prometheus.targets / "both.json").write_text(json.dumps(targets))
        found = TwoClusters(brokers, prometheus, exporters)

        def is_there() -> bool:
            try:
                return all(len(found.sums(match={"cluster": name})[0]) == PARTITIONS for name in brokers)
            except (WorkbenchError, KeyError):
                return False

        wait_for(is_there, 60)
        time.sleep(10)  # some samples of all of them
        yield found
    finally:
        for child in children:
            child.kill()
        for broker in brokers.values():
            broker.stop()
        prometheus.stop()


@pytest.mark.parametrize("name", ["eu", "us"])
def test_every_number_is_that_of_kafkas_own_tool(both: TwoClusters, name: str) -> None:
    """Of the right cluster, and once, whatever the number of exporters and servers that tell it."""
    found, sources = both.sums(match={"cluster": name})
    wanted = kafka_describe_all(both.brokers[name].bootstrap)
    assert found == {number: (row[0], row[2]) for (_, _, number), row in wanted.items()}
    assert sum(lag for _, lag in found.values()) == {"eu": 650, "us": 100}[name]
    assert sources
    assert ("4 sources" if name == "eu" else "2 sources") in sources[0]


def test_without_a_match_two_clusters_are_refused(both: TwoClusters, tmp_path: Path) -> None:
    """By the command as well; the answer says what to write into the settings."""
    with pytest.raises(MixedSourcesError, match="Two clusters answer"):
        both.sums()
    (tmp_path / "workbench.toml").write_text(f'[clusters.c]\nprometheus = "{both.prometheus.url}"\n')
    done = workbench(
        "triage", "--cluster", "c", "--group", GROUP, "--since", "40s ago", "--config", str(tmp_path / "workbench.toml")
    )
    assert done.returncode == 4, done.stderr
    assert 'match = {cluster = "eu"}' in done.stderr
    assert "Traceback" not in done.stderr


def test_two_clusters_without_a_label_are_told_apart_by_their_offsets(both: TwoClusters) -> None:
    """Only the address of the exporter differs."""
    plain = [{"targets": [pages[0]], "labels": {"team": "x"}} for pages in both.exporters.values()]
    (both.prometheus.targets / "plain.json").write_text(json.dumps(plain))
    try:

        def answers() -> bool:
            try:
                both.sums(match={"team": "x"})
            except MixedSourcesError as error:
                return "contradict each other" in error.message and "instance" in error.message
            except (WorkbenchError, KeyError):
                return False
            return False

        wait_for(answers, 30)
        addresses = {"instance": both.exporters["us"][0], "team": "x"}
        assert both.sums(match=addresses)[0] == {0: (90, 0), 1: (10, 30), 2: (0, 70)}
    finally:
        (both.prometheus.targets / "plain.json").unlink()
