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
        f"{consumer}_last_poll_seconds_ago{{{own}}} 0.5\n{consumer}_poll_idle_ratio_avg{{{own}}} 0.45\n{fetch}_fetch_latency_avg{{{own}}} 503\n"
        f"{fetch}_fetch_throttle_time_avg{{{own}}} 20\n"
        f'{fetch}_records_consumed_total{{{own}}} 50\n{fetch}_records_consumed_total{{{own},topic="orders"}} 50\n'
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
    "jmx_broker_strimzi": _recorded("broker_strimzi_agent_1_0_1"),
    "jmx_broker_confluent": _recorded("broker_confluent_agent_1_0_1"),
    "jmx_broker_example": _recorded("broker_kafka2_agent_1_0_1"),
    "jmx_broker_example_kraft": _recorded("broker_kraft_agent_1_0_1"),
    "micronaut": _recorded("micronaut_5_9"),
    "watermill": _recorded("watermill_1_5"),
    "camel": _recorded("camel_4_18"),
    "otelcol_kafka": _recorded("otelcol_kafka_0_165"),
    "spring_cloud_stream": _recorded("spring_cloud_stream_4_3"),
    # AutoMQ/automq at f1ce98e, 2026-08-21: core/src/main/resources/jmx/rules/broker.yaml; S3StreamMetricsConstant. Values are ours.
    "automq": """
kafka_partition_count{instance="1"} 40
kafka_group_commit_offset{instance="1",consumer_group="pay",topic="orders",partition="3"} 880
kafka_log_end_offset{instance="1",topic="orders",partition="3"} 1000
kafka_request_time_50p_milliseconds{instance="1",type="Produce"} 1
kafka_request_time_99p_milliseconds{instance="1",type="Produce"} 12
kafka_request_time_99p_milliseconds{instance="1",type="Fetch"} 500
kafka_request_queue_time_99p_milliseconds{instance="1",type="Produce"} 2
kafka_io_threads_idle_rate_1m{instance="1"} 0.9
kafka_io_threads_idle_time_nanoseconds_total{instance="1"} 9e12
kafka_network_threads_idle_rate{instance="1"} 0.95
kafka_request_queue_size{instance="1"} 4
kafka_request_count_total{instance="1",type="Metadata"} 700
kafka_request_count_total{instance="1",type="Produce"} 9000
kafka_network_io_bytes_total{instance="1",direction="out",topic="orders",partition="0"} 4000
kafka_network_io_bytes_total{instance="1",direction="out",topic="orders",partition="1"} 6000
kafka_network_io_bytes_total{instance="1",direction="out",topic="__consumer_offsets",partition="1"} 10
kafka_network_io_bytes_total{instance="1",direction="in",topic="orders",partition="0"} 3000
kafka_stream_operation_latency_count{instance="1",operation_type="S3Request",operation_name="get_object",status="failed"} 2
kafka_stream_operation_latency_count{instance="1",operation_type="S3Request",operation_name="put_object",status="failed"} 1
kafka_stream_operation_latency_count{instance="1",operation_type="S3Request",operation_name="get_object",status="success"} 900
kafka_stream_operation_latency_count{instance="1",operation_type="S3Storage",operation_name="read_log_cache",status="hit"} 5000
kafka_logs_flush_time_99p_milliseconds{instance="1"} 8
""",
    # redpanda-data/docs at 0045c72 (modules/reference/pages/public-metrics-reference.adoc) and the project's list of v23.2. Values are ours.
    "redpanda_broker": """
redpanda_kafka_under_replicated_replicas{redpanda_namespace="kafka",redpanda_topic="orders",redpanda_partition="3"} 1
redpanda_kafka_under_replicated_replicas{redpanda_namespace="kafka_internal",redpanda_topic="group",redpanda_partition="3"} 1
redpanda_application_uptime_seconds_total{broker_id="1"} 3600
redpanda_cluster_unavailable_partitions 0
redpanda_kafka_request_bytes_total{redpanda_namespace="kafka",redpanda_topic="orders",redpanda_request="produce"} 3000
redpanda_kafka_request_bytes_total{redpanda_namespace="kafka",redpanda_topic="orders",redpanda_request="consume"} 10000
redpanda_kafka_request_bytes_total{redpanda_namespace="kafka",redpanda_topic="orders",redpanda_request="follower_consume"} 70
redpanda_cloud_storage_errors_total{redpanda_direction="rx"} 2
redpanda_cloud_storage_errors_total{redpanda_direction="tx"} 1
""",
    # Names of modules as BMQ's authors tell them (2022); names of metrics and values are ours.
    "bmq_like": """
bmq_process_start_time_seconds{component="proxy",node_id="1"} 1.79e9
bmq_proxy_request_seconds{request="Produce",quantile="0.99"} 0.012
bmq_proxy_request_seconds{request="Produce",quantile="0.5"} 0.001
bmq_proxy_request_queue_seconds{request="Produce",quantile="0.99"} 0.001
bmq_proxy_request_work_seconds{request="Produce",quantile="0.99"} 0.002
bmq_proxy_response_send_seconds{request="Produce",quantile="0.99"} 0.003
bmq_proxy_handler_idle_ratio 0.9
bmq_proxy_network_idle_ratio 0.95
bmq_proxy_metadata_requests_total 700
bmq_proxy_file_cache_misses_total 300
bmq_proxy_file_cache_hits_total 700
bmq_proxy_bytes_total{direction="in"} 3000
bmq_proxy_bytes_total{direction="out"} 10000
bmq_proxy_topic_read_bytes_total{topic="orders"} 10000
bmq_proxy_client_read_bytes_per_second{client_id="tail-0"} 500
bmq_proxy_client_write_bytes_per_second{client_id="writer"} 400
bmq_proxy_message_cache_start_offset{topic="orders",partition="3"} 800
bmq_proxy_message_cache_miss_bytes_total{topic="orders"} 1200
bmq_proxy_message_cache_hit_bytes_total{topic="orders"} 8800
bmq_proxy_store_read_errors_total 2
bmq_broker_store_write_errors_total 1
bmq_broker_flush_seconds{quantile="0.99"} 0.01
bmq_broker_segment_failovers_total 3
bmq_coordinator_partitions{state="active"} 3
bmq_controller_unassigned_partitions 0
""",
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
messaging_process_duration_seconds_bucket{messaging_consumer_group_name="pay",messaging_destination_name="orders",messaging_operation_name="process",le="0.1"} 40
messaging_process_duration_seconds_sum{messaging_consumer_group_name="pay",messaging_destination_name="orders",messaging_operation_name="process"} 2.5
messaging_process_duration_seconds_count{messaging_consumer_group_name="pay",messaging_destination_name="orders",messaging_operation_name="process"} 50
messaging_client_consumed_messages_total{messaging_consumer_group_name="pay",messaging_destination_name="orders"} 50
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
    "micrometer": _client(*_SHORT, "client_id", start='kafka_app_info_start_time_ms{client_id="pay-0"} 1.79e12'),
    "strimzi_reporter": _client(
        *_PLAIN, "client_id", start='kafka_consumer_app_info_start_time_ms{client_id="pay-0"} 1.79e12'
    ),
    "otel_kafka_clients": _client(*("kafka_consumer",) * 3, "client_id")
    + 'kafka_consumer_records_lag_max{client_id="pay-0",topic="orders",partition="3"} 990\n',
    "spring_listener": """
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
pc_processed_records_total{pcinstance="i-1",subsystem="workmanager",topic="orders",partition="3"} 49
pc_failed_records_total{pcinstance="i-1",subsystem="workmanager",topic="orders",partition="3"} 1
pc_partition_incomplete_offsets{pcinstance="i-1",subsystem="partitions",topic="orders",partition="3"} 17
pc_inflight_records{pcinstance="i-1",subsystem="workmanager"} 3
pc_partition_latest_committed_offset{pcinstance="i-1",subsystem="partitions",topic="orders",partition="3"} 880
pc_partitions_paused{pcinstance="i-1",subsystem="partitions"} 1
""",
    "quarkus_messaging": """
quarkus_messaging_message_count_total{channel="orders",} 52
quarkus_messaging_message_acks_total{channel="orders",} 49
quarkus_messaging_message_failures_total{channel="orders",} 1
quarkus_messaging_message_duration_seconds_count{channel="orders",} 50
quarkus_messaging_message_duration_seconds_sum{channel="orders",} 2.5
quarkus_messaging_message_duration_seconds_max{channel="orders",} 0.2
""",
    "faststream": """
faststream_received_messages_total{app_name="pay-app",broker="kafka",handler="orders"} 50
faststream_received_messages_in_process{app_name="pay-app",broker="kafka",handler="orders"} 3
faststream_received_processed_messages_total{app_name="pay-app",broker="kafka",handler="orders",status="acked"} 50
faststream_received_processed_messages_duration_seconds_bucket{app_name="pay-app",broker="kafka",handler="orders",le="0.1"} 40
faststream_received_processed_messages_duration_seconds_sum{app_name="pay-app",broker="kafka",handler="orders"} 2.5
faststream_received_processed_messages_duration_seconds_count{app_name="pay-app",broker="kafka",handler="orders"} 50
faststream_received_processed_messages_exceptions_total{app_name="pay-app",broker="kafka",handler="orders",exception_type="ValueError"} 5
""",
    "arroyo": """
arroyo_consumer_librdkafka_total_queue_size{service="pay-app"} 17
arroyo_consumer_partitions_assigned_count{service="pay-app"} 4
arroyo_consumer_latency{service="pay-app"} 4.5
""",
    "faust": """
pay_app_topic_partition_offset_commited{topic="orders",partition="3"} 880
pay_app_topic_partition_end_offset{topic="orders",partition="3"} 1000
pay_app_events_runtime_ms_sum 2500
pay_app_events_runtime_ms_count 50
pay_app_total_active_events 1
pay_app_total_rebalances 0
pay_app_rebalance_done_latency_sum 30
pay_app_rebalance_done_latency_count 4
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
    # Metrics of Aiven's documentation, labels of its users' rules. Values are ours.
    "aiven": """
