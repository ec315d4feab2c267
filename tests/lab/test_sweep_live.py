"""`workbench triage --all` of a live cluster: slots land out of a real Prometheus, each once."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit, produce, workbench
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.sweep.fleet_store import LandedFile, open_store


@pytest.mark.lab
@pytest.mark.jvm
@pytest.mark.usefixtures("prometheus_url")
def test_a_live_cluster_lands_slot_by_slot(lab: Lab, admin: AdminClient, settings_file: Path, tmp_path: Path) -> None:
    """A group that nobody reads for is found; what has landed is not asked for again."""
    name = uuid.uuid4().hex[:8]
    create_topic(lab.bootstrap, f"t-{name}", 2)
    produce(lab, f"t-{name}", {0: 10, 1: 10})
    commit(admin, f"g-{name}", f"t-{name}", {0: 1, 1: 1})
    words = ["triage", "--all", "--cluster", "mine", "--store", str(tmp_path / "store"), "--json"]
    words += ["--config", str(settings_file)]
    settings_file.write_text(settings_file.read_text().replace('length = "20s"', 'length = "8s"'))
    time.sleep(22)  # a slot of 8 s that the group was there for from its beginning
    first = workbench(*words, timeout=300)
    assert first.returncode in (3, 4), first.stderr
    document = json.loads(first.stdout)
    [row] = [row for row in document["unwell"] if row["group"] == f"g-{name}"]
    assert row["lag_messages"] == 18
    assert row["state"] == "lagging"
    landed = {file.path: file.path.stat().st_mtime_ns for file in _files(tmp_path)}
    assert document["reading"]["files_read"] == document["reading"]["files"] >= 1

    until = document["window"]["end"]
    again = json.loads(workbench(*words, "--until", until, timeout=300).stdout)
    assert (
        again["reading"]["files_read"] == again["reading"]["files"]
    )  # a small fleet: each file once, and no summaries
    assert {file.path: file.path.stat().st_mtime_ns for file in _files(tmp_path)} == landed
    assert [r for r in again["unwell"] if r["group"] == row["group"]] == [row]


def _files(tmp_path: Path) -> list[LandedFile]:
    store = open_store(tmp_path / "store")
    return store.files(store.landed())
