"""`workbench impact` over a thousand groups on three brokers: shell to answer, as a whole process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

import numpy as np
import pyarrow as pa

from tests.bench.harness import Result, median_seconds, result
from tests.triage.brokers import END, RECORD, WINDOW, Made, after, at
from workbench.collect.capture import Capture, new_info, write_capture
from workbench.errors import SetupError
from workbench.lab.prometheus import ensure_prometheus, start_prometheus

GROUPS, BROKERS = 1_000, 3
_BEGAN = -6.0  # minutes before the end
# As `workbench impact` reads a cluster: the last 15 minutes against the hour before.
_WINDOW = replace(WINDOW, start=END - timedelta(minutes=15), baseline_start=END - timedelta(minutes=75))


def impact_1k() -> Result:
    """From a recording. Each group reads from each broker; one begins to read 50 MB/s from the first, and most there wait."""
    made = thousand()
    info = new_info(cluster="prod", source="bench", profiles=["kafka_exporter", "jmx_kafka_broker"], window=_WINDOW)
    samples = made.samples()
    with tempfile.TemporaryDirectory() as name:
        write_capture(Path(name) / "c", Capture(info=info, samples=samples, groups=made.groups()))
        seconds = median_seconds(lambda: ask("--capture", Path(name) / "c"))
    return result("impact_1k", f"{_WORK}, {samples.num_rows:,} samples, recorded", seconds)


def impact_1k_prometheus() -> Result:
    """The same out of a real Prometheus with the names of the exporters, but for leaders and client ids, which Kafka itself tells."""
    program = ensure_prometheus()
    if program is None:
        raise SetupError("This bench needs a Prometheus.")
    end = int(time.time()) // 7200 * 7200 - 7200
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "prometheus"
        folder.mkdir()
        samples = thousand().samples()
        with (folder / "samples.txt").open("w") as file:
            _open_metrics(samples, file, shift=end - END.timestamp())
        blocks = [program.with_name("promtool"), "tsdb", "create-blocks-from", "openmetrics"]
        subprocess.run([*blocks, folder / "samples.txt", folder / "data"], capture_output=True, check=True)
        server = start_prometheus(folder)
        try:
            profile, settings = Path(name) / "leaders.yaml", Path(name) / "w.toml"
            profile.write_text(_LEADERS)
            profiles = f'["kafka_exporter", "jmx_kafka_broker", "{profile}"]'
            settings.write_text(f'[clusters.c]\nprometheus = "{server.url}"\nprofiles = {profiles}\n')
            since, until = (datetime.fromtimestamp(it, UTC).isoformat() for it in (end - 900, end))
            words = ["--cluster", "c", "--since", since, "--until", until, "--config", settings]
            seconds = median_seconds(lambda: ask(*words))
        finally:
            server.stop()
    work = f"{_WORK}, {samples.num_rows:,} samples in a Prometheus"
    return result("impact_1k_prometheus", work, seconds)


def ask(*words: str | Path) -> None:
    """One process from the shell to the answer, which must be the right one."""
    program = Path(sys.executable).with_name("workbench")
    ran = subprocess.run([program, "impact", *words], capture_output=True, text=True, check=False)
    told = ran.stdout + ran.stderr
    assert ran.returncode == 3 and "backfill" in ran.stdout and "reads 50 MB/s from broker 1" in ran.stdout, told[
        -2000:
    ]


_WORK = f"shell to answer, {GROUPS:,} groups on {BROKERS} brokers, 75 min"
_LEADERS = """title: Leaders, as kafka_exporter tells them
signals:
  leader: {metric: kafka_topic_partition_leader, labels: {topic: topic, partition: partition}}