kafka_consumer_group_rep_lag{project="p",service="k",host="k-3",name="pay",topic="orders",partition="3"} 120
kafka_consumer_group_offset{project="p",service="k",host="k-3",name="pay",topic="orders",partition="3"} 880
kafka_lag_predictor_group_lag_predicted_seconds{group="pay",topic="orders",partition="3"} 900
""",
    # vectordotdev/vector, src/internal_events/kafka.rs. The partition -1 is librdkafka's own. Values are ours.
    "vector_kafka": """
vector_kafka_consumer_lag{host="v-0",component_id="in",component_kind="source",component_type="kafka",topic_id="orders",partition_id="3"} 120
vector_kafka_consumer_lag{host="v-0",component_id="in",component_kind="source",component_type="kafka",topic_id="orders",partition_id="-1"} -1
vector_kafka_consumed_messages_total{host="v-0",component_id="in",component_kind="source",component_type="kafka"} 9000
""",
    "warpstream": """
warpstream_consumer_group_lag{virtual_cluster_id="vci-1",consumer_group="pay",topic="orders",partition="3"} 120
warpstream_consumer_group_estimated_lag_very_coarse_do_not_use_to_measure_e2e_seconds{consumer_group="pay",topic="orders",partition="3"} 4
warpstream_consumer_group_num_members{virtual_cluster_id="vci-1",consumer_group="pay"} 2
warpstream_consumer_group_state{virtual_cluster_id="vci-1",consumer_group="pay"} 2
""",
    "otel_messaging_old": """
