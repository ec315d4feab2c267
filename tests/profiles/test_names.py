"""Names of metrics that carry labels: how a profile says them, and which metrics they are."""

from __future__ import annotations

import pytest

from workbench.errors import ConfigError
from workbench.profiles import parse_profile
from workbench.profiles.draft_labels_from_names import some_of_each, with_places
from workbench.profiles.labels_in_metric_names import read
from workbench.profiles.profile_fit import RuleState, asked_for, fit

PROFILE = parse_profile(
    """
title: t
member_is: client_id
signals:
  rebalances: {metric: "joins_total_{group}", labels: {group: group, member: instance}}
  broker_rtt:
    metric: "latency_for_broker_{broker}_mean"
    labels: {broker: broker, member: instance}
    where: {broker: "[0-9]+"}
    scale: 0.001
  consumer_lag: {metric: "lag_{topic}_{partition}", labels: {topic: topic, partition: partition, member: instance}}
  processed:
    metric: "done_{topic}"
    parts: {ok: "done_{topic}", failed: "done_{topic}_badly"}
    labels: {topic: topic, member: instance}
""",
    name="t",
)


@pytest.mark.parametrize(
    ("metric", "signal", "label", "value"),
    [
        ("joins_total_pay_orders", "rebalances", "group", "pay_orders"),
        ("latency_for_broker_12_mean", "broker_rtt", "broker", "12"),
        ("lag_orders_fast_07_3", "consumer_lag", "topic", "orders_fast_07"),
        ("lag_orders_fast_07_3", "consumer_lag", "partition", 3),
        ("done_orders", "processed", "topic", "orders"),
    ],
)
def test_a_place_in_a_name_is_a_label(metric: str, signal: str, label: str, value: object) -> None:
    """As if the metric had it."""
    found = PROFILE.meaning(metric, {"instance": "a:1"})
    assert found is not None and found.signal == signal
    assert found.labels[label] == value and found.labels["member"] == "a:1"


def test_the_name_that_says_more_is_meant() -> None:
    """A statistic at the end of a name is no part of the topic."""
    found = PROFILE.meaning("done_orders_badly", {"instance": "a:1"})
    assert found is not None and (found.stat, found.labels["topic"]) == ("failed", "orders")


@pytest.mark.parametrize("metric", ["latency_for_broker_bootstrap_0_mean", "joins_total_", "joins_totals", "xlag_a_1"])
def test_another_name_is_not_meant(metric: str) -> None:
    """Nor is a value that the rule's own pattern refuses."""
    assert PROFILE.meaning(metric, {"instance": "a:1"}) is None


@pytest.mark.parametrize(
    "metric",
    ["{group}_joins", "a_{group}_{group}", "a{topic}{group}", "a_{topic}_{b}_{c}_{d}", "a_{to pic}", "a_{", "a_{}"],
)
def test_a_name_that_cannot_be_read_is_refused(metric: str) -> None:
    """A place at the beginning would mean every metric; two that touch, or are the same, cannot be told apart."""
    with pytest.raises(ConfigError, match="cannot be used"):
        parse_profile(f'title: t\nsignals: {{rebalances: {{metric: "{metric}", labels: {{member: i}}}}}}\n', name="t")


def test_a_very_long_name_is_not_read() -> None:
    """Several places could be laid over one in too many ways."""
    assert read("a_{b}_{c}_{d}", "a_1_2_3") == {"b": "1", "c": "2", "d": "3"}
    assert read("a_{b}_{c}_{d}", "a" + "_1" * 200) is None


def test_the_check_finds_them_and_says_what_is_missing() -> None:
    """By the names that the server has, also of series without recent samples."""
    wanted = asked_for([PROFILE], ["joins_total_pay", "lag_a_1", "up", "done_orders"])
    assert wanted["joins_total_pay"] == ("joins_total_{group}", {"group": "pay"})
    assert "up" not in wanted
    examples = {name: {"instance": "a:1", **labels} for name, labels in wanted.values()}
    found = fit(PROFILE, examples, names=frozenset({*wanted, "latency_for_broker_1_mean"}))
    states = {it.signal: it.state for it in found.checks}
    assert states.pop("broker_rtt") is RuleState.STALE
    assert set(states.values()) == {RuleState.FOUND}


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("kafka_client_consumer_group_join_total_g_sarama", "kafka_client_consumer_group_join_total_{group}"),
        ("fetch_rate_for_topic_orders_slow_p99", "fetch_rate_for_topic_{topic}_p99"),
        ("fetch_rate_for_topic_orders_slow", "fetch_rate_for_topic_{topic}"),
        ("latency_for_broker_1", "latency_for_broker_{broker}"),
        ("node_metrics_node_1_request_latency_avg", "node_metrics_node_{broker}_request_latency_avg"),
        ("kafka_consumergroup_lag", "kafka_consumergroup_lag"),
        ("kafka_konsumer_processed_messages_total_current", "kafka_konsumer_processed_messages_total_current"),
        ("kafka_group_messages_total_current", "kafka_group_messages_total_current"),
        ("node_cpu_seconds_total", "node_cpu_seconds_total"),
        ("kafka_topic_partition_current_offset", "kafka_topic_partition_current_offset"),
    ],
)
def test_a_draft_sees_what_a_name_carries(metric: str, name: str) -> None:
    """By the word before a value and its form; an ordinary name is left as it is."""
    assert with_places(metric)[0] == name


def test_a_thousand_topics_are_asked_for_as_one() -> None:
    """A draft looks at some of each, or the names of one metric would be all that it looks at."""
    names = [f"fetch_rate_for_topic_t{number}" for number in range(1000)]
    assert some_of_each([*names, "lag"], 3) == [*names[:3], "lag"]
