"""Consumers that commit nothing to Kafka: their own position is what is judged."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.profiles.pages import PAGES
from workbench.collect.scrape import Page, page_series
from workbench.collect.source_join import with_derived_lag, with_groups
from workbench.profiles import Profile, known_profiles, load_profile
from workbench.samples import concat_series

DOCS = Path(__file__).parent.parent.parent / "docs" / "profiles.md"
# As Spark prints the progress of a query with a Kafka source and a second source of another kind.
PROGRESS = {
    "id": "ce011fdc-8762-4dcb-84eb-a77333e28109", "runId": "88e2ff94-ede0-45a8-b687-6316fbef529a", "name": "pay-app",
    "timestamp": "2026-11-21T02:59:48.001Z", "batchId": 7, "batchDuration": 812, "numInputRows": 880,
    "inputRowsPerSecond": 10.0, "processedRowsPerSecond": 9.0, "durationMs": {"addBatch": 500, "triggerExecution": 812},
    "eventTime": {}, "stateOperators": [],
    "sources": [
        {"description": "KafkaV2[Subscribe[orders]]", "startOffset": json.dumps({"orders": {"2": 0, "3": 0}}),
         "endOffset": json.dumps({"orders": {"2": 5, "3": 880}}), "latestOffset": json.dumps({"orders": {"2": 5, "3": 1000}}),
         "numInputRows": 885, "inputRowsPerSecond": 10.0, "processedRowsPerSecond": 9.0,
         "metrics": {"avgOffsetsBehindLatest": "60.0", "maxOffsetsBehindLatest": "120", "minOffsetsBehindLatest": "0"}},
        {"description": "RateStreamV2[rowsPerSecond=1]", "startOffset": "1", "endOffset": "2", "latestOffset": "2",
         "numInputRows": 1, "inputRowsPerSecond": 1.0, "processedRowsPerSecond": 1.0, "metrics": {}},
    ],
    "sink": {"description": "ForeachBatchSink", "numOutputRows": -1, "metrics": {}}, "observedMetrics": {},
}  # fmt: skip


def judged(pages: dict[str, str], members: dict[str, str]) -> dict[int, float]:
    """Lag by partition of the group `pay`, from pages by profile."""
    found = []
    for name, text in pages.items():
        profile = load_profile(name)
        for series in page_series(Page(url="http://page", taken_at=1000.0, text=text), [profile], cluster="c"):
            found.append(with_groups(series, profile, members))
    rows = with_derived_lag(concat_series(found)).to_samples().to_pylist()
    return {row["partition"]: row["value"] for row in rows if row["signal"] == "consumer_lag" and row["group"] == "pay"}


def test_the_listener_of_the_documents_exports_what_the_profile_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as it stands there, on the progress of a query: Spark's own number of what is behind is the lag that is judged."""
    import prometheus_client
    from pyspark.sql.streaming.listener import StreamingQueryProgress

    [code] = [it for it in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S) if "StreamingQueryListener" in it]
    registry, gauge = CollectorRegistry(), prometheus_client.Gauge
    monkeypatch.setattr(prometheus_client, "Gauge", lambda *args: gauge(*args, registry=registry))
    names: dict[str, Any] = {}
    exec(compile(code, str(DOCS), "exec"), names)
    listener = names["KafkaProgress"]()
    listener.onQueryStarted(SimpleNamespace(name="pay-app", runId="r", timestamp=PROGRESS["timestamp"]))
    listener.onQueryProgress(SimpleNamespace(progress=StreamingQueryProgress.fromJson(PROGRESS)))
    page = generate_latest(registry).decode()
    assert judged({"spark_streaming": page}, {"pay-app": "pay"}) == {2: 0.0, 3: 120.0}
    listener.onQueryTerminated(SimpleNamespace(runId="r"))
    assert judged({"spark_streaming": generate_latest(registry).decode()}, {"pay-app": "pay"}) == {}