messaging_deliver_duration_seconds_bucket{messaging_kafka_consumer_group="pay",messaging_destination_name="orders",messaging_operation="process",le="0.1"} 40
messaging_deliver_duration_seconds_sum{messaging_kafka_consumer_group="pay",messaging_destination_name="orders",messaging_operation="process"} 2.5
messaging_deliver_duration_seconds_count{messaging_kafka_consumer_group="pay",messaging_destination_name="orders",messaging_operation="process"} 50
messaging_receive_messages_total{messaging_kafka_consumer_group="pay",messaging_destination_name="orders"} 50
""",
    "kip714": "".join(
        f"org_apache_kafka_consumer_{name} {value}\n"
        for name, value in (
            ('fetch_manager_records_lag{client_id="pay-0",group_id="pay",group_member_id="m-1",topic="orders",partition="3"}', 120),
            ('coordinator_rebalance_total{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 4),
            ('coordinator_rebalance_latency_total{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 900),
            ('coordinator_last_heartbeat_seconds_ago{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 1),
            ('last_poll_seconds_ago{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 0.5),
            ('poll_idle_ratio_avg{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 0.2),
            ('fetch_manager_fetch_latency_avg{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 503),
            ('fetch_manager_fetch_throttle_time_avg{client_id="pay-0",group_id="pay",group_member_id="m-1"}', 20),
        )
    ),
    "kip714_librdkafka": """
org_apache_kafka_consumer_fetch_manager_fetch_latency_avg{group_id="pay",member_id="m-1"} 503
org_apache_kafka_consumer_poll_idle_ratio_avg{group_id="pay",member_id="m-1"} 0.9
""",
    "flink": """
flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_committedOffset{job_name="pay-app",subtask_index="0",topic="orders",partition="3"} 880
flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_committedOffset{job_name="pay-app",subtask_index="0",topic="orders",partition="4"} -1
flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_currentOffset{job_name="pay-app",subtask_index="0",topic="orders",partition="3"} 960
flink_taskmanager_job_task_operator_KafkaSourceReader_KafkaConsumer_records_lag_max{job_name="pay-app",subtask_index="0"} 120
flink_taskmanager_job_task_operator_KafkaSourceReader_KafkaConsumer_start_time_ms{job_name="pay-app",subtask_index="0"} 1.79e+12
flink_taskmanager_job_task_operator_KafkaSourceReader_KafkaConsumer_rebalance_total{job_name="pay-app",subtask_index="0"} 0.0
flink_taskmanager_job_task_operator_KafkaSourceReader_KafkaConsumer_last_poll_seconds_ago{job_name="pay-app",subtask_index="0"} 12.0
flink_taskmanager_job_task_operator_KafkaSourceReader_KafkaConsumer_fetch_throttle_time_avg{job_name="pay-app",subtask_index="0"} 250.0
flink_taskmanager_job_task_idleTimeMsPerSecond{job_name="pay-app",subtask_index="0",task_name="Source:_orders"} 865.0
flink_taskmanager_job_task_idleTimeMsPerSecond{job_name="pay-app",subtask_index="0",task_name="Sink:_write"} 742.0
flink_taskmanager_job_task_busyTimeMsPerSecond{job_name="pay-app",subtask_index="0",task_name="Source:_orders"} 135.0
flink_taskmanager_job_task_busyTimeMsPerSecond{job_name="pay-app",subtask_index="0",task_name="Sink:_write"} 258.0
flink_taskmanager_job_task_numRecordsIn{job_name="pay-app",subtask_index="0",task_name="Source:_orders"} 0.0
flink_taskmanager_job_task_numRecordsIn{job_name="pay-app",subtask_index="0",task_name="Sink:_write"} 1432.0
flink_taskmanager_job_task_numRecordsInPerSecond{job_name="pay-app",subtask_index="0",task_name="Source:_orders"} 0.0
flink_taskmanager_job_task_numRecordsInPerSecond{job_name="pay-app",subtask_index="0",task_name="Sink:_write"} 23.5
flink_taskmanager_job_task_operator_numRecordsIn{job_name="pay-app",subtask_index="0",task_name="Source:_orders",operator_name="Source:_orders"} 1436.0
flink_taskmanager_job_task_operator_numRecordsInPerSecond{job_name="pay-app",subtask_index="0",task_name="Source:_orders",operator_name="Source:_orders"} 23.6
flink_taskmanager_job_task_operator_numRecordsIn{job_name="pay-app",subtask_index="0",task_name="Sink:_write",operator_name="Sink:_write"} 1434.0
flink_taskmanager_job_task_operator_numRecordsInPerSecond{job_name="pay-app",subtask_index="0",task_name="Sink:_write",operator_name="Sink:_write"} 23.5
flink_jobmanager_job_lastCheckpointRestoreTimestamp{job_name="pay-app"} 1.79e+12
""",
    # Names of resilience4j's documentation (micrometer); Micrometer's Prometheus registry makes them. Values are ours.
    "resilience4j": """
resilience4j_circuitbreaker_calls_seconds_count{instance="gw-1:8080",kind="successful",name="kafka-a"} 900
resilience4j_circuitbreaker_calls_seconds_count{instance="gw-1:8080",kind="failed",name="kafka-a"} 100
resilience4j_circuitbreaker_calls_seconds_count{instance="gw-1:8080",kind="ignored",name="kafka-a"} 3
resilience4j_circuitbreaker_calls_seconds_sum{instance="gw-1:8080",kind="failed",name="kafka-a"} 12.5
resilience4j_circuitbreaker_state{instance="gw-1:8080",name="kafka-a",state="open"} 1
resilience4j_circuitbreaker_state{instance="gw-1:8080",name="kafka-a",state="half_open"} 0
""",
    # Names of cAdvisor's documentation, of Micrometer's and of client_java's. Values are ours.
    "processes": """
container_cpu_cfs_periods_total{container="app",id="/kubepods/b",namespace="shop",pod="pay-0"} 9000
container_cpu_cfs_throttled_periods_total{container="app",id="/kubepods/b",namespace="shop",pod="pay-0"} 4500
container_cpu_cfs_periods_total{container="istio-proxy",id="/kubepods/c",namespace="shop",pod="pay-0"} 7
container_cpu_cfs_periods_total{id="/kubepods",namespace="shop",pod="pay-0"} 8
jvm_gc_pause_seconds_sum{action="end of minor GC",cause="G1 Evacuation Pause",gc="G1 Young Generation"} 1.5
jvm_gc_pause_seconds_count{action="end of minor GC",cause="G1 Evacuation Pause",gc="G1 Young Generation"} 40
jvm_gc_collection_seconds_sum{gc="G1 Concurrent GC"} 3
""",
    # Names of Vector's documentation and of alert rules of its users. Values are ours.
    "vector": """
