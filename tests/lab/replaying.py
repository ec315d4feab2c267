"""Topics, fleets and Kafka's own tool for the tests of replay on a real broker."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit, consumer_groups, workbench
from tests.waiting import wait_for
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.plans.strict_document import write_file
from workbench.replay.plan import make_plan, survey
from workbench.replay.planfile import AfterEnd, Plan
from workbench.replay.replay_request import PlanRequest
from workbench.window import parse_instant


def fresh(name: str) -> str:
    """A name that no other test uses."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def fill(lab: Lab, topic: str, times_ms: Mapping[int, list[int]]) -> None:
    """Records with these timestamps, in this order, into each partition."""
    # Idempotent, because a retry must not change the order.
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 20, "enable.idempotence": True})
    for partition, times in times_ms.items():
        for number, timestamp in enumerate(times):
            producer.produce(topic, b"v", str(number).encode(), partition=partition, timestamp=timestamp)
        producer.poll(0)
    assert producer.flush(60) == 0


def topic_with(lab: Lab, times_ms: Mapping[int, list[int]], *, group: str | None = None) -> tuple[str, str]:
    """A topic with such records, and a group that has committed 0 everywhere."""
    topic, group = fresh("replay"), group or fresh("old")
    create_topic(lab.bootstrap, topic, len(times_ms))
    fill(lab, topic, times_ms)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    commit(admin, group, topic, dict.fromkeys(times_ms, 0))
    return topic, group


def plan_for(lab: Lab, topic: str, old: str, new: str, since: str, **changes: object) -> Plan:
    """A plan, made in this process."""
    gateway = KafkaGateway(lab.bootstrap)
    fields: dict[str, object] = {
        "cluster": "mine", "from_group": old, "new_group": new, "topics": [topic],
        "since": parse_instant(since), "requested_since": since, "after_end": AfterEnd.END,
    }  # fmt: skip
    request = PlanRequest(**{**fields, **changes})  # type: ignore[arg-type]
    return make_plan(request, *survey(gateway, request))


def kept(folder: Path, plan: Plan) -> Path:
    """The plan as a file."""
    path = folder / "plan.json"
    write_file(path, plan.document())
    return path


def replay(*words: str, settings: Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """`workbench replay …` with settings."""
    return workbench("replay", *words, "--config", str(settings), timeout=timeout)


def reset_offsets(lab: Lab, group: str, *words: str) -> dict[tuple[str, int], int]:
    """What `kafka-consumer-groups --reset-offsets … --dry-run` prints."""
    lines = consumer_groups(lab.bootstrap, "--reset-offsets", "--group", group, *words, "--dry-run")
    found = {}
    for fields in lines:
        if len(fields) == 4 and fields[0] == group:
            found[fields[1], int(fields[2])] = int(fields[3])
    return found


def footprint(lab: Lab) -> tuple[set[str], dict[int, int]]:
    """All groups, and the ends of the topic into which every join, commit and deletion of a group is written."""
    from confluent_kafka import Consumer

    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    groups = {item.group_id for item in admin.list_consumer_groups().result(30).valid}
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": "footprint", "enable.auto.commit": False})
    try:
        numbers = consumer.list_topics("__consumer_offsets", timeout=30).topics["__consumer_offsets"].partitions
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition("__consumer_offsets", number), timeout=30)[1]
            for number in numbers
        }
    finally:
        consumer.close()
    return groups, ends


def wild_times(seed: int, partitions: int, now_ms: int) -> dict[int, list[int]]:
    """Out of order, empty, long ago, just now: some of everything."""
    draw = random.Random(seed)
    found: dict[int, list[int]] = {}
    for number in range(partitions):
        kind, count = number % 8, draw.randint(1, 25)
        span = {0: (0, 0), 1: (3000, 3600), 2: (0, 900), 3: (0, 0)}.get(kind, (0, 3600))
        found[number] = [now_ms - 1000 * draw.randint(*span) for _ in range(0 if kind == 0 else count)]
        if kind == 4:
            found[number].sort()
    return found


def wait_for_members(admin: AdminClient, group: str, number: int, seconds: float = 30.0) -> None:
    """Until so many are in the group and it is stable."""

    def there() -> bool:
        view = admin.describe_consumer_groups([group])[group].result(30)
        return len(view.members) == number and view.state.name == "STABLE"

    wait_for(there, seconds)


def processed_log(folder: Path) -> dict[tuple[str, int], list[int]]:
    """What the instances of a test wrote about each record they handled."""
    found: dict[tuple[str, int], list[int]] = {}
    for path in folder.glob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            try:
                item = json.loads(line)
            except ValueError:
                continue  # the line that a killed instance was writing
            found.setdefault((item["topic"], item["partition"]), []).append(item["offset"])
    return found


def environment() -> dict[str, str]:
    """For child processes."""
    return dict(os.environ)


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return int(time.time() * 1000)
