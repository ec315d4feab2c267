# ruff: noqa: E501 - a line of a page is as long as it is
"""What each exporter's page looks like: names and labels as in its source or documentation, a few lines of each kind, and its pitfalls.

`EXPECTED` names what must come out of some lines: (signal, labels that matter, value in the signal's unit; None for "no value").
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_G = 'consumergroup="pay",topic="orders",partition="3"'
_KLE = 'cluster_name="prod",group="pay",topic="orders",partition="3",member_host="10.0.0.1",consumer_id="c-1",client_id="pay-0"'


def _client(
    fetch: str, coordinator: str, consumer: str, label: str, *, collision: bool = False, start: str = ""
) -> str:
    own = f'{label}="pay-0"'
    partition = f'{own},topic="orders",partition="3"'
    lag = f"{fetch}_records_lag{{{partition}}} 120\n"
    if collision:  # the maximum comes under the same name; only _objectname tells
        lag = (
            f'{fetch}_records_lag{{{partition},_objectname="kafka.consumer:attr=records-lag"}} 120\n'
            f'{fetch}_records_lag{{{partition},_objectname="kafka.consumer:attr=records-lag-max"}} 990\n'
        )
    return (
        f"{lag}{coordinator}_rebalance_total{{{own}}} 4\n{coordinator}_last_heartbeat_seconds_ago{{{own}}} 1\n"
        f"{consumer}_last_poll_seconds_ago{{{own}}} 0.5\n{consumer}_poll_idle_ratio_avg{{{own}}} 0.9\n{fetch}_fetch_latency_avg{{{own}}} 503\n"
        f"{fetch}_fetch_throttle_time_avg{{{own}}} 20\n"
    ) + (f"{start}\n" if start else "")


def _recorded(name: str) -> str:
    return Path(__file__).with_name("recorded").joinpath(f"{name}.txt").read_text(encoding="utf-8")


_PLAIN = (
    "kafka_consumer_consumer_fetch_manager_metrics",
    "kafka_consumer_consumer_coordinator_metrics",
    "kafka_consumer_consumer_metrics",
)
_SHORT = ("kafka_consumer_fetch_manager", "kafka_consumer_coordinator", "kafka_consumer")

PAGES: dict[str, str] = {
    "jmx_kafka_broker": _recorded("broker_plain_agent_1_0_1"),
    "kafka_exporter": f"""
kafka_consumergroup_lag{{{_G}}} 120
kafka_consumergroup_lag{{consumergroup="pay",topic="orders",partition="4"}} -1
kafka_consumergroup_lag_sum{{consumergroup="pay",topic="orders"}} 119
kafka_consumergroup_current_offset{{{_G}}} 880
kafka_topic_partition_current_offset{{topic="orders",partition="3"}} 1000
kafka_topic_partition_oldest_offset{{topic="orders",partition="3"}} 10
kafka_consumergroup_members{{consumergroup="pay"}} 2
kafka_brokers 3
""",
    "kafka_exporter_fork": f"""
kafka_consumergroup_uncommitted_offsets{{{_G}}} 120
kafka_consumergroup_uncommitted_offsets_sum{{consumergroup="pay",topic="orders"}} 120
kafka_consumergroup_current_offset{{{_G}}} 880
kafka_topic_partition_current_offset{{topic="orders",partition="3"}} 1000
kafka_topic_partition_oldest_offset{{topic="orders",partition="3"}} 10
kafka_consumergroup_members{{consumergroup="pay"}} 2
kafka_consumer_lag_millis{{{_G}}} 4500
""",
    "kminion": """
kminion_exporter_up{version="v2"} 1
kminion_kafka_consumer_group_topic_partition_lag{group_id="pay",topic_name="orders",partition_id="3"} 120
kminion_kafka_consumer_group_topic_lag{group_id="pay",topic_name="orders"} 120
kminion_kafka_topic_partition_high_water_mark{topic_name="orders",partition_id="3"} 1000
kminion_kafka_topic_partition_low_water_mark{topic_name="orders",partition_id="3"} 10
kminion_kafka_consumer_group_members{group_id="pay"} 2
kminion_kafka_consumer_group_info{group_id="pay",protocol="range",protocol_type="consumer",state="Stable",coordinator_id="1"} 1
kminion_kafka_consumer_group_info{group_id="old",protocol="range",protocol_type="consumer",state="PreparingRebalance",coordinator_id="1"} 1
""",
    "kafka_lag_exporter": f"""
