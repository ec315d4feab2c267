"""24 simulated hours of 2,000 subscriptions, with alerts, notes and people who look: memory stays, pages stay fast."""

from __future__ import annotations

import gc
import statistics
import time
from pathlib import Path

import psutil
import pytest
import requests

from tests.browser.looking import within
from tests.serve.serving import TOKEN, Office, alert, judged, running
from tests.serve.test_incidents import post
from workbench.serve import fleet_verdicts

BEARER = {"Authorization": f"Bearer {TOKEN}"}
SUBSCRIPTIONS = 2000
ROUND_SECONDS = 300
ROUNDS = 288
MOST_GROWTH = (
    40 << 20
)  # SQLite's page caches and the interpreter's own fluctuation; a day of rows in memory would be far more


@pytest.mark.slow
def test_a_day_of_2000_subscriptions(tmp_path: Path) -> None:
    """The fleet each 5 minutes, an alert and its recovery each hour; every page in each hour."""
    office = Office(tmp_path)
    process, sizes, times = psutil.Process(), [], []
    with running(office, threads=False) as server:
        for number in range(ROUNDS):
            office.clock.now += ROUND_SECONDS
            # A twentieth is sick, and others in each round.
            office.oracle.says = lambda q: [judged(it) for it in q.groups]
            verdicts = ["slow_processor" if (n + number) % 20 == 0 else "healthy" for n in range(SUBSCRIPTIONS)]
            judgements = [judged(f"group-{n:04}", "orders", verdict) for n, verdict in enumerate(verdicts)]
            fleet_verdicts.record(office.store, "prod", judgements, every_seconds=ROUND_SECONDS)
            office.worker.look_again()
            if number % 12:
                continue
            post(office, *(alert(f"group-{number + n:04}", number=number) for n in range(20)))
            office.worker.judge_alerts()
            office.oracle.says = lambda q: [judged(it, verdict="healthy") for it in q.groups]
            office.clock.now += 61
            office.worker.look_again()
            office.send()
            office.postman.parcels.clear()
            fleet_verdicts.forget(office.store, keep_seconds=office.settings.keep.total_seconds())
            [incident] = [
                row["id"] for row in office.store.rows("SELECT id FROM incident ORDER BY opened DESC LIMIT 1")
            ]
            for path in (
                "/",
                "/incidents",
                f"/incidents/{incident}",
                "/group?cluster=prod&group=group-0000",
                "/metrics",
            ):
                begun = time.monotonic()
                answer = requests.get(server.url + path, headers=BEARER, timeout=30)
                times.append(time.monotonic() - begun)
                assert answer.status_code == 200 and len(answer.content) < 300_000, path
            gc.collect()
            sizes.append(process.memory_info().rss)
    kept = (tmp_path / "serve.sqlite").stat().st_size
    growth = sizes[-1] - sizes[len(sizes) // 4]
    print(
        f"pages: median {statistics.median(times) * 1000:.0f} ms, slowest {max(times) * 1000:.0f} ms; "
        f"memory {sizes[0] >> 20} to {sizes[-1] >> 20} MB; file {kept >> 20} MB"
    )
    within(max(times), 0.3, "the slowest page answered")
    assert growth < MOST_GROWTH
