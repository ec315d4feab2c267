"""What people wait for at a server and in a report: the fleet's page, a triage by a warm server, the health of thousands of groups."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import requests

from tests.bench.fleet_server import fleet_server
from tests.bench.harness import Result, median_seconds, result
from tests.bench.sweep import run_command
from tests.bench.triage import PARTITIONS as OF_ONE
from tests.bench.triage import shell, two_hours
from tests.fleet import END, PARTITIONS
from tests.serve.serving import HOSTILE, TOKEN, Office, judged, running
from workbench.errors import SetupError
from workbench.lab.process import free_port, start
from workbench.serve import fleet_verdicts

_GROUPS, _HEALTH_GROUPS, _HEALTH_HOURS = 25_000, 5_000, 3
_PROGRAM = Path(sys.executable).with_name("workbench")


def fleet_page_25k() -> Result:
    """The first page, a page in the middle, a search and a filter, each by HTTP from a server on loopback; the slowest counts."""
    verdicts = [
        judged(
            f"service-{number:05d}-consumer",
            f"topic-{number // 4:05d}",
            verdict="slow_processor" if number % 50 == 7 else "healthy",
            headline=f"service-{number:05d}-consumer has waited since 02:14Z. {HOSTILE if number % 1000 == 7 else ''}",
            time_lag_seconds=float(number % 900),
            lag_messages=number,
        )
        for number in range(_GROUPS)
    ]
    asked = ("/", "/?skip=12000", "/?text=service-12", "/?state=healthy&sort=time_lag")
    with tempfile.TemporaryDirectory() as room:
        office = Office(Path(room))
        fleet_verdicts.record(office.store, "prod", verdicts, every_seconds=300)
        with running(office, threads=False) as server, requests.Session() as session:
            session.headers["Authorization"] = f"Bearer {TOKEN}"
            took, sizes = {}, {}
            for path in asked:
                answer = session.get(server.url + path, timeout=60)
                assert answer.status_code == 200, answer.text
                assert "consumer" in answer.text
                sizes[path] = len(answer.content)
                took[path] = median_seconds(lambda path=path: session.get(server.url + path, timeout=60), runs=9)  # type: ignore[misc]
    slowest = max(took, key=lambda path: took[path])
    return result(
        "fleet_page_25k",
        f"a page of serve over {_GROUPS:,} subscriptions, the slowest of {len(asked)} (`{slowest}`), "
        f"at most {max(sizes.values()) / 1000:.0f} kB",
        took[slowest],
    )


def triage_via() -> Result:
    """`workbench triage --via`: a warm server and a real Prometheus, the command as a whole process; and the same without a server."""
    with two_hours() as (url, end), tempfile.TemporaryDirectory() as room:
        settings, port = Path(room) / "w.toml", free_port()
        settings.write_text(f'[clusters.c]\nprometheus = "{url}"\nprofiles = ["kafka_exporter"]\n')
        env = {**os.environ, "WORKBENCH_CONFIG": str(settings), "WORKBENCH_SERVE_TOKEN": TOKEN, "XDG_STATE_HOME": room}
        since, until = (datetime.fromtimestamp(at, UTC).isoformat() for at in (end - 900, end))
        words = [_PROGRAM, "triage", "--cluster", "c", "--group", "payments", "--since", since, "--until", until]
        asked = [*words, "--via", f"http://127.0.0.1:{port}"]
        server = start("serve", [_PROGRAM, "serve", "--port", str(port)], folder=Path(room), env=env)
        try:
            deadline = time.monotonic() + 120
            while (answer := shell(asked, env))[0] not in (0, 3, 4):
                if time.monotonic() > deadline:
                    raise SetupError(f"The server judged nothing: {answer[1]} {server.tail()}")
                time.sleep(0.5)
            for _ in range(3):
                shell(asked, env)
            times = []
            for _ in range(10):
                began = time.perf_counter()
                code, told = shell(asked, env)
                times.append(time.perf_counter() - began)
            began = time.perf_counter()
            assert shell(words, env)[0] == code  # `tests/cli/test_via.py` compares every byte
            assert "payments" in told
            alone = time.perf_counter() - began
        finally:
            server.stop()
    return result(
        "triage_via",
        f"shell to verdict by a warm server, one group of {OF_ONE} partitions in Prometheus",
        statistics.median(times),
        peer=alone,
        peer_name="the same command without a server",
    )


def health_5k() -> Result:
    """`workbench report run health` out of a live source: a process of its own, to the published page."""
    with (
        tempfile.TemporaryDirectory() as room,
        fleet_server(_HEALTH_GROUPS, slot_seconds=_HEALTH_HOURS * 3600, step_seconds=60, wire="remote_read") as url,
    ):
        settings = Path(room) / "w.toml"
        settings.write_text(
            f'[clusters.fleet]\nprometheus = "{url}"\nprofiles = ["kafka_exporter"]\ntimeout_seconds = 300\n'
        )
        since = END - timedelta(hours=_HEALTH_HOURS)
        ran = run_command(
            "report", "run", "health", "--cluster", "fleet", "--config", settings, "--output", Path(room) / "out", "--json",
            "--since", f"{since:%Y-%m-%dT%H:%M:%SZ}", "--until", f"{END:%Y-%m-%dT%H:%M:%SZ}",
        )  # fmt: skip
        found = json.loads((Path(ran.document["folder"]) / "result.json").read_text())
        assert found.get("subscriptions") == _HEALTH_GROUPS, ran.document
        assert list((Path(room) / "out").rglob("report.html"))
    samples = round(_HEALTH_GROUPS * PARTITIONS * 2.6 * _HEALTH_HOURS * 60)
    return result(
        "health_5k",
        f"a health report of {_HEALTH_GROUPS:,} groups over {_HEALTH_HOURS} h, about {samples:,} samples: shell to page; "
        f"peak {ran.peak_mb:,.0f} MB",
        ran.seconds,
    )