kafka_consumergroup_group_lag{{{_KLE}}} 120
kafka_consumergroup_group_lag{{cluster_name="prod",group="pay",topic="orders",partition="4",client_id="pay-0"}} NaN
kafka_consumergroup_group_offset{{{_KLE}}} 880
kafka_consumergroup_group_lag_seconds{{{_KLE}}} 4.5
kafka_consumergroup_group_lag_seconds{{cluster_name="prod",group="pay",topic="orders",partition="4",client_id="pay-0"}} +Inf
kafka_partition_latest_offset{{cluster_name="prod",topic="orders",partition="3"}} 1000
kafka_partition_earliest_offset{{cluster_name="prod",topic="orders",partition="3"}} 10
""",
    "klag_exporter": f"""
kafka_consumergroup_group_lag{{{_KLE}}} 120
kafka_consumergroup_group_offset{{{_KLE}}} 880
kafka_consumergroup_group_lag_seconds{{{_KLE}}} 4.5
kafka_partition_latest_offset{{cluster_name="prod",topic="orders",partition="3"}} 1000
kafka_partition_earliest_offset{{cluster_name="prod",topic="orders",partition="3"}} 10
kafka_consumergroup_group_state{{cluster_name="prod",group="pay",state="Stable"}} 1
kafka_consumergroup_group_state{{cluster_name="prod",group="pay",state="Empty"}} 0
kafka_lag_exporter_up 1
""",
    "klag": """
klag_consumer_lag{consumer_group="pay",topic="orders",partition="3",member_host="h",consumer_id="c",client_id="pay-0"} 120
klag_consumer_lag_velocity{consumer_group="pay",topic="orders"} 1250
klag_consumer_committed_offset{consumer_group="pay",topic="orders",partition="3"} 880
klag_partition_log_end_offset{topic="orders",partition="3"} 1000
klag_partition_log_start_offset{topic="orders",partition="3"} 10
klag_consumer_group_state{consumer_group="pay",state="stable"} 1
""",
    "burrow": """
burrow_kafka_consumer_partition_lag{cluster="prod",consumer_group="pay",topic="orders",partition="3"} 120
burrow_kafka_consumer_lag_total{cluster="prod",consumer_group="pay"} 120
burrow_kafka_consumer_status{cluster="prod",consumer_group="pay"} 1
burrow_kafka_consumer_current_offset{cluster="prod",consumer_group="pay",topic="orders",partition="3"} 880
burrow_kafka_topic_partition_offset{cluster="prod",topic="orders",partition="3"} 1000
""",
    "kafbat": f"""
kafka_consumergroup_lag{{{_G}}} 120
kafka_consumergroup_current_offset{{{_G}}} 880
kafka_topic_partition_next_offset{{topic="orders",partition="3"}} 1000
kafka_topic_partition_oldest_offset{{topic="orders",partition="3"}} 10
group_member_count{{group="pay"}} 2
group_state{{group="pay"}} 3
group_host_count{{group="pay"}} 1
""",
    "otel_kafkametrics": """
kafka_consumer_group_lag{group="pay",topic="orders",partition="3"} 120
kafka_consumer_group_lag_sum{group="pay",topic="orders"} 120
kafka_consumer_group_offset{group="pay",topic="orders",partition="3"} 880
kafka_partition_current_offset{topic="orders",partition="3"} 1000
kafka_partition_oldest_offset{topic="orders",partition="3"} 10
kafka_consumer_group_members{group="pay"} 2
""",
    "otel_messaging": """