vector_buffer_size_bytes{host="a-0",component_id="gateway",component_kind="sink",buffer_type="disk"} 5e9
vector_buffer_size_bytes{host="a-0",component_id="console",component_kind="sink",buffer_type="memory"} 100
vector_buffer_size_events{host="a-0",component_id="gateway",component_kind="sink",buffer_type="disk"} 70000
vector_component_sent_events_total{host="a-0",component_id="gateway",component_kind="sink",component_type="http"} 123456
vector_component_sent_events_total{host="a-0",component_id="in",component_kind="source",component_type="file"} 193456
""",
    "flink_positions": """
flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_currentOffset{job_name="pay-app",topic="orders",partition="3"} 880
flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_currentOffset{job_name="pay-app",topic="orders",partition="4"} -1
flink_taskmanager_job_task_operator_pendingRecords{job_name="pay-app"} 120
""",
    "spark_streaming": """
spark_kafka_end_offset{query="pay-app",topic="orders",partition="3"} 880
spark_kafka_start_offset{query="pay-app",topic="orders",partition="3"} 800
spark_kafka_latest_offset{query="pay-app",topic="orders",partition="3"} 1000
spark_kafka_query_started_seconds{query="pay-app"} 1.79e+09
spark_kafka_batch_seconds{query="pay-app"} 0.812
spark_kafka_batch_rows{query="pay-app"} 880.0
spark_kafka_rows{query="pay-app"} 5000.0
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
    "pulsar_broker": _recorded("pulsar_broker_4_0_7"),
    # Names of org.apache.bookkeeper.bookie.BookKeeperServerStats in 4.17.2; values are ours.
    "pulsar_bookie": "bookie_WRITE_BYTES 120000\nbookie_READ_BYTES 300\nbookie_SERVER_STATUS 1\n",
}  # fmt: skip

_PART = {"group": "pay", "topic": "orders", "partition": 3}
_LAGGING: list[tuple[str, dict[str, Any], float | None]] = [("consumer_lag", _PART, 120.0)]
_BY_CLIENT: list[tuple[str, dict[str, Any], float | None]] = [
    ("consumer_lag", {"member": "pay-0", "topic": "orders", "partition": 3}, 120.0),
    ("broker_rtt", {"member": "pay-0"}, 0.503),
    ("throttle_time", {"member": "pay-0"}, 0.02),
    ("rebalances", {"member": "pay-0"}, 4.0),
    ("deserialized", {"member": "pay-0", "topic": "orders"}, 50.0),
]


def _of_rules(
    **values: float | None,
) -> list[tuple[str, dict[str, Any], float | None]]:
    """What every set of rules of the JMX agent tells of the recorded broker; the counts beside the percentiles are not read."""
    of = {"broker": "page"}
    return [
        ("server_start_time", {**of, "stat": "1"}, values["began"]),
        ("request_time", {**of, "stat": "Produce"}, values["produce"]),
        ("request_local_time", {**of, "stat": "Produce"}, values["works"]),
        ("network_idle", of, values["network"]),
        ("metadata_requests", {**of, "stat": "13"}, values["metadata"]),
        ("broker_traffic", {**of, "stat": "BytesOutPerSec"}, values["gives"]),
        ("topic_reads", {**of, "topic": "orders"}, values["orders"]),
        ("remote_reads", {**of, "topic": "old"}, values["remote"]),
        ("remote_failures", {**of, "stat": "RemoteFetchErrorsPerSec"}, 0.0),
        ("log_flush_time", of, values["flush"]),
        ("under_replicated", of, 0.0),
        ("offline", of, 0.0),
    ]


