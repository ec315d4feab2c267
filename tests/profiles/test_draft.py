"""Drafts of profiles for exporters that the drafter has no names of: at most two corrections each."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from tests.profiles.pages import PAGES
from workbench.cli import root
from workbench.collect.samples_from_prometheus import PrometheusSource
from workbench.profiles import LeftOut, Quality, load_profile, parse_profile
from workbench.profiles.draft_services import matcher_of
from workbench.profiles.labels_in_metric_names import places, read
from workbench.profiles.profile_draft import Seen, draft, interesting

# Whole exporters; pages of single features (a group's state) are no drafts.
EXPORTERS = (
    "kafka_exporter",
    "kafka_exporter_fork",
    "kminion",
    "klag_exporter",
    "klag",
    "kafka_lag_exporter",
    "burrow",
    "kafbat",
    "otel_kafkametrics",
    "redpanda",
    "micrometer",
    "jmx_exporter_plain",
    "strimzi_reporter",
    "faust",
    "aiven",
)


def seen(page: str) -> Seen:
    """What a Prometheus that scrapes this page would show."""
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = {"__name__": sample.name, "instance": "a:1", "job": "x", **sample.labels}
            found.setdefault(sample.name, []).append(labels)
    return {name: found[name] for name in interesting(found)}


def _same(name: str, metric: str) -> bool:
    """Whether a metric is one of this name, which may have places: a draft has the metric of one application."""
    return name == metric or (bool(places(name)) and read(name, metric) is not None)


def corrections(name: str) -> list[str]:
    """What a person would have to change in the draft: a wrong or missing metric, a wrong label, a signal too many."""
    right, drafted = load_profile(name), parse_profile(draft("ours", seen(PAGES[name])).to_yaml(), name="ours")
    wrong = []
    for signal in sorted({*right.signals, *drafted.signals}):
        wanted, got = right.signals.get(signal), drafted.signals.get(signal)
        if wanted is None or got is None or not any(_same(it, got.metric) for it in wanted.metrics):
            wrong.append(f"{signal}: {got.metric if got else None} instead of {wanted.metric if wanted else None}")
            continue
        labels = ("group", "topic", "partition")
        differ = [it for it in labels if wanted.labels.get(it) != got.labels.get(it)]
        if differ or wanted.scale != got.scale:
            wrong.append(f"{signal}: {differ or got.scale}")
    return wrong


@pytest.mark.parametrize("name", EXPORTERS)
def test_a_draft_needs_at_most_two_corrections(name: str) -> None:
    """Compared with the profile that a person wrote from the exporter's source."""
    assert len(corrections(name)) <= 2, corrections(name)


STRANGE = """
acme_stream_consumer_backlog_lag_records{cg_name="pay",kafka_topic="orders",shard="3"} 4
acme_stream_group_position_offset{cg_name="pay",kafka_topic="orders",shard="3"} 9
"""


def test_what_is_missing_is_said_with_the_reason() -> None:
    """A metric whose labels do not tell, or none at all."""
    found = draft("ours", seen(STRANGE))
    assert "no label of it looks like partition" not in found.to_yaml()
    assert "log_end_offset" in found.missing
    assert "heartbeat_age" in found.missing
    text = found.to_yaml()
    assert "# log_end_offset: no metric looks like" in text
    parse_profile(text, name="ours")


def test_nothing_is_drafted_from_nothing() -> None:
    """A Prometheus without any consumer."""
    found = draft("ours", seen("up 1\nnode_load1 0.5\nprocess_cpu_seconds_total 4\nprocess_start_time_seconds 1\n"))
    assert found.signals == {}