messaging_process_duration_seconds_bucket{messaging_consumer_group_name="pay",messaging_destination_name="orders",messaging_client_id="pay-0",messaging_operation_name="process",le="0.1"} 40
messaging_process_duration_seconds_sum{messaging_consumer_group_name="pay",messaging_destination_name="orders",messaging_client_id="pay-0",messaging_operation_name="process"} 2.5
messaging_process_duration_seconds_count{messaging_consumer_group_name="pay",messaging_destination_name="orders",messaging_client_id="pay-0",messaging_operation_name="process"} 50
messaging_client_consumed_messages_total{messaging_consumer_group_name="pay",messaging_destination_name="orders",messaging_client_id="pay-0"} 50
""",
    # Of the JMX exporter there are recorded pages too, in recorded/.
    "jmx_exporter": _client(
        *_SHORT, "clientId", collision=True, start='kafka_consumer_start_time_seconds{clientId="pay-0"} 1.79e9'
    ),
    "jmx_exporter_strimzi": _client(
        *_SHORT, "clientid", collision=True, start='kafka_consumer_start_time_seconds{clientid="pay-0"} 1.79e9'
    ),
    "jmx_exporter_plain": _client(
        *_PLAIN, "client_id", start='kafka_consumer_app_info_start_time_ms{client_id="pay-0"} 1.79e12'
    ),
    "micrometer": _client(*_SHORT, "client_id"),
    "strimzi_reporter": _client(*_PLAIN, "client_id"),
    "spring_listener": """
process_start_time_seconds{pod="pay-0"} 1.79e9
spring_kafka_listener_seconds_count{pod="pay-0",exception="none",name="listener-0",result="success"} 50
spring_kafka_listener_seconds_sum{pod="pay-0",exception="none",name="listener-0",result="success"} 2.5
spring_kafka_listener_seconds_max{pod="pay-0",exception="none",name="listener-0",result="success"} 0.2
""",
    "redpanda": """
redpanda_kafka_consumer_group_committed_offset{redpanda_group="pay",redpanda_topic="orders",redpanda_partition="3"} 880
redpanda_kafka_max_offset{redpanda_namespace="kafka",redpanda_topic="orders",redpanda_partition="3"} 1000
redpanda_kafka_consumer_group_consumers{redpanda_group="pay"} 2
""",
    "decaton": """
decaton_tasks_process_duration_seconds_count{subscription="pay-app",topic="orders",partition="3"} 50
decaton_tasks_process_duration_seconds_sum{subscription="pay-app",topic="orders",partition="3"} 2.5
decaton_tasks_process_duration_seconds{subscription="pay-app",topic="orders",partition="3",quantile="0.99"} 0.4
decaton_tasks_pending{subscription="pay-app",topic="orders",partition="3"} 17
decaton_records_consumed_total{subscription="pay-app",topic="orders",partition="3",format="other"} 50
decaton_tasks_delivery_latency_seconds_max{subscription="pay-app",topic="orders",partition="3"} 4.5
""",
    "parallel_consumer": """
pc_user_function_processing_time_seconds_count{pcinstance="i-1",subsystem="workmanager"} 50
pc_user_function_processing_time_seconds_sum{pcinstance="i-1",subsystem="workmanager"} 2.5
pc_waiting_records{pcinstance="i-1",subsystem="workmanager"} 17
pc_inflight_records{pcinstance="i-1",subsystem="workmanager"} 3
pc_partition_latest_committed_offset{pcinstance="i-1",subsystem="partitions",topic="orders",partition="3"} 880
pc_partitions_paused{pcinstance="i-1",subsystem="partitions"} 1
""",
    "faststream": """
faststream_received_processed_messages_duration_seconds_bucket{app_name="pay-app",broker="kafka",handler="on_order",le="0.1"} 40
faststream_received_processed_messages_duration_seconds_sum{app_name="pay-app",broker="kafka",handler="on_order"} 2.5
faststream_received_processed_messages_duration_seconds_count{app_name="pay-app",broker="kafka",handler="on_order"} 50
faststream_received_processed_messages_total{app_name="pay-app",broker="kafka",handler="on_order",status="acked"} 50
faststream_received_messages_in_process{app_name="pay-app",broker="kafka",handler="on_order"} 3
""",
    "arroyo": """
arroyo_consumer_librdkafka_total_queue_size{service="pay-app"} 17
arroyo_consumer_partitions_assigned_count{service="pay-app"} 4
arroyo_consumer_latency{service="pay-app"} 4.5
""",
    "faust": """
topic_partition_offset_commited{app="pay-app",topic="orders",partition="3"} 880
topic_partition_end_offset{app="pay-app",topic="orders",partition="3"} 1000
events_runtime_ms_sum{app="pay-app"} 2500
events_runtime_ms_count{app="pay-app"} 50
total_rebalances{app="pay-app"} 4
""",
    "confluent_cloud": """
confluent_kafka_server_consumer_lag_offsets{kafka_id="lkc-1",consumer_group_id="pay",topic="orders",partition="3"} 120
confluent_kafka_server_client_limit_milliseconds{kafka_id="lkc-1",principal_id="sa-1"} 40
""",
    "msk": """
