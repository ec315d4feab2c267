"""A day of 2,000 series from a real Prometheus to a Spark aggregate, beside the way that its client library offers."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from tests.bench.harness import Result, result
from workbench.errors import SetupError
from workbench.lab.prometheus import ensure_prometheus, start_prometheus

SERIES, STEP_SECONDS, HOURS = 2000, 30, 24
METRIC = "kafka_consumergroup_lag"
WARM_UPS = 3  # the JVM compiles during the first queries of a session; the peer's time is Python's


def _backfill(folder: Path, start: int) -> None:
    """Lag that walks up and down, of 20 groups with 10 topics of 10 partitions, into blocks of Prometheus' database."""
    program = ensure_prometheus()
    if program is None:
        raise SetupError("This bench needs a Prometheus.")
    text = folder / "samples.txt"
    with text.open("w") as out:
        out.write(f"# TYPE {METRIC} gauge\n")
        stamps = [start + STEP_SECONDS * number for number in range(HOURS * 3600 // STEP_SECONDS)]
        for series in range(SERIES):
            labels = (
                f'consumergroup="group-{series // 100:02}",topic="topic-{series // 10 % 10}",partition="{series % 10}"'
            )
            value = series * 7 % 1000
            for stamp in stamps:
                value = max(0, value + (series * 31 + stamp // STEP_SECONDS * 17) % 41 - 20)
                out.write(f"{METRIC}{{{labels}}} {value} {stamp}\n")
        out.write("# EOF\n")
    subprocess.run(
        [program.with_name("promtool"), "tsdb", "create-blocks-from", "openmetrics", text, folder / "data"],
        capture_output=True,
        check=True,
    )
    text.unlink()


@contextmanager
def _server() -> Iterator[tuple[str, int, int]]:
    """(URL, first and last instant of the data)."""
    start = (int(time.time()) // 7200 - HOURS // 2 - 2) * 7200  # whole blocks, all in the past
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room) / "prometheus"
        folder.mkdir()
        _backfill(folder, start)
        server = start_prometheus(folder)
        try:
            yield server.url, start, start + HOURS * 3600 - STEP_SECONDS
        finally:
            server.stop()


def _python_memory(root: psutil.Process) -> int:
    """Resident bytes of a process and its Python children (the JVM is the same for all ways)."""
    total = 0
    for process in [root, *root.children(recursive=True)]:
        try:
            if "python" in process.name():
                total += process.memory_info().rss
        except psutil.Error:
            continue
    return total


def _run(way: str, url: str, start: int, end: int) -> dict[str, Any]:
    """One way in a process of its own: seconds of its runs, the aggregate, and the peak of its Python memory in MB."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.prometheus", way, url, str(start), str(end)],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        peak, watched = 0, psutil.Process(child.pid)

        def watch() -> None:
            nonlocal peak
            while child.poll() is None:
                try:
                    peak = max(peak, _python_memory(watched))
                except psutil.Error:
                    return
                time.sleep(0.05)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        assert child.stdout is not None
        said = child.stdout.read()
        assert child.wait() == 0
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return {**found, "peak_mb": round(peak / 1e6)}


_measured: dict[str, dict[str, Any]] = {}


def _measure() -> dict[str, dict[str, Any]]:
    """All ways on the same server, once for both benches; the samples must be the same to the last bit."""
    if not _measured:
        with _server() as (url, start, end):
            for way in ("json", "remote_read", "naive"):
                _measured[way] = _run(way, url, start, end)
        ways = list(_measured.values())
        assert all(found["fingerprint"] == ways[0]["fingerprint"] for found in ways)
        assert ways[0]["fingerprint"][0] == SERIES * HOURS * 3600 // STEP_SECONDS
        assert [len(found["aggregate"]) for found in ways] == [
            20,
            20,
            20,
        ]  # groups; means differ in their last bits by order
    return _measured


def _result(name: str, way: str) -> Result:
    found = _measure()
    ours, naive = found[way], found["naive"]
    samples = SERIES * HOURS * 3600 // STEP_SECONDS
    made = result(
        name,
        f"{samples:,} samples to means and maxima of 20 groups; Python's peak {ours['peak_mb']} MB, the peer's {naive['peak_mb']} MB",
        ours["seconds"],
        peer=naive["seconds"],
        peer_name="custom_query_range + MetricRangeDataFrame + createDataFrame",
    )
    return replace(made, peak_memory_mb=ours["peak_mb"])


def prometheus_json_to_spark() -> Result:
    """By JSON, parsed by column."""
    return _result("prometheus_json_to_spark", "json")


def prometheus_remote_read_to_spark() -> Result:
    """By stored chunks."""
    return _result("prometheus_remote_read_to_spark", "remote_read")


# What runs in the child


def _ours(spark: Any, way: str, url: str, start: int, end: int) -> Any:
    from workbench.collect.prometheus_frames import read_samples

    return read_samples(spark, url=url, selector=METRIC, start=str(start), end=str(end), wire=way)


def _naive(spark: Any, url: str, start: int, end: int) -> Any:
    from prometheus_api_client import MetricRangeDataFrame, PrometheusConnect

    times = [datetime.fromtimestamp(at, UTC) for at in (start, end)]
    answer = PrometheusConnect(url).custom_query_range(METRIC, *times, str(STEP_SECONDS))
    return spark.createDataFrame(MetricRangeDataFrame(answer).reset_index())


def _aggregate(frame: Any) -> list[Any]:
    """What is timed: the mean and the highest lag of each group."""
    from pyspark.sql import functions as F

    return sorted(frame.groupBy("consumergroup").agg(F.avg("value"), F.max("value")).collect())


def _fingerprint(frame: Any, time_column: str) -> list[Any]:
    """Not timed: one number that any other bit in any sample would change, in whatever order they come."""
    from pyspark.sql.functions import expr

    row = frame.select(
        expr(f"xxhash64(unix_micros({time_column}), value, consumergroup, topic, partition) AS hash")
    ).agg(expr("count(*)"), expr("bit_xor(hash)"), expr("sum(hash & 16777215)"))
    return list(row.collect()[0])


def main(way: str, url: str, start: int, end: int) -> None:
    """Warm up, then measure; the peer is warmed up on an hour, since its day takes half a minute."""
    from workbench.spark.session import end as end_session
    from workbench.spark.session import for_much_data, session

    spark = session(kept=True)
    for_much_data(spark)

    def frame(upto: int) -> Any:
        return _naive(spark, url, start, upto) if way == "naive" else _ours(spark, way, url, start, upto)

    for _ in range(1 if way == "naive" else WARM_UPS):
        _aggregate(frame(start + 3600 if way == "naive" else end))
    seconds, found = [], []
    for _ in range(1 if way == "naive" else 5):
        began = time.perf_counter()
        found = _aggregate(frame(end))
        seconds.append(time.perf_counter() - began)
    said = {
        "seconds": sorted(seconds)[len(seconds) // 2],
        "aggregate": [list(row) for row in found],
        "fingerprint": _fingerprint(frame(end), "timestamp" if way == "naive" else "ts"),
    }
    print(json.dumps(said))
    end_session(spark)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
