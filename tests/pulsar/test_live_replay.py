"""A replay on a real Pulsar: the last third of a topic in batches, by the commands, read by a plain client."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import workbench
from tests.pulsar.test_live import admin
from tests.waiting import wait_for
from workbench.lab.pulsar import PulsarStandalone

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture
def config(standalone: PulsarStandalone, tmp_path: Path) -> Iterator[Path]:
    """Settings of it."""
    path = tmp_path / "workbench.toml"
    lines = ["[clusters.events]", 'system = "pulsar"', "[clusters.events.pulsar]"]
    lines += [f'service_url = "{standalone.service_url}"', f'admin_url = "{standalone.admin_url}"']
    path.write_text("\n".join(lines))
    yield path


def read(consumer: Any, *, seconds: float = 3.0) -> list[int]:
    """Everything that comes, acknowledged."""
    import pulsar

    found = []
    while True:
        try:
            message = consumer.receive(int(seconds * 1000))
        except pulsar.Timeout:
            return found
        found.append(int(message.data()))
        consumer.acknowledge(message)


@pytest.mark.parametrize("partitions", [0, 2, 5])
def test_the_last_third_and_only_that(
    standalone: PulsarStandalone,
    client: Any,
    config: Path,
    tmp_path: Path,
    partitions: int,
) -> None:
    """Batches included; the old subscription gets nothing; a conflict on one partition is found before anything is made."""
    import pulsar

    name = f"public/default/replayed-{partitions}"
    if partitions:
        admin(standalone, "PUT", f"persistent/{name}/partitions", json=partitions)
    old = client.subscribe(f"persistent://{name}", "billing", initial_position=pulsar.InitialPosition.Earliest)
    producer = client.create_producer(
        f"persistent://{name}",
        batching_enabled=True,
        batching_max_messages=7,
        batching_max_publish_delay_ms=20,
        message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
    )
    since = 0
    for number in range(300):
        if number == 200:
            producer.flush()
            time.sleep(0.3)
            since = int(time.time() * 1000)
        producer.send_async(str(number).encode(), lambda *_: None)
    producer.flush()
    assert sorted(read(old)) == list(range(300))
    plan, place = tmp_path / "plan.json", ["--config", str(config)]
    words = ["--from-group", f"billing@{name}", "--new-group", "again", "-o", str(plan)]
    instant = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since / 1000)) + f".{since % 1000:03}Z"
    made = workbench("replay", "plan", "--cluster", "events", *words, "--since", instant, "--json", *place)
    assert made.returncode == 0, made.stderr
    document = json.loads(made.stdout)
    last = f"persistent/{name}" + (f"-partition-{partitions - 1}" if partitions else "")
    admin(standalone, "PUT", f"{last}/subscription/again", json="latest")
    refused = workbench("replay", "apply", str(plan), "--confirm", document["hash"], *place)
    assert refused.returncode == 6
    assert "that this plan has not made exists on 1 partition" in refused.stderr
    admin(standalone, "DELETE", f"{last}/subscription/again")
    done = workbench("replay", "apply", str(plan), "--confirm", document["hash"], *place)
    assert done.returncode == 0, done.stderr
    assert workbench("replay", "verify", str(plan), *place).returncode == 3
    again = client.subscribe(f"persistent://{name}", "again")
    assert sorted(read(again)) == list(range(200, 300))
    followed = workbench("replay", "follow", str(plan), "--timeout", "30s", *place)
    assert followed.returncode == 0, followed.stderr
    assert workbench("replay", "verify", str(plan), *place).returncode == 0
    assert read(old, seconds=0.5) == []
    again.close()
    undo = ["replay", "rollback", str(plan.with_suffix(".rollback.json")), "--confirm", f"again {max(1, partitions)}"]
    refused = workbench(*undo, *place)
    assert refused.returncode == 6
    assert "has acknowledged" in refused.stderr
    back = workbench(*undo, "--discard-progress", *place)
    assert back.returncode == 0, back.stderr
    producer.close()
    old.close()


def test_a_compacted_topic_from_a_time_on(
    standalone: PulsarStandalone, client: Any, config: Path, tmp_path: Path
) -> None:
    """What compaction has left out of its copy is in the log, and a plain consumer gets it; the broker's search does not find it."""
    name = "public/default/compacted"
    old = client.subscribe(f"persistent://{name}", "billing")
    producer = client.create_producer(f"persistent://{name}", batching_enabled=False)
    since = 0
    for number in range(20):
        if number == 5:
            time.sleep(0.05)
            since = int(time.time() * 1000)
            time.sleep(0.05)
        producer.send(str(number).encode(), partition_key="k")
        time.sleep(0.005)
    admin(standalone, "PUT", f"persistent/{name}/compaction")
    wait_for(lambda: admin(standalone, "GET", f"persistent/{name}/compaction").json()["status"] == "SUCCESS")
    told = admin(standalone, "GET", f"persistent/{name}/messageid/{since}").json()
    assert told["entryId"] == 19  # the last one of the key, and not 5
    plan, place = tmp_path / "plan.json", ["--config", str(config)]
    instant = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since / 1000)) + f".{since % 1000:03}Z"
    words = ["--from-group", f"billing@{name}", "--new-group", "again", "-o", str(plan), "--since", instant, "--json"]
    made = workbench("replay", "plan", "--cluster", "events", *words, *place)
    assert made.returncode == 0, made.stderr
    done = workbench("replay", "apply", str(plan), "--confirm", json.loads(made.stdout)["hash"], *place)
    assert done.returncode == 0, done.stderr
    again = client.subscribe(f"persistent://{name}", "again")
    assert read(again) == list(range(5, 20))
    for it in (again, old, producer):
        it.close()