EXPECTED: dict[str, list[tuple[str, dict[str, Any], float | None]]] = {
    "jmx_kafka_broker": [
        ("server_start_time", {"broker": "page", "stat": "1"}, 1_795_671_941.548),
        ("request_time", {"broker": "page", "stat": "Produce"}, 0.11966),
        ("request_time", {"broker": "page", "stat": "FetchConsumer"}, 0.507),
        ("request_queue_time", {"broker": "page", "stat": "Produce"}, 0.01608),
        ("request_handler_idle_time", {"broker": "page"}, 136.292770853),
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
        ("metadata_requests", {"broker": "page", "stat": "13"}, 71.0),
        ("client_request_time", {"broker": "page", "member": "reader"}, 0.003340476571960876),
    ],
    "jmx_broker_strimzi": [
        *_of_rules(
            began=1_795_706_576.733,
            produce=0.013,
            works=0.01056,
            network=0.4531365124870544,
            metadata=69.0,
            gives=32_705_321.0,
            orders=16_641_008.0,
            remote=12_725_874.0,
            flush=0.024395271,
        ),
        ("request_handler_idle_time", {"broker": "page"}, 23.894936985),
    ],
    "jmx_broker_confluent": [
        *_of_rules(
            began=1_795_706_604.686,
            produce=0.0367,
            works=0.03338,
            network=0.46071225651350334,
            metadata=71.0,
            gives=32_238_912.0,
            orders=16_477_596.0,
            remote=12_725_874.0,
            flush=0.056854134,
        ),
        ("request_handler_idle", {"broker": "page"}, 0.9702579542909133),
        ("client_reads", {"broker": "page", "member": "reader"}, 1_474_778.6616752455),
        ("client_writes", {"broker": "page", "member": "writer"}, 484_818.50502177584),
        ("client_request_time", {"broker": "page", "member": "writer"}, 0.0049477811011116996),
    ],
    "jmx_broker_example": [
        *_of_rules(
            began=1_795_706_662.629,
            produce=0.01292,
            works=0.01192,
            network=0.4317178619993651,
            metadata=69.0,
            gives=32_496_251.0,
            orders=16_431_938.0,
            remote=12_725_874.0,
            flush=0.008831534,
        ),
        ("request_handler_idle_time", {"broker": "page"}, 21.577827263),
        ("client_reads", {"broker": "page", "member": "reader"}, 1_468_495.5655115664),
        ("client_writes", {"broker": "page", "member": "writer"}, 729_537.1296296295),
        ("client_request_time", {"broker": "page", "member": "writer"}, 0.008179520211782503),
    ],
    "jmx_broker_example_kraft": [
        *_of_rules(
            began=1_795_706_634.288,
            produce=0.0232,
            works=0.0203,
            network=0.44481060533087674,
            metadata=66.0,
            gives=29_092_573.0,
            orders=14_543_853.0,
            remote=10_907_892.0,
            flush=0.017534019,
        ),
        ("request_handler_idle_time", {"broker": "page"}, 23.266944763),
        ("coordinator_partitions", {"broker": "page", "stat": "active"}, 3.0),
    ],
    "automq": [
        ("committed_offset", _PART, 880.0),
        ("log_end_offset", {"topic": "orders", "partition": 3}, 1000.0),
        ("server_start_time", {"broker": "1", "stat": "1"}, 0.0),
        ("request_time", {"broker": "1", "stat": "Produce"}, 0.012),
        ("metadata_requests", {"broker": "1"}, 700.0),
        ("topic_reads", {"broker": "1", "topic": "orders", "stat": "0"}, 4000.0),
        ("topic_reads", {"broker": "1", "topic": "orders", "stat": "1"}, 6000.0),
        ("topic_writes", {"broker": "1", "topic": "orders"}, 3000.0),
        ("remote_failures", {"broker": "1", "stat": "RemoteFetch get_object"}, 2.0),
        ("remote_failures", {"broker": "1", "stat": "RemoteCopy put_object"}, 1.0),
        ("log_flush_time", {"broker": "1"}, 0.008),
    ],
    "bmq_like": [
        ("server_start_time", {"broker": "page", "stat": "1"}, 1.79e9),
        ("metadata_requests", {"broker": "page", "stat": "Metadata"}, 700.0),
        ("metadata_requests", {"broker": "page", "stat": "file cache"}, 300.0),
        ("broker_traffic", {"broker": "page", "stat": "BytesOutPerSec"}, 10_000.0),
        ("local_start_offset", {"topic": "orders", "partition": 3}, 800.0),
        ("remote_reads", {"broker": "page", "topic": "orders"}, 1200.0),
        ("segment_failovers", {"broker": "page"}, 3.0),
        ("log_flush_time", {"broker": "page"}, 0.01),
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
    "aiven": [("consumer_lag", _PART, 120.0), ("committed_offset", _PART, 880.0)],
    "vector_kafka": [
        ("consumer_lag", {"member": "in", "topic": "orders", "partition": 3}, 120.0),
    ],
    "kafbat": [*_LAGGING, ("group_members", {"group": "pay"}, 2.0)],
    "otel_kafkametrics": _LAGGING,
    "otel_messaging": [("deserialized", {"group": "pay", "topic": "orders", "member": "page"}, 50.0)],
    "jmx_exporter": [*_BY_CLIENT, ("start_time", {"member": "pay-0"}, 1.79e9)],
    "jmx_exporter_strimzi": [*_BY_CLIENT, ("start_time", {"member": "pay-0"}, 1.79e9)],
    "jmx_exporter_plain": [*_BY_CLIENT, ("start_time", {"member": "pay-0"}, 1.79e9)],
    "camel": [
        ("processed", {"processor": "work", "stat": "ok"}, 370.0),
        ("processed", {"processor": "work", "stat": "failed"}, 18.0),
        ("processed", {"processor": "orders", "stat": "ok"}, 388.0),
    ],
    "otelcol_kafka": [
        ("processed", {"processor": "kafka", "stat": "ok"}, 1658.0),
        ("processed", {"processor": "127.0.0.1", "stat": "ok"}, 1658.0),
        ("processed", {"processor": "127.0.0.1", "stat": "failed"}, 34.0),
        ("queue_length", {"processor": "otlp_http", "queue": "logs"}, 100.0),
    ],
    "spring_cloud_stream": [
        ("processed", {"processor": "orders-in-0", "stat": "ok"}, 1526.0),
        ("processed", {"processor": "orders-in-0", "stat": "failed"}, 33.0),
    ],
    "watermill": [
        ("processed", {"processor": "orders", "stat": "ok"}, 5499.0),
        ("processed", {"processor": "orders", "stat": "failed"}, 327.0),
    ],
    "micronaut": [
        ("rebalances", {"member": "consumer-svc-226-21-1"}, 2.0),
        ("poll_age", {"member": "consumer-svc-226-21-1"}, 14.0),
        ("broker_rtt", {"member": "consumer-svc-226-21-1", "broker": None}, None),
        ("broker_rtt", {"member": "consumer-svc-226-21-1", "broker": "coordinator"}, 0.005691919191919192),
        ("deserialized", {"member": "consumer-svc-226-21-1"}, 2360.0),
        ("start_time", {"member": "consumer-svc-226-21-1"}, 1796062117.944),
    ],
    "micrometer": [*_BY_CLIENT, ("start_time", {"member": "pay-0"}, 1.79e9)],
    "strimzi_reporter": [*_BY_CLIENT, ("start_time", {"member": "pay-0"}, 1.79e9)],
    "otel_kafka_clients": _BY_CLIENT,
    "spring_listener": [("processed", {"member": "listener-0", "stat": "ok"}, 50.0)],
    "redpanda": [("committed_offset", _PART, 880.0), ("group_members", {"group": "pay"}, 2.0)],
    "redpanda_broker": [
        ("missing_replicas", {"topic": "orders", "partition": 3}, 1.0),
        ("server_start_time", {"broker": "page", "stat": "1"}, 3600.0),
        ("topic_reads", {"broker": "page", "topic": "orders"}, 10_000.0),
        ("topic_writes", {"broker": "page", "topic": "orders"}, 3000.0),
        ("remote_failures", {"broker": "page", "stat": "RemoteFetch"}, 2.0),
    ],
    "decaton": [("fetch_queue_length", {"member": "pay-app", "topic": "orders", "partition": 3}, 17.0)],
    "parallel_consumer": [
        ("fetch_queue_length", {"member": "i-1", "topic": "orders", "partition": 3}, 17.0),
        ("processed", {"member": "i-1", "stat": "ok"}, 49.0),
        ("processed", {"member": "i-1", "stat": "failed"}, 1.0),
    ],
    "faststream": [
        ("in_flight", {"member": "pay-app", "processor": "all"}, 3.0),
        ("process_time", {"member": "pay-app", "topic": "orders", "processor": "all"}, 2.5),
        ("deserialized", {"member": "pay-app", "topic": "orders"}, 50.0),
    ],
    "quarkus_messaging": [
        ("processed", {"processor": "orders", "stat": "ok"}, 49.0),
        ("processed", {"processor": "orders", "stat": "failed"}, 1.0),
    ],
    "arroyo": [("time_lag", {"member": "pay-app"}, 4.5)],
    "faust": [
        ("process_time", {"member": "pay_app", "processor": "stream"}, 2.5),
        ("rebalances", {"member": "pay_app"}, 4.0),
    ],
    "confluent_cloud": _LAGGING,
    "msk": [("consumer_lag", {"group": "pay", "topic": "orders", "partition": 0}, 120.0)],
    "warpstream": [*_LAGGING, ("group_members", {"group": "pay"}, 2.0)],
    "otel_messaging_old": [("deserialized", {"group": "pay", "topic": "orders", "member": "page"}, 50.0)],
    "kip714": [
        ("consumer_lag", {**_PART, "member": "m-1"}, 120.0),
        ("broker_rtt", {"group": "pay", "member": "m-1"}, 0.503),
        ("throttle_time", {"group": "pay", "member": "m-1"}, 0.02),
        ("rebalances", {"group": "pay", "member": "m-1"}, 4.0),
        ("poll_idle", {"group": "pay", "member": "m-1"}, 0.25),  # told: 0.2, of which the own time is counted twice
    ],
    "kip714_librdkafka": [
        ("broker_rtt", {"group": "pay", "member": "m-1"}, 0.503),
        ("poll_idle", {"group": "pay", "member": "m-1"}, 0.9),
    ],
    "flink": [
        ("committed_offset", {"member": "pay-app-0", "topic": "orders", "partition": 3}, 880.0),
        ("committed_offset", {"member": "pay-app-0", "topic": "orders", "partition": 4}, None),
        ("read_offset", {"member": "pay-app-0", "topic": "orders", "partition": 3}, 961.0),  # of the next record
        ("restore_time", {"member": "pay-app"}, 1.79e9),  # the job manager's
        ("start_time", {"member": "pay-app-0"}, 1.79e9),
        ("rebalances", {"member": "pay-app-0"}, 0.0),
        ("poll_age", {"member": "pay-app-0"}, 12.0),
        ("poll_idle", {"member": "pay-app-0"}, 0.865),  # of the source's task alone
        ("throttle_time", {"member": "pay-app-0"}, 0.25),
        ("process_time", {"member": "pay-app-0", "processor": "Source:_orders", "stat": "mean"}, 0.135),
        ("process_time", {"member": "pay-app-0", "processor": "Source:_orders", "stat": "batch"}, 23.6),
        ("process_time", {"member": "pay-app-0", "processor": "Sink:_write", "stat": "mean"}, 0.258),
        ("process_time", {"member": "pay-app-0", "processor": "Sink:_write", "stat": "batch"}, 23.5),
    ],
    "resilience4j": [
        ("gateway_sends", {"member": "gw-1:8080", "queue": "kafka-a", "stat": "ok"}, 900.0),
        ("gateway_sends", {"member": "gw-1:8080", "queue": "kafka-a", "stat": "failed"}, 100.0),
        ("breaker_state", {"member": "gw-1:8080", "queue": "kafka-a", "stat": "open"}, 1.0),
    ],
    "processes": [
        ("cpu_periods", {"member": "app", "stat": "all"}, 9000.0),
        ("cpu_periods", {"member": "app", "stat": "stopped"}, 4500.0),
        ("gc_time", {"stat": "value"}, 1.5),
    ],
    "vector": [
        ("disk_backlog_bytes", {"member": "a-0", "queue": "gateway"}, 5e9),
        ("disk_backlog_records", {"member": "a-0", "queue": "gateway"}, 70000.0),
        ("gateway_sends", {"member": "a-0", "queue": "gateway", "stat": "ok"}, 123456.0),
    ],
    "flink_positions": [
        ("committed_offset", {"member": "pay-app", "topic": "orders", "partition": 3}, 881.0),
        ("committed_offset", {"member": "pay-app", "topic": "orders", "partition": 4}, None),
    ],
    "spark_streaming": [
        ("committed_offset", {"member": "pay-app", "topic": "orders", "partition": 3}, 880.0),
        ("batch_start_offset", {"member": "pay-app", "topic": "orders", "partition": 3}, 800.0),
        ("log_end_offset", {"topic": "orders", "partition": 3}, 1000.0),
        ("restore_time", {"member": "pay-app"}, 1.79e9),
        ("start_time", {"member": "pay-app"}, 1.79e9),
        ("process_time", {"member": "pay-app", "stat": "mean"}, 0.812),
        ("process_time", {"member": "pay-app", "stat": "batch"}, 880.0),
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
    "pulsar_broker": [
        ("load_usage", {"stat": "cpu"}, 85.44927),
        ("load_usage", {"stat": "direct memory"}, 3.125),
        ("bundle_unloads", {}, 7.0),
        ("entry_writes", {}, 0.0),
        ("cache_misses", {"topic": "persistent://shop/orders/again", "stat": "value"}, 0.0),
        ("acknowledgement_writes", {"topic": "shop/orders/persistent/acks", "group": "s1"}, 278.0),
        ("store_write_time", {"stat": "sum"}, 43.628),
        ("quarantines", {}, 2.0),
    ],
    "pulsar_bookie": [("bookie_writes", {}, 120000.0)],
}
