"""A process that is killed in the middle of its switch to another group loses nothing for either of them."""

from __future__ import annotations

import json
import random
import re
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.runtime.chaos.conductor import ROOT, TOKEN, Done
from tests.waiting import wait_for
from workbench.lab import process
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic

PARTITIONS, RECORDS, KEYS = 4, 600, 20
# From before the old group is left to when the new one is at work; each is drawn out by a little.
PHASES_SECONDS = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0)


class Service:
    """One instance on a topic of its own, and what it did."""

    def __init__(self, lab: Lab, name: str, folder: Path) -> None:
        self.name, self._lab, self._folder = name, lab, folder
        self._since = datetime.now(UTC) - timedelta(hours=1)
        self._ledger = folder / f"{name}.ledger"
        self._ledger.touch()
        create_topic(lab.bootstrap, name, PARTITIONS)
        producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 5, "log_level": 0})
        for number in range(RECORDS):
            producer.produce(
                name, f"{number:012d}".encode(), f"k{number % KEYS}".encode(), partition=number % PARTITIONS
            )
        assert producer.flush(30) == 0

    def start(self, group: str, *, replays: bool) -> process.Child:
        config = self._folder / f"{self.name}-{group}.toml"
        begin = f"start_at = {self._since.isoformat()}\n" if replays else ""
        config.write_text(
            f'[runtime]\nbootstrap = "{self._lab.bootstrap}"\ngroup = "{self.name}-{group}"\ntopics = ["{self.name}"]\n{begin}'
            f'client_id = "{self.name}"\nmetrics_port = 0\nadmin_token = "{TOKEN}"\ncommit_interval_seconds = 0.1\n'
            "[runtime.default_processor]\nthreads = 2\nqueue_capacity = 20\n"
            '[runtime.kafka]\n"session.timeout.ms" = 6000\n"heartbeat.interval.ms" = 500\n'
        )
        self._told = self._folder / f"{self.name}-{group}.log"
        return process.start(
            f"{self.name}-{group}",
            [Path(sys.executable).with_name("workbench"), "runtime", "run", config, "tests.runtime.chaos.ledger"],
            folder=self._folder,
            env={"LEDGER": str(self._ledger), "PYTHONPATH": str(ROOT)},
        )

    @property
    def _url(self) -> str:
        """Of its admin API, on the port that it has found free."""
        told = re.search(r"http://127\.0\.0\.1:\d+", self._told.read_text() if self._told.exists() else "")
        if told is None:
            raise OSError("it has not said where it is")
        return told.group()

    def switch(self, group: str) -> None:
        order = json.dumps({"group": f"{self.name}-{group}", "since": self._since.isoformat()}).encode()
        request = urllib.request.Request(
            f"{self._url}/replay", data=order, headers={"Authorization": f"Bearer {TOKEN}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 202

    def is_up(self) -> bool:
        try:
            urllib.request.urlopen(f"{self._url}/metrics", timeout=5).close()
        except OSError:
            return False
        return True

    def lines(self) -> list[Done]:
        found = []
        for line in self._ledger.read_text().splitlines():
            key, *numbers = line.split()
            found.append(Done(key, *map(int, numbers)))
        return found

    def committed(self, group: str) -> dict[int, int]:
        asker = Consumer({"bootstrap.servers": self._lab.bootstrap, "group.id": f"{self.name}-{group}", "log_level": 0})
        try:
            parts = asker.committed([TopicPartition(self.name, number) for number in range(PARTITIONS)], timeout=30)
            return {part.partition: max(0, part.offset) for part in parts}
        except KafkaException:  # a coordinator that is asked for the first time is loading
            return {}
        finally:
            asker.close()


def _kill_in_a_switch(service: Service, delay_seconds: float) -> None:
    first = service.start("old", replays=False)
    wait_for(lambda: len(service.lines()) > RECORDS // 4, 60)
    switched_at = time.monotonic_ns()
    service.switch("new")
    time.sleep(delay_seconds)
    first.popen.kill()
    first.popen.wait(10)
    wait_for(lambda: service.committed("new"))
    old, new = service.committed("old"), service.committed("new")
    before = service.lines()
    second = service.start("new", replays=True)  # as who does the switch for a fleet starts it again
    end = dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
    try:
        wait_for(service.is_up, 60)  # and so obeys a signal
        wait_for(lambda: service.committed("new") == end, 90)
    finally:
        second.popen.terminate()
    assert second.popen.wait(30) == 0
    lines = service.lines()
    done_before = {item.number for item in before}
    again = {item.number for item in lines if item.began > switched_at}
    resumed = [item for item in lines if item.pid == second.popen.pid]
    for number in range(RECORDS):
        partition, offset = number % PARTITIONS, number // PARTITIONS
        assert offset >= old[partition] or number in done_before, f"the old group skips {number}"
        assert number in again, f"the new group skips {number}"
        assert offset < new[partition] or number in {item.number for item in resumed}, f"{number} was committed undone"
    for key in {item.key for item in resumed}:
        numbers = [item.number for item in sorted(resumed, key=lambda item: item.ended) if item.key == key]
        assert numbers == sorted(numbers)


@pytest.mark.lab
def test_a_kill_in_any_phase_of_a_switch_loses_nothing(lab: Lab, tmp_path: Path) -> None:
    """Neither group skips a record: the old one's commits hold, and the new one is taken up again where it was."""
    dice = random.Random(7)
    delays = [delay + dice.uniform(0, 0.1) for delay in PHASES_SECONDS]
    with ThreadPoolExecutor(4) as pool:
        services = list(pool.map(lambda number: Service(lab, f"switch-{number}", tmp_path), range(len(PHASES_SECONDS))))
        list(pool.map(_kill_in_a_switch, services, delays))
