"""`workbench init` on a real Prometheus alone: what it writes works at once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient

from tests.cli.running import run
from tests.lab.conftest import commit
from tests.waiting import wait_for
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.settings import load_settings

pytestmark = pytest.mark.lab


def test_a_prometheus_alone_gives_settings_that_work_at_once(lab: Lab, prometheus_url: str, tmp_path: Path) -> None:
    """The profiles that fit are in the file; doctor and capture need nothing more, and no Kafka."""
    create_topic(lab.bootstrap, "of-init", 2)
    commit(AdminClient({"bootstrap.servers": lab.bootstrap}), "reads-of-init", "of-init", {0: 0, 1: 0})

    def is_seen() -> bool:
        """It is the first test that asks this Prometheus: nothing is in it before it has scraped an exporter that shows a group."""
        with urlopen(f"{prometheus_url}/api/v1/query?query=kafka_consumergroup_lag", timeout=10) as answer:
            return bool(json.load(answer)["data"]["result"])

    wait_for(is_seen)
    made = run("init", "--name", "shop", "--prometheus", prometheus_url, "--yes", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "Try: workbench triage --cluster shop --all" in made.stderr
    cluster = load_settings(tmp_path / "workbench.toml").cluster("shop")
    assert cluster.bootstrap is None
    assert "kafka_exporter" in cluster.profiles
    checked = run("doctor", "--cluster", "shop", cwd=tmp_path)
    assert "✓ shop: prometheus" in checked.stdout, checked.stdout + checked.stderr
    for number in range(40):  # the exporter and Prometheus need some looks at the group
        words = [
            "capture",
            "--cluster",
            "shop",
            "--group",
            "reads-of-init",
            "--since",
            "1m",
            "--out",
            f"taken-{number}",
        ]
        taken = run(*words, cwd=tmp_path)
        if taken.returncode in (0, 4) and (tmp_path / f"taken-{number}" / "capture.json").is_file():
            break
        time.sleep(2)
    assert "samples in" in taken.stderr, taken.stderr
