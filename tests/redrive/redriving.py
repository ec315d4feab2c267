"""Topics with dead letters on a real broker, and the commands of `workbench dlq`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka import Producer

from tests.lab.replaying import fresh
from tests.redrive.six_kinds import letters
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.kafka.redrive.letter_queue import KafkaLetterQueue
from workbench.lab.lab_broker import create_topic
from workbench.redrive.letter_headers import LETTER_HEADER, PLAN_HEADER, Letter
from workbench.redrive.redrive_cluster import RedriveCluster


def kafka_of(bootstrap: str, properties: Mapping[str, str] | None = None) -> RedriveCluster:
    """A cluster for redrives."""
    return RedriveCluster(KafkaLetterQueue(KafkaGateway(bootstrap, properties or {})))


def write_letters(
    bootstrap: str, topic: str, some: Iterable[Letter], properties: Mapping[str, str] | None = None
) -> None:
    """Produce letters, each into its partition."""
    own = {"bootstrap.servers": bootstrap, "linger.ms": 200, "enable.idempotence": True}
    producer = Producer({**own, **(properties or {})})
    for letter in some:
        while True:
            try:
                headers = list(letter.headers)
                producer.produce(topic, letter.value, letter.key, partition=letter.partition, headers=headers)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(60) == 0


def dead_letters(bootstrap: str, count: int, partitions: int = 3, **settings: str) -> tuple[str, str]:
    """A source topic, and its dead-letter topic with letters of six kinds."""
    source = fresh("orders")
    create_topic(bootstrap, source, partitions)
    create_topic(bootstrap, f"{source}-dlt", partitions, settings=settings)
    write_letters(bootstrap, f"{source}-dlt", letters(count, source, partitions))
    return source, f"{source}-dlt"


def records_of(kafka: RedriveCluster, topic: str, partitions: int = 3) -> list[Letter]:
    """All committed records of a topic, by partition in the order of the log."""
    keys = [(topic, number) for number in range(partitions)]
    logs = kafka.gateway.logs(keys, stable=True)
    start = {number: logs.starts[key] for key in keys for number in key[1:]}
    stop = {number: logs.stable_ends[key] for key in keys for number in key[1:]}
    return [letter for batch, _ in kafka.letters(topic).read(start, stop) for letter in batch]


def produced_by(plan: str, records: Iterable[Letter]) -> Counter[str]:
    """How often each letter was produced by a plan."""
    found: Counter[str] = Counter()
    for record in records:
        headers = dict(record.headers)
        if headers.get(PLAN_HEADER) == plan.encode():
            found[(headers[LETTER_HEADER] or b"").decode()] += 1
    return found


def keys_out_of_order(records: Iterable[Letter]) -> int:
    """Number of records whose number is below that of an earlier record of their key."""
    last: dict[bytes | None, int] = {}
    wrong = 0
    for record in records:
        number = int((record.value or b"v0")[1:].split(b".")[0])
        wrong += number < last.get(record.key, -1)
        last[record.key] = max(number, last.get(record.key, -1))
    return wrong


def dlq(*words: str, settings: Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """`workbench dlq …` with settings."""
    return subprocess.run(
        command(*words, settings=settings), capture_output=True, text=True, timeout=timeout, check=False
    )


def command(*words: str, settings: Path) -> list[str]:
    """The command line of `workbench dlq …`."""
    program = [sys.executable, "-c", "from workbench.cli import main; main()"]
    return [*program, "dlq", *words, "--config", str(settings)]


def begun(*words: str, settings: Path) -> subprocess.Popen[bytes]:
    """The same, running in a process group of its own."""
    return subprocess.Popen(
        command(*words, settings=settings), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def planned_as(path: Path) -> str:
    """Short hash of a plan file."""
    return str(json.loads(path.read_text())["hash"])[:8]


def state() -> Path:
    """The state folder of this test."""
    return Path(os.environ["XDG_STATE_HOME"])
