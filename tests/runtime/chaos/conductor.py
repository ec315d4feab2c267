"""Fleets of instances on one broker, what is done to them, and the ledger's judgement. Everything follows from one seed."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from workbench.errors import SetupError
from workbench.lab import process
from workbench.lab.lab_broker import Broker, create_topic

ROOT = Path(__file__).parents[3]
PARTITIONS, KEYS, INSTANCES = 8, 100, 3
SESSION_SECONDS = 6.0
FREEZE_SECONDS = SESSION_SECONDS + 2.0
STALL_SECONDS = 4.0  # of the broker: longer than a heartbeat waits for its answer
RATE = 250  # records per second and fleet
CONSUMERS = {"i0": 1, "i1": 2, "i2": 1}  # in each instance
DEAD_EVERY, LETTER_BYTES = 50, 20_000
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
    """One line of the ledger. Records have numbers, since an offset may be that of several records once a log was cut."""

    key: str
    partition: int
    number: int
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
    written: int = 0  # how many records the producer has taken
    ranges: dict[int, list[tuple[int, int]]] | None = None  # by partition; the instances then end by themselves
    remade_at: list[int] = field(default_factory=list)  # how many of them were written when the topic was made anew
    _producing: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def topic(self) -> str:
        """Its topic, and its group."""
        return f"chaos-{self.protocol}"

    @property
    def letters(self) -> str:
        """Its dead-letter topic."""
        return f"{self.topic}-dead"

    @property
    def pressed(self) -> Path:
        """A file; while it is there, handlers are slow."""
        return self.ledger.with_suffix(".pressed")

    @property
    def ledger(self) -> Path:
        """What its instances did."""
        return self.folder / f"{self.protocol}.ledger"

    def start(self) -> None:
        """Everything; returns when all instances have partitions."""
        create_topic(self.broker.bootstrap, self.topic, PARTITIONS)
        create_topic(self.broker.bootstrap, self.letters, 1)
        self._configure(self.letters, "max.message.bytes", str(LETTER_BYTES))
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
            f"rebalance_drain_seconds = 3.0\nshutdown_seconds = 5.0\nconsumers = {CONSUMERS[name]}\n"
            f'dead_letter_topic = "{self.letters}"\nmax_uncommitted_per_partition = 200\ncarry_over_per_partition = 20\n'
            f"{self._ranges()}[runtime.default_processor]\nthreads = 4\nqueue_capacity = 50\n[runtime.kafka]\n{kafka}\n"
        )
        child = process.start(
            f"{self.protocol}-{name}",
            [Path(sys.executable).with_name("workbench"), "runtime", "run", config, "tests.runtime.chaos.ledger"],
            folder=self.folder,
            env={"LEDGER": str(self.ledger), "PYTHONPATH": str(ROOT)},
        )
        self.instances[name] = Instance(name, port, child.popen)

    def _ranges(self) -> str:
        if self.ranges is None:
            return ""
        lines = (f"{part} = {json.dumps(found)}" for part, found in self.ranges.items())
        return f"[runtime.ranges.{self.topic}]\n" + "\n".join(lines) + "\n"

    def prepare_ranges(self, records: int, dice: random.Random) -> set[tuple[int, int]]:
        """Write a log, and choose some ranges of each partition; returns the places of their records. The ends are often the log's."""
        create_topic(self.broker.bootstrap, self.topic, PARTITIONS)
        create_topic(self.broker.bootstrap, self.letters, 1)
        self.ledger.touch()
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": 5, "log_level": 0})
        for number in range(records):
            producer.produce(self.topic, f"{number:012d}", f"k{number % KEYS}", partition=number % PARTITIONS)
            producer.poll(0)
        assert producer.flush(60) == 0
        each = records // PARTITIONS
        self.ranges = {}
        for part in range(PARTITIONS):
            ends = sorted(dice.sample(range(1, each), 3))
            self.ranges[part] = [(ends[0], ends[1]), (ends[2], each if dice.random() < 0.7 else ends[2] + 1)]
        return {(part, at) for part, found in self.ranges.items() for start, end in found for at in range(start, end)}

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
                # What a topic that is made anew never takes is given up before the last flush is; only what is in the log is judged.
                "message.timeout.ms": 60_000,
            }
        )
        while self._producing.is_set():
            for _ in range(RATE // 20):
                number = self.written
                value, headers = f"{number:012d}".encode(), []
                if number % DEAD_EVERY == 0:  # given up, and every other one too large for the dead-letter topic
                    headers = [("event_type", b"dead")]
                    value += os.urandom(2 * LETTER_BYTES) if number % (2 * DEAD_EVERY) == 0 else b""
                try:
                    producer.produce(self.topic, value, f"k{number % KEYS}".encode(), headers=headers)
                except KafkaException:  # the topic is being made anew
                    producer.poll(0.1)
                    continue
                self.written += 1
            producer.poll(0)
            time.sleep(0.05)
        assert producer.flush(150) == 0

    def fenced(self) -> int:
        """How often an instance said that its member was fenced, or that a rebalance could not wait for what was in flight."""
        logs = self.folder.glob(f"{self.protocol}-i?.log")
        texts = [log.read_text(encoding="utf-8", errors="replace") for log in logs]
        return sum(it.count(" lost: the broker has fenced") + it.count(" did not finish within ") for it in texts)

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

    def press(self, name: str) -> None:
        """Everything is slow, so that partitions are paused, while an instance is restarted; then it goes on."""
        self.pressed.touch()
        time.sleep(2.5)
        self.restart(name)
        time.sleep(1.0)
        self.pressed.unlink()

    def refuse(self, _name: str) -> None:
        """For some seconds the broker does not take dead letters."""
        self._configure(self.letters, "min.insync.replicas", "2")
        time.sleep(3.0)
        self._configure(self.letters, "min.insync.replicas", "1")

    def remake(self, _name: str) -> None:
        """Delete the topic and create it again, while everybody reads and writes."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        admin.delete_topics([self.topic])[self.topic].result(30)

        def is_made() -> bool:  # the broker deletes in its own time
            with suppress(SetupError):
                create_topic(self.broker.bootstrap, self.topic, PARTITIONS)
                return True
            return False

        process_wait(is_made, 60, f"{self.topic} is made anew")
        self.remade_at.append(self.written)

    def cut(self, partition: int) -> None:
        """Take a partition's log from the disk of a broker that is down, as an unclean election of an empty replica does."""
        for file in self.broker.folder.rglob(f"{self.topic}-{partition}/*"):
            if file.name != "partition.metadata":
                file.unlink()

    def _configure(self, topic: str, name: str, value: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
        for answer in admin.incremental_alter_configs([resource]).values():
            answer.result(30)

    # The end

    def finish(self) -> None:
        """Stop producing, wait until all is committed, stop the instances."""
        self._producing.clear()
        assert self._thread is not None
        self._thread.join(160)
        assert not self._thread.is_alive(), "the producer is not done"
        try:
            process_wait(lambda: self.committed() == self.ends(), 120, f"{self.protocol}: all commits")
        except AssertionError as error:
            state = {name: item.status() for name, item in self.instances.items()}
            raise AssertionError(f"{error}: {self.committed()} of {self.ends()}; {json.dumps(state)}") from None
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
            return {part.partition: max(0, part.offset) for part in parts}  # none where nothing was written
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

    def log(self) -> dict[int, list[tuple[str, int]]]:
        """What lies in the log in the end: (key, number) by partition."""
        return {
            number: [((item.key() or b"").decode(), int((item.value() or b"")[:12])) for item in items]
            for number, items in self._read(self.topic, PARTITIONS).items()
        }

    def dead(self) -> set[tuple[int, int]]:
        """Partition and offset of every dead letter."""
        said = [dict(item.headers() or ()) for items in self._read(self.letters, 1).values() for item in items]
        return {(int(headers["wb_partition"]), int(headers["wb_offset"])) for headers in said}

    def _read(self, topic: str, partitions: int) -> dict[int, list[Message]]:
        reader = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "judge", "log_level": 0})
        parts = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)]
        ends = {
            number: reader.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
            for number in range(partitions)
        }
        reader.assign(parts)
        found: dict[int, list[Message]] = {number: [] for number in range(partitions)}

        def is_read() -> bool:
            for item in reader.consume(1000, 0.2):
                if item.error() is None:
                    found[item.partition()].append(item)
            return all(
                ends[number][0] == ends[number][1] or (items and items[-1].offset() + 1 >= ends[number][1])
                for number, items in found.items()
            )

        process_wait(is_read, 60, f"all of {topic} is read")
        reader.close()
        return found

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


