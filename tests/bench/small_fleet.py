"""`triage --all` of small fleets beside a triage of one group, from the same kind of source: a small fleet must not take longer.

The bars: 1.2 times a single triage for 1 subscription, 1.5 times for 10, and twice for 100.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from tests.bench.fleet_server import fleet_server
from tests.bench.harness import Result, result
from tests.fleet import END

BARS = {1: 1.2, 10: 1.5, 100: 2.0}
_RUNS, _WINDOW, _STEP = 3, 900, 30


def small_fleet() -> Result:
    """Shell to table, each time with an empty store: five slots of 15 min are read, and judged; one after the other, in turns."""
    program = Path(sys.executable).with_name("workbench")
    seconds: dict[int, list[float]] = {size: [] for size in (0, *BARS)}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        room = Path(name)
        lines = []
        for size in seconds:
            slot = _WINDOW if size else 5 * _WINDOW  # one triage reads window and baseline at once
            url = stack.enter_context(fleet_server(max(1, size), slot_seconds=slot, step_seconds=_STEP, wire="json"))
            lines += [f"[clusters.of-{size}]", f'prometheus = "{url}"', 'profiles = ["kafka_exporter"]']
        (room / "w.toml").write_text("\n".join(lines))
        until = ["--until", f"{END:%Y-%m-%dT%H:%M:%SZ}", "--config", str(room / "w.toml")]
        since = f"{END - timedelta(seconds=_WINDOW):%Y-%m-%dT%H:%M:%SZ}"
        for turn in range(_RUNS + 1):  # the first one warms the page cache
            for size, taken in seconds.items():
                words = (
                    ["--all", "--cluster", f"of-{size}", "--store", str(room / f"store-{size}-{turn}")]
                    if size
                    else ["--cluster", "of-0", "--group", "group-000000", "--since", since]
                )
                began = time.perf_counter()
                # Into a file: a pipe would stay open until the JVM has cleaned up, after the prompt.
                with tempfile.TemporaryFile("w+") as shown:
                    code = subprocess.run(
                        [program, "triage", *words, *until], stdout=shown, stderr=shown, check=False
                    ).returncode
                    shown.seek(0)
                    assert code in (0, 3, 4), shown.read()
                if turn:
                    taken.append(time.perf_counter() - began)
    medians = {size: statistics.median(taken) for size, taken in seconds.items()}
    told = "; ".join(f"{size}: {medians[size]:.1f} s ({medians[size] / medians[0]:.2f} ×)" for size in BARS)
    return result(
        "small_fleet",
        f"`triage --all` of 1, 10 and 100 subscriptions, shell to table, beside a triage of one group: {told}",
        medians[100],
        peer=medians[0],
        peer_name="a triage of one group",
    )
