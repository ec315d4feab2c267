"""Drafts from pages of other people's exporters and clients: what a person would name in a profile, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workbench.profiles import Profile, parse_profile
from workbench.profiles.profile_draft import Draft, Seen, draft, interesting

PAGES = Path(__file__).with_name("foreign")
_SERIES = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? \S+")

# Page to what a person would name: signal to metric. Of each page's signals, the draft names at least half, and no other metric.
EXPORTERS = {
    "automq": {"committed_offset": "kafka_group_commit_offset", "log_end_offset": "kafka_log_end_offset"},
    "conduktor_console": {
        "consumer_lag": "kafka_consumergroup_group_lag",
        "time_lag": "kafka_consumergroup_group_lag_seconds",
        "committed_offset": "kafka_consumergroup_group_offset",
    },
    "devatherock_lag_monitor": {
        "consumer_lag": "kafka_consumer_lag_max",
        "committed_offset": "kafka_consumer_offset_max",
    },
    "dudssource_lag_exporter": {"consumer_lag": "kafka_consumer_group_lag"},
    "echojc_offset_exporter": {"log_end_offset": "kafka_offset_newest", "log_start_offset": "kafka_offset_oldest"},
    "ifission_lag_exporter": {"consumer_lag": "kafka_consumer_lag"},
    "kafka_minion_1": {
        "consumer_lag": "kafka_minion_group_topic_partition_lag",
        "committed_offset": "kafka_minion_group_topic_partition_offset",
        "log_end_offset": "kafka_minion_topic_partition_high_water_mark",
        "log_start_offset": "kafka_minion_topic_partition_low_water_mark",
    },
    "mbode_lag_exporter": {
        "consumer_lag": "kafka_lag",
        "committed_offset": "kafka_offset",
        "log_end_offset": "kafka_high_watermark",
    },
    "navikt_offset_monitor": {"consumer_lag": "dp_consumer_offset_lag"},
    "omarsmak_lag_monitoring": {
        "consumer_lag": "kafka_consumer_group_partition_lag",
        "committed_offset": "kafka_consumer_group_offset",
        "log_end_offset": "kafka_topic_latest_offsets",
    },
    "sayuan_offset_exporter": {"committed_offset": "kafka_group_offset", "log_end_offset": "kafka_log_logendoffset"},
    "waignier_group_exporter": {"committed_offset": "kafka_consumer_consumeroffset"},
}
_START = "process_start_time_seconds"
CLIENTS = {
    "franz_go_kprom": {
        "start_time": _START,
        "process_time": "orders_handler_duration_seconds",
        "deserialized": "orders_fetch_records_total",
        "fetch_queue_length": "orders_buffered_fetch_records_total",
    },
    "jaeger_ingester": {
        "start_time": _START,
        "process_time": "jaeger_ingester_span_processor_latency",
        "deserialized": "jaeger_ingester_sarama_consumer_messages_total",
        "consumer_lag": "jaeger_ingester_sarama_consumer_offset_lag",
    },
    "kafka_konsumer": {"start_time": _START, "processed": "kafka_konsumer_processed_messages_total_current"},
    "kafkaesk": {
        "start_time": _START,
        "process_time": "kafkaesk_consumed_message_elapsed_time",
        "deserialized": "kafkaesk_consumed_messages_total",
        "rebalances": "kafkaesk_consumer_rebalanced_total",
    },
    "kafkajs_exporter": {
        "start_time": _START,
        "process_time": "orders_job_duration_seconds",
        "deserialized": "kafka_consumer_batch_size_total",
    },
    "kafkajs_opentelemetry": {
        "process_time": "messaging_process_duration",
        "deserialized": "messaging_client_consumed_messages_total",
    },
    "mimir_reader": {
        "start_time": _START,
        "process_time": "cortex_ingest_storage_reader_records_batch_process_duration_seconds",
        "fetch_queue_length": "cortex_ingest_storage_reader_buffered_fetched_records",
    },
    "node_rdkafka": {
        "start_time": _START,
        "process_time": "orders_message_processing_seconds",
        "consumer_lag": "rdkafka_topic_partition_consumer_lag",
        "committed_offset": "rdkafka_topic_partition_committed_offset",
        "log_end_offset": "rdkafka_topic_partition_hi_offset",
        "log_start_offset": "rdkafka_topic_partition_lo_offset",
        "rebalances": "rdkafka_cgrp_rebalance_cnt",
        "broker_rtt": "rdkafka_broker_rtt_avg",
        "throttle_time": "rdkafka_broker_throttle_avg",
        "fetch_queue_length": "rdkafka_topic_partition_fetchq_cnt",
    },
    "otelcol_kafkareceiver": {
        "start_time": _START,
        "consumer_lag": "otelcol_kafka_receiver_offset_lag_ratio",
        "deserialized": "otelcol_kafka_receiver_records_total",
    },
    "payment_service": {
        "start_time": _START,
        "deserialized": "kafka_messages_consumed_total",
        "dead_letters": "kafka_messages_dlq_total",
        "paused_partitions": "kafka_consumer_paused",
    },
    "platformatic_kafka": {
        "start_time": _START,
        "process_time": "shop_handler_seconds",
        "deserialized": "kafka_consumed_messages",
    },
    "posthog_consumer": {
        "start_time": _START,
        "process_time": "consumed_batch_duration_ms",
        "assigned": "kafka_consumer_assignment",
    },
    "kafka_python": {
        "heartbeat_age": "kafka_consumer_coordinator_metrics_last_heartbeat_seconds_ago",
        "broker_rtt": "kafka_consumer_node_metrics_node_{broker}_request_latency_avg",
        "throttle_time": "kafka_consumer_node_metrics_node_{broker}_throttle_time_avg",
    },
    "sarama_expvar": {
        "rebalances": "consumer_group_join_total_{group}",
        "broker_rtt": "request_latency_in_ms_for_broker_{broker}_mean",
        "throttle_time": "throttle_time_in_ms_for_broker_{broker}_mean",
    },
    "sarama_go_metrics": {
        "start_time": _START,
        "rebalances": "kafka_client_consumer_group_join_total_{group}",
        "broker_rtt": "kafka_client_request_latency_in_ms_for_broker_{broker}",
    },
    "watermill": {
        "process_time": "shop_orders_handler_execution_time_seconds",
        "processed": "shop_orders_handler_execution_time_seconds_count",  # as the shipped profile has it
        "deserialized": "shop_orders_subscriber_messages_received_total",
    },
}


def seen(name: str) -> Seen:
    """What a Prometheus that scrapes this page shows: names as they are, which a parser of types would change."""
    found: dict[str, list[dict[str, str]]] = {}
    for line in (PAGES / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        series = _SERIES.match(line)
        if series is not None:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', series[2] or ""))
            found.setdefault(series[1], []).append(
                {"__name__": series[1], "job": "consumer", "instance": "10.0.0.4:9", **labels}
            )
    return {metric: found[metric] for metric in interesting(found)}


def drafted(name: str) -> tuple[Draft, Profile]:
    """The draft of a page, and the profile that its file is."""
    found = draft("ours", seen(name))
    return found, parse_profile(found.to_yaml(), name="ours")


@pytest.mark.parametrize("name", [*EXPORTERS, *CLIENTS])
def test_a_draft_names_half_of_what_a_person_would_and_nothing_else(name: str) -> None:
    """A wrong mapping is worse than none."""
    wanted = {**EXPORTERS, **CLIENTS}[name]
    _, profile = drafted(name)
    metrics = {signal: rule.metric for signal, rule in profile.signals.items()}
    assert metrics.items() <= wanted.items()
    assert 2 * len(metrics) >= len(wanted)


@pytest.mark.parametrize("name", sorted(EXPORTERS.keys() - {"echojc_offset_exporter"}))
def test_the_draft_of_an_exporter_gives_a_lag(name: str) -> None:
    """By partition, as it is or by the offsets."""
    _, profile = drafted(name)
    rule = profile.signals.get("consumer_lag") or profile.signals["committed_offset"]
    assert {"topic", "partition"} <= rule.labels.keys()
    assert {"group", "member"} & rule.labels.keys()


def test_what_names_no_member_is_its_targets() -> None:
    """A service that tells neither group nor client is known by where it runs, and the draft says what to add."""
    found, profile = drafted("jaeger_ingester")
    assert {rule.labels["member"] for rule in profile.signals.values()} == {"instance"}
    assert "name that of each instance in workbench.toml, members" in found.to_yaml()


def test_a_handlers_event_types_are_told_apart() -> None:
    """By the label of the handler, of the job, of the operation; rather than a batch of all of them."""
    labels = {name: drafted(name)[1].signals["process_time"].labels for name in ("watermill", "kafkajs_exporter")}
    assert [it["processor"] for it in labels.values()] == ["handler_name", "job_type"]


def test_units_are_those_of_the_client_or_said_to_be_unknown() -> None:
    """librdkafka's round trips are in µs and its throttling in ms, without a word of it in their names."""
    _, profile = drafted("node_rdkafka")
    assert (profile.signals["broker_rtt"].scale, profile.signals["throttle_time"].scale) == (1e-6, 0.001)
    assert drafted("posthog_consumer")[1].signals["process_time"].scale == 0.001
    assert "no unit" in drafted("jaeger_ingester")[1].signals["process_time"].note


