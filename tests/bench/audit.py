"""Audits: two topics of ten million records compared, and the same by a plain full join."""

from __future__ import annotations

import os
import time

from confluent_kafka import Producer

from tests.bench.harness import Result, result
from tests.bench.replay import broker
from workbench.lab.kafka import create_topic

RECORDS, PARTITIONS, VALUE = int(os.environ.get("COMPARED", "10000000")), 4, b"v" * 24
LOST, OTHERS = 20, 10  # of the second topic


def audit_compare() -> Result:
    """`api.compare`, and in the same session and by the same reader a full join on key and value, in turns."""
    from workbench import api
    from workbench.api.audit_records import session_for_audits, whole_topic
    from workbench.queues.systems import system_of
    from workbench.settings import load_settings

    with broker() as (bootstrap, room):
        bytes_read = sum(_produce(bootstrap, topic) for topic in ("one", "other"))
        config = room / "w.toml"
        config.write_text(f'[clusters.c]\nbootstrap = "{bootstrap}"\n')
        cluster, spark = load_settings(config).cluster("c"), session_for_audits()

        def ours() -> None:
            found = api.compare("c:one", "c:other", config=config)
            assert (found.records, found.only) == ((RECORDS, RECORDS - LOST), (LOST + OTHERS, OTHERS)), found.only

        def joined() -> None:
            one, other = (
                system_of(cluster)
                .read_records(spark, cluster, whole_topic(cluster, topic), ["partition", "offset", "key", "value"])
                .selectExpr("key", "value", f"struct(partition, offset) AS {topic}")
                for topic in ("one", "other")
            )
            apart = one.join(other, ["key", "value"], "full").where("one IS NULL OR other IS NULL")
            sides = {
                it["side"]: it["count"]
                for it in apart.selectExpr("one IS NULL AS side").groupBy("side").count().collect()
            }
            assert sides == {False: LOST + OTHERS, True: OTHERS}, sides

        times: dict[str, list[float]] = {"ours": [], "peer": []}
        for name, call in (("ours", ours), ("peer", joined), ("peer", joined), ("ours", ours)):
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
            print(f"audit_compare {name}: {times[name][-1]:.1f} s", flush=True)
        mine, theirs = min(times["ours"]), min(times["peer"])
    rate = f"{bytes_read / 1e6 / mine:.0f} MB/s of keys and values; the join {bytes_read / 1e6 / theirs:.0f} MB/s"
    return result(
        "audit_compare",
        f"two topics of {RECORDS:,} records, {bytes_read / 2 / RECORDS:.0f} B each; the better of two; {rate}",
        mine,
        peer=theirs,
        peer_name="full join on key and value, same session and reader",
    )


def _produce(bootstrap: str, topic: str) -> int:
    """Fill a topic; return the bytes of its keys and values."""
    create_topic(bootstrap, topic, PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000, "compression.type": "lz4"}
    )  # fmt: skip
    at = round(time.time() * 1000) - 3_600_000
    total = 0
    for number in range(RECORDS):
        value = VALUE
        if topic == "other" and number < LOST + OTHERS:
            if number < LOST:
                continue
            value = b"other"
        key = b"order-%08d" % number
        total += len(key) + len(value)
        while True:
            try:
                producer.produce(topic, value, key, partition=number % PARTITIONS, timestamp=at + number // 5_000)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 100_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    return total
