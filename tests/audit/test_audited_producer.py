"""A producer that many threads share: each waits for its own records, and the rows tell of all of them once."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from workbench.errors import SourceUnreachableError, UsageError
from workbench.kafka.audited_producer import AuditedProducer
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic

pytestmark = pytest.mark.lab

REQUESTS, RECORDS, THREADS = 25, 20, 6


@pytest.fixture
def topics(lab: Lab) -> tuple[str, str]:
    """One for records, one for rows."""
    made = f"shared-{os.getpid()}-{time.monotonic_ns()}"
    create_topic(lab.bootstrap, made, 3)
    create_topic(lab.bootstrap, f"{made}-rows", 1)
    return made, f"{made}-rows"


def told(bootstrap: str, topic: str) -> tuple[Counter[str], list[int]]:
    """Records by point, and how many positions each row of `in` is about."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "told", "enable.auto.commit": False})
    part = TopicPartition(topic, 0, 0)
    counts, spans = Counter[str](), []
    try:
        left = consumer.get_watermark_offsets(part, timeout=10)[1]
        consumer.assign([part])
        while left > 0:
            for message in consumer.consume(500, 5):
                left -= 1
                for row in json.loads(message.value()):
                    counts[row["point"]] += sum(it["count"] for it in row["windows"])
                    if row["point"] == "in":
                        spans.append(row["stop"] - row["start"])
    finally:
        consumer.close()
    return counts, spans


def test_nobody_waits_for_the_records_of_others(lab: Lab, topics: tuple[str, str]) -> None:
    """Requests of six threads are answered while a seventh never stops sending: none takes seconds, none fails."""
    topic, rows = topics
    producer = AuditedProducer({"bootstrap.servers": lab.bootstrap}, stream="s", layer="gateway", rows_topic=rows)
    ending, took, sent = threading.Event(), list[float](), Counter[str]()

    def send() -> None:
        while not ending.is_set():
            producer.produce(topic, b"x" * 100)
            sent["beside"] += 1
            time.sleep(0.0005)

    def ask() -> None:
        for _ in range(REQUESTS):
            for _ in range(RECORDS):
                producer.produce(topic, b"x")
            begun = time.monotonic()
            producer.settle(5)
            took.append(time.monotonic() - begun)

    beside, asking = threading.Thread(target=send), [threading.Thread(target=ask) for _ in range(THREADS)]
    for it in (beside, *asking):
        it.start()
    for it in asking:
        it.join(60)
    ending.set()
    beside.join(10)
    producer.close()
    assert len(took) == REQUESTS * THREADS  # a thread that fails has fewer
    assert sorted(took)[len(took) // 2] < 1
    records = sent["beside"] + REQUESTS * THREADS * RECORDS
    counts, spans = told(lab.bootstrap, rows)
    assert (counts["in"], counts["out"], counts["dead"], sum(spans)) == (records, records, 0, records)


def test_what_is_not_delivered_in_time_is_told_and_settled_later(lab: Lab, topics: tuple[str, str]) -> None:
    """Too early it says how many records wait; then there is a row about each, and of none one that says that it lives."""
    topic, rows = topics
    properties = {"bootstrap.servers": lab.bootstrap}
    producer = AuditedProducer(properties, stream="s", layer="gateway", rows_topic=rows)
    for _ in range(7):
        producer.produce(topic, b"x")
    with pytest.raises(SourceUnreachableError, match=r"7 records and their rows are not delivered within 0 s\."):
        producer.settle(0)
    producer.settle(10)
    producer.settle(10)  # with nothing new, it says that it lives
    producer.close()
    counts, spans = told(lab.bootstrap, rows)
    assert counts["in"] >= 7  # a second incarnation tells of what the first one may have told
    assert spans.count(0) >= 2


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"transactional.id": "gateway-1"}, "transactional.id"),
        ({"acks": 0, "enable.idempotence": False}, "acks"),
        ({"request.required.acks": "0", "enable.idempotence": False}, "acks"),
    ],
)
def test_what_would_count_records_that_are_not_safe_is_refused(properties: dict[str, Any], named: str) -> None:
    """A transaction may be aborted after its records were told as delivered; without acks, nobody says that they are there."""
    with pytest.raises(UsageError, match=named):
        AuditedProducer(
            {"bootstrap.servers": "127.0.0.1:1", **properties}, stream="s", layer="gateway", rows_topic="rows"
        )
