"""A real VictoriaMetrics answers as a real Prometheus does that scrapes the same page."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from tests.profiles.pages import PAGES
from tests.servers import Script, scripted
from workbench.collect.samples_from_prometheus import PrometheusSource
from workbench.lab import process
from workbench.lab.prometheus import ensure_prometheus, ensure_victoria_metrics, start_prometheus
from workbench.profiles import load_profile
from workbench.profiles.profile_fit import fitting
from workbench.prometheus_settings import PrometheusAddress
from workbench.window import Window

REBALANCE = "kafka_consumer_consumer_coordinator_metrics_rebalance"
PAGE = (
    PAGES["kafka_exporter"]
    + PAGES["jmx_exporter_plain"].replace("_rebalance_total", "_rebalance")
    + f'{REBALANCE}_total{{client_id="pay-0"}} 9\n{REBALANCE}_total{{client_id="pay-1"}} 7\n'  # another agent's name
    + PAGES["otel_messaging"]
).lstrip()
PROFILES = ("kafka_exporter", "jmx_exporter_plain", "otel_messaging")


def source(url: str) -> PrometheusSource:
    """Of one server."""
    profiles = [load_profile(name) for name in PROFILES]
    return PrometheusSource(
        addresses=[PrometheusAddress(url=url)],
        cluster="c",
        profiles=profiles,
        members={"pay-0": "pay", "pay-1": "pay"},
        timeout_seconds=10,
    )


def fits_of(url: str) -> list[tuple[str, tuple[str, ...]]]:
    """What `profiles check` finds: profiles with their signals, best first."""
    asked = source(url)
    return [(it.profile.name, it.found) for it in fitting(asked.profiles, asked.examples())]


def has_scraped(url: str) -> bool:
    """Whether some samples are there."""
    try:
        answer = requests.get(
            f"{url}/api/v1/query", params={"query": "count_over_time(kafka_brokers[1m])"}, timeout=5
        ).json()
    except (requests.RequestException, ValueError):
        return False
    found = answer["data"]["result"]
    return bool(found) and float(found[0]["value"][1]) >= 5


def measured(url: str) -> set[tuple[Any, ...]]:
    """Every series with its value; the page stands still, so the times of the scrapes do not matter."""
    window = Window.ending(datetime.now(UTC), length=timedelta(minutes=1), baseline=timedelta(minutes=1))
    rows = source(url).collect(window).series.to_samples().to_pylist()
    names = ("signal", "stat", "le", "group", "topic", "partition", "member", "processor", "source", "flag")
    return {
        (*(row[name] for name in names), None if row["value"] is None or math.isnan(row["value"]) else row["value"])
        for row in rows
    }


@pytest.mark.apt
def test_victoriametrics_gives_the_same_samples(tmp_path: Path) -> None:
    """Counters, histograms, sentinels and labels; each profile fits alike, and two names of a counter are not added up."""
    program = ensure_victoria_metrics()
    assert program is not None, "VictoriaMetrics cannot be had from the system's package manager"
    assert ensure_prometheus() is not None, "Prometheus cannot be had from the system's package manager"
    with scripted(Script(body=PAGE.encode(), headers={"Content-Type": "text/plain; version=0.0.4"})) as page:
        target = urlsplit(page.url).netloc
        prometheus = start_prometheus(tmp_path / "prometheus")
        victoria = None
        try:
            (prometheus.targets / "page.json").write_text(json.dumps([{"targets": [target]}]))
            config = tmp_path / "scrape.yml"
            config.write_text(
                "global: {scrape_interval: 1s}\n"
                f"scrape_configs: [{{job_name: lab, static_configs: [{{targets: ['{target}']}}]}}]\n"
            )
            port = process.free_port()
            words: list[str | Path] = [program, f"-promscrape.config={config}", f"-storageDataPath={tmp_path}/data"]
            words += [f"-httpListenAddr=127.0.0.1:{port}", "-search.latencyOffset=0s", "-memory.allowedBytes=100MB"]
            victoria = process.start("victoria-metrics", words, folder=tmp_path)
            urls = [prometheus.url, f"http://127.0.0.1:{port}"]
            deadline = time.monotonic() + 120
            while not all(map(has_scraped, urls)):
                assert time.monotonic() < deadline
                time.sleep(0.5)
            theirs, ours = (measured(url) for url in urls)
            assert ours == theirs
            assert {row[0] for row in ours} >= {"consumer_lag", "process_time", "rebalances", "start_time"}
            assert {(row[6], row[-1]) for row in ours if row[0] == "rebalances"} == {("pay-0", 4.0), ("pay-1", 7.0)}
            fits = [fits_of(url) for url in urls]
            assert fits[0] == fits[1]
            assert {name for name, _ in fits[0]} == set(PROFILES)
        finally:
            if victoria is not None:
                victoria.kill()
            prometheus.stop()
