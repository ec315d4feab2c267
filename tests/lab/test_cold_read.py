"""Real tiered storage, with a slow store: of two groups on one topic, the one in remote storage is a cold read, until it is back."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import workbench
from tests.lab.sharing import Sharing
from tests.three_brokers.tiered import TIERED_TOPIC, TieredLab, start_tiered
from workbench import api
from workbench.collect.recorder import Recorder
from workbench.lab.lab_broker import set_quota
from workbench.queues.systems import system_of
from workbench.triage.verdict_names import State, Verdict
from workbench.window import parse_duration

pytestmark = [pytest.mark.lab, pytest.mark.jvm, pytest.mark.slow]

SLOW, FASTER = 150_000, 700_000  # bytes/s that a broker reads from remote storage: less than arrives, and more


def recorded(lab: TieredLab, folder: Path, seconds: float) -> None:
    """Record so long."""
    cluster = lab.cluster()
    done = threading.Event()
    Recorder(cluster, folder, interval_seconds=2.0, thresholds=cluster.thresholds).run(done, seconds=seconds)


def judged(folder: Path, since: str, baseline: str) -> dict[str, Any]:
    """Findings by group."""
    return {it.group: it for it in api.triage(capture=folder, since=since, baseline=baseline).findings}


def unread(lab: TieredLab, group: str) -> tuple[int, int]:
    """(Messages that wait, messages of them that are in remote storage alone)."""
    from workbench.kafka.local_log_starts import local_starts

    found = system_of(lab.cluster()).observer(lab.cluster()).snapshot(groups=[group])
    starts = local_starts(lab.bootstrap, {}, {("events", number): number + 1 for number in range(3)})
    cold = sum(max(0, starts[part[1:]] - (at or 0)) for part, at in found.commits.items())
    return sum(found.lag(*part) or 0 for part in found.commits), cold


def seconds_told(headline: str) -> float:
    """The time that a headline gives until a group is back on the brokers' disks."""
    found = re.search(r"back on them in ((?:\d+ (?:s|min|h) ?)+)", headline)
    assert found is not None, headline
    return parse_duration(found[1].replace(" ", "")).total_seconds()


@pytest.mark.parametrize("rate", [340_000, 420_000, 560_000])
def test_the_time_that_it_tells_is_right_within_a_quarter(tmp_path: Path, rate: int) -> None:
    """Of a group that gets out of remote storage, at 1.7 to 2.8 times the pace of what arrives."""
    with start_tiered(tmp_path / "lab", remote_bytes_per_second=rate) as lab, Sharing(lab.bootstrap) as sharing:
        sharing.topic("events", [[1, 2], [2, 3], [3, 1]], **TIERED_TOPIC)
        set_quota(lab.bootstrap, "metering", 1_000_000_000)
        # 250 s of what it gains, in batches as those that come later: a limit of bytes lets other numbers of others pass.
        sharing.fill("events", 3, 3 * (rate - 200_000) // 4, 1000, together=60)
        sharing.write(["events"], 3, 200, 1000)
        time.sleep(12)  # full segments have left the disks
        sharing.read("cold", "events")
        time.sleep(20)  # until the brokers' limit, a mean of some seconds, is what it reads
        recorded(lab, tmp_path / "kept", 80)
        began = time.monotonic()
        back: list[float] = []

        def watch() -> None:
            while unread(lab, "cold")[1]:
                time.sleep(1)
            back.append(time.monotonic() - began)

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        # In a process of its own: who reads and writes are threads of this one, and would be slower meanwhile.
        said = workbench(
            "triage", "--capture", str(tmp_path / "kept"), "--since", "70s ago", "--baseline", "9s", "--json"
        )
        told = next(it["headline"] for it in json.loads(said.stdout)["findings"] if it["group"] == "cold")
        watching.join(900)
        assert back, "it did not come back"
        print(f"{rate}: told {seconds_told(told):.0f} s, took {back[0]:.0f} s: {told}")
        assert seconds_told(told) == pytest.approx(back[0], rel=0.25)


def test_only_the_group_in_remote_storage_is_a_cold_read_and_no_longer_once_it_is_back(tmp_path: Path) -> None:
    """The other one is on the tail of the same partitions, by the same brokers."""
    with start_tiered(tmp_path / "lab", remote_bytes_per_second=SLOW) as lab, Sharing(lab.bootstrap) as sharing:
        sharing.topic("events", [[1, 2], [2, 3], [3, 1]], **TIERED_TOPIC)
        set_quota(lab.bootstrap, "metering", 1_000_000_000)
        sharing.read("tail", "events")
        time.sleep(4)  # it has its partitions before there is a record
        sharing.fill("events", 3, 60_000, 1000)
        sharing.write(["events"], 3, 200, 1000)
        time.sleep(12)  # full segments have left the disks
        recorder = threading.Thread(target=recorded, args=(lab, tmp_path / "slow", 56))
        recorder.start()
        time.sleep(16)
        sharing.read("cold", "events")
        recorder.join()
        found = judged(tmp_path / "slow", "36s ago", "18s")
        assert found["cold"].verdict is Verdict.COLD_READ
        assert "More consumers would not help" in found["cold"].headline
        assert found["tail"].state is State.HEALTHY

        lab.limit_remote(FASTER)
        time.sleep(8)
        recorded(lab, tmp_path / "faster", 30)
        began = time.monotonic()
        told = judged(tmp_path / "faster", "26s ago", "4s")["cold"]
        while unread(lab, "cold")[1]:
            assert time.monotonic() - began < 240
            time.sleep(1)
        took = time.monotonic() - began
        print(f"back on the disks after {took:.0f} s; it said: {told.verdict}: {told.headline}")
        while unread(lab, "cold")[0] > 1000:
            assert time.monotonic() - began < 300
            time.sleep(1)
        recorded(lab, tmp_path / "back", 24)
        after = judged(tmp_path / "back", "16s ago", "8s")
        assert after["cold"].verdict is not Verdict.COLD_READ
        assert {it.state for it in after.values()} <= {State.HEALTHY, State.DRAINING}