def test_a_flink_job_without_commits_is_judged_by_its_position() -> None:
    """The log's end comes from a lag exporter. The position is that of the last record: behind it, nothing waits."""
    pages = {name: PAGES[name] for name in ("flink_positions", "kafka_exporter")}
    lag = judged(
        {**pages, "kafka_exporter": 'kafka_topic_partition_current_offset{topic="orders",partition="3"} 1000\n'},
        {"pay-app": "pay"},
    )
    assert lag == {3: 119.0}


def test_a_thread_of_kafka_streams_and_its_consumer_are_one_member() -> None:
    """The consumer is named after its thread; Kafka's member list has the consumer."""
    consumer = "pay-0b1c-StreamThread-1-consumer"
    profile = load_profile("kafka_streams")
    [series] = page_series(
        Page(url="http://page", taken_at=1000.0, text=PAGES["kafka_streams"]), [profile], cluster="c"
    )
    rows = with_groups(series, profile, {consumer: "pay"}).to_samples().to_pylist()
    assert {(row["group"], row["member"]) for row in rows} == {("pay", consumer)}


def test_threads_of_kafka_streams_are_read_by_the_names_of_micrometer() -> None:
    """Spring Boot exports the same numbers without an agent: the mean is told for each record counted, by the consumer's name."""
    page = """
kafka_stream_thread_poll_ratio{thread_id="pay-StreamThread-1",kafka_version="3.9.0",spring_id="b"} 0.9
kafka_stream_thread_process_latency_avg{thread_id="pay-StreamThread-1",kafka_version="3.9.0",spring_id="b"} 25
kafka_stream_thread_process_total{thread_id="pay-StreamThread-1",kafka_version="3.9.0",spring_id="b"} 5000
kafka_stream_thread_thread_start_time{thread_id="pay-StreamThread-1",kafka_version="3.9.0",spring_id="b"} 1.79e12
kafka_stream_task_process_latency_avg{thread_id="pay-StreamThread-1",task_id="0_1",spring_id="b"} 70
"""
    profile = load_profile("kafka_streams")
    [series] = page_series(Page(url="http://page", taken_at=1000.0, text=page), [profile], cluster="c")
    rows = with_groups(series, profile, {"pay-StreamThread-1-consumer": "pay"}).to_samples().to_pylist()
    assert {(row["group"], row["member"]) for row in rows} == {("pay", "pay-StreamThread-1-consumer")}
    assert {(row["signal"], row["stat"]): row["value"] for row in rows} == {
        ("poll_idle", "value"): 0.9,
        ("start_time", "value"): 1.79e9,
        ("process_time", "mean"): 0.025,
        ("process_time", "count"): 5000.0,
    }


def test_every_profile_says_what_its_names_are_from() -> None:
    """And those that are held against a recorded page are the ones whose page, or live server, the tests have."""
    every: list[Profile] = list(known_profiles())
    assert all(it.names_from is not None for it in every)
    recorded = {it.name for it in every if it.names_from == "recorded page"}
    of_pages = {
        "jmx_exporter",
        "jmx_exporter_plain",
        "jmx_exporter_strimzi",
        "micrometer",
        "micronaut",
        "otel_kafka_clients",
        "otel_messaging",
        "parallel_consumer",
        "quarkus_messaging",
        "spring_listener",
        "strimzi_reporter",
        "kafka_streams",
        "connect_sink",
        "faststream",
        "faust",
        "watermill",
        "camel",
        "otelcol_kafka",
        "spring_cloud_stream",
        "jmx_kafka_broker",
        "jmx_broker_strimzi",
        "jmx_broker_confluent",
        "jmx_broker_example",
        "jmx_broker_example_kraft",
        "pulsar_broker",
    }  # tests/profiles/recorded
    live = {"runtime", "group_state", "librdkafka", "flink", "spark_streaming"}  # servers and clients in the lab
    assert recorded == of_pages | live
