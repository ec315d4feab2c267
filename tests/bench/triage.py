"""Triage of a recorded incident, from the shell and in a running session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.bench.harness import Result, median_seconds, result

CAPTURE = Path("notebooks/captures/incident-1")
COLD_RUNS, WARM_RUNS = 5, 5


def triage_cold() -> Result:
    """Shell to verdict: a new process, Spark and all."""
    program = Path(sys.executable).with_name("workbench")

    def run() -> None:
        subprocess.run([program, "triage", "--capture", CAPTURE], capture_output=True, check=False)

    run()  # the page cache is warm after it, as on a machine that is in use
    return result("triage_cold", "shell to verdict, one recorded subscription", median_seconds(run, runs=COLD_RUNS))


def triage_warm() -> Result:
    """The same in a session that is up, as in a notebook."""
    from workbench.collect.capture import read_capture
    from workbench.spark import session
    from workbench.triage.engine import triage

    capture, spark = read_capture(CAPTURE), session()
    triage(capture, spark)
    seconds = median_seconds(lambda: triage(capture, spark), runs=WARM_RUNS)
    return result("triage_warm", "verdict in a running session, one recorded subscription", seconds)
