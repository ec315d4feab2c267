"""The scheduled report over many subscriptions, from a capture: `python -m tests.bench.health [SUBSCRIPTIONS]`.

The goal for 500: at most 60 s from the command's start to its end, a report of at most 8 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from evaluation.stories import THRESHOLDS, WINDOW, Story, lagging
from workbench.collect.capture import Capture, new_info, write_capture
from workbench.samples import concat


def fleet(subscriptions: int) -> Capture:
    """So many subscriptions of some 1,800 samples each, one in ten sick and with all signals."""
    tables = []
    for number in range(subscriptions):
        story = Story(group=f"service-{number:03}", topic=f"events-{number:03}", partitions=2, members=1)
        tables.append((lagging(story).calm() if number % 10 == 0 else story.all_partitions().people()).samples())
    info = new_info(cluster="company", source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS)
    return Capture(info=info, samples=concat(tables))


def measure(capture: Path, out: Path) -> dict[str, float | dict[str, float]]:
    """Seconds of the whole command by the clock, seconds of work of all its processes, each step's seconds, megabytes of the report."""
    words = ["report", "run", "health", "--capture", str(capture), "--out", str(out), "--again"]
    began = time.monotonic()
    child = psutil.Popen([Path(sys.executable).with_name("workbench"), *words], stderr=subprocess.DEVNULL)
    work: dict[int, float] = {}
    # A kernel and its Spark are killed at the end and waited for by nobody, so the system's own count leaves them out.
    while child.poll() is None:
        for process in [child, *child.children(recursive=True)]:
            with suppress(psutil.Error):
                spent = process.cpu_times()
                work[process.pid] = spent.user + spent.system
        time.sleep(0.2)
    seconds = time.monotonic() - began
    assert child.wait() == 3
    [report] = out.glob("*/report.html")
    record = json.loads((report.parent / "run.json").read_text())
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(sum(work.values()), 1),
        "steps": {step["title"]: step["seconds"] for step in record["steps"]},
        "report_megabytes": round(report.stat().st_size / 1e6, 2),
    }


def main() -> None:
    """Make the capture, run the report, print a line."""
    subscriptions = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory() as name:
        capture = fleet(subscriptions)
        write_capture(Path(name) / "capture", capture)
        found = {"subscriptions": subscriptions, "samples": capture.samples.num_rows}
        print(json.dumps({**found, **measure(Path(name) / "capture", Path(name) / "out"), "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
