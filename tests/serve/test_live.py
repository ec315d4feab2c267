"""The whole way: a fault in the lab, a real Alertmanager, `workbench serve` with Spark, and a stub in Slack's place."""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.serve.serving import TOKEN
from tests.servers import with_own_share
from workbench.lab.lab import PROFILES, Lab
from workbench.lab.process import free_port
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.prometheus import ensure_alertmanager
from workbench.lab.scenarios import make_scenario
from workbench.serve.outbox import Message, Parcel
from workbench.serve.send_message import send
from workbench.serve_settings import Target

pytestmark = [pytest.mark.lab, pytest.mark.jvm, pytest.mark.apt]

RUNS = int(os.environ.get("SERVE_RUNS", "3"))
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Chat:
    """A stub in Slack's place: what it was sent, and when."""

    url: str = ""
    messages: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def wait(self, number: int, *, seconds: float) -> None:
        """Wait for so many messages."""
        deadline = time.monotonic() + seconds
        while len(self.messages) < number:
            assert time.monotonic() < deadline, f"{len(self.messages)} of {number} messages"
            time.sleep(0.02)


@contextmanager
def chat() -> Iterator[Chat]:
    """Listen until the end of the block."""
    found = Chat()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:
                return  # the sender was killed
            found.messages.append((time.time(), json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    found.url = f"http://127.0.0.1:{server.server_address[1]}/services/T0/B0/a-secret-path"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


def until(url: str, good: Any, *, seconds: float, **options: Any) -> None:
    """Ask until the answer is good."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            answer = requests.get(url, timeout=5, **options)
            if good(answer):
                return
        except requests.RequestException:
            pass
        assert time.monotonic() < deadline, url
        time.sleep(0.2)


@contextmanager
def serving(folder: Path, toml: str) -> Iterator[str]:
    """`workbench serve` with these settings, once Spark is warm."""
    folder.mkdir(exist_ok=True)
    (folder / "workbench.toml").write_text(toml)
    port = free_port()
    words = [sys.executable, "-c", "from workbench.cli import main; main()", "serve", "--port", str(port)]
    environment = {**os.environ, "WORKBENCH_CONFIG": str(folder / "workbench.toml"), "WORKBENCH_SERVE_TOKEN": TOKEN}
    with (folder / "serve.log").open("wb") as log:
        child = subprocess.Popen(words, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        until(f"http://127.0.0.1:{port}/healthz", lambda it: it.json()["state"] == "ready", seconds=300)
        yield f"http://127.0.0.1:{port}"
    finally:
        child.terminate()
        child.wait(30)


@contextmanager
def alertmanager(folder: Path, url: str) -> Iterator[str]:
    """A real Alertmanager that sends everything to the server."""
    program = ensure_alertmanager()
    assert program is not None, "this test needs Debian's prometheus-alertmanager"
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(TOKEN)
    (folder / "am.yml").write_text(
        f"""route: {{receiver: workbench, group_by: ['...'], group_wait: 0s, group_interval: 1s}}
receivers:
- name: workbench
  webhook_configs:
  - url: {url}/alerts
    http_config: {{authorization: {{credentials_file: {folder}/token}}}}
"""
    )
    port = free_port()
    words = with_own_share(
        program, f"--config.file={folder}/am.yml", f"--storage.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    )  # fmt: skip
    with (folder / "am.log").open("wb") as log:
        child = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        until(f"http://127.0.0.1:{port}/-/ready", lambda it: it.ok, seconds=60)
        yield f"http://127.0.0.1:{port}"
    finally:
        child.terminate()
        child.wait(30)


def settings_of(lab: Lab, folder: Path, slack: str, *, profiles: Sequence[str] = PROFILES) -> str:
    """The lab as a cluster of the settings, and a chat."""
    cluster = lab.cluster(profiles=profiles)
    assert cluster.thresholds is not None and cluster.windows is not None
    thresholds = "\n".join(f"{name} = {value}" for name, value in cluster.thresholds.model_dump().items())
    return f"""
[clusters.prod]
bootstrap = "{lab.bootstrap}"
prometheus = "{lab.prometheus_url}"
profiles = {json.dumps(cluster.profiles)}
windows = {{length = "3m", baseline = "1m"}}
[clusters.prod.thresholds]
{thresholds}
[serve]
url = "http://workbench.example"
store = "{folder}/serve.sqlite"
look_again = "1h"
fleet_every = "1h"
[[serve.targets]]
name = "oncall"
kind = "slack"
url = "{slack}"
"""


def forget_incidents(store: Path) -> None:
    """Make the incidents of a run old, so that the next one begins anew."""
    with sqlite3.connect(store, timeout=30) as db:
        db.execute("UPDATE incident SET closed = 1, opened = 0, changed = 0")
    db.close()


@pytest.mark.usefixtures("prometheus_url")
def test_from_alert_to_verdict(lab: Lab, tmp_path: Path) -> None:
    """An alert that a real Alertmanager delivers arrives in the chat with the verdict of the fault; the time is printed."""
    scenario = make_scenario("slow_processor", 11, bootstrap=lab.bootstrap, run_id="serve")
    took = []
    with chat() as slack, LabFleet.start(lab, scenario.spec, tmp_path / "fleet") as fleet:
        time.sleep(scenario.steady_seconds + 4)
        with (
            serving(tmp_path / "serve", settings_of(lab, tmp_path, slack.url, profiles=scenario.spec.profiles)) as url,
            alertmanager(tmp_path / "am", url) as manager,
        ):
            scenario.fault(fleet)
            time.sleep(scenario.incident_seconds)
            labels = {"alertname": "ConsumerLag", "cluster": "prod", "consumergroup": scenario.spec.group}
            for number in range(RUNS):
                begun = datetime.now(UTC).isoformat()
                sent = time.time()
                body = [{"labels": {**labels, "run": str(number)}, "startsAt": begun}]
                requests.post(f"{manager}/api/v2/alerts", json=body, timeout=10).raise_for_status()
                slack.wait(number + 1, seconds=60)
                at, message = slack.messages[number]
                took.append(at - sent)
                assert str(scenario.expected).replace("_", " ") in message["blocks"][0]["text"]["text"], message
                assert scenario.spec.group in json.dumps(message)
                forget_incidents(tmp_path / "serve.sqlite")
            pages = requests.get(f"{url}/api/incidents", headers=BEARER, timeout=10).json()["incidents"]
            assert len(pages) == RUNS
            shown = requests.get(f"{url}/incidents/{pages[0]['id']}", headers=BEARER, timeout=10)
            assert "<svg" in shown.text
            assert len(shown.content) < 300_000
    print(
        f"alert to message: median {statistics.median(took):.1f} s, {min(took):.1f} to {max(took):.1f} s, {RUNS} runs"
    )
    log = (tmp_path / "serve" / "serve.log").read_text()
    assert "a-secret-path" not in log and TOKEN not in log


def test_a_real_alertmanager_shows_the_verdict_until_it_is_over(tmp_path: Path) -> None:
    """One alert for an incident: its texts follow the messages, and it ends with the last."""
    message = Message(
        kind="new", incident="20261124-0123456789ab", revision=1, cluster="prod", verdict="slow_processor", state="lagging",
        headline="refund takes 2.1 s.", members=(("payments", "orders", "x"),),
    )  # fmt: skip
    with alertmanager(tmp_path / "am", "http://127.0.0.1:9") as manager:
        target = Target(name="am", kind="alertmanager", url=manager)
        changes: tuple[dict[str, Any], ...] = (
            {},
            {"kind": "verdict", "verdict": "hot_partition", "before": "slow_processor"},
            {"kind": "recovered", "verdict": "recovered", "before": "hot_partition"},
        )
        shown = []
        for revision, change in enumerate(changes, 1):
            told = replace(message, revision=revision, **change)
            send(Parcel(id=1, target="am", key=told.key, attempts=1, made=time.time(), message=told), target, None)
            time.sleep(1)
            found = requests.get(f"{manager}/api/v2/alerts", timeout=10).json()
            shown.append([it["annotations"]["verdict"] for it in found])
    assert shown == [["slow_processor"], ["hot_partition"], []]