# Exporters and services without a shipped profile; names as in their sources. Signal to (metric, labels of the rule).
OTHERS = {
    "telegraf's burrow input": (
        """
burrow_partition_lag{cluster="main",group="audit",topic="trail",partition="3",owner="10.0.0.4",host="tg-1"} 4
burrow_partition_offset{cluster="main",group="audit",topic="trail",partition="3",owner="10.0.0.4",host="tg-1"} 96
burrow_partition_timestamp{cluster="main",group="audit",topic="trail",partition="3",owner="10.0.0.4",host="tg-1"} 1e12
burrow_topic_offset{cluster="main",topic="trail",partition="3",host="tg-1"} 100
""",
        {
            "consumer_lag": ("burrow_partition_lag", {"group": "group", "topic": "topic", "partition": "partition"}),
            "committed_offset": (
                "burrow_partition_offset",
                {"group": "group", "topic": "topic", "partition": "partition"},
            ),
            "log_end_offset": ("burrow_topic_offset", {"topic": "topic", "partition": "partition"}),
        },
    ),
    "OTLP": (
        """
kafka_consumer_group_lag_ratio{group="audit",topic="trail",partition="3"} 4
kafka_consumer_group_lag_sum_ratio{group="audit",topic="trail"} 4
kafka_consumer_group_offset_ratio{group="audit",topic="trail",partition="3"} 96
kafka_partition_current_offset_ratio{topic="trail",partition="3"} 100
kafka_partition_oldest_offset_ratio{topic="trail",partition="3"} 0
kafka_consumer_group_members_ratio{group="audit"} 2
""",
        {
            "consumer_lag": (
                "kafka_consumer_group_lag_ratio",
                {"group": "group", "topic": "topic", "partition": "partition"},
            ),
            "committed_offset": (
                "kafka_consumer_group_offset_ratio",
                {"group": "group", "topic": "topic", "partition": "partition"},
            ),
            "log_end_offset": ("kafka_partition_current_offset_ratio", {"topic": "topic", "partition": "partition"}),
            "log_start_offset": ("kafka_partition_oldest_offset_ratio", {"topic": "topic", "partition": "partition"}),
            "group_members": ("kafka_consumer_group_members_ratio", {"group": "group"}),
        },
    ),
    "CloudWatch by YACE": (
        """
aws_kafka_offset_lag_maximum{dimension_Consumer_Group="audit",dimension_Topic="trail",dimension_Partition="3",region="eu"} 4
aws_kafka_max_offset_lag_maximum{dimension_Consumer_Group="audit",dimension_Topic="trail",region="eu"} 4
""",
        {
            "consumer_lag": (
                "aws_kafka_offset_lag_maximum",
                {"group": "dimension_Consumer_Group", "topic": "dimension_Topic", "partition": "dimension_Partition"},
            )
        },
    ),
    "CloudWatch's sums": (
        """
aws_kafka_sum_offset_lag_average{dimension_Consumer_Group="audit",dimension_Topic="trail",region="eu"} 4
""",
        {
            "consumer_lag": (
                "aws_kafka_sum_offset_lag_average",
                {"group": "dimension_Consumer_Group", "topic": "dimension_Topic"},
            )
        },
    ),
    "sums alone": (
        """
kafka_consumergroup_lag_sum{consumergroup="audit",topic="trail"} 4
kafka_consumergroup_members{consumergroup="audit"} 4
""",
        {
            "consumer_lag": ("kafka_consumergroup_lag_sum", {"group": "consumergroup", "topic": "topic"}),
            "group_members": ("kafka_consumergroup_members", {"group": "consumergroup"}),
        },
    ),
    "Spring Cloud Stream": (
        """
spring_cloud_stream_binder_kafka_offset{group="audit",topic="trail",application="audit-svc"} 4
""",
        {"consumer_lag": ("spring_cloud_stream_binder_kafka_offset", {"group": "group", "topic": "topic"})},
    ),
    "Vector": (
        """
vector_kafka_consumer_lag{component_id="audit_in",component_kind="source",topic_id="trail",partition_id="3",host="v-0"} 4
""",
        {
            "consumer_lag": (
                "vector_kafka_consumer_lag",
                {"topic": "topic_id", "partition": "partition_id", "member": "component_id"},
            )
        },
    ),
    "a service of one's own": (
        """
audit_duration_seconds_bucket{event_type="login",pod="audit-0",le="1"} 4
audit_duration_seconds_sum{event_type="login",pod="audit-0"} 2
audit_duration_seconds_count{event_type="login",pod="audit-0"} 4
audit_handled_total{event_type="login",pod="audit-0"} 4
process_start_time_seconds{pod="audit-0"} 1.7e9
consumer_heartbeat_total{pod="audit-0"} 9
consumer_heartbeat_response_time_seconds_bucket{pod="audit-0",le="1"} 9
producer_buffer_queue_size{pod="audit-0"} 7
producer_messages_processed_total{pod="audit-0"} 7
consumer_fetched_messages_total{pod="audit-0"} 7
http_request_duration_seconds_bucket{pod="audit-0",le="1"} 7
""",
        {
            "process_time": ("audit_duration_seconds", {"member": "pod", "processor": "event_type"}),
            "processed": ("audit_handled_total", {"member": "pod", "processor": "event_type"}),
            "deserialized": ("consumer_fetched_messages_total", {"member": "pod"}),
            "start_time": ("process_start_time_seconds", {"member": "pod"}),
        },
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_draft_of_another_exporter_is_usable(name: str) -> None:
    """Each signal by the metric and the labels that a person would choose, and no other: no heartbeat, and nothing of a producer."""
    page, wanted = OTHERS[name]
    drafted = parse_profile(draft("ours", seen(page)).to_yaml(), name="ours")
    assert {signal: (rule.metric, rule.labels) for signal, rule in drafted.signals.items()} == wanted
    lag = drafted.signals.get("consumer_lag")
    assert lag is None or (lag.quality is Quality.PROXY) == (not {"group", "partition"} <= lag.labels.keys())


def test_the_start_of_an_exporter_is_not_that_of_a_member() -> None:
    """Every program tells when it began; a member's is one that also tells of its work."""
    page = """
kafka_consumergroup_lag{consumergroup="pay",topic="orders",partition="3"} 4
process_start_time_seconds 1.7e9
"""
    found = draft("ours", seen(page))
    assert "start_time" not in found.signals
    assert "tells of no work of a consumer" in found.missing["start_time"]


def test_what_could_not_be_mapped_is_said_with_the_reason() -> None:
    """By metric, with the labels that are there."""
    page = """
keda_scaler_metrics_value{metric="s0-kafka-trail",scaledObject="audit",scaler="kafkaScaler"} 7
pulsar_subscription_back_log{namespace="shop/prod",topic="persistent://shop/prod/trail-partition-3",subscription="audit"} 7
"""
    found = draft("ours", seen(page))
    assert found.signals == {}
    assert found.left["keda_scaler_metrics_value"] == (
        "no label looks like group, topic, partition (there are: metric, scaledObject, scaler)"
    )
    assert "pulsar_subscription_back_log" in found.left
    assert "# Not used: keda_scaler_metrics_value" in found.to_yaml()


@pytest.mark.parametrize(
    ("page", "code", "says"),
    [
        (OTHERS["OTLP"][0], 0, "Check it with"),
        (
            'keda_scaler_metrics_value{metric="s0-kafka-trail"} 7',
            4,
            "keda_scaler_metrics_value: no label looks like group",
        ),
    ],
)
def test_the_command_looks_at_an_instant_and_writes_no_empty_draft(
    page: str, code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--at`: names and examples of that time. What cannot be mapped is no file that somebody should check."""
    asked: list[datetime | None] = []

    def names(_self: object, *, at: datetime | None = None) -> frozenset[str]:
        asked.append(at)
        return frozenset(seen(page))

    def recent(
        _self: object, _names: object, *, most: int = 1, each: str | None = None, at: datetime | None = None
    ) -> Seen:
        asked.append(at)
        return seen(page)

    monkeypatch.setattr(PrometheusSource, "names", names)
    monkeypatch.setattr(PrometheusSource, "recent", recent)
    output = tmp_path / "ours.yaml"
    words = ["profiles", "new", "--url", "http://127.0.0.1:9", "--at", "2026-11-21T03:00:00Z", "--output", str(output)]
    result = CliRunner().invoke(root, words, standalone_mode=False)
    assert result.return_value == code
    assert asked == [datetime(2026, 11, 21, 3, tzinfo=UTC)] * 2
    assert says in result.output
    assert output.exists() == (code == 0)
    assert ("Check it with" in result.output) == (code == 0)
    assert ("profiles check --url http://127.0.0.1:9 --at 2026-11-21T03:00:00Z" in result.output) == (code == 0)


def test_a_draft_of_one_job_asks_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--job` beside what the settings match; examples come from each job, so that a common name hides none."""
    asked: list[tuple[dict[str, str], str | None]] = []
    monkeypatch.setattr(PrometheusSource, "names", lambda _self, *, at=None: frozenset(seen(OTHERS["OTLP"][0])))

    def recent(self: PrometheusSource, _names: object, *, most: int, each: str, at: object) -> Seen:
        asked.append((dict(self.addresses[0].match or {}), each))
        return seen(OTHERS["OTLP"][0])

    monkeypatch.setattr(PrometheusSource, "recent", recent)
    words = ["profiles", "new", "--url", "http://127.0.0.1:9", "--job", "payments"]
    result = CliRunner().invoke(root, words, standalone_mode=False)
    assert result.return_value == 0
    assert asked == [({"job": "payments"}, "job")]
    words = [*words[:4], "--match", "pod=~payments-.*", "--match", "env!=test", "--match", "zone=a=b"]
    assert CliRunner().invoke(root, words, standalone_mode=False).return_value == 0
    assert asked[1][0] == {"pod": "=~payments-.*", "env": "!=test", "zone": "a=b"}
    for wrong, said in (("pod", "is no LABEL=VALUE"), ("1=x", "is not a label"), ("pod=~[", "not a valid pattern")):
        refused = CliRunner().invoke(root, [*words[:4], "--match", wrong], standalone_mode=False)
        assert said in str(refused.exception)


def test_what_is_of_consumer_groups_is_no_process_s_own() -> None:
    """Its label `name` is the group's; without a label of one, it is not read as the host's that tells it, of all groups at once."""
    lag = "kafka_consumer_group_rep_lag"
    named = draft("ours", seen(f'{lag}{{name="pay",topic="orders",partition="3",host="k-1"}} 4'))
    assert named.signals["consumer_lag"].labels == {"group": "name", "topic": "topic", "partition": "partition"}
    assert named.member_is == "member"
    nameless = draft("ours", seen(f'{lag}{{topic="orders",partition="3",host="k-1"}} 4'))
    assert nameless.signals == {}
    assert nameless.left[lag] == "no label looks like group (there are: host, partition, topic)"
    process = draft("ours", seen('acme_reader_lag_records{name="x",topic="orders",partition="3",host="a-1"} 4'))
    assert process.signals["consumer_lag"].labels["member"] == "host", "a name may be anything's"


def test_the_draft_of_a_client_leaves_out_its_own_partition() -> None:
    """Clients made with librdkafka tell -1 beside the partitions of a topic: else each answer would be incomplete."""
    page = """
vector_kafka_consumer_lag{component_id="in",topic_id="orders",partition_id="-1"} -1
vector_kafka_consumer_lag{component_id="in",topic_id="orders",partition_id="3"} 4
"""
    drafted = parse_profile(draft("ours", seen(page)).to_yaml(), name="ours")
    left_out = LeftOut()
    told = {"component_id": "in", "topic_id": "orders"}
    for profile in (drafted, load_profile("vector_kafka")):
        lag = "vector_kafka_consumer_lag"
        assert profile.meaning(lag, {**told, "partition_id": "3"}, left_out=left_out) is not None
        assert profile.meaning(lag, {**told, "partition_id": "-1"}, left_out=left_out) is None
    assert left_out.words() == []


# Pages of services with names of their own, recorded from real ones on confluent-kafka and prometheus_client.
_OF_EVERY_PROCESS = """
process_virtual_memory_bytes 9.4e+08
process_resident_memory_bytes 6.3e+07
process_start_time_seconds 1.79609138191e+09
process_cpu_seconds_total 0.96
process_open_fds 14.0
process_max_fds 20000.0
"""
CAMEL_CASE = """
messageHandleTime_count{consumerGroup="billing",topicName="events"} 203.0
messageHandleTime_sum{consumerGroup="billing",topicName="events"} 2.1032087610365124
messagesProcessed{consumerGroup="billing",topicName="events"} 203.0
messagesFailed{consumerGroup="billing",topicName="events"} 0.0
lastPollTimestampSeconds{consumerGroup="billing"} 1.7960913827078414e+09
"""
TWO_STAGES = """
process_time_seconds_count{stage="parse"} 219.0
process_time_seconds_sum{stage="parse"} 0.1471435789426323
process_time_seconds_count{stage="store"} 215.0
process_time_seconds_sum{stage="store"} 5.536726629914483
records_ok_total 215.0
records_failed_total 0.0
worker_pool_queue_length 3.0
"""
MILLISECONDS = """
checkout_handler_duration_milliseconds_count{queue="events",handler="order"} 120.0
checkout_handler_duration_milliseconds_sum{queue="events",handler="order"} 812.5
checkout_events_total{queue="events",outcome="success"} 120.0
"""


def test_names_in_camel_case_are_read_in_words() -> None:
    """A timer, counters that end with no `_total`, one for each outcome; a timestamp is no age."""
    signals = draft("ours", seen(_OF_EVERY_PROCESS + CAMEL_CASE)).signals
    assert signals["process_time"].rule["metric"] == "messageHandleTime"
    assert signals["process_time"].labels == {"group": "consumerGroup", "topic": "topicName", "member": "instance"}
    assert signals["processed"].rule["parts"] == {"ok": "messagesProcessed", "failed": "messagesFailed"}
    assert "poll_age" not in signals


def test_what_every_process_tells_is_no_namespace() -> None:
    """A small page has more of `process_…` than of its own: `process_time_seconds` is a time of processing all the same."""
    signals = draft("ours", seen(_OF_EVERY_PROCESS + TWO_STAGES)).signals
    assert signals["process_time"].rule["metric"] == "process_time_seconds"
    assert signals["processed"].rule["parts"] == {"ok": "records_ok_total", "failed": "records_failed_total"}
    assert {"start_time", "queue_length"} <= signals.keys()


def test_failures_are_in_a_draft_before_any_attempt_has_failed() -> None:
    """A service whose words for outcomes are usual ones: what it counts as an error later is a failure."""
    text = draft("ours", seen(_OF_EVERY_PROCESS + MILLISECONDS)).to_yaml()
    rule = parse_profile(text, name="ours").signals["processed"]
    told = {it: rule.kind_of(it) for it in ("success", "error", "FAILED")}
    assert told == {"success": "ok", "error": "failed", "FAILED": "failed"}


@pytest.mark.parametrize("first", ["success", "retried", "stored"])
def test_words_for_outcomes_are_read_in_all_their_forms(first: str) -> None:
    """A pipeline that counts its rows as retried, whichever of its words the page had when the profile was drafted."""
    page = seen(_OF_EVERY_PROCESS + MILLISECONDS.replace('"success"', f'"{first}"'))
    rule = parse_profile(draft("ours", page).to_yaml(), name="ours").signals["processed"]
    told = {it: rule.kind_of(it) for it in ("ok", "retried", "timed_out", "dead_lettered", "Skipped")}
    assert list(told.values()) == ["ok", "retry", "timeout", "dead", "skip"]


def test_a_process_s_own_is_not_left_out_because_other_pods_were_looked_at() -> None:
    """A few series of each metric are read, the largest: of a service with many pods, those of other pods each time."""
    page = seen(MILLISECONDS)
    started = [{"__name__": "process_start_time_seconds", "instance": f"{it}:1", "job": "x"} for it in "bcd"]
    assert "start_time" not in draft("ours", {**page, "process_start_time_seconds": started}).signals
    assert "not all" in str(
        draft("ours", {**page, "process_start_time_seconds": started}, most=3).signals["start_time"].rule["note"]
    )


def test_a_team_s_own_words_for_what_it_times_counts_and_queues_are_read() -> None:
    """As a pool behind a channel has them; a timer that tells how attempts ended counts them, too."""
    target = {"job": "house", "instance": "a:1", "pod": "a"}
    timed = {**target, "topic": "t", "result": "ok"}
    page = {f"orders_worker_msg_seconds_{it}": [timed] for it in ("sum", "count")}
    page |= {
        "orders_worker_msg_seconds_bucket": [{**timed, "le": "1"}],
        "orders_worker_chan_len": [target],
        "orders_worker_busy": [target],
    }
    page |= {"mailer_http_seconds_count": [{**target, "code": "200"}]}
    signals = {it: of.rule for it, of in draft("ours", page).signals.items()}
    assert {it: rule["metric"] for it, rule in signals.items()} == {
        "processed": "orders_worker_msg_seconds_count",
        "process_time": "orders_worker_msg_seconds",
        "queue_length": "orders_worker_chan_len",
        "in_flight": "orders_worker_busy",
    }
    assert signals["processed"]["stat_label"] == "result"
    rule = parse_profile(draft("ours", page).to_yaml(), name="ours").signals["processed"]
    assert [rule.kind_of(it) for it in ("ok", "error", "retry", "Dropped")] == [
        "ok",
        "failed",
        "retry",
        "Dropped",
    ]


# Recorded from a worker on Rust's rdkafka with channels and tasks.
CHANNELS = """
ingest_busy_tasks 2
ingest_channel_capacity{task="0"} 64
ingest_channel_capacity{task="1"} 64
ingest_channel_len{task="0"} 3
ingest_channel_len{task="1"} 0
ingest_events_total{kind="coupon",outcome="done"} 708
ingest_events_total{kind="payout",outcome="done"} 558
ingest_handle_seconds_sum{kind="coupon"} 16.77
ingest_handle_seconds_count{kind="coupon"} 708
ingest_kafka_consumer_lag{partition="0",topic="events"} 0
ingest_kafka_rebalance_cnt 1
"""


@pytest.mark.parametrize("prefix", ["ingest", "app_consumer"])
def test_what_is_called_as_usual_is_looked_at_whatever_it_begins_with(prefix: str) -> None:
    """A channel is a queue; events that ended are not those that were taken, also where the name says consumer."""
    signals = draft("ours", seen(_OF_EVERY_PROCESS + CHANNELS.replace("ingest", prefix))).signals
    metrics = {it: of.rule["metric"] for it, of in signals.items()}
    wanted = {"queue_length": "channel_len", "in_flight": "busy_tasks"}
    wanted |= {"process_time": "handle_seconds", "processed": "events_total"}
    assert {it: f"{prefix}_{name}" for it, name in wanted.items()}.items() <= metrics.items()
    assert signals["process_time"].labels["processor"] == signals["processed"].labels["processor"] == "kind"
    assert not {"deserialized", "queue_capacity"} & metrics.keys()


def test_a_house_s_steps_and_rows_are_a_consumer_s_work() -> None:
    """Recorded from a pipeline on Quix Streams: no metric has a word of Kafka's, and neither the library nor its client exports any."""
    page = """
etl_step_seconds_count{step="enrich"} 2181.0
etl_step_seconds_sum{step="enrich"} 5.79
etl_step_seconds_count{step="count"} 2181.0
etl_step_seconds_sum{step="count"} 0.19
etl_rows_total{result="ok"} 2181.0
etl_checkpoints_total 0.0
"""
    signals = draft("ours", seen(_OF_EVERY_PROCESS + page)).signals
    assert {it: of.rule["metric"] for it, of in signals.items()} == {
        "start_time": "process_start_time_seconds", "processed": "etl_rows_total", "process_time": "etl_step_seconds",
    }  # fmt: skip
    assert signals["process_time"].labels == {"member": "instance", "processor": "step"}


def test_a_pool_of_threads_tells_what_waits_and_what_is_done() -> None:
    """As Micrometer names an executor's; and librdkafka's statistics of a team's own names."""
    pool, client = {"instance": "a:1", "name": "billing-pool"}, {"instance": "a:1", "broker": "1"}
    page = {"executor_queued_tasks": [pool], "executor_active_threads": [pool], "tomcat_threads_busy_threads": [pool]}
    page |= {
        "orders_kafka_broker_rtt_ms": [client],
        "orders_kafka_fetchq_messages": [{"instance": "a:1", "topic": "t"}],
    }
    page |= {"orders_messages_handled_seconds_count": [{"instance": "a:1", "topic": "t"}]}
    found = {
        it: of.rule["metric"] for it, of in draft("ours", {it: page[it] for it in interesting(page)}).signals.items()
    }
    wanted = {"queue_length": "executor_queued_tasks", "in_flight": "executor_active_threads"}
    wanted |= {"broker_rtt": "orders_kafka_broker_rtt_ms", "fetch_queue_length": "orders_kafka_fetchq_messages"}
    assert wanted.items() <= found.items()
    assert "processed" not in found  # it does not tell how they ended


def test_services_of_one_job_are_not_mixed() -> None:
    """Whose handlers are timed under another name, elsewhere, is another service: it is named, with what would draft its own."""
    orders, mailer, exporter = ({"job": "house", "instance": it, "pod": it} for it in ("orders-1", "mailer-1", "lag-0"))
    page = {"orders_process_seconds_count": [{**orders, "topic": "t"}], "orders_in_flight": [orders]}
    page |= {"mail_process_seconds_count": [{**mailer, "topic": "m"}], "mailer_busy_workers": [mailer]}
    page |= {"process_start_time_seconds": [orders, mailer], "orders_queue_length": [orders]}
    position = {**exporter, "consumergroup": "g", "topic": "t", "partition": "0"}
    page |= {"kafka_consumergroup_lag": [position], "kafka_consumergroup_current_offset": [position]}
    found = draft("ours", page, most=3)
    metrics = {it: of.rule["metric"] for it, of in found.signals.items()}
    assert {it: metrics[it] for it in ("process_time", "in_flight", "queue_length", "consumer_lag")} == {
        "process_time": "orders_process_seconds",
        "in_flight": "orders_in_flight",
        "queue_length": "orders_queue_length",
        "consumer_lag": "kafka_consumergroup_lag",
    }
    assert (
        "tell mail_process_seconds, and are not in this draft. Draft theirs with --match 'pod=~mailer-1'"
        in found.to_yaml()
    )
    assert "--job" not in found.to_yaml()


def test_a_matcher_of_addresses_is_of_these_alone() -> None:
    """A dot is any letter in a pattern, and `10.*` would be everybody."""
    page = {"a_process_seconds_count": [{"instance": it} for it in ("10.0.0.2:80", "10.0.0.1:80")]}
    assert matcher_of(page, "a_process_seconds") == r"instance=~10\.0\.0\.1:80|10\.0\.0\.2:80"
    assert matcher_of({"a_process_seconds_count": [{}]}, "a_process_seconds") == "LABEL=VALUE"


def test_what_is_not_wholly_seen_tells_no_services_apart() -> None:
    """Of a service with many pods, each metric may have been looked at in other ones."""
    pods = [{"job": "house", "instance": f"orders-{at}", "topic": "t"} for at in range(4)]
    page = {"orders_process_seconds_count": pods[:2], "orders_handle_seconds_count": pods[2:]}
    assert draft("ours", page, most=2).services == {}
    assert len(draft("ours", page).services) == 1
