"""Three real brokers: one group takes all that a broker can send; it is named, the advised cap is set, and the others recover."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.lab.sharing import Sharing
from tests.three_brokers.advised_caps import LIMIT
from tests.three_brokers.tiered import TieredLab, start_tiered
from tests.waiting import wait_for
from workbench import api
from workbench.collect.recorder import Recorder
from workbench.lab.lab_broker import set_quota
from workbench.queues.systems import system_of

pytestmark = [pytest.mark.lab, pytest.mark.slow]

CARD = 5e6  # bytes/s that broker 1 can send
SHOPS = ("orders", "payments", "returns")
BASE_SECONDS, HOG_SECONDS = 28.0, 34.0


def behind_on(lab: TieredLab, partition: int) -> dict[str, int]:
    """Messages that each shop has not read of one partition; partition 0 is led by broker 1."""
    found = system_of(lab.cluster()).observer(lab.cluster()).snapshot(groups=list(SHOPS))
    return {shop: found.lag(shop, shop, partition) or 0 for shop in SHOPS}


def test_the_hog_is_named_and_under_the_advised_cap_its_neighbours_recover(tmp_path: Path) -> None:
    """No group on another broker, and no shop, is accused; the cap is taken back at the end."""
    with start_tiered(tmp_path / "lab", narrow={1: CARD}) as lab, Sharing(lab.bootstrap) as sharing:
        for shop in SHOPS:
            sharing.topic(shop, [[1, 2], [2, 3], [3, 1]])
        sharing.topic("history", [[1]] * 6)
        set_quota(lab.bootstrap, "metering", 1_000_000_000)  # so that brokers measure every client
        sharing.fill("history", 6, 5000, 50_000)
        sharing.write(SHOPS, 3, 150, 4000)
        for shop in SHOPS:
            sharing.read(shop, shop)
        time.sleep(8)
        done = threading.Event()
        cluster = lab.cluster()
        recorder = Recorder(cluster, tmp_path / "kept", interval_seconds=2.0, thresholds=cluster.thresholds)
        recording = threading.Thread(target=recorder.run, args=(done,))
        recording.start()
        time.sleep(BASE_SECONDS)
        began = time.time()
        sharing.read("backfill", "history", members=6)
        time.sleep(HOG_SECONDS)
        done.set()
        recording.join()

        found = api.impact(capture=tmp_path / "kept", since=f"{HOG_SECONDS + 4:.0f}s ago", baseline="26s")
        assert found.exit_code == 3, found.found.sentence
        [cause] = found.found.causes
        assert (cause.offender.name, cause.offender.brokers) == ("backfill", (1,))
        # Its six members must join first, and a broker's rate of a client is a mean of ten seconds.
        assert began - 4 <= cause.offender.since <= began + HOG_SECONDS / 2
        assert {it.group for it in cause.victims} == set(SHOPS)
        assert all(it.brokers == (1,) for it in cause.victims)
        assert "response_send_time" in {it.evidence.signal for it in cause.strains}

        held = behind_on(lab, 0)
        [limit, back] = found.actions[0]
        named = LIMIT.search(limit.command or "")
        assert named is not None and back.command is not None
        set_quota(lab.bootstrap, named[1], int(named[2]))
        wait_for(lambda: all(it < 150 for it in behind_on(lab, 0).values()), seconds=90)  # a second of what arrives
        assert min(held.values()) > 3 * 150
        set_quota(lab.bootstrap, named[1], None)


def test_a_broker_that_hangs_is_one_finding_and_names_what_is_at_risk(tmp_path: Path) -> None:
    """Short of replicas and without leaders while broker 3 hangs; nothing of it once it is back."""
    with start_tiered(tmp_path / "lab") as lab, Sharing(lab.bootstrap) as sharing:
        sharing.topic("orders", [[1, 2, 3], [2, 1, 3]])
        sharing.topic("alone", [[3]])
        sharing.fill("orders", 2, 4000, 1000)
        sharing.fill("alone", 1, 100, 1000)
        for group, topic in (("late", "orders"), ("stranded", "alone")):
            sharing.read(group, topic, pause_seconds=lambda: 5.0)
        time.sleep(12)
        lab.suspend(3)
        time.sleep(16)  # until the controller misses it
        cluster = lab.cluster(timeout_seconds=3.0)
        Recorder(cluster, tmp_path / "hangs", interval_seconds=2.0, thresholds=cluster.thresholds).run(
            threading.Event(), seconds=40
        )
        found = api.impact(capture=tmp_path / "hangs", since="26s ago", baseline="12s")
        verdicts = {it.verdict: it for it in found.brokers.findings}
        short, lost = verdicts["under_replicated"], verdicts["leaderless"]
        assert {1, 2} <= set(short.brokers) and "late" in short.at_risk
        assert lost.groups == ("stranded",) and "alone-0" in lost.headline
        lab.resume(3)
        time.sleep(25)
        Recorder(cluster, tmp_path / "back", interval_seconds=2.0, thresholds=cluster.thresholds).run(
            threading.Event(), seconds=24
        )
        again = api.impact(capture=tmp_path / "back", since="14s ago", baseline="8s")
        assert not {"under_replicated", "leaderless"} & {it.verdict for it in again.brokers.findings}
