"""Metrics of a Pulsar's servers: from the pages of its admin, from those of the settings, or from a Prometheus."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.pulsar.pages import FakeAdmin, serving
from workbench.collect.broker_and_bookie_metrics import DispatcherMetrics
from workbench.triage.pulsar.what_servers_tell import servers_of

PAGE = b"""# TYPE pulsar_lb_cpu_usage gauge
pulsar_lb_cpu_usage{cluster="p", broker="b1", metric="loadBalancing"} %s
pulsar_subscription_back_log{cluster="p", namespace="shop/orders", topic="persistent://shop/orders/paid", subscription="a"} 7
pulsar_storage_read_cache_misses_rate{cluster="p",namespace="shop/orders",topic="persistent://shop/orders/paid"} 12.5
"""


def pages(page: bytes) -> FakeAdmin:
    """An admin with this page of metrics."""
    return FakeAdmin({}, extra={"/metrics/": page})


def test_the_brokers_own_page_needs_no_setting() -> None:
    """At the admin's address, read with each look; of it only what a profile has."""
    with serving(pages(PAGE % b"Infinity")) as (cluster, _):
        metrics = DispatcherMetrics(cluster)
        metrics.look()
        metrics.look()
        now = datetime.now(UTC)
        found = metrics.samples(now)
    assert metrics.missing == []
    assert sorted(found["signal"].to_pylist()) == ["cache_misses", "cache_misses", "load_usage", "load_usage"]
    servers = servers_of(found, brokers=1, end_seconds=now.timestamp())
    assert servers.bad_reports == 1
    assert servers.misses == {"shop/orders/paid": 12.5}


@pytest.mark.parametrize("page", [b"no page of metrics", b"", b"pulsar_lb_cpu_usage{ 3\n"])
def test_a_page_that_nobody_promised_is_no_gap_and_one_of_the_settings_is(page: bytes) -> None:
    """A proxy has another page, or a broker asks for a token there."""
    with serving(pages(page)) as (cluster, script):
        metrics = DispatcherMetrics(cluster)
        metrics.look()
        assert (metrics.missing, metrics.samples(datetime.now(UTC)).num_rows) == ([], 0)
        promised = DispatcherMetrics(
            cluster.model_copy(update={"metrics": [f"{script.url}/metrics/", "http://127.0.0.1:9/metrics"]})
        )
        promised.look()
    assert any("127.0.0.1:9" in it for it in promised.missing)
    assert len(promised.missing) == (2 if b"{ 3" in page else 1)


def test_a_prometheus_that_does_not_answer_is_said() -> None:
    """And nothing is known then."""
    with serving(pages(b"")) as (cluster, _):
        metrics = DispatcherMetrics(cluster.model_copy(update={"prometheus": "http://127.0.0.1:9"}))
        metrics.look()
        assert metrics.samples(datetime.now(UTC)).num_rows == 0
    assert len(metrics.missing) == 1 and "127.0.0.1:9" in metrics.missing[0]
