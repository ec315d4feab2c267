"""A sweep on a standalone cluster of two workers, a core each: `python -m tests.bench.cluster_sweep [SIZE …]`, apart from `make bench`.

For each size: seconds from the shell to the table, all files to be condensed, and peak memory of the driver and of each executor with
its Python workers. Of the largest, 200 subscriptions are compared with one triage each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.bench.sweep import ONE_BY_ONE, one_by_one
from tests.spark_cluster import Cluster, spark_cluster

SIZES = (1_500, 6_250, 25_000, 100_000)
ROOT = Path(__file__).parent.parent.parent
LAND = "import sys; from tests.fleet import land_fleet; land_fleet(sys.argv[1], subscriptions=int(sys.argv[2]))"


@dataclass
class Peaks:
    """Proportional memory (PSS) in MB: of the driver (the command and its JVM), and of each executor, by its process id."""

    driver: float = 0.0
    executors: dict[int, float] = field(default_factory=dict)

    def look(self, driver: int, cluster: Cluster) -> None:
        """Once, at what runs now."""
        self.driver = max(self.driver, _family_mb(psutil.Process(driver)))
        for executor in cluster.executors():
            self.executors[executor.pid] = max(self.executors.get(executor.pid, 0.0), _family_mb(executor))


def _family_mb(process: psutil.Process) -> float:
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            total += each.memory_full_info().pss
        except psutil.Error:
            continue  # it has just ended
    return total / 2**20


def main() -> int:
    """Each size once."""
    sizes = [int(word) for word in sys.argv[1:]] or list(SIZES)
    with tempfile.TemporaryDirectory() as room, spark_cluster(Path(_folder(room, "spark")), {}) as cluster:
        for size in sizes:
            place = Path(room) / str(size)
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", LAND, str(place), str(size)], cwd=ROOT, check=True)
            landed = time.perf_counter() - began
            document = _swept(place, size, cluster, landed)
            if size == max(sizes):
                _, wrong = one_by_one(place, document)
                print(f"{size:,}: {wrong} of {ONE_BY_ONE} differ from one triage", flush=True)
            subprocess.run(["rm", "-r", str(place)], check=True)
    return 0


def _folder(room: str, name: str) -> str:
    path = Path(room) / name
    path.mkdir()
    return str(path)


def _swept(place: Path, size: int, cluster: Cluster, landed: float) -> dict[str, Any]:
    stored = sum(path.stat().st_size for path in place.rglob("*.parquet")) / 1e6
    env = {**os.environ, "WORKBENCH_SPARK_MASTER": cluster.url, "SPARK_LOCAL_IP": "127.0.0.1"}
    peaks, over, began = Peaks(), threading.Event(), time.perf_counter()
    words = [Path(sys.executable).with_name("workbench"), "triage", "--all", "--store", place, "--json"]
    with (
        (place.parent / "stderr").open("wb") as told,
        subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=told) as process,
    ):

        def watch() -> None:
            while not over.wait(0.5):
                try:
                    peaks.look(process.pid, cluster)
                except psutil.Error:
                    continue

        watching = threading.Thread(target=watch)
        watching.start()
        assert process.stdout is not None
        shown = process.stdout.read()
    seconds = time.perf_counter() - began
    over.set()
    watching.join()
    document: dict[str, Any] = json.loads(shown)
    assert document["subscriptions"] == size
    read = document["reading"]
    executors = " and ".join(f"{it:,.0f}" for it in peaks.executors.values())
    print(
        f"{size:,} subscriptions, {read['samples_read']:,} samples, {read['files']} files, {stored:,.0f} MB, "
        f"landed in {landed:.0f} s: {seconds:.1f} s, {1000 * seconds / size:.2f} ms each; peak MB: driver {peaks.driver:,.0f}, "
        f"executors {executors}; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return document


if __name__ == "__main__":
    raise SystemExit(main())
