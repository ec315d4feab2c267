"""Rules of the one table: the runtime's metrics and its profile are derived from it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from workbench.broker_and_bookie_signals import OF_DISPATCHERS
from workbench.collect.matrix_parser import Matrix
from workbench.collect.samples_from_prometheus import PrometheusSource
from workbench.collect.selectors import to_promql
from workbench.errors import ConfigError
from workbench.features.broker_features import OF_SERVERS
from workbench.job_signals import OF_JOBS
from workbench.process_signals import OF_PROCESSES
from workbench.profiles import Profile, Quality, load_profile, parse_profile, profile_names
from workbench.prometheus_settings import PrometheusAddress
from workbench.samples import LABEL_COLUMNS
from workbench.signals import SIGNALS, Kind
from workbench.signals_before_kafka import OF_GATEWAYS
from workbench.window import Window

# What the coordinator, the broker, a job or a gateway knows and a consumer does not, and what librdkafka does not measure.
NOT_IN_THE_RUNTIME = {
    *OF_SERVERS,
    *(name for name, *_ in OF_DISPATCHERS),
    *(name for name, *_ in OF_JOBS),
    *(name for name, *_ in OF_GATEWAYS),
    *(name for name, *_ in OF_PROCESSES),
    "leader",
    "missing_replicas",
    "local_start_offset",
    "reassigning_partitions",
    "group_members",
    "group_state",
    "last_stable_offset",
    "read_quota",
    "assigned",
    "restoring",
    "fetch_latency",
    "poll_idle",
}


def test_the_runtimes_profile_is_the_table() -> None:
    """Name by name and label by label, so that code, profile and docs cannot drift apart."""
    profile = load_profile("runtime")
    assert profile.signals.keys() == SIGNALS.keys() - NOT_IN_THE_RUNTIME
    for name, rule in profile.signals.items():
        signal = SIGNALS[name]
        assert rule.metric == signal.metric
        assert rule.labels == {label: label for label in signal.labels}
        assert rule.quality is Quality.EXACT


def test_metric_names_follow_prometheus_rules() -> None:
    """Base units, `_total` for counters, no name twice."""
    names = [signal.metric for signal in SIGNALS.values()]
    assert len(set(names)) == len(names)
    for signal in SIGNALS.values():
        assert signal.metric.endswith("_total") == (signal.kind is Kind.COUNTER)
        assert not signal.metric.endswith(("_milliseconds", "_ms"))
        assert set(signal.labels) <= set(LABEL_COLUMNS)


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_loads_and_declares_its_gaps(name: str) -> None:
    """A signal is exact, a proxy or absent; there is no fourth."""
    profile = load_profile(name)
    assert profile.title
    assert {profile.quality(signal) for signal in SIGNALS} <= set(Quality)


def test_a_series_is_read_by_its_profile() -> None:
    """Labels are translated, a partition becomes a number, a bucket keeps its bound in the signal's unit."""
    profile = load_profile("kafka_exporter")
    found = profile.meaning("kafka_consumergroup_lag", {"consumergroup": "g", "topic": "t", "partition": "7"})
    assert found is not None
    assert (found.signal, found.labels, found.stat) == (
        "consumer_lag",
        {"group": "g", "topic": "t", "partition": 7},
        "value",
    )
    assert profile.meaning("kafka_consumergroup_lag", {"consumergroup": "g", "topic": "t", "partition": "x"}) is None
    assert profile.meaning("something_else", {}) is None


def test_a_scale_applies_to_buckets_and_not_to_counts() -> None:
    """A histogram in milliseconds comes out in seconds; the number of observations stays."""
    profile = parse_profile(
        "title: t\nsignals:\n  process_time: {metric: took_ms, labels: {group: g}, scale: 0.001}", name="test"
    )
    bucket = profile.meaning("took_ms_bucket", {"g": "x", "le": "250"})
    total, number = profile.meaning("took_ms_sum", {"g": "x"}), profile.meaning("took_ms_count", {"g": "x"})
    assert bucket is not None and total is not None and number is not None
    assert bucket.le == pytest.approx(0.25)
    assert (bucket.scale, total.scale, number.scale) == (1.0, 0.001, 1.0)
    assert profile.meaning("took_ms_bucket", {"g": "x"}) is None


SHARED = """
title: t
signals:
  broker_traffic: {metric: m, labels: {broker: instance}, where: {name: Bytes, topic: ""}, stat_label: name}
  topic_reads: {metric: m, labels: {broker: instance, topic: topic}, where: {name: Bytes, topic: "(?!__).+"}}
"""


def test_one_metric_name_may_have_several_meanings() -> None:
    """Its labels tell which; the first rule that fits counts, and a series that none is about is nobody's."""
    profile = parse_profile(SHARED, name="test")

    def signal_of(**labels: str) -> str | None:
        found = profile.meaning("m", {"instance": "b:1", **labels})
        return found.signal if found is not None else None

    assert signal_of(name="Bytes") == "broker_traffic"
    assert signal_of(name="Bytes", topic="orders") == "topic_reads"
    assert signal_of(name="Bytes", topic="__consumer_offsets") is None
    assert signal_of(name="Requests") is None


def test_a_metric_name_with_several_meanings_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the labels of one meaning alone, the series of the others would be missing; asked for twice, they would count twice."""
    asked: list[str] = []

    def fetch(_self: PrometheusSource, matchers: Any, _window: Window, *, by_chunks: bool) -> Iterator[Matrix]:
        del by_chunks
        asked.append(to_promql(matchers))
        yield from ()

    monkeypatch.setattr(PrometheusSource, "_fetch", fetch)
    source = PrometheusSource(
        addresses=[PrometheusAddress(url="http://p")], cluster="c", profiles=[parse_profile(SHARED, name="test")]
    )
    now = datetime.now(UTC)
    source.collect(Window.ending(now, length=timedelta(minutes=5), baseline=timedelta(minutes=5)), topics=["orders"])
    assert len(asked) == 1 and "topic" not in asked[0]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("title: t\nsignals: {lagg: {metric: m, labels: {}}}", "lagg"),
        ("title: t\nsignals: {consumer_lag: {metric: 'a b', labels: {}}}", "consumer_lag.metric"),
        ("title: t\nsignals: {consumer_lag: {metric: m, labels: {grp: x}}}", "grp"),
        ("title: [", "test"),
        ("- a", "test"),
    ],
)
def test_a_wrong_profile_is_refused_with_the_field(text: str, named: str) -> None:
    """A profile is data that users write."""
    with pytest.raises(ConfigError, match=named):
        parse_profile(text, name="test")


def test_an_unknown_profile_is_refused_with_near_ones_and_the_list() -> None:
    """Also a name that would leave the folder."""
    for name in ("kafka-exporter", "../runtime"):
        with pytest.raises(ConfigError) as caught:
            load_profile(name)
        assert "workbench profiles list" in (caught.value.hint or "")
        assert ("kafka_exporter" in caught.value.message) == (name == "kafka-exporter")
    assert isinstance(load_profile("runtime"), Profile)
