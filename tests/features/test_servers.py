"""Brokers as a unit of their own: their series and who leads what come through to Spark, whatever the way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.profiles.pages import PAGES
from workbench.collect.capture import Capture, new_info, read_capture, write_capture
from workbench.collect.scrape import Page, page_series
from workbench.features.servers import OF_SERVERS, leaders, of_servers
from workbench.profiles import load_profile
from workbench.samples import SampleBatch
from workbench.spark.session import frame_of
from workbench.window import Window

pytestmark = pytest.mark.jvm

END = datetime(2026, 11, 26, 3, 0, tzinfo=UTC)
WINDOW = Window(baseline_start=END - timedelta(minutes=10), start=END - timedelta(minutes=5), end=END)


def at(minutes: float) -> int:
    """Microseconds since the epoch, so long before the end."""
    return round((END - timedelta(minutes=minutes)).timestamp() * 1e6)


def found(spark: Any, table: pa.Table) -> dict[tuple[str, str, str], Any]:
    """Rows by broker, signal and stat."""
    rows = of_servers(frame_of(spark, table), WINDOW).collect()
    return {(row["broker"], row["signal"], row["stat"]): row for row in rows}


def test_a_page_of_a_broker_comes_through_a_capture(spark: Any, tmp_path: Path) -> None:
    """Every signal of the recorded page, under the address of its target."""
    page = Page(url="http://broker-1:5556/metrics", taken_at=at(1) / 1e6, text=PAGES["jmx_kafka_broker"])
    [series] = page_series(page, [load_profile("jmx_kafka_broker")], cluster="c")
    info = new_info(cluster="c", source="watch", profiles=["jmx_kafka_broker"], window=WINDOW)
    write_capture(tmp_path / "kept", Capture(info=info, samples=series.to_samples()))
    rows = found(spark, read_capture(tmp_path / "kept").samples)
    assert {signal for _, signal, _ in rows} == set(OF_SERVERS)
    assert {broker for broker, _, _ in rows} == {"broker-1:5556"}
    assert rows["broker-1:5556", "request_time", "Produce"]["now"] == pytest.approx(0.068)
    assert rows["broker-1:5556", "request_time", "Produce"]["before"] is None


def test_now_and_before_are_apart_and_a_counter_is_a_rate(spark: Any) -> None:
    """A counter that begins anew is not a fall; a value that nobody reports is NULL and not 0."""
    batch = SampleBatch("c", "jmx_kafka_broker")
    idle = {9.0: 0.9, 7.0: 0.7, 3.0: 0.2, 1.0: 0.4}
    batch.add("request_handler_idle", {"broker": "b1"}, [at(it) for it in idle], list(idle.values()))
    moments = [9.0, 8.0, 4.0, 3.0, 2.0]
    batch.add(
        "broker_traffic", {"broker": "b1"}, [at(it) for it in moments], [0.0, 600.0, 3000.0, 60.0, 120.0], stat="in"
    )
    rows = found(spark, batch.to_arrow())
    handlers, traffic = rows["b1", "request_handler_idle", "value"], rows["b1", "broker_traffic", "in"]
    assert (handlers["now"], handlers["before"], handlers["last"]) == (pytest.approx(0.3), pytest.approx(0.8), 0.4)
    assert traffic["before"] == pytest.approx(10.0)
    assert traffic["now"] == pytest.approx((10.0 + 1.0 + 1.0) / 3)
    assert ("b2", "request_handler_idle", "value") not in rows


def test_the_last_leader_counts_and_none_is_null(spark: Any) -> None:
    """A partition that has lost its leader is not led by the one before."""
    batch = SampleBatch("c", "kafka")
    batch.add("leader", {"topic": "t", "partition": 0}, [at(4), at(1)], [1, 2])
    batch.add("leader", {"topic": "t", "partition": 1}, [at(4), at(1)], [1, -1])
    rows = leaders(frame_of(spark, batch.to_arrow())).orderBy("partition").collect()
    assert [(row["partition"], row["broker"]) for row in rows] == [(0, 2), (1, None)]