kafka_consumer_group_ConsumerLagMetrics_Value{name="SumOffsetLag",groupId="pay",topic="orders"} 120
kafka_consumer_group_ConsumerLagMetrics_Value{name="MaxOffsetLag",groupId="pay",topic="orders"} 60
kafka_consumer_group_ConsumerLagMetrics_Value{name="EstimatedMaxTimeLag",groupId="pay",topic="orders"} 900
""",
    "warpstream": """
warpstream_consumer_group_lag{virtual_cluster_id="vci-1",consumer_group="pay",topic="orders",partition="3"} 120
warpstream_consumer_group_estimated_lag_very_coarse_do_not_use_to_measure_e2e_seconds{consumer_group="pay",topic="orders",partition="3"} 4
warpstream_consumer_group_num_members{virtual_cluster_id="vci-1",consumer_group="pay"} 2
warpstream_consumer_group_state{virtual_cluster_id="vci-1",consumer_group="pay"} 2
""",
    "otel_messaging_old": """
messaging_deliver_duration_seconds_bucket{messaging_kafka_consumer_group="pay",messaging_destination_name="orders",messaging_client_id="pay-0",messaging_operation="process",le="0.1"} 40
messaging_deliver_duration_seconds_sum{messaging_kafka_consumer_group="pay",messaging_destination_name="orders",messaging_client_id="pay-0",messaging_operation="process"} 2.5
messaging_deliver_duration_seconds_count{messaging_kafka_consumer_group="pay",messaging_destination_name="orders",messaging_client_id="pay-0",messaging_operation="process"} 50
messaging_receive_messages_total{messaging_kafka_consumer_group="pay",messaging_destination_name="orders",messaging_client_id="pay-0"} 50
""",
    "kip714": "".join(
        f"org_apache_kafka_consumer_{name} {value}\n"
        for name, value in (
            ('fetch_manager_records_lag{client_id="pay-0",group_id="pay",group_member_id="m-1",topic="orders",partition="3"}', 120),
            ('coordinator_rebalance_total{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 4),
            ('coordinator_rebalance_latency_total{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 900),
            ('coordinator_last_heartbeat_seconds_ago{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 1),
            ('last_poll_seconds_ago{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 0.5),
            ('poll_idle_ratio_avg{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 0.9),
            ('fetch_manager_fetch_latency_avg{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 503),
            ('fetch_manager_fetch_throttle_time_avg{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 20),
        )
    ),
    "kip714_librdkafka": """
org_apache_kafka_consumer_fetch_manager_fetch_latency_avg{group_id="pay",member_id="m-1"} 503
org_apache_kafka_consumer_poll_idle_ratio_avg{group_id="pay",member_id="m-1"} 0.9
""",
    "flink": """
flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_committedOffset{job_name="pay-app",topic="orders",partition="3"} 880
flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_committedOffset{job_name="pay-app",topic="orders",partition="4"} -1
flink_taskmanager_job_task_operator_KafkaSourceReader_KafkaConsumer_records_lag_max{job_name="pay-app"} 120
""",
    "flink_positions": """
flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_currentOffset{job_name="pay-app",topic="orders",partition="3"} 880
flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_currentOffset{job_name="pay-app",topic="orders",partition="4"} -1
flink_taskmanager_job_task_operator_pendingRecords{job_name="pay-app"} 120
""",
    "spark_streaming": """
spark_kafka_end_offset{query="pay-app",topic="orders",partition="3"} 880
spark_kafka_latest_offset{query="pay-app",topic="orders",partition="3"} 1000
""",
    "kafka_streams": """
kafka_streams_stream_thread_metrics_poll_ratio{thread_id="pay-0b1c-StreamThread-1"} 0.9
kafka_streams_stream_thread_metrics_process_ratio{thread_id="pay-0b1c-StreamThread-1"} 0.08
kafka_streams_stream_thread_metrics_process_latency_avg{thread_id="pay-0b1c-StreamThread-1"} 0.4
kafka_streams_stream_thread_metrics_process_total{thread_id="pay-0b1c-StreamThread-1"} 5000
kafka_streams_stream_thread_metrics_thread_start_time{thread_id="pay-0b1c-StreamThread-1"} 1.79e12
""",
    "connect_sink": """