"""
_REQUEST = "kafka_network_RequestMetrics_99thPercentile"
# The exporters' names of what `Made` tells: metric, further labels, how many of its unit are one of the signal's.
_METRICS: dict[str, tuple[str, str, float]] = {
    "consumer_lag": ("kafka_consumergroup_lag", "", 1),
    "committed_offset": ("kafka_consumergroup_current_offset", "", 1),
    "log_end_offset": ("kafka_topic_partition_current_offset", "", 1),
    "leader": ("kafka_topic_partition_leader", "", 1),
    "server_start_time": ("kafka_server_app_info_StartTimeMs", 'id="{stat}"', 1000),
    "request_queue_time": (_REQUEST, 'name="RequestQueueTimeMs",request="{stat}"', 1000),
    "request_local_time": (_REQUEST, 'name="LocalTimeMs",request="{stat}"', 1000),
    "response_send_time": (_REQUEST, 'name="ResponseSendTimeMs",request="{stat}"', 1000),
    "request_handler_idle": ("kafka_server_KafkaRequestHandlerPool_OneMinuteRate", 'name="RequestHandlerAvgIdlePercent"', 1),
    "network_idle": ("kafka_network_SocketServer_Value", 'name="NetworkProcessorAvgIdlePercent"', 1),
    "broker_traffic": ("kafka_server_BrokerTopicMetrics_Count", 'name="{stat}"', 1),
    "client_reads": ("kafka_server_Fetch_byte_rate", "", 1),
}  # fmt: skip
_LABELS = {
    "group": "consumergroup",
    "topic": "topic",
    "partition": "partition",
    "broker": "instance",
    "member": "client_id",
}


def _open_metrics(samples: pa.Table, file: TextIO, *, shift: float) -> None:
    """Write samples as promtool reads them: the series of a metric together, each in order of time."""
    parts: dict[str, list[str]] = {}
    columns = ["signal", "stat", *_LABELS]
    for key, rows in samples.select([*columns, "ts", "value"]).to_pandas().groupby(columns, dropna=False, sort=False):
        told = dict(zip(columns, key, strict=True))
        metric, more, scale = _METRICS[str(told["signal"])]
        labels = [
            f'{label}="{_word(told[name])}"'
            for name, label in _LABELS.items()
            if told[name] == told[name] and told[name]
        ]
        head = f"{metric}{{{','.join([*labels, *([more.format(stat=told['stat'])] if more else [])])}}}"
        at, values = rows["ts"].astype("int64") / _PER_SECOND[str(rows["ts"].dt.unit)] + shift, rows["value"] * scale
        parts.setdefault(metric, []).extend(
            f"{head} {it!r} {when!r}" for it, when in zip(values.tolist(), at.tolist(), strict=True)
        )
    for metric, lines in parts.items():
        file.write("\n".join([f"# TYPE {metric} gauge", *lines, ""]))
    file.write("# EOF\n")


_PER_SECOND = {"us": 1e6, "ns": 1e9, "ms": 1e3}


def _word(label: object) -> object:
    """A partition is a number with a fraction where other rows have none."""
    return int(label) if isinstance(label, float) else label


def thousand() -> Made:
    """The cluster."""
    made, draw = Made(BROKERS, window=_WINDOW), np.random.default_rng(1)
    for broker in range(1, BROKERS + 1):
        busy = broker == 1
        made.own(broker, "request_handler_idle", at(0.9))
        made.own(broker, "network_idle", after(_BEGAN, 0.1, before=0.9) if busy else at(0.9))
        sends = after(_BEGAN, 1.2, before=0.003) if busy else at(0.003)
        made.own(broker, "response_send_time", sends, kind="FetchConsumer")
        for signal in ("request_queue_time", "request_local_time"):
            made.own(broker, signal, at(0.004), kind="FetchConsumer")
        made.traffic(broker, after(_BEGAN, 9e7, before=5e7) if busy else at(5e7))
        for number in range(GROUPS - 1):
            name, rate = f"service-{number:04d}", float(draw.uniform(20, 200))
            slow = busy and number % 10 < 8
            share = after(_BEGAN, 0.6, before=1.0) if slow else at(1.0)
            made.group(name, broker, at(rate), share, topic=f"events-{number:04d}", clients=1)
            made.reads(f"{name}-0", broker, lambda minutes, rate=rate, share=share: rate * RECORD * share(minutes))  # type: ignore[misc]
    made.group("backfill", 1, at(100), after(_BEGAN, 0.9), clients=1)
    made.reads("backfill-0", 1, after(_BEGAN, 5e7))
    return made
