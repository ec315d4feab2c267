"""The five lines of the documentation, on a day of a large cluster: as fast as the data source itself."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.bench.prometheus import HOURS, METRIC, SERIES, STEP_SECONDS, _server
from workbench import api
from workbench.collect.prometheus_frames import read_samples
from workbench.lab.prometheus import ensure_prometheus
from workbench.spark.session import for_much_data, session

SAMPLES = SERIES * HOURS * 3600 // STEP_SECONDS
ROUNDS = 3


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.lab
def test_a_day_of_a_large_cluster_by_the_api(tmp_path: Path) -> None:
    """5.76 million samples; not slower than the reader below it in a session that is set up for it."""
    assert ensure_prometheus() is not None, "this needs a Prometheus"
    with _server() as (url, start, end):
        config = tmp_path / "workbench.toml"
        config.write_text(f'[clusters.big]\nprometheus = "{url}"\ntimeout_seconds = 120\n', encoding="utf-8")
        first, last = (datetime.fromtimestamp(at, UTC).isoformat() for at in (start, end))

        def by_api() -> int:
            lag = api.samples(METRIC, cluster="big", since=first, until=last, config=config)
            groups = lag.groupBy("consumergroup").agg({"value": "max", "*": "count"}).collect()
            assert len(groups) == 20
            return sum(row["count(1)"] for row in groups)

        def by_reader() -> int:
            spark = session().newSession()
            for_much_data(spark)
            lag = read_samples(spark, url=url, selector=METRIC, start=str(start), end=str(end))
            return sum(
                row["count(1)"] for row in lag.groupBy("consumergroup").agg({"value": "max", "*": "count"}).collect()
            )

        seconds: dict[str, list[float]] = {"api": [], "reader": []}
        assert by_api() == by_reader() == SAMPLES
        for _ in range(ROUNDS):
            for name, run in (("api", by_api), ("reader", by_reader)):
                began = time.perf_counter()
                assert run() == SAMPLES
                seconds[name].append(time.perf_counter() - began)
        print({name: [round(each, 2) for each in found] for name, found in seconds.items()})
        assert min(seconds["api"]) <= 1.25 * min(seconds["reader"])
