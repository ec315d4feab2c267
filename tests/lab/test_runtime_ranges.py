"""Offset ranges through the runtime: exactly those records, and the group ends by itself."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit
from tests.lab.replaying import fresh
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.runtime.ranges_to_process import Ranges

pytestmark = pytest.mark.lab

_HANDLERS = """
import os
from workbench.runtime import processor

@processor("*")
def note(event):
    line = f"{event.record.partition} {event.record.offset} {event.record.value.decode()}\\n"
    os.write(OUT, line.encode())

OUT = os.open(os.environ["NOTED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
"""


def written(lab: Lab, topic: str, partitions: int, each: int) -> None:
    """Records in every partition; in every fourth, an aborted transaction at the end."""
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 20, "enable.idempotence": True})
    for number in range(partitions):
        for at in range(each):
            producer.produce(topic, f"{number}-{at}".encode(), str(at).encode(), partition=number)
        producer.poll(0)
    assert producer.flush(30) == 0
    aborting = Producer({"bootstrap.servers": lab.bootstrap, "transactional.id": fresh("aborting")})
    aborting.init_transactions(30)
    aborting.begin_transaction()
    for number in range(0, partitions, 4):
        for _ in range(3):
            aborting.produce(topic, b"aborted", partition=number)
    aborting.flush(30)
    aborting.abort_transaction(30)


def random_ranges(count: int, partitions: int, each: int, seed: int) -> dict[int, list[tuple[int, int]]]:
    """So many ranges in all partitions; the last one of every fourth ends at the log end, behind the aborted transaction."""
    chance, found = random.Random(seed), {}
    for number in range(partitions):
        many = count // partitions + (number < count % partitions)
        cuts = sorted(chance.sample(range(each), 2 * many))
        found[number] = [(cuts[2 * n], cuts[2 * n + 1]) for n in range(many)]
        if number % 4 == 0:
            found[number][-1] = (found[number][-1][0], each + 4)
    return found


@pytest.mark.parametrize(("count", "partitions"), [(200, 64), (7, 4)])
def test_exactly_those_records_and_then_the_end(
    lab: Lab, admin: AdminClient, tmp_path: Path, count: int, partitions: int
) -> None:
    """Two instances; each record of a range once, none besides, each partition committed at its end, both processes end with 0."""
    topic, group, each = fresh("ranges"), fresh("again"), 120
    create_topic(lab.bootstrap, topic, partitions)
    written(lab, topic, partitions, each)
    ranges = random_ranges(count, partitions, each, seed=count)
    commit(admin, group, topic, {number: some[0][0] for number, some in ranges.items()})
    (tmp_path / "noting_handlers.py").write_text(_HANDLERS)
    (tmp_path / "runtime.toml").write_text(
        f'[runtime]\nbootstrap = "{lab.bootstrap}"\ngroup = "{group}"\ntopics = ["{topic}"]\ncommit_interval_seconds = 0.2\n'
    )
    noted = tmp_path / "noted.txt"
    values = {
        "NOTED": str(noted),
        "WORKBENCH_RUNTIME_RANGES": json.dumps({topic: {str(number): some for number, some in ranges.items()}}),
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    program = [sys.executable, "-c", "from workbench.cli import main; main()"]
    running = [
        subprocess.Popen(
            [*program, "runtime", "run", str(tmp_path / "runtime.toml"), "noting_handlers"],
            env={**os.environ, **values},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    ended = [(process.communicate(timeout=120)[1], process.returncode) for process in running]
    assert [code for _, code in ended] == [0, 0], ended
    lines = [line.split() for line in noted.read_text().splitlines()]
    got = sorted((int(number), int(offset), value) for number, offset, value in lines)
    wanted = [
        (number, at, f"{number}-{at}")
        for number, some in sorted(ranges.items())
        for start, end in some
        for at in range(start, min(end, each))
    ]
    assert sha256(repr(sorted(set(got))).encode()).digest() == sha256(repr(wanted).encode()).digest()
    assert len(got) == len(wanted)  # no rebalance made a repeat: both began before the first was done, or one did all
    assert KafkaGateway(lab.bootstrap).commits(group) == Ranges({topic: ranges}).ends
