"""Fleets of instances on one broker, what is done to them, and the ledger's judgement. Everything follows from one seed."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from workbench.lab import process
from workbench.lab.kafka import Broker, create_topic

ROOT = Path(__file__).parents[3]
PARTITIONS, KEYS, INSTANCES = 8, 100, 3
SESSION_SECONDS = 6.0
FREEZE_SECONDS = SESSION_SECONDS + 2.0
RATE = 250  # records per second and fleet
TOKEN = "chaos"

PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {"partition.assignment.strategy": "range", "session.timeout.ms": 6000, "heartbeat.interval.ms": 500},
    "cooperative-sticky": {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
    },
    "consumer": {"group.protocol": "consumer"},
}


class Done(NamedTuple):
    """One line of the ledger."""

    key: str
    partition: int
    offset: int
    began: int
    ended: int
    pid: int


@dataclass
class Instance:
    """One process of a fleet."""

    name: str
    port: int
    popen: subprocess.Popen[bytes]

    def status(self) -> dict[str, Any] | None:
        """Its status page; None while it does not answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/status", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return None


@dataclass
class Fleet:
    """Some instances of one group on one topic, and the producer of the topic."""

    protocol: str
    broker: Broker
    folder: Path
    instances: dict[str, Instance] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)  # sentinels that instances reported
    _producing: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def topic(self) -> str:
        """Its topic, and its group."""
        return f"chaos-{self.protocol}"

    @property
    def ledger(self) -> Path:
        """What its instances did."""
        return self.folder / f"{self.protocol}.ledger"

    def start(self) -> None:
        """Everything; returns when all instances have partitions."""
        create_topic(self.broker.bootstrap, self.topic, PARTITIONS)
        self.ledger.touch()
        for number in range(INSTANCES):
            self.launch(f"i{number}")
        self._producing.set()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()
        process_wait(lambda: all(self._assigned(item) for item in self.instances.values()), 60, "assignments")

    @staticmethod
    def _assigned(item: Instance) -> bool:
        status = item.status()
        return status is not None and any(member["partitions"] for member in status["members"])

    def launch(self, name: str) -> None:
        """Start an instance by the command that a team would use."""
        port = process.free_port()
        config = self.folder / f"{self.protocol}-{name}.toml"
        kafka = "\n".join(f'"{key}" = {json.dumps(value)}' for key, value in PROTOCOLS[self.protocol].items())
        config.write_text(
            f'[runtime]\nbootstrap = "{self.broker.bootstrap}"\ngroup = "{self.topic}"\ntopics = ["{self.topic}"]\n'
            f'client_id = "{name}"\nmetrics_port = {port}\nadmin_token = "{TOKEN}"\ncommit_interval_seconds = 0.5\n'
            "rebalance_drain_seconds = 3.0\nshutdown_seconds = 5.0\n"
            f"[runtime.default_processor]\nthreads = 4\nqueue_capacity = 50\n[runtime.kafka]\n{kafka}\n"
        )
        child = process.start(
            f"{self.protocol}-{name}",
            [Path(sys.executable).with_name("workbench"), "runtime", "run", config, "tests.runtime.chaos.ledger"],
            folder=self.folder,
            env={"LEDGER": str(self.ledger), "PYTHONPATH": str(ROOT)},
        )
        self.instances[name] = Instance(name, port, child.popen)

    def _produce(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self.broker.bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        number = 0
        while self._producing.is_set():
            for _ in range(RATE // 20):
                producer.produce(self.topic, str(number).encode(), f"k{number % KEYS}".encode())
                number += 1
            producer.poll(0)
            time.sleep(0.05)
        assert producer.flush(150) == 0

    # What may happen to it

    def note_sentinels(self, item: Instance) -> None:
        """Keep what an instance says of its own promises, before it goes (and so that it is up before it is told to go)."""
        process_wait(lambda: item.status() is not None, 30, f"{self.protocol} {item.name} answers")
        for kind, count in ((item.status() or {}).get("sentinels") or {}).items():
            self.broken[kind] = max(self.broken.get(kind, 0), count)

    def restart(self, name: str) -> None:
        """As a deploy does it: SIGTERM, wait, start."""
        item = self.instances[name]
        self.note_sentinels(item)
        item.popen.terminate()
        self._ended_well(item)
        self.launch(name)

    def kill(self, name: str) -> None:
        """SIGKILL, then start."""
        self.instances[name].popen.kill()
        self.instances[name].popen.wait(10)
        self.launch(name)

    def freeze(self, name: str) -> None:
        """SIGSTOP for longer than the session lasts, as a long pause of a machine; then it wakes and knows of nothing."""
        popen = self.instances[name].popen
        popen.send_signal(signal.SIGSTOP)
        time.sleep(FREEZE_SECONDS)
        popen.send_signal(signal.SIGCONT)

    # The end

    def finish(self) -> None:
        """Stop producing, wait until all is committed, stop the instances."""
        self._producing.clear()
        assert self._thread is not None
        self._thread.join(160)
        assert not self._thread.is_alive(), "the producer is not done"
        process_wait(lambda: self.committed() == self.ends(), 120, f"{self.protocol}: all commits")
        for item in self.instances.values():
            self.note_sentinels(item)
            item.popen.terminate()
        for item in self.instances.values():
            self._ended_well(item)

    def _ended_well(self, item: Instance) -> None:
        code = item.popen.wait(30)
        assert code == 0, f"{self.protocol} {item.name} ended with {code}"

    def abandon(self) -> None:
        """Leave nothing behind, whatever has happened."""
        self._producing.clear()
        for item in self.instances.values():
            if item.popen.poll() is None:
                item.popen.kill()
                item.popen.wait(10)

    def _ask(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": self.topic, "log_level": 0})

    def committed(self) -> dict[int, int]:
        """Committed offset by partition."""
        asker = self._ask()
        try:
            parts = asker.committed([TopicPartition(self.topic, number) for number in range(PARTITIONS)], timeout=30)
            return {part.partition: part.offset for part in parts}
        except KafkaException:  # a coordinator is loading after the broker's restart
            return {}
        finally:
            asker.close()

    def ends(self) -> dict[int, int]:
        """End of the log by partition."""
        asker = self._ask()
        try:
            return {
                number: asker.get_watermark_offsets(TopicPartition(self.topic, number), timeout=30)[1]
                for number in range(PARTITIONS)
            }
        finally:
            asker.close()

    def lines(self) -> list[Done]:
        """The ledger, in order of completion."""
        found = []
        for line in self.ledger.read_text().splitlines():
            key, *numbers = line.split()
            found.append(Done(key, *map(int, numbers)))
        return sorted(found, key=lambda item: item.ended)


def process_wait(ready: Any, seconds: float, what: str) -> None:
    """Wait for something, or fail by its name."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, f"timed out: {what}"
        time.sleep(0.2)


def schedule(seed: int, seconds: float) -> list[tuple[float, str, str]]:
    """(seconds to wait before, what, whom), from the seed alone; each kind comes at least once."""
    dice = random.Random(seed)
    kinds = ["restart", "kill", "freeze", "broker"]
    dice.shuffle(kinds)
    plan: list[tuple[float, str, str]] = []
    spent = 0.0
    while kinds or spent < seconds:
        what = kinds.pop() if kinds else dice.choice(["restart", "kill", "freeze", "kill", "restart"])
        wait = dice.uniform(0.5, 4.0)
        plan.append((wait, what, f"i{dice.randrange(INSTANCES)}"))
        spent += wait + (FREEZE_SECONDS if what == "freeze" else 3.0)
    return plan


def judge(lines: list[Done], ends: dict[int, int]) -> dict[str, int]:
    """Count what was broken, and what was repeated.

    lost: offsets that nobody completed. disorder: keys whose first completions are not in the order of the log. overlap: events of
    one key at work at once in one process. repeats: completions beyond the first.
    """
    first: dict[tuple[int, int], Done] = {}
    for item in lines:
        first.setdefault((item.partition, item.offset), item)
    lost = sum((partition, offset) not in first for partition, end in ends.items() for offset in range(end))
    by_key: dict[str, list[int]] = defaultdict(list)
    for item in first.values():
        by_key[item.key].append(item.offset)
    disorder = sum(offsets != sorted(offsets) for offsets in by_key.values())
    overlap = 0
    by_process: dict[tuple[int, str], list[Done]] = defaultdict(list)
    for item in lines:
        by_process[item.pid, item.key].append(item)
    for items in by_process.values():
        items.sort(key=lambda item: item.began)
        overlap += sum(after.began < before.ended for before, after in itertools.pairwise(items))
    return {"lost": lost, "disorder": disorder, "overlap": overlap, "repeats": len(lines) - len(first)}
