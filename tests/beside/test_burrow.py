"""Burrow and triage, asked of the same groups at the same time: where they differ, the reason is told."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.beside.servers import Beside, servers
from tests.beside.situations import LOOK, PARTITIONS, SITUATIONS, consume, produce
from workbench.api.load_measurements import measure
from workbench.api.measurement_requests import Measurements, Times
from workbench.collect.capture import write_capture
from workbench.lab.lab_broker import create_topic
from workbench.triage.finding import Finding
from workbench.triage.triage_engine import triage
from workbench.triage.verdict_names import State, Verdict

pytestmark = [pytest.mark.jvm, pytest.mark.lab, pytest.mark.slow, pytest.mark.apt]

OBJECTIVE_SECONDS = 30.0
_SETTINGS = """\
[clusters.mine]
prometheus = "{url}"
[windows]
length = "2m"
baseline = "3m"
[thresholds]
stale_after_seconds = 10
time_lag_objective_seconds = {objective:g}
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """What both say of one situation: Burrow's status of the group, our verdict, and why they differ, if they do."""

    burrow: str | None
    ours: str
    why: str = ""


# Ours is what a lag exporter alone can tell, for Burrow sees no more than that.
EXPECTED = {
    "healthy": Pair("OK", "healthy"),
    "stopped": Pair("ERR", "consumer_stopped"),
    "partition-stalls": Pair("ERR", "stuck_partition"),
    "partition-repeats": Pair("ERR", "stuck_partition"),
    "falls-behind": Pair("WARN", "cannot_tell", "both see it; why, the offsets alone do not say, and Burrow does not ask"),
    "goes-back": Pair("OK", "offsets_reset", "Burrow looks for it among its last 15 commits, and by now these shrink the lag"),
    "drains": Pair("OK", "producer_burst", "Burrow has no word for it: a lag that shrinks is OK; we say how late, and until when"),
    "commits-rarely": Pair("OK", "healthy"),
    "quiet": Pair("OK", "healthy"),
    "recovered": Pair("OK", "recovered", "Burrow keeps no memory of it"),
    "always-late": Pair("OK", "cannot_tell", "Burrow has no objective: as late as ever is OK; we say that it is late, not why"),
    "never-commits": Pair(None, "unusable_data", "Burrow knows groups by their commits; we say that there is none"),
    "hot-partition": Pair("WARN", "cannot_tell", "both see it; hot_partition leads our candidates"),
}  # fmt: skip


def run(beside: Beside, room: Path, spark: Any) -> tuple[dict[str, dict[str, Any] | None], dict[str, Finding]]:
    """Let all situations happen; by group, Burrow's answer and ours."""
    bootstrap, over = beside.broker.bootstrap, threading.Event()
    for it in SITUATIONS:
        create_topic(bootstrap, it.name, PARTITIONS)
    settings = room / "workbench.toml"
    settings.write_text(_SETTINGS.format(url=beside.prometheus.url, objective=OBJECTIVE_SECONDS))
    with ThreadPoolExecutor(len(SITUATIONS) + 1) as pool:
        began = time.monotonic()
        try:
            clients = [pool.submit(produce, bootstrap, SITUATIONS, over)]
            clients += [pool.submit(consume, bootstrap, it, over) for it in SITUATIONS]
            time.sleep(10)  # the first commits
            burrow = beside.start_burrow()
            time.sleep(LOOK - (time.monotonic() - began))
            theirs = {it.name: burrow.status(it.name) for it in SITUATIONS}
            until = datetime.now(UTC).isoformat()
            request = Measurements(cluster="mine", config=settings, times=Times(until=until))
            measured = measure(request)
        finally:
            over.set()
        for it in clients:
            it.result()
    write_capture(room / "capture", measured.capture)
    found = triage(measured.capture, spark, window=measured.window)
    return theirs, {it.group: it for it in found.findings}


def test_both_are_asked_of_thirteen_groups(tmp_path: Path, spark: Any) -> None:
    """Whatever Burrow alarms of is lagging or open with us, with the same partitions; where the words differ, the reason is known."""
    with servers(tmp_path) as beside:
        theirs, ours = run(beside, tmp_path, spark)
    said = {
        name: Pair(None if status is None else str(status["status"]), str(ours[name].verdict), EXPECTED[name].why)
        for name, status in theirs.items()
    }
    for name, it in said.items():
        print(f"| {name} | {it.burrow or 'not found'} | {it.ours} | {it.why} |")
    assert said == EXPECTED
    for name, status in theirs.items():
        alarmed = {part["partition"] for part in (status or {"partitions": []})["partitions"] if part["status"] != "OK"}
        late = {it.partition for it in ours[name].partitions if (it.time_lag_seconds or 0) > OBJECTIVE_SECONDS}
        assert alarmed <= late, name
        if alarmed:
            assert ours[name].state is not State.HEALTHY
    assert ours["hot-partition"].candidates[0] == Verdict.HOT_PARTITION
    assert {part["status"] for part in (theirs["partition-repeats"] or {})["partitions"]} == {"OK", "STALL"}
    assert {part["status"] for part in (theirs["partition-stalls"] or {})["partitions"]} == {"OK", "STOP"}
