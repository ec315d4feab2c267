"""How a sweep grows with data and cores: `python -m tests.bench.scaling`, apart from `make bench`; its table is in docs/decisions."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench.sweep import run_sweep
from tests.fleet import land_fleet
from workbench.sweep.fleet_store import SUMMARIES

SIZES, CORES = (1_600, 6_400, 25_600), (1, 2)


def main() -> int:
    """Each size on each number of cores: a sweep that reads everything, and one that reads nothing anew; seconds and CPU seconds."""
    sizes = [int(word) for word in sys.argv[1:]] or SIZES
    with tempfile.TemporaryDirectory() as room:
        for size in sizes:
            store = land_fleet(Path(room) / str(size), subscriptions=size)
            for cores in CORES:
                shutil.rmtree(store.root / SUMMARIES, ignore_errors=True)
                os.environ["WORKBENCH_SPARK_MASTER"] = f"local[{cores}]"
                os.sched_setaffinity(0, range(cores))  # the JVM's compiler and collector, too
                for what in ("all of it", "nothing new"):
                    run = run_sweep(store.root)
                    print(
                        f"{size:,} subscriptions, {cores} cores, reads {what} "
                        f"({run.document['reading']['samples_read']:,} samples): {run.seconds:.1f} s, {run.cpu_seconds:.0f} CPU-s, "
                        f"{run.peak_mb:,.0f} MB, load {os.getloadavg()[0]:.1f}",
                        flush=True,
                    )
            shutil.rmtree(store.root)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