def test_a_name_that_carries_its_group_tells_it() -> None:
    """Of the process, with all that it exports: nobody has to name the group of each instance."""
    found, profile = drafted("sarama_expvar")
    assert profile.signals["rebalances"].labels == {"group": "group", "member": "instance"}
    assert "members = " not in found.to_yaml()
    assert "members = " in drafted("kafka_python")[0].to_yaml()


def test_a_name_that_carries_a_broker_means_brokers_alone() -> None:
    """And no connection that a client makes before it knows their numbers."""
    _, profile = drafted("kafka_python")
    rtt = profile.meaning("kafka_consumer_node_metrics_node_1_request_latency_avg", {"instance": "a:1"})
    assert rtt is not None and (rtt.signal, rtt.labels["broker"], rtt.scale) == ("broker_rtt", "1", 0.001)
    for other in ("bootstrap_0", "coordinator_1"):
        assert (
            profile.meaning(f"kafka_consumer_node_metrics_node_{other}_request_latency_avg", {"instance": "a:1"})
            is None
        )


def test_a_topic_of_other_metrics_is_known_in_a_name() -> None:
    """With the number of a partition after it; the words of the name itself are no topic."""
    labels = {"instance": "a:1", "job": "x"}
    page = {
        "shop_orders_dead_3_records_lag": [labels],
        "shop_orders_4_records_lag": [labels],
        "kafka_consumergroup_offset": [{**labels, "group": "g", "topic": "orders.dead", "partition": "3"}],
    }
    rule = draft("ours", page).signals["consumer_lag"].rule
    assert rule["metric"] == "shop_{topic}_{partition}_records_lag"
    del page["kafka_consumergroup_offset"]
    assert "consumer_lag" not in draft("ours", page).signals


