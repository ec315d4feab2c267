"""Audits of topics of a real Pulsar: rows, one record's way, and two topics beside each other; positions are packed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests

from workbench.api import compare_and_trace_records
from workbench.api.audits import audit
from workbench.errors import EvidenceError, UsageError
from workbench.lab.pulsar import PulsarStandalone
from workbench.queues.position import packed, unpacked
from workbench.settings import load_settings

if TYPE_CHECKING:
    import pulsar

pytestmark = [pytest.mark.lab, pytest.mark.slow]

ONE, OTHER, ROWS = "public/default/v1", "public/default/v2", "public/default/rows"


@pytest.fixture(scope="module")
def config(standalone: PulsarStandalone, client: pulsar.Client, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings, and two topics of 600 messages in batches, of which the second lacks one, and has another one twice."""
    for topic in (ONE, OTHER):
        answer = requests.put(f"{standalone.admin_url}/admin/v2/persistent/{topic}/partitions", json=3, timeout=30)
        assert answer.status_code < 300
        producer = client.create_producer(f"persistent://{topic}", batching_enabled=True, batching_max_messages=50)
        for number in range(600):
            for _ in range(1 if topic == ONE else {500: 0, 501: 2}.get(number, 1)):
                own = {"wb-id": f"order-{number}"}
                producer.send_async(b"%d" % number, lambda *_: None, partition_key=str(number % 40), properties=own)
        producer.flush()
        producer.close()
    file = tmp_path_factory.mktemp("settings") / "workbench.toml"
    file.write_text(
        f'[clusters.events]\nsystem = "pulsar"\n[clusters.events.pulsar]\nadmin_url = "{standalone.admin_url}"\n'
        f'service_url = "{standalone.service_url}"\n'
    )
    return file


def test_one_record_is_followed(config: Path) -> None:
    """By its id, in whatever batch it is: each place once, with the time of its publication."""
    lost = compare_and_trace_records.trace("order-500", cluster="events", topics=[ONE, OTHER], config=config)
    assert [it.topic for it in lost] == [ONE]
    twice = compare_and_trace_records.trace("order-501", cluster="events", topics=[ONE, OTHER], config=config)
    assert sorted(it.topic for it in twice) == [ONE, OTHER, OTHER]
    assert len({(it.topic, it.partition, it.offset) for it in twice}) == 3
    assert all(abs((it.stored_ms or 0) / 1000 - time.time()) < 600 for it in twice)
    later = round(time.time() * 1000) + 60_000
    assert (
        compare_and_trace_records.trace("order-501", cluster="events", topics=[ONE], since_ms=later, config=config)
        == []
    )


def test_two_topics_are_compared(config: Path) -> None:
    """However their batches and partitions lie."""
    found = compare_and_trace_records.compare(f"events:{ONE}", f"events:{OTHER}", config=config)
    assert (found.records, found.only) == ((600, 600), (1, 1))
    assert compare_and_trace_records.compare(f"events:{ONE}", f"events:{ONE}", config=config).is_same


def test_rows_on_a_topic_are_an_audit(config: Path, client: pulsar.Client) -> None:
    """Their positions are packed ones: what a layer took in and did not give out is named by reading just those again."""
    cluster = load_settings(config).cluster("events")
    whole = compare_and_trace_records.whole_topic(cluster, ONE)
    [(start, stop)] = [it for part, it in whole.items() if part == (ONE, 0)]
    spark = compare_and_trace_records.session_for_audits(1)
    records = compare_and_trace_records.records_of(spark, cluster, {(ONE, 0): [(start, stop)]})[ONE, 0]
    assert len(records) > 10 and records[0]["offset"] == start and all(it["hash"] is not None for it in records)
    ledger, entry, within = unpacked(records[3]["offset"])
    assert (packed((ledger, entry, within)), within) == (records[3]["offset"], 3)  # within its batch
    middle = compare_and_trace_records.records_of(
        spark, cluster, {(ONE, 0): [(records[3]["offset"], records[5]["offset"])]}
    )
    assert middle[ONE, 0] == records[3:5]
    minute = round(time.time()) // 60 * 60_000
    producer = client.create_producer(f"persistent://{ROWS}")
    for layer, point, kept in (("gateway", "out", records), ("sink", "in", records[1:])):
        hashes = sum(it["hash"] for it in kept)
        total = (hashes + (1 << 63)) % (1 << 64) - (1 << 63)
        row = {
            "schema": "workbench.audit/1", "stream": "orders", "layer": layer, "point": point, "topic": ONE, "partition": 0,
            "start": start, "stop": stop, "incarnation": 1, "sequence": 1, "emitted_ms": minute + 60_000,
            "windows": [{"start_ms": minute, "count": len(kept), "bytes": 9, "sum": total}],
        }  # fmt: skip
        producer.send(json.dumps(row).encode())
    producer.close()
    found = audit(cluster="events", topic=ROWS, layers=["gateway", "sink"], config=config)
    [edge] = [it for it in found.frame.collect() if it["from_low"]]
    assert (edge["from_low"], edge["to_low"], edge["lost_low"]) == (len(records), len(records) - 1, 1)


def test_what_is_not_there_is_one_sentence(config: Path) -> None:
    """A topic that does not exist; messages that are deleted."""
    cluster = load_settings(config).cluster("events")
    with pytest.raises(UsageError, match="has no topic 'public/default/none'"):
        compare_and_trace_records.whole_topic(cluster, "public/default/none")
    with pytest.raises(EvidenceError, match="can no longer be read: they are deleted"):
        compare_and_trace_records.records_of(
            compare_and_trace_records.session_for_audits(1), cluster, {(ONE, 0): [(0, 5)]}
        )