KINDS = ("restart", "kill", "freeze", "broker", "press", "refuse", "remake", "cut", "stall")
# About how long each takes, so that a draw fills the time it is given.
_TAKES = {"freeze": FREEZE_SECONDS, "press": 5.0, "refuse": 3.0, "cut": 6.0, "stall": STALL_SECONDS}


def schedule(seed: int, seconds: float) -> list[tuple[float, str, str]]:
    """(seconds to wait before, what, whom), from the seed alone; each kind comes at least once."""
    dice = random.Random(seed)
    kinds = list(KINDS)
    dice.shuffle(kinds)
    plan: list[tuple[float, str, str]] = []
    spent = 0.0
    while kinds or spent < seconds:
        what = kinds.pop() if kinds else dice.choice([*KINDS, "kill", "restart", "press"])
        wait = dice.uniform(0.5, 3.0)
        plan.append((wait, what, f"i{dice.randrange(INSTANCES)}"))
        spent += wait + _TAKES.get(what, 3.0)
    return plan


def judge(lines: list[Done], log: dict[int, list[tuple[str, int]]], remade_at: Sequence[int] = ()) -> dict[str, int]:
    """Count what was broken, and what was repeated.

    lost: records that lie in the log and that nobody completed. overlap: events of one key at work at once in one process. repeats:
    completions beyond the first. disorder: keys whose first completions are not in the order in which they were written, within one
    log: a topic that is made anew is another one, whose partitions the group may give to somebody at once, while their former owner
    finishes what it has read of the old one (seen with KIP-848: 0.02 s of both).
    """
    first: dict[int, Done] = {}
    for item in lines:
        first.setdefault(item.number, item)
    lost = sum(number not in first for records in log.values() for _, number in records)
    lies_there = {number for records in log.values() for _, number in records}
    by_key: dict[tuple[str, int], list[int]] = defaultdict(list)
    for item in first.values():
        former = sum(at <= item.number for at in remade_at[:-1])
        by_key[item.key, len(remade_at) if item.number in lies_there else former].append(item.number)
    disorder = sum(numbers != sorted(numbers) for numbers in by_key.values())
    overlap = 0
    by_process: dict[tuple[int, str], list[Done]] = defaultdict(list)
    for item in lines:
        by_process[item.pid, item.key].append(item)
    for items in by_process.values():
        items.sort(key=lambda item: item.began)
        overlap += sum(after.began < before.ended for before, after in itertools.pairwise(items))
    return {"lost": lost, "disorder": disorder, "overlap": overlap, "repeats": len(lines) - len(first)}
