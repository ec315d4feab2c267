"""A real agent, and a real gateway with a breaker whose normal Kafka ends and comes back, as a real Prometheus shows them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.cli.running import run_here
from tests.reference.valid import valid
from tests.waiting import wait_for
from workbench.api.gateway_state import UpstreamResult, upstream
from workbench.errors import ExitCode, WorkbenchError
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import Broker, create_topic
from workbench.lab.process import free_port

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PROFILE = """
title: our gateways
signals:
  gateway_sends:
    metric: gw_kafka_sends_total
    labels: {member: instance, queue: kafka}
    stat_label: result
    stats: {success: ok, error: failed}
  gateway_answers: {metric: gw_http_answers_total, labels: {member: instance}, stat_label: code}
"""
SETTINGS = """
[clusters.prod]
prometheus = "URL"
profiles = ["PROFILE"]
[clusters.prod.breaker]
window = "2s"
[thresholds]
stale_after_seconds = 10
time_lag_objective_seconds = 5
"""
SINCE = "12s ago"


@pytest.mark.usefixtures("prometheus_url")
def test_an_outage_of_the_normal_kafka_is_named_while_it_lasts(lab: Lab, broker: Broker, tmp_path: Path) -> None:
    """Calm: 0. Without it: the breaker is open and the gateway answers 429 for longer than the objective: 3. Back again: 0.

    The lab's Kafka is that of failover.
    """
    for bootstrap in (broker.bootstrap, lab.bootstrap):
        create_topic(bootstrap, "upstream-orders", 1)
    create_topic(lab.bootstrap, "upstream-audit", 1)
    records = [json.dumps({"id": f"r{number}", "created_ms": 0}) for number in range(200_000)]
    (tmp_path / "source.jsonl").write_text("\n".join(records))
    port = free_port()
    gateway = {"normal": broker.bootstrap, "failover": lab.bootstrap, "topic": "upstream-orders", "port": port}
    agent = {
        "folder": str(tmp_path), "bootstrap": lab.bootstrap, "rows": "upstream-audit", "gateway": f"http://127.0.0.1:{port}/",
        "pause": 0.05,
    }  # fmt: skip
    settings = tmp_path / "workbench.toml"
    (tmp_path / "ours.yaml").write_text(PROFILE)
    settings.write_text(SETTINGS.replace("URL", lab.prometheus_url or "").replace("PROFILE", f"{tmp_path}/ours.yaml"))
    seen: list[UpstreamResult] = []

    def found(*faults: str, refused: bool, code: ExitCode) -> bool:
        try:
            it = upstream(cluster="prod", since=SINCE, config=settings)
        except WorkbenchError:  # nothing is scraped yet
            return False
        seen.append(it)
        here = {str(one.fault) for breaker in it.breakers for one in breaker.findings}
        return here >= set(faults) and bool(it.lag.held) == refused and it.exit_code == code

    def told(code: ExitCode) -> str:
        shown = run_here("audit", "upstream", "--cluster", "prod", "--since", SINCE, cwd=tmp_path)
        assert shown.returncode == code, shown.stdout + shown.stderr
        return shown.stdout + shown.stderr

    running = [
        subprocess.Popen([sys.executable, "-m", "tests.audit.breaker_gateway", json.dumps(gateway)]),
        subprocess.Popen([sys.executable, "-m", "tests.audit.processes", "agent", json.dumps(agent)]),
    ]
    lab.watch("upstream-gateway", [f"127.0.0.1:{port}"])
    try:
        wait_for(lambda: found(refused=False, code=ExitCode.OK), 90, pause_seconds=1)
        calm = told(ExitCode.OK)
        assert f"127.0.0.1:{port}  closed at " in calm and "1 process holds nothing back." in calm
        broker.stop()
        wait_for(lambda: found("open", refused=True, code=ExitCode.FINDINGS), 90, pause_seconds=1)
        ill = told(ExitCode.FINDINGS)
        assert f"127.0.0.1:{port}  open at " in ill and "\n  open: " in ill
        assert f"Lag before Kafka: 127.0.0.1:{port} answers 429 since " in ill
        assert "of sends to the normal cluster failed" in ill
        valid("audit-upstream", seen[-1].to_json())
        broker.restart()
        wait_for(lambda: found(refused=False, code=ExitCode.OK), 90, pause_seconds=1)
        well = told(ExitCode.OK)
        assert f"127.0.0.1:{port}  closed at " in well and "429" not in well
        page = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
        assert 'gw_kafka_sends_total{kafka="failover",result="success"}' in page
    finally:
        lab.forget("upstream-gateway")
        for process in running:
            process.kill()
            process.wait(10)
