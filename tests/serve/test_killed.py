"""Killed at any point: no acknowledged alert is lost, and at most one message is doubled for each kill."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import requests

from tests.serve.serving import TOKEN, alert, webhook
from tests.serve.test_live import chat, until
from workbench.lab.process import free_port

ROOT = Path(__file__).parent.parent.parent
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def start(folder: Path, port: int, target: str) -> subprocess.Popen[bytes]:
    """Start the server, and wait until it listens."""
    words = [sys.executable, "-m", "tests.serve.killing", str(folder), str(port), target]
    with (folder / "serve.log").open("ab") as log:
        child = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log)
    until(f"http://127.0.0.1:{port}/healthz", lambda it: it.status_code == 200, seconds=60)
    return child


class Poster:
    """Posts alerts, each of a cluster of its own, and notes those that were acknowledged."""

    def __init__(self, url: str) -> None:
        self.url, self.number, self.acknowledged = url, 0, set[str]()

    def post(self, stop: threading.Event) -> None:
        """Until the server is killed."""
        with requests.Session() as session:
            while not stop.is_set():
                self.number += 1
                name = f"c{self.number}"
                try:
                    answer = session.post(
                        f"{self.url}/alerts",
                        webhook(alert(number=self.number, cluster=name)),
                        headers=BEARER,
                        timeout=5,
                    )
                except requests.RequestException:
                    return
                if answer.status_code == 200:
                    self.acknowledged.add(name)


def killed_often(folder: Path, kills: int) -> None:
    """Kill the server that often while alerts come in, then let it finish, and count."""
    draw = random.Random(kills)
    port = free_port()
    with chat() as target:
        poster = Poster(f"http://127.0.0.1:{port}")
        for _ in range(kills):
            child = start(folder, port, target.url)
            stop = threading.Event()
            thread = threading.Thread(target=poster.post, args=(stop,))
            thread.start()
            time.sleep(draw.uniform(0.02, 0.6))
            child.kill()
            child.wait(30)
            stop.set()
            thread.join(30)
        child = start(folder, port, target.url)
        try:
            done = ("workbench_serve_alerts_waiting 0.0", "workbench_serve_messages_waiting 0.0")
            address = f"http://127.0.0.1:{port}/metrics"
            until(address, lambda it: all(line in it.text for line in done), seconds=120)
        finally:
            child.terminate()
            child.wait(30)
    told = Counter(message["key"] for _, message in target.messages)
    clusters = {message["cluster"] for _, message in target.messages}
    doubled = sum(number - 1 for number in told.values())
    print(f"{kills} kills: {len(poster.acknowledged)} acknowledged, {len(told)} messages, {doubled} doubled")
    assert poster.acknowledged
    assert poster.acknowledged <= clusters
    assert doubled <= kills
    assert len({message["cluster"]: message["incident"] for _, message in target.messages}) == len(told)


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """Five kills on every commit."""
    killed_often(tmp_path, int(os.environ.get("SERVE_KILLS", "5")))


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_in_50_kills(tmp_path: Path) -> None:
    """The same with 50."""
    killed_often(tmp_path, 50)
