"""Killed at any point: no acknowledged alert is lost, and at most one message is doubled for each kill."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.serve.serving import TOKEN, alert, webhook
from tests.serve.test_live import chat, until
from workbench.lab.process import free_port

ROOT = Path(__file__).parent.parent.parent
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def start(folder: Path, port: int, target: str, *, store: str | None = None) -> subprocess.Popen[bytes]:
    """Start the server, and wait until it listens."""
    words = [sys.executable, "-m", "tests.serve.killing", str(folder), str(port), target]
    given = {"SERVE_STORE": store} if store else {}
    with (folder / f"serve-{port}.log").open("ab") as log:
        child = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log, env={**os.environ, **given})
    until(f"http://127.0.0.1:{port}/healthz", lambda it: it.status_code == 200, seconds=60)
    return child


class Poster:
    """Posts alerts to whichever instance answers, each alert of a cluster of its own, and notes those that were acknowledged."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls, self.number, self.acknowledged, self.refused = urls, 0, set[str](), 0

    def post(self, stop: threading.Event) -> None:
        """Until it is told to stop; what an instance does not acknowledge is posted to the next one."""
        with requests.Session() as session:
            while not stop.is_set():
                self.number += 1
                for url in self.urls if self.number % 2 else self.urls[::-1]:
                    if self._is_taken(session, url):
                        break
                    time.sleep(0.02)

    def _is_taken(self, session: requests.Session, url: str) -> bool:
        name = f"c{self.number}"
        text = webhook(alert(number=self.number, cluster=name))
        try:
            answer = session.post(f"{url}/alerts", text, headers=BEARER, timeout=15)
        except requests.RequestException:
            return False
        if answer.status_code == 200:
            self.acknowledged.add(name)
        self.refused += answer.status_code == 503
        return answer.status_code == 200


def killed_often(folder: Path, kills: int, *, instances: int = 1, store: str | None = None) -> None:
    """Kill an instance that often while alerts come in, then let them finish, and count."""
    draw = random.Random(int(os.environ.get("SERVE_SEED", str(kills))))
    ports = [free_port() for _ in range(instances)]
    children: dict[int, subprocess.Popen[bytes]] = {}
    stop = threading.Event()
    with chat() as target:
        poster = Poster([f"http://127.0.0.1:{port}" for port in ports])
        thread = threading.Thread(target=poster.post, args=(stop,))
        try:
            for port in ports:
                children[port] = start(folder, port, target.url, store=store)
            thread.start()
            for _ in range(kills):
                time.sleep(draw.uniform(0.02, 0.6))
                port = draw.choice(ports)
                children[port].kill()
                children[port].wait(30)
                children[port] = start(folder, port, target.url, store=store)
            stop.set()
            thread.join(30)
            done = ("workbench_serve_alerts_waiting 0.0", "workbench_serve_messages_waiting 0.0")
            address = f"http://127.0.0.1:{ports[0]}/metrics"
            until(address, lambda it: all(line in it.text for line in done), seconds=120)
        finally:
            stop.set()
            for child in children.values():
                child.terminate()
                child.wait(30)
    counted(poster, [message for _, message in target.messages], kills)


def counted(poster: Poster, messages: Sequence[Mapping[str, Any]], kills: int) -> None:
    """Every acknowledged alert has led to its one message; each kill has doubled one at most."""
    told = Counter(message["key"] for message in messages)
    clusters = {message["cluster"] for message in messages}
    doubled = sum(number - 1 for number in told.values())
    print(f"{kills} kills: {len(poster.acknowledged)} acknowledged, {len(told)} messages, {doubled} doubled")
    assert poster.acknowledged
    assert poster.acknowledged <= clusters
    assert doubled <= kills
    assert len({message["cluster"]: message["incident"] for message in messages}) == len(told)


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """Five kills on every commit."""
    killed_often(tmp_path, int(os.environ.get("SERVE_KILLS", "5")))


def test_nothing_acknowledged_is_lost_by_two_processes_of_one_file(tmp_path: Path) -> None:
    """Both take alerts; one judges and sends, and the other one when it is killed."""
    killed_often(tmp_path, int(os.environ.get("SERVE_KILLS", "5")), instances=2)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_in_50_kills(tmp_path: Path) -> None:
    """The same with 50."""
    killed_often(tmp_path, 50)
