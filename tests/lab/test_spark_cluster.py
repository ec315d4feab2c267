"""The sweep and the ledger on a real standalone cluster: a master and two workers on loopback, from pyspark's own jars."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.audit.pipeline import run
from tests.fleet import land_fleet
from tests.objects import BUCKET, Objects, object_storage
from tests.spark_cluster import Cluster, spark_cluster
from tests.waiting import wait_for
from workbench.sweep.fleet_store import SUMMARIES, FleetStore

pytestmark = [pytest.mark.jvm, pytest.mark.cluster]
ROOT = Path(__file__).parent.parent.parent
SUBSCRIPTIONS = 120
ANY = '"stream":"s"'  # of a line as the pipeline writes it


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    """Object storage that the workers have credentials for."""
    with object_storage(tmp_path_factory.mktemp("objects")) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, objects: Objects) -> Iterator[Cluster]:
    """One core a worker, so that both have work; all of them end with the test."""
    with spark_cluster(tmp_path_factory.mktemp("spark"), objects.env()) as found:
        yield found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FleetStore:
    """On a path that every worker sees; many small files, so that there is a middle to be killed in."""
    import workbench.sweep.fleet_store as module

    whole, module._FILE_ROWS = module._FILE_ROWS, 20_000
    try:
        return land_fleet(tmp_path_factory.mktemp("shared") / "store", subscriptions=SUBSCRIPTIONS)
    finally:
        module._FILE_ROWS = whole


def started(master: str | None, *words: str | Path, more: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A command in a process of its own, on that master or in local mode; `more`: of its environment."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", **(more or {})}
    env.pop("WORKBENCH_SPARK_MASTER", None)
    if master is not None:
        env["WORKBENCH_SPARK_MASTER"] = master
    program = Path(sys.executable).with_name("workbench")
    return subprocess.Popen(
        [program, *words, "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it printed, without how much it had to read."""
    shown, words = process.communicate(timeout=400)
    assert process.returncode == 3, words
    document: dict[str, Any] = json.loads(shown)
    return document


def swept(store: FleetStore) -> tuple[str | Path, ...]:
    """Words of `workbench triage --all`."""
    return "triage", "--all", "--store", store.root


def in_bytes(document: dict[str, Any]) -> bytes:
    """The findings, sorted, byte for byte."""
    kept = {name: document[name] for name in ("window", "subscriptions", "verdicts", "unwell", "findings")}
    for name in ("unwell", "findings"):
        kept[name] = sorted(kept[name], key=lambda row: (row["group"], row["topic"]))
    return json.dumps(kept, sort_keys=True).encode()


def forget(store: FleetStore) -> None:
    """As if nothing had been condensed."""
    for path in (store.root / SUMMARIES).rglob("*.parquet"):
        path.unlink()


def test_a_cluster_finds_what_local_mode_finds(cluster: Cluster, store: FleetStore) -> None:
    """Byte for byte after sorting; also when an executor is killed while files are being condensed."""
    local = ended(started(None, *swept(store)))
    assert local["states"]["lagging"] + local["states"]["cannot_tell"] == 3
    forget(store)

    running = started(cluster.url, *swept(store))
    folder = store.root / SUMMARIES
    wait_for(lambda: bool(cluster.executors()) or running.poll() is not None, 300)
    [victim, *_] = cluster.executors()  # found before, since the files are done within seconds
    wait_for(lambda: len(list(folder.rglob("[!.]*.parquet"))) >= 2 or running.poll() is not None, 300)
    victim.kill()
    killed_at = len(list(folder.rglob("[!.]*.parquet")))
    found = ended(running)
    assert killed_at < found["reading"]["files"], "it was killed before all was condensed"
    assert in_bytes(found) == in_bytes(local)


def test_a_cluster_finds_the_same_in_object_storage(
    cluster: Cluster, store: FleetStore, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte; its workers read and write there with Python alone."""
    place = f"s3://{BUCKET}/cluster"
    for name, value in objects.env().items():
        monkeypatch.setenv(name, value)
    land_fleet(place, subscriptions=SUBSCRIPTIONS)
    forget(store)
    local = ended(started(None, *swept(store)))
    found = ended(started(cluster.url, "triage", "--all", "--store", place, more=objects.env()))
    assert found["reading"]["files_read"] == 5
    assert in_bytes(found) == in_bytes(local)


def test_a_closer_look_is_the_same_when_an_executor_is_lost(
    cluster: Cluster, store: FleetStore, tmp_path: Path
) -> None:
    """Every row of the table and every finding, byte for byte; it dies in the first of twelve tasks or more."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "WORKBENCH_SPARK_MASTER": cluster.url}
    words = [sys.executable, "-m", "tests.lab.looks_killed", str(store.root)]
    (tmp_path / "done").touch()
    shown = []
    for mark in ("done", "killed"):
        done = subprocess.run([*words, str(tmp_path / mark)], env=env, cwd=ROOT, capture_output=True, timeout=400)
        assert done.returncode == 0, done.stderr[-4000:]
        shown.append(done.stdout)
    assert (tmp_path / "killed").exists()
    assert shown[0] == shown[1]
    table, findings = json.loads(shown[0])
    assert len(table) == SUBSCRIPTIONS and len(findings) == 3


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quarter of a million rows of 2,400 streams with crashes, losses and doubles, in 24 files."""
    folder = tmp_path_factory.mktemp("shared") / "rows"
    folder.mkdir()
    made = [run(seed, lost=seed % 3, doubled=seed % 2, unaligned=seed % 5 == 0).rows for seed in range(20)]
    for number in range(24):
        with (folder / f"{number}.jsonl").open("w", encoding="utf-8") as file:
            for seed, some in enumerate(made):
                lines = [it.line() for it in some]
                for copy in range(5):
                    stream = f'"stream":"s{number}-{seed}-{copy}"'
                    file.writelines(f"{line.replace(ANY, stream)}\n" for line in lines)
    return folder


def windows_of(folder: Path) -> bytes:
    """All windows of a ledger, in order, byte for byte."""
    table = pq.read_table(folder)
    order = pc.sort_indices(table, sort_keys=[(it, "ascending") for it in ("stream", "window_ms", "edge")])
    return json.dumps(table.take(order).to_pylist()).encode()


def test_a_ledger_is_the_same_when_an_executor_is_lost(cluster: Cluster, rows: Path, tmp_path: Path) -> None:
    """Every window of every stream, byte for byte."""
    words = ("audit", "run", "--rows", rows, "--layers", "gateway,collector", "--output")
    local = ended(started(None, *words, tmp_path / "local"))

    running = started(cluster.url, *words, tmp_path / "cluster")
    wait_for(lambda: bool(cluster.executors()) or running.poll() is not None, 300)
    [victim, *_] = cluster.executors()
    wait_for(lambda: sum(victim.cpu_times()[:2]) > 12 or running.poll() is not None, 300)
    assert running.poll() is None, "it was over before an executor could be killed"
    victim.kill()
    found = ended(running)
    assert found["windows"] == local["windows"]
    assert found["windows"]["loss"] > 0
    assert windows_of(tmp_path / "cluster") == windows_of(tmp_path / "local")
