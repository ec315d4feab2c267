"""A million records, the last third again, through a fleet of three; with a cutover and an instance killed on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit, workbench
from tests.lab.instances import Fleet, fleet_file
from tests.lab.replaying import fresh, processed_log, replay, wait_for_members
from tests.lab.test_replay_apply import commits
from tests.waiting import wait_for
from workbench.lab import process
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic

pytestmark = [pytest.mark.lab, pytest.mark.jvm, pytest.mark.slow]

# `make soak` takes a million.
RECORDS, PARTITIONS, INSTANCES = int(os.environ.get("REPLAY_RECORDS", "300000")), 12, 3


@pytest.fixture
def fleet(lab: Lab, admin: AdminClient, tmp_path: Path) -> Iterator[tuple[Fleet, datetime]]:
    """A million records of the last hour, read to the end by the old group, whose three instances wait for more."""
    topic, group = fresh("million"), fresh("old")
    create_topic(lab.bootstrap, topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    begin = int(time.time() * 1000) - 3_600_000
    for number in range(RECORDS):
        while True:
            try:
                producer.produce(
                    topic,
                    b"v" * 20,
                    b"key-%d" % (number % 997),
                    partition=number % PARTITIONS,
                    timestamp=begin + number * 3,
                )
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0
    commit(admin, group, topic, {n: len(range(n, RECORDS, PARTITIONS)) for n in range(PARTITIONS)})
    (tmp_path / "notes").mkdir()
    made = Fleet(lab, topic, group, tmp_path, [process.free_port() for _ in range(INSTANCES)], {})
    try:
        for index in range(INSTANCES):
            made.start(index)
        wait_for_members(admin, group, INSTANCES, 60)
        yield made, datetime.fromtimestamp((begin + (RECORDS * 2 // 3) * 3) / 1000, UTC)
    finally:
        made.stop()


def test_the_last_third_again(
    lab: Lab, admin: AdminClient, fleet: tuple[Fleet, datetime], settings_file: Path, tmp_path: Path
) -> None:
    """Every record of the window at least once, none before it; killed cutover and killed instance cost nothing; verify knows."""
    made, since = fleet
    new, path, log = fresh("new"), tmp_path / "plan.json", tmp_path / "notes"
    old_before = commits(admin, made.group)
    words = ["--cluster", "mine", "--from-group", made.group, "--new-group", new, "--topic", made.topic]
    shown = replay("plan", *words, "--since", since.isoformat(), "-o", str(path), settings=settings_file)
    assert shown.returncode == 0, shown.stderr
    plan = json.loads(path.read_text())
    assert sum(part["messages"] for part in plan["partitions"]) == len(range(RECORDS * 2 // 3, RECORDS))
    confirm = ["--confirm", plan["hash"]]
    early = replay("cutover", str(path), "--fleet", str(fleet_file(made)), *confirm, settings=settings_file)
    assert (early.returncode, "not applied" in early.stderr) == (6, True)
    shown = replay("apply", str(path), *confirm, settings=settings_file)
    assert shown.returncode == 0, shown.stderr

    cutover = ["cutover", str(path), "--fleet", str(fleet_file(made)), *confirm]
    kill_in_batch_two(cutover, settings_file)
    # The first is in the new group, the second may be anywhere. Now an instance dies while the cutover goes on.
    made.children[1].kill()
    failed = replay(*cutover, settings=settings_file)
    assert failed.returncode in (5, 6), failed.stderr
    assert made.url(1) in failed.stderr
    made.start(1)  # with the old group, as its configuration says
    wait_for(lambda: made.answers(1))
    done = replay(*cutover, "--json", settings=settings_file)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "done"
    wait_for_members(admin, new, INSTANCES)

    followed = replay(
        "follow", str(path), "--interval", "1s", "--timeout", "5m", "--json", settings=settings_file, timeout=400
    )
    assert followed.returncode == 0, followed.stderr
    looks = [json.loads(line) for line in followed.stdout.splitlines()]
    assert looks[-1]["complete"]
    assert looks[-1]["done"] == looks[-1]["total"] == len(range(RECORDS * 2 // 3, RECORDS))

    verified = replay(
        "verify",
        str(path),
        "--processed",
        str(log),
        "--fleet",
        str(fleet_file(made)),
        "--key-ranges",
        "4",
        "--json",
        settings=settings_file,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    document = json.loads(verified.stdout)
    assert document["verdict"] == "verified"
    assert sum(part["records"] for part in document["partitions"]) == len(range(RECORDS * 2 // 3, RECORDS))
    assert sum(item["processed"] for item in document["key_ranges"]) == len(range(RECORDS * 2 // 3, RECORDS))
    assert commits(admin, made.group) == old_before
    check_by_hand(plan, processed_log(log))

    # What is missing is found: three records of the log, then a commit.
    lost = remove_some(log, plan)
    missing = replay("verify", str(path), "--processed", str(log), "--json", settings=settings_file)
    assert missing.returncode == 3, missing.stderr
    bad = [part for part in json.loads(missing.stdout)["partitions"] if part["verdict"] != "verified"]
    assert [(part["partition"], part["first_missing"]) for part in bad] == [lost]
    made.stop()
    wait_for(lambda: not admin.describe_consumer_groups([new])[new].result(30).members)
    part = plan["partitions"][4]
    commit(admin, new, made.topic, {4: part["stop"] - 10})
    behind = replay("verify", str(path), "--json", settings=settings_file)
    assert behind.returncode == 3
    bad = [item for item in json.loads(behind.stdout)["partitions"] if item["verdict"] != "verified"]
    assert [(item["partition"], item["reason"]) for item in bad] == [(4, "10 offsets are not committed yet.")]
    lines = json.loads(workbench("replay", "log", "--plan", plan["hash"], "--json").stdout)
    assert [line["action"] for line in lines if line["phase"] == "end"][:2] == ["apply", "switch"]


def kill_in_batch_two(words: list[str], settings: Path) -> None:
    """Start the cutover and kill it with -9 as soon as it has begun its second batch."""
    program = Path(sys.executable).with_name("workbench")
    running = subprocess.Popen(
        [program, "replay", *words, "--config", str(settings)], stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert running.stderr is not None
    told = []
    for line in running.stderr:
        told.append(line)
        if line.startswith("Batch 2 of 3"):
            break
    running.send_signal(signal.SIGKILL)
    running.wait()
    running.stderr.close()
    assert told, "the cutover said nothing"
    assert told[-1].startswith("Batch 2 of 3"), told


def check_by_hand(plan: dict[str, object], handled: dict[tuple[str, int], list[int]]) -> None:
    """Without our own code: every offset of the window is there, none before it."""
    for part in plan["partitions"]:  # type: ignore[attr-defined]
        offsets = handled[part["topic"], part["partition"]]
        assert set(offsets) >= set(range(part["target"], part["stop"]))
        assert min(offsets) == part["target"]


def remove_some(log: Path, plan: dict[str, object]) -> tuple[int, int]:
    """Take three records of one partition out of the notes; returns the partition and the first of them."""
    part = plan["partitions"][7]  # type: ignore[index]
    first = part["target"] + 100
    gone = {(7, first), (7, first + 1), (7, first + 50)}
    for path in log.glob("*.jsonl"):
        kept = []
        for line in path.read_text().splitlines():
            try:
                item = json.loads(line)
            except ValueError:
                continue
            if (item["partition"], item["offset"]) not in gone:
                kept.append(line)
        path.write_text("\n".join(kept) + "\n")
    return 7, first