def test_how_attempts_ended_is_read_where_a_counter_tells() -> None:
    """A counter with an outcome counts what was done; words that are not ours make it a proxy."""
    labels = {"instance": "a:1", "job": "x", "__name__": "shop_orders_total"}
    page = {"shop_messages_total": [{**labels, "status": "ok"}], "shop_seconds_total": [{**labels, "status": "ok"}]}
    rule = parse_profile(draft("ours", page).to_yaml(), name="ours").signals["processed"]
    assert (rule.metric, rule.stat_label, str(rule.quality)) == ("shop_messages_total", "status", "exact")
    other = draft("ours", {"shop_messages_total": [{**labels, "result": "acked"}]})
    assert "its words for the outcome are its own" in other.to_yaml()
    assert other.signals["processed"].rule["quality"] == "proxy"


def test_a_replicas_lag_is_no_consumers() -> None:
    """A broker's own fetchers have client ids too."""
    labels = {"topic": "orders", "partition": "3", "clientId": "ReplicaFetcherThread-0-1"}
    page = {"kafka_server_fetcherlagmetrics_consumerlag": [labels], "kafka_replica_lag": [labels]}
    assert not draft("ours", page).signals


def of_jobs(*names: str) -> Seen:
    """What a Prometheus shows that scrapes these pages, each as a job of its name."""
    found: dict[str, list[dict[str, str]]] = {}
    for name in names:
        for metric, series in seen(name).items():
            found.setdefault(metric, []).extend({**labels, "job": name} for labels in series)
    return found


def test_two_services_are_not_mixed() -> None:
    """Of several jobs, the lag comes from who sees the groups, and the work from one service; the others are named."""
    page = of_jobs("franz_go_kprom", "kafkajs_exporter", "node_rdkafka", "kafka_minion_1")
    found = draft("ours", page)
    metrics = {signal: str(it.rule["metric"]) for signal, it in found.signals.items()}
    assert {it: metrics[it] for it in EXPORTERS["kafka_minion_1"]} == EXPORTERS["kafka_minion_1"]
    own = metrics.keys() - EXPORTERS["kafka_minion_1"].keys()
    assert {it: metrics[it] for it in own}.items() <= CLIENTS["node_rdkafka"].items()
    assert "fetch_queue_length" in own
    assert found.jobs == ("franz_go_kprom", "kafkajs_exporter")
    assert "jobs franz_go_kprom, kafkajs_exporter. Draft each with --job." in found.to_yaml()


def test_a_prometheus_tells_nothing_of_consumers() -> None:
    """Queues and durations of any program are no work of a consumer; an exporter beside them is drafted alone."""
    labels = {"job": "prometheus", "instance": "10.0.0.5:9090"}
    others = (
        *("prometheus_notifications_queue_length", "prometheus_notifications_queue_capacity"),
        *("prometheus_tsdb_compaction_duration_seconds_sum", "prometheus_tsdb_compaction_duration_seconds_count"),
        "process_start_time_seconds",
    )
    page = {**of_jobs("mbode_lag_exporter"), **{name: [{"__name__": name, **labels}] for name in others}}
    metrics = {signal: it.rule["metric"] for signal, it in draft("ours", page).signals.items()}
    assert metrics == EXPORTERS["mbode_lag_exporter"]
    assert not draft("ours", {name: page[name] for name in others}).signals


def test_a_comment_of_a_draft_stays_one() -> None:
    """Whatever a server calls its jobs."""
    page = of_jobs("franz_go_kprom", "watermill")
    odd = {
        metric: [{**it, "job": it["job"] + "\nsignals: {time_lag: 1}\x1b[2J"} for it in series]
        for metric, series in page.items()
    }
    text = draft("ours", odd).to_yaml()
    assert "Draft each with --job" in text
    assert "\x1b" not in text and "\nsignals: {t" not in text
    assert parse_profile(text, name="ours").signals
