"""Parsers of what is measured: Prometheus, metrics pages, statistics, captures, stores."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.stories import THRESHOLDS, WINDOW, lagging
from tests.chunks import answer, bits_of, encode
from tests.fuzz.mutators import (
    TOKENS,
    json_text,
    of_bytes,
    of_json,
    of_lines,
)
from tests.fuzz.target import CAPTURES, SECRET, Case, Target, Web, changed, folder_of, written
from tests.profiles.pages import PAGES
from workbench.collect import capture, remote_read
from workbench.collect.samples_from_prometheus import PrometheusSource
from workbench.profiles import load_profile
from workbench.prometheus_settings import PrometheusAddress
from workbench.samples import GROUPS_SCHEMA

_ROOM_GIB = 0.1  # of a capture: in Arrow's memory it takes up to three times of it for a moment
_ROOM_BYTES = round(3 * _ROOM_GIB * 2**30)

# Prometheus

_JSON, _HTML = "application/json", "text/html"
_LABELS = {"__name__": "kafka_consumergroup_lag", "consumergroup": "pay", "topic": "orders"}
_T0 = WINDOW.end.timestamp() - 60


def _matrix(samples: int = 5, series: int = 3, **more: Any) -> bytes:
    result = [
        {
            "metric": {**_LABELS, "partition": str(number)},
            "values": [[_T0 + at * 2, str(at * 10 + number)] for at in range(samples)],
        }
        for number in range(series)
    ]
    return json_text({"status": "success", "data": {"resultType": "matrix", "result": result}, **more})


_MATRICES = (
    _matrix(),
    _matrix(20, 2, warnings=["a store is down"], infos=["PromQL info: metric might not be a counter"]),
    _matrix(1, 1).replace(b'"10"', b'"NaN"').replace(b'"0"', b'"+Inf"'),
    json_text({"status": "success", "isPartial": True, "data": {"resultType": "matrix", "result": []}}),
    json_text({"status": "error", "errorType": "execution", "error": "query timed out"}),
    json.dumps(json.loads(_matrix(3, 2)), indent=1).encode(),
)


def _source() -> PrometheusSource:
    return PrometheusSource(
        addresses=[PrometheusAddress(url=f"http://user:{SECRET}@prometheus:9090")],
        cluster="c",
        profiles=[load_profile("kafka_exporter")],
    )


def _prometheus(web: Web) -> Target:
    def make(random: Random) -> Case:
        status = random.choice((*(200,) * 9, 400, 422, 503))
        return {"status": str(status).encode(), "body": changed(of_json, *_MATRICES)(random)}

    def call(case: Mapping[str, bytes], _folder: Path) -> object:
        web.answers = {"": (int(case["status"]), _JSON, case["body"])}
        found = _source().collect(WINDOW, groups=["pay"])
        return found.series.to_samples().num_rows, found.incomplete

    return Target(name="prometheus_json", make=make, call=call, share=10)


def _remote_read(web: Web) -> Target:
    """The stream of chunks is not compressed: what is changed are the stream, the messages in it and the bits of a chunk."""
    start = int(_T0 * 1000)
    chunks = [
        encode([(start + 2000 * at, bits_of(float(number * at))) for at in range(length)])
        for number, length in enumerate((1, 5, 30, 120))
    ]
    named = [{**_LABELS, "partition": str(number)} for number in range(4)]

    def make(random: Random) -> bytes:
        parts = []
        for labels in named[: random.randint(1, 4)]:
            picked = [random.choice(chunks) for _ in range(random.randint(1, 3))]
            if random.random() < 0.5:
                picked[0] = of_bytes(random, picked[0], chunks)
            labels = dict(labels)
            if random.random() < 0.2:
                token = random.choice(TOKENS).decode(errors="replace")
                labels[random.choice(list(labels))] = token
            parts.append((labels, picked, random.choice((1, 1, 1, 1, 1, 1, 1, 2, 3, 0))))
        times = random.choice(((), (start, start + 10), (2**63 - 1, 0)))
        body = answer(*parts, times=times)
        if random.random() < 0.3:  # within a frame whose length is right
            message = of_bytes(random, remote_read._bytes(1, random.randbytes(random.randint(0, 60))))
            body += remote_read._varint(len(message)) + b"crc!" + message
        return of_bytes(random, body) if random.random() < 0.6 else body

    def call(body: bytes, _folder: Path) -> object:
        web.answers = {
            "/api/v1/read": (200, "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse", body),
            "": (200, _JSON, _MATRICES[0]),
        }
        remote_read._label.cache_clear()  # so that an input does the same whatever came before it
        found = _source().collect(WINDOW)
        return found.series.to_samples().num_rows, found.incomplete

    # Two bits are a sample, and 50 bytes while it is decoded; a series has some names.
    return Target(name="remote_read", make=make, call=call, share=8, most_per_byte=2000)


# Metrics pages and statistics


def _exposition(web: Web) -> Target:
    from workbench.collect.scrape import scrape

    pages = {name: text.encode() for name, text in PAGES.items()}
    profiles = [load_profile(name) for name in ("kafka_exporter", "kminion", "micrometer", "runtime")]
    seeds = [pages[name] for name in ("kafka_exporter", "kminion", "micrometer", "otel_kafkametrics", "faststream")]
    histogram = (
        b"# HELP wb_process_time_seconds of\n# TYPE wb_process_time_seconds histogram\n"
        b'wb_process_time_seconds_bucket{group="g",topic="t",member="m",processor="p",le="+Inf"} 3.0 1700000000000\n'
        b'wb_process_time_seconds_sum{group="g",topic="t",member="m",processor="p"} 0.6 # {trace_id="a"} 1\n'
        b'wb_consumer_lag_messages{group="a\\"b\\nc",topic="<img>",partition="1",member="m"} NaN\n'
    )

    def call(body: bytes, _folder: Path) -> object:
        web.answers = {"": (200, "text/plain", body)}
        found, missing = scrape([f"http://user:{SECRET}@h:1/metrics"], profiles, cluster="c", timeout_seconds=5)
        return found.to_samples().num_rows, missing

    return Target(name="exposition", make=changed(of_bytes, histogram, histogram, *seeds), call=call, share=8)


_STATISTICS = {
    "name": "rdkafka#consumer-1",
    "client_id": "pay-0",
    "type": "consumer",
    "time": 1700000000,
    "brokers": {
        "b:9092/1": {
            "nodeid": 1, "nodename": "b:9092", "source": "learned",
            "rtt": {"avg": 12000, "cnt": 3}, "throttle": {"avg": 20, "cnt": 1},
        },
        "GroupCoordinator": {"nodeid": 1, "nodename": "b:9092", "source": "logical", "rxidle": 3000000, "rtt": {}},
        "b:9093/bootstrap": {"nodeid": -1, "nodename": "", "source": "configured"},
    },
    "topics": {
        "orders": {
            "topic": "orders",
            "partitions": {
                "-1": {"desired": False, "unknown": False, "consumer_lag": -1},
                "3": {"desired": True, "unknown": False, "consumer_lag": 120, "committed_offset": 880, "fetchq_cnt": 7},
            },
        }
    },
    "cgrp": {"rebalance_cnt": 4, "state": "up"},
}  # fmt: skip


def _statistics() -> Target:
    from workbench.collect.librdkafka_statistics import statistics_samples

    seeds = (json_text(_STATISTICS), json_text(_STATISTICS) + b"\n" + json_text({**_STATISTICS, "time": 1700000001}))

    def call(data: bytes, _folder: Path) -> object:
        return statistics_samples(data.decode(errors="replace").split("\n"), cluster="c").num_rows

    return Target(name="statistics_log", make=changed(of_lines, *seeds), call=call)


def _own_statistics() -> Target:
    from workbench.kafka.runtime.kafka_source import KafkaSource

    def call(data: bytes, _folder: Path) -> object:
        source: Any = object.__new__(KafkaSource)
        source._health = None
        source._made_seconds = 0.0
        source._on_stats(data.decode(errors="replace"))
        return source.health()

    return Target(name="statistics_callback", make=changed(of_json, json_text(_STATISTICS)), call=call)


# Captures and stores


def _table_bytes(random: Random, table: pa.Table) -> bytes:
    """The table with a column less, of another type, or of many rows that weigh little on the disk."""
    how, at = random.randrange(6), random.randrange(table.num_columns)
    name = table.schema.names[at]
    rows = table.num_rows
    if how == 0:
        table = table.drop_columns([name])
    elif how == 1:
        other = random.choice(
            (
                pa.nulls(rows),
                pa.array([{"a": [1]}] * rows),
                pa.array([b"\xff\xfe"] * rows),
                pa.array([2**63 - 1] * rows),
            )
        )
        table = table.set_column(at, name, other)
    elif how == 2:
        table = table.append_column(random.choice((name, "", "x\x1b[0m")), pa.array([1] * rows))
    elif how == 3:
        table = pa.concat_tables([table.slice(0, 1)] * 1).take(pa.array([0] * random.choice((1, 1000, 200_000))))
    elif how == 4 and pa.types.is_string(table.schema.field(at).type):
        table = table.set_column(at, name, pa.array([random.choice(("\x1b[31m", "", "²", "a" * 100_000))] * rows))
    elif how == 5 and pa.types.is_floating(table.schema.field(at).type):
        table = table.set_column(at, name, pa.array([random.choice((float("nan"), float("inf"), -1.0, 1e308))] * rows))
    out = io.BytesIO()
    pq.write_table(table, out, compression=random.choice(("none", "zstd", "snappy")))
    return out.getvalue()


def _capture(folder: Path) -> Target:
    seeds = [folder_of(path) for path in sorted(CAPTURES.iterdir())]
    group = {
        "ts": datetime(2026, 11, 21, tzinfo=UTC),
        "cluster": "c",
        "group": "payments",
        "state": "stable",
        "partition": 1,
    }
    made = capture.Capture(
        info=capture.new_info(cluster="c", source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS),
        samples=lagging().samples(),
        groups=pa.Table.from_pylist([group], schema=GROUPS_SCHEMA),
        events=({"ts": "2026-11-21T02:58:00Z", "kind": "deploy", "text": "v214"},),
    )
    capture.write_capture(folder / "seed", made)
    seeds.append(folder_of(folder / "seed"))
    tables = {capture.SAMPLES: made.samples.slice(0, 200), capture.GROUPS: made.groups}

    def make(random: Random) -> Case:
        case = dict(random.choice(seeds))
        name = random.choice(sorted(case))
        how = random.randrange(10)
        if name == capture.INFO or how == 9:
            case[capture.INFO] = of_json(random, case[capture.INFO])
            return case
        if how == 0:
            case["parts/samples-0000.parquet" if random.random() < 0.5 else "x\x1b"] = case.pop(name)
        elif name == capture.EVENTS:
            case[name] = of_lines(random, case[name] or seeds[-1][name])
        elif how < 4:
            case[name] = _table_bytes(random, tables[name])
        elif how < 8:  # the footer and the heads of pages, where the numbers stand
            data, tail = case[name], random.choice((8, 200, 2000))
            case[name] = data[:-tail] + of_bytes(random, data[-tail:])
        else:
            case[name] = of_bytes(random, case[name])
        if random.random() < 0.9:  # with checksums that fit: whoever made the folder can count, too
            head = json.loads(case.get(capture.INFO, seeds[-1][capture.INFO]))
            for item in head["files"]:
                if item in case:
                    head["files"][item]["sha256"] = hashlib.sha256(case[item]).hexdigest()
            if random.random() < 0.2:
                head["state"] = "recording"
                case = {
                    item if item == capture.INFO else f"parts/{item.replace('.', '-0000.', 1)}": data
                    for item, data in case.items()
                }
            case[capture.INFO] = json_text(head)
        return case

    def call(case: Mapping[str, bytes], folder: Path) -> object:
        found = capture.read_capture(written(folder, case), room_gib=_ROOM_GIB)
        return found.samples.num_rows, found.groups.num_rows, len(found.events), found.window

    return Target(name="capture", make=make, call=call, share=6, most_bytes=_ROOM_BYTES)


def _landed() -> Target:
    from workbench.sweep.read_store import rows_of, whole_file

    table = lagging().samples().slice(0, 200)

    def make(random: Random) -> Case:
        data = _table_bytes(random, table)
        tail = random.choice((8, 200, 2000, len(data)))
        return data[:-tail] + of_bytes(random, data[-tail:]) if random.random() < 0.6 else data

    def call(data: bytes, folder: Path) -> object:
        os.environ[capture.ROOM_VARIABLE] = str(_ROOM_GIB)
        digest = hashlib.sha256(data).hexdigest()[:24]
        path = folder / f"part-{digest}.parquet"
        path.write_bytes(data)
        try:
            return rows_of(path, {"payments"}, {"orders"}).num_rows, whole_file(path, digest).num_rows
        finally:
            path.unlink()

    return Target(name="landed_file", make=make, call=call, share=2, most_bytes=_ROOM_BYTES)


def _store() -> Target:
    from workbench.sweep.fleet_store import open_store

    seed = {
        "schema": "workbench.store/1",
        "cluster": "c",
        "slot_seconds": 900,
        "bootstrap": "b:9092",
        "profiles": ["runtime"],
    }

    def make(random: Random) -> Case:
        end = random.choice(("day=2026-11-21/slot=031500", "day=9999-12-31/slot=235959", "day=1970-01-01/slot=000000"))
        incomplete = of_json(random, b'["a store is down"]') if random.random() < 0.5 else b'["x"]'
        return {"store.json": of_json(random, json_text(seed)), f"samples/{end}/_incomplete.json": incomplete}

    def call(case: Mapping[str, bytes], folder: Path) -> object:
        store = open_store(written(folder, case))
        ends = store.landed()
        return [store.missing_of(end) for end in ends], store.window() if ends else None

    return Target(name="store", make=make, call=call, share=2)


def targets(web: Web, folder: Path) -> list[Target]:
    """All of this module."""
    return [
        _prometheus(web),
        _remote_read(web),
        _exposition(web),
        _statistics(),
        _own_statistics(),
        _capture(folder),
        _landed(),
        _store(),
    ]
