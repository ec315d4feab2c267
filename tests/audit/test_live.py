"""Three real processes with Kafka between them, killed again and again: the ledger is what the topic and the files hold."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.audit.pipeline import named_by
from tests.audit.processes import WINDOW_MS
from tests.cli.running import run_here
from tests.reference.valid import valid
from tests.waiting import wait_for
from workbench.api.audits import audit
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import Broker, create_topic
from workbench.lab.process import free_port
from workbench.runtime import Runtime, RuntimeConfig

pytestmark = [pytest.mark.lab, pytest.mark.jvm]

RECORDS, PARTITIONS = 1600, 3
SEEDS = [int(it) for it in os.environ.get("AUDIT_SEEDS", "1").split(",")]


class Pipeline:
    """Starts, kills and ends the processes."""

    def __init__(self, broker: Broker, folder: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.topic, self.rows = f"orders-{seed}-{os.getpid()}", f"audit-{seed}-{os.getpid()}"
        create_topic(broker.bootstrap, self.topic, PARTITIONS)
        create_topic(broker.bootstrap, self.rows, 2)
        self.bootstrap, self.folder, self.again = broker.bootstrap, folder, f"repair-{seed}"
        now = round(time.time() * 1000) - 120_000
        late = [self.draw.random() < 0.03 for _ in range(RECORDS)]
        self.source = [
            {"id": f"r{seed}-{number}", "created_ms": now + number * 30 - (40_000 if late[number] else 0)}
            for number in range(RECORDS)
        ]
        (folder / "source.jsonl").write_text("".join(json.dumps(it) + "\n" for it in self.source))
        # Doubles are among the first half, so that there are windows which only lack records.
        self.doubled = [it["id"] for it in self.draw.sample(self.source[: RECORDS // 2], 25)]
        rest = [it["id"] for it in self.source if it["id"] not in self.doubled]
        self.lost = self.draw.sample(rest, 40)
        self.config = {
            "folder": str(folder), "bootstrap": broker.bootstrap, "topic": self.topic, "rows": self.rows, "pause": 0.05,
            "gateway": f"http://127.0.0.1:{free_port()}/", "lost": self.lost, "doubled": self.doubled,
        }  # fmt: skip
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        role = name.partition(" ")[0]
        command = [sys.executable, "-m", "tests.audit.processes", role, json.dumps(self.config)]
        self.running[name] = subprocess.Popen(command)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait(10)

    def look_after(self) -> None:
        """Whoever has ended starts again."""
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                self.start(name)

    def log(self) -> list[tuple[int, int, str]]:
        """Partition, offset and id of every record of the topic."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "truth", "enable.auto.commit": False})
        found = []
        try:
            parts = [TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)]
            left = sum(consumer.get_watermark_offsets(part, timeout=10)[1] for part in parts)
            consumer.assign(parts)
            while len(found) < left:
                for message in consumer.consume(500, 5):
                    assert message.error() is None
                    found.append((message.partition(), message.offset(), message.key().decode()))
        finally:
            consumer.close()
        return found

    def is_through(self) -> bool:
        kept = self.folder / "agent.json"
        if not kept.exists() or json.loads(kept.read_text()) < RECORDS:
            return False
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "collector"})
        try:
            parts = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
            ends = [consumer.get_watermark_offsets(part, timeout=10)[1] for part in parts]
            return [part.offset for part in consumer.committed(parts, timeout=10)] == ends
        except KafkaException:  # a broker that has just started may not answer yet
            return False
        finally:
            consumer.close()

    def deliver_again(self) -> None:
        """Some rows once more, in another order."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "again", "enable.auto.commit": False})
        try:
            parts = [TopicPartition(self.rows, number, 0) for number in range(2)]
            left = sum(consumer.get_watermark_offsets(part, timeout=10)[1] for part in parts)
            consumer.assign(parts)
            lines: list[bytes] = []
            while len(lines) < left:
                lines += [it.value() for it in consumer.consume(500, 5)]
        finally:
            consumer.close()
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for line in self.draw.sample(lines, len(lines) // 3):
            producer.produce(self.rows, line)
        producer.produce(self.rows, b"not a row")
        assert producer.flush(10) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_ledger_is_the_truth_of_three_killed_processes(broker: Broker, tmp_path: Path, seed: int) -> None:
    """Kills, a broker that is away for a while, a second collector that comes and goes, late records, rows twice and out of order, 40
    records lost and 25 doubled."""
    made = Pipeline(broker, tmp_path, seed)
    restart = made.draw.randrange(1, 5)
    try:
        for name in ("gateway", "collector", "agent"):
            made.start(name)
        for turn in range(6):
            time.sleep(made.draw.uniform(1.0, 2.0))
            if turn == restart:  # while all three are at work
                assert not made.is_through()
                broker.restart(pause_seconds=made.draw.uniform(0.5, 4.0))
                made.look_after()
                continue
            victim = made.draw.choice(["agent", "gateway", "collector", "collector", "second"])
            if victim == "second":
                made.start("collector 2")
                time.sleep(2)
                made.kill("collector 2")
            else:
                made.kill(victim)
                made.start(victim)
            made.look_after()
        wait_for(lambda: (made.look_after(), made.is_through())[1], seconds=240)
        time.sleep(8)  # the group misses who was killed after 6 s; then each partition shows signs of life
    finally:
        for name in list(made.running):
            made.kill(name)
    made.deliver_again()
    settings = tmp_path / "workbench.toml"
    settings.write_text(
        f'[clusters.prod]\nbootstrap = "{broker.bootstrap}"\n'
        f'[audits.orders]\ncluster = "prod"\ntopic = "{made.rows}"\nlayers = ["agent", "gateway", "collector"]\n'
        f'window = "{WINDOW_MS // 1000}s"\nlateness = "30s"\n'
    )
    log = made.log()
    assert len({it[2] for it in log}) == RECORDS
    ledger = audit(name="orders", config=settings)
    rows = ledger.rows(stream="orders")
    by_edge: dict[str, Counter[str]] = {}
    for row in rows:
        sums = by_edge.setdefault(row["edge"], Counter())
        for side in ("from", "to", "lost", "doubled"):
            assert row[f"{side}_low"] == row[f"{side}_high"], row
            sums[side] += row[f"{side}_low"]
    names = Counter(it[2] for it in log)
    lost = sum(names[it] for it in made.lost)
    doubled = sum(names[it] for it in made.doubled)
    assert (by_edge["agent"]["from"], by_edge["agent"]["to"]) == (RECORDS, RECORDS)
    assert by_edge["gateway → collector"]["to"] == len(log)
    assert by_edge["agent → gateway"]["lost"] == by_edge["gateway → collector"]["lost"] == 0
    told = by_edge["agent → gateway"]["doubled"] + by_edge["gateway → collector"]["doubled"]
    assert told == len(log) - RECORDS
    assert by_edge["collector"]["to"] == len(log) - lost + doubled

    sink = tmp_path / "arrived.jsonl"
    with sink.open("w") as out:
        for path in tmp_path.glob("sink-*.jsonl"):
            out.write(path.read_text())
    common = ("orders", "--stream", "orders", "--layer", "collector", "--config", str(settings))
    shown = run_here("audit", "missing", *common, "--arrived", str(sink), "-o", "missing.json", cwd=tmp_path)
    found = valid("audit-missing", json.loads((tmp_path / "missing.json").read_text()))
    gone = {(number, offset) for number, offset, name in log if name in made.lost}
    assert (named_by(found), found["unnamed"], shown.returncode) == (gone, 0, 3), shown.stdout + shown.stderr
    repair(made, found, settings, tmp_path)
    after = [row for row in audit(name="orders", config=settings).rows(stream="orders") if row["edge"] == "collector"]
    assert sum(row["lost_high"] for row in after) == 0
    assert sum(row["doubled_low"] for row in after) == doubled == sum(row["doubled_high"] for row in after)
    before = {row["window_ms"]: row for row in rows if row["edge"] == "collector"}
    healed = [row for row in after if before[row["window_ms"]]["arrival"] == "loss" and row["arrival"] == "ok"]
    assert healed and {(row["same"], row["state"]) for row in healed} == {(True, "amended")}


def repair(made: Pipeline, missing: dict[str, Any], settings: Path, folder: Path) -> None:
    """Plan the missing records, apply the plan, and have a runtime handle them in the new group."""
    place = ("--cluster", "prod", "--config", str(settings))
    assert list(missing["topic_ids"]) == [made.topic]
    other = {**missing, "topic_ids": {made.topic: "of:another"}}
    (folder / "other.json").write_text(json.dumps(other))
    words = ("--from-group", "collector", "--new-group", made.again, "--from-audit", "other.json", "-o", "plan.json")
    assert run_here("replay", "plan", *place, *words, cwd=folder).returncode == 6
    assert not (folder / "plan.json").exists()
    planned = run_here(
        "replay", "plan", *place, "--from-group", "collector", "--new-group", made.again,
        "--from-audit", "missing.json", "-o", "plan.json",
        cwd=folder,
    )  # fmt: skip
    assert planned.returncode == 0, planned.stderr
    plan = json.loads((folder / "plan.json").read_text())
    applied = run_here("replay", "apply", "plan.json", *place, "--confirm", plan["hash"], cwd=folder)
    assert applied.returncode == 0, applied.stderr
    handled: list[tuple[int, int]] = []
    config = RuntimeConfig.parse(
        {
            "bootstrap": made.bootstrap, "group": made.again, "topics": [made.topic],
            "ranges": {made.topic: {it["partition"]: [tuple(span) for span in it["ranges"]] for it in missing["partitions"]}},
            "audit": {"topic": made.rows, "stream": "orders", "layer": "collector", "window_seconds": WINDOW_MS / 1000},
        }
    )  # fmt: skip
    Runtime(config, {"*": lambda event: handled.append((event.record.partition, event.record.offset))}).run()
    assert len(handled) == missing["records"]


def test_records_are_traced_and_topics_compared(lab: Lab, tmp_path: Path) -> None:
    """One record in two topics; a copy that lacks two records, has one twice, and one of another value."""
    topics = [f"{name}-{os.getpid()}" for name in ("old", "new")]
    for topic in topics:
        create_topic(lab.bootstrap, topic, 2)
    producer = Producer({"bootstrap.servers": lab.bootstrap})
    at = round(time.time() * 1000) - 7_200_000
    for number in range(500):
        key = f"k{number}".encode()
        headers = [("wb-id", b"id-%d" % number), ("wb-ctime", str(at).encode())]
        producer.produce(topics[0], b"v%d" % number, key, headers=headers, timestamp=at + 500)
        for _ in range({7: 0, 8: 0, 9: 2}.get(number, 1)):
            value = b"other" if number == 10 else b"v%d" % number
            producer.produce(topics[1], value, key, partition=0, headers=headers, timestamp=at + 900)
    assert producer.flush(10) == 0
    settings = tmp_path / "workbench.toml"
    settings.write_text(f'[clusters.prod]\nbootstrap = "{lab.bootstrap}"\n')

    def ask(*words: str) -> Any:
        return run_here("audit", *words, "--json", "--config", str(settings), cwd=tmp_path)

    same = ask("compare", f"prod:{topics[0]}", f"prod:{topics[0]}")
    assert (same.returncode, json.loads(same.stdout)["same"]) == (0, True)
    found = ask("compare", f"prod:{topics[0]}", f"prod:{topics[1]}")
    sides = valid("audit-compare", json.loads(found.stdout))["sides"]
    assert (found.returncode, [it["records"] for it in sides], [it["only"] for it in sides]) == (3, [500, 499], [3, 2])
    seen = ask("trace", "id-9", "--cluster", "prod", "--topic", topics[0], "--topic", topics[1])
    places = valid("audit-trace", json.loads(seen.stdout))["places"]
    assert [(it["topic"], it["stored_ms"] - it["created_ms"]) for it in places] == [
        (topics[0], 500), (topics[1], 900), (topics[1], 900),
    ]  # fmt: skip
    assert ask("trace", "id-7000", "--cluster", "prod", "--topic", topics[0]).returncode == 4


def test_a_span_of_times_has_what_lies_behind_its_end(lab: Lab, tmp_path: Path) -> None:
    """Producers set the times: a record of the span may lie behind a later one, and one of an earlier time within."""
    topics = [f"{name}-{os.getpid()}" for name in ("in-order", "in-disorder")]
    since = datetime(2026, 11, 25, 2, tzinfo=UTC)
    # Minutes after the begin of an hour: -5 and 65 lie outside of it.
    for topic, minutes in zip(topics, ((-5, 1, 2, 3, 65), (1, 65, 3, -5, 2)), strict=True):
        create_topic(lab.bootstrap, topic, 1)
        producer = Producer({"bootstrap.servers": lab.bootstrap})
        for minute in minutes:
            at = round((since + timedelta(minutes=minute)).timestamp() * 1000)
            producer.produce(topic, b"v", b"k%d" % minute, timestamp=at)
        assert producer.flush(10) == 0
    settings = tmp_path / "workbench.toml"
    settings.write_text(f'[clusters.prod]\nbootstrap = "{lab.bootstrap}"\n')
    span = ("--since", f"{since:%Y-%m-%dT%H:%MZ}", "--until", f"{since + timedelta(hours=1):%Y-%m-%dT%H:%MZ}")

    def ask(*words: str) -> Any:
        return run_here("audit", *words, *span, "--json", "--config", str(settings), cwd=tmp_path)

    found = ask("compare", *(f"prod:{topic}" for topic in topics))
    sides = json.loads(found.stdout)["sides"]
    assert (found.returncode, [(it["records"], it["only"]) for it in sides]) == (0, [(3, 0), (3, 0)])
    for key, offsets in (("k2", [2, 4]), ("k-5", [])):
        seen = ask("trace", key, "--cluster", "prod", "--topic", topics[0], "--topic", topics[1])
        assert sorted(it["offset"] for it in json.loads(seen.stdout)["places"]) == offsets