kafka_connect_sink_task_metrics_sink_record_active_count{connector="pay-sink",task="0"} 17
kafka_connect_sink_task_metrics_sink_record_active_count_avg{connector="pay-sink",task="0"} 9
kafka_connect_sink_task_metrics_sink_record_lag_max{connector="pay-sink",task="0"} 4
kafka_connect_sink_task_metrics_sink_record_send{connector="pay-sink",task="0"} 5000
kafka_connect_sink_task_metrics_put_batch_avg_time_ms{connector="pay-sink",task="0"} 12
kafka_connect_connector_task_metrics_batch_size_avg{connector="pay-sink",task="0"} 4
""",
    "group_state": 'wb_group_state{group="pay"} 4\n',
    "rocketmq_exporter": _recorded("rocketmq_exporter_0_0_3"),
    "rocketmq_broker": _recorded("rocketmq_broker_5_3"),
}  # fmt: skip

_PART = {"group": "pay", "topic": "orders", "partition": 3}
_LAGGING: list[tuple[str, dict[str, Any], float | None]] = [("consumer_lag", _PART, 120.0)]
_BY_CLIENT: list[tuple[str, dict[str, Any], float | None]] = [
    ("consumer_lag", {"member": "pay-0", "topic": "orders", "partition": 3}, 120.0),
    ("broker_rtt", {"member": "pay-0"}, 0.503),
    ("throttle_time", {"member": "pay-0"}, 0.02),
    ("rebalances", {"member": "pay-0"}, 4.0),
]
EXPECTED: dict[str, list[tuple[str, dict[str, Any], float | None]]] = {
    "jmx_kafka_broker": [
        ("server_start_time", {"broker": "page", "stat": "1"}, 1_795_671_941.548),
        ("request_time", {"broker": "page", "stat": "Produce"}, 0.11966),
        ("request_time", {"broker": "page", "stat": "FetchConsumer"}, 0.507),
        ("request_queue_time", {"broker": "page", "stat": "Produce"}, 0.01608),
        ("network_idle", {"broker": "page"}, 0.9980101364516885),
        ("broker_traffic", {"broker": "page", "stat": "BytesOutPerSec"}, 36_725_332.0),
        ("topic_reads", {"broker": "page", "topic": "old"}, 24_370_683.0),
        ("remote_reads", {"broker": "page", "topic": "old"}, 12_120_576.0),
        ("remote_failures", {"broker": "page", "stat": "RemoteFetchErrorsPerSec"}, 0.0),
        ("remote_reader_queue", {"broker": "page"}, 0.0),
        ("log_flush_time", {"broker": "page"}, 0.01872026485999989),
        ("under_replicated", {"broker": "page"}, 0.0),
        ("under_min_isr", {"broker": "page"}, 0.0),
        ("coordinator_partitions", {"broker": "page", "stat": "active"}, 3.0),
        ("client_reads", {"broker": "page", "member": "tail-0"}, 544_949.3736951983),
        ("client_writes", {"broker": "page", "member": "writer"}, 1_234_272.9306487695),
    ],
    "kafka_exporter": [
        *_LAGGING,
        ("consumer_lag", {**_PART, "partition": 4}, None),
        ("group_members", {"group": "pay"}, 2.0),
    ],
    "kafka_exporter_fork": [*_LAGGING, ("time_lag", _PART, 4.5)],
    "kminion": [*_LAGGING, ("group_state", {"group": "pay"}, 4.0), ("group_state", {"group": "old"}, 2.0)],
    "kafka_lag_exporter": [*_LAGGING, ("consumer_lag", {**_PART, "partition": 4}, None), ("time_lag", _PART, 4.5)],
    "klag_exporter": [*_LAGGING, ("group_state", {"group": "pay"}, 4.0), ("time_lag", _PART, 4.5)],
    "klag": [*_LAGGING, ("group_state", {"group": "pay"}, 4.0)],
    "burrow": _LAGGING,
    "kafbat": [*_LAGGING, ("group_members", {"group": "pay"}, 2.0)],
    "otel_kafkametrics": _LAGGING,
    "otel_messaging": [("deserialized", {"group": "pay", "topic": "orders", "member": "pay-0"}, 50.0)],
    "jmx_exporter": [*_BY_CLIENT, ("start_time", {"member": "pay-0"}, 1.79e9)],
    "jmx_exporter_strimzi": [*_BY_CLIENT, ("start_time", {"member": "pay-0"}, 1.79e9)],
    "jmx_exporter_plain": [*_BY_CLIENT, ("start_time", {"member": "pay-0"}, 1.79e9)],
    "micrometer": _BY_CLIENT,
    "strimzi_reporter": _BY_CLIENT,
    "spring_listener": [("start_time", {"member": "pay-0"}, 1.79e9)],
    "redpanda": [("committed_offset", _PART, 880.0), ("group_members", {"group": "pay"}, 2.0)],
    "decaton": [("queue_length", {"member": "pay-app", "queue": "3"}, 17.0)],
    "parallel_consumer": [("queue_length", {"member": "i-1", "queue": "waiting"}, 17.0)],
    "faststream": [("in_flight", {"member": "pay-app", "processor": "on_order"}, 3.0)],
    "arroyo": [("time_lag", {"member": "pay-app"}, 4.5)],
    "faust": [("process_time", {"member": "pay-app", "processor": "stream"}, 2.5)],
    "confluent_cloud": _LAGGING,
    "msk": [("consumer_lag", {"group": "pay", "topic": "orders", "partition": 0}, 120.0)],
    "warpstream": [*_LAGGING, ("group_members", {"group": "pay"}, 2.0)],
    "otel_messaging_old": [("deserialized", {"group": "pay", "topic": "orders", "member": "pay-0"}, 50.0)],
    "kip714": [
        ("consumer_lag", {**_PART, "member": "m-1"}, 120.0),
        ("broker_rtt", {"group": "pay", "member": "m-1"}, 0.503),
        ("throttle_time", {"group": "pay", "member": "m-1"}, 0.02),
        ("rebalances", {"group": "pay", "member": "m-1"}, 4.0),
    ],
    "kip714_librdkafka": [("broker_rtt", {"group": "pay", "member": "m-1"}, 0.503)],
    "flink": [
        ("committed_offset", {"member": "pay-app", "topic": "orders", "partition": 3}, 880.0),
        ("committed_offset", {"member": "pay-app", "topic": "orders", "partition": 4}, None),
    ],
    "flink_positions": [
        ("committed_offset", {"member": "pay-app", "topic": "orders", "partition": 3}, 880.0),
        ("committed_offset", {"member": "pay-app", "topic": "orders", "partition": 4}, None),
    ],
    "spark_streaming": [
        ("committed_offset", {"member": "pay-app", "topic": "orders", "partition": 3}, 880.0),
        ("log_end_offset", {"topic": "orders", "partition": 3}, 1000.0),
    ],
    "kafka_streams": [
        ("poll_idle", {"member": "pay-0b1c-StreamThread-1-consumer"}, 0.9),
        ("start_time", {"member": "pay-0b1c-StreamThread-1-consumer"}, 1.79e9),
    ],
    "connect_sink": [("in_flight", {"member": "connector-consumer-pay-sink-0", "processor": "0"}, 17.0)],
    "group_state": [("group_state", {"group": "pay"}, 4.0)],
    "rocketmq_exporter": [
        ("consumer_lag", {"group": "pay", "topic": "orders", "partition": 0}, 120.0),
        ("committed_offset", {"group": "pay", "topic": "orders", "partition": 0, "broker": None}, 1880.0),
        ("log_end_offset", {"topic": "orders", "partition": 0, "broker": None}, 2000.0),
        ("log_end_offset", {"topic": "%DLQ%pay", "partition": 0}, 7.0),
        ("time_lag", {"group": "pay", "topic": "orders", "broker": None}, 4.5),
        ("group_members", {"group": "pay"}, 2.0),
        ("group_members", {"group": "gone"}, 0.0),
        ("processed", {"group": "pay", "member": "10.0.0.1@7", "stat": "failed"}, 0.0),
        ("process_time", {"group": "pay", "member": "10.0.0.1@7", "stat": "mean"}, 0.0125),
    ],
    "rocketmq_broker": [
        ("consumer_lag", {"group": "pay", "topic": "orders", "partition": 0, "broker": None}, 120.0),
        ("time_lag", {"group": "pay", "topic": "orders", "broker": None}, 4.5),
        ("group_members", {"group": "pay", "broker": None}, 2.0),
        ("dead_letters", {"group": "pay", "topic": "orders"}, 7.0),
    ],
}
