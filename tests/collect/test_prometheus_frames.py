"""Rules of the Prometheus data source: the whole range or an error, no sample twice, the same by every way."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.chunks import answer, bits_of, encode
from tests.collect.test_remote_read import A, B
from tests.servers import Script, scripted
from workbench.collect.prometheus_frames import (
    PrometheusFrames,
    QueryRequest,
    TimeRange,
    estimated_samples,
    read_range,
    read_samples,
    tasks_for,
)

STREAM = {"Content-Type": "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"}


def options(url: str, /, **more: str) -> dict[str, str]:
    """Of ten seconds from the epoch."""
    return {"url": url, "selector": "lag", "start": "1", "end": "10", "labels": "topic", **more}


@pytest.mark.parametrize("text", ["rate(lag[5m])", "a + b", "", "{}", 'lag{a="b"', "lag{a=b}", "lag{a}", "lag[5m]"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    """Functions are Spark's business."""
    with pytest.raises(ValueError, match=r"selector|matcher|missing"):
        QueryRequest.of(options("http://x", selector=text))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", ""),
        ("start", "yesterday"),
        ("start", "2026-11-21T03:00:00"),
        ("start", "11"),
        ("wire", "smoke"),
        ("rows", "columns"),
    ],
)
def test_a_wrong_option_is_named(name: str, value: str) -> None:
    """Before anything is asked for."""
    with pytest.raises(ValueError, match=name):
        QueryRequest.of(options("http://x", **{name: value}))


CHUNK = encode([(1000, bits_of(1.5)), (2000, bits_of(2.5)), (11_000, bits_of(9.0))])
MATRIX = json.dumps(
    {
        "status": "success",
        "data": {"resultType": "matrix", "result": [{"metric": A, "values": [[1, "1.5"], [2, "2.5"], [11, "9"]]}]},
    },
    separators=(",", ":"),
).encode()


def test_chunks_and_json_give_the_same() -> None:
    """What lies outside of the range is dropped by both."""
    with (
        scripted(Script(body=answer((A, [CHUNK], 1)), headers=STREAM)) as chunks,
        scripted(Script(body=MATRIX)) as plain,
    ):
        whole = TimeRange(1000, 10_000)
        ours = read_range(QueryRequest.of(options(chunks.url, wire="remote_read")), whole)
        theirs = read_range(QueryRequest.of(options(plain.url, wire="json")), whole)
        assert list(ours.labels) == list(theirs.labels) == [A]
        assert ours.ts_us.tolist() == theirs.ts_us.tolist() == [1_000_000, 2_000_000]
        assert ours.values.tolist() == theirs.values.tolist() == [1.5, 2.5]


def test_without_remote_read_json_is_asked_for_unless_that_is_forbidden() -> None:
    """A server that answers every path with a matrix offers no chunks."""
    with scripted(Script(body=MATRIX)) as server:
        assert len(read_range(QueryRequest.of(options(server.url)), TimeRange(1000, 10_000)).ts_us) == 2
        assert [path for path, _, _ in server.requests] == ["/api/v1/read", "/api/v1/query"]
        with pytest.raises(RuntimeError, match="not offered"):
            read_range(QueryRequest.of(options(server.url, wire="remote_read")), TimeRange(1000, 10_000))


def test_an_incomplete_answer_is_an_error() -> None:
    """Warnings mean that something is missing (a store of Thanos that did not answer): no frame with a hole."""
    many = json.dumps(["store unreachable", *(f"{number} {'x' * 300}" for number in range(20))]).encode()
    for told, words in (
        (b',"warnings":["store unreachable"]', "store unreachable"),
        (b',"warnings":' + many, "store unreachable"),
        (b',"isPartial":true', "isPartial"),
    ):
        with scripted(Script(body=MATRIX[:-1] + told + b"}")) as server, pytest.raises(RuntimeError, match=words):
            read_range(QueryRequest.of(options(server.url, wire="json")), TimeRange(1000, 10_000))
    with (
        scripted(Script(status=422, body=b"too many samples")) as server,
        pytest.raises(RuntimeError, match="too many"),
    ):
        read_range(QueryRequest.of(options(server.url, wire="json")), TimeRange(1000, 10_000))
    with pytest.raises(RuntimeError, match="reached"):
        read_range(QueryRequest.of(options("http://127.0.0.1:9")), TimeRange(1000, 10_000))


@pytest.mark.parametrize(
    ("samples", "cores", "tasks"),
    [
        (0, 0, 1), (500_000, 0, 1), (500_001, 0, 2), (5_760_000, 0, 12), (5_760_000, 2, 4), (900_000, 2, 2), (0, 2, 1),
        (16_000_000, 2, 4), (16_000_001, 2, 5), (126_000_000, 2, 32), (126_000_000, 64, 128),
    ],
)  # fmt: skip
def test_tasks_are_few_but_none_is_huge(samples: int, cores: int, tasks: int) -> None:
    """Each costs 30 ms; each holds its samples in memory."""
    assert tasks_for(samples, cores=cores) == tasks


def test_samples_are_counted_in_a_part_of_the_window() -> None:
    """Four short spans; if nothing falls into those, the whole window after all."""

    def counted(text: str) -> bytes:
        return b'{"status":"success","data":{"resultType":"vector","result":[%s]}}' % text.encode()

    day = {"start": "0", "end": "86400"}
    some, none = Script(body=counted('{"metric":{},"value":[1,"100"]}')), Script(body=counted(""))
    with scripted(some) as server:
        assert estimated_samples(QueryRequest.of(options(server.url, **day))) == 4 * 100 * 24
        assert len(server.requests) == 4
    with scripted(none) as server:
        assert estimated_samples(QueryRequest.of(options(server.url, **day))) == 0
        assert len(server.requests) == 5
    with scripted(some) as server:  # a window of no length
        assert estimated_samples(QueryRequest.of(options(server.url, start="1", end="1"))) == 100


@pytest.mark.jvm
def test_spark_reads_values_flags_and_labels(spark: Any) -> None:
    """NaN, infinities and staleness markers are NULL with a flag; a label that a series lacks is NULL; hostile labels stay whole."""
    odd = encode([(1000, bits_of(float("nan"))), (2000, bits_of(float("-inf"))), (3000, 0x7FF0000000000002), (4000, 0)])
    with scripted(
        Script(body=answer((A, [odd], 1), (B, [CHUNK], 1), ({"x": "y"}, [CHUNK], 1)), headers=STREAM)
    ) as server:
        spark.dataSource.register(PrometheusFrames)
        frame = spark.read.format("prometheus").options(**options(server.url, tasks="1", wire="remote_read")).load()
        rows = frame.orderBy("topic", "ts").collect()
        assert [(row.topic, row.value, row.flag) for row in rows] == [
            (None, 1.5, None),
            (None, 2.5, None),
            ('o"\n', None, "nan"),
            ('o"\n', None, "inf"),
            ('o"\n', None, "stale"),
            ('o"\n', 0.0, None),
            ("é", 1.5, None),
            ("é", 2.5, None),
        ]
        assert rows[0].ts.replace(tzinfo=UTC) == datetime.fromtimestamp(1, UTC)
        spread = read_samples(spark, **options(server.url, tasks="1", wire="remote_read"))
        assert spread.schema == frame.schema
        assert spread.orderBy("topic", "ts").collect() == rows
        # A session that is derived from this one has the source already.
        again = read_samples(spark.newSession(), **options(server.url, tasks="1", wire="remote_read"))
        assert again.orderBy("topic", "ts").collect() == rows


@pytest.mark.jvm
@pytest.mark.lab
def test_filters_reach_the_server_and_tasks_share_the_range(spark: Any, prometheus_url: str) -> None:
    """On a real Prometheus: the same rows with one task or five, with chunks or JSON, with or without push-down."""
    spark.dataSource.register(PrometheusFrames)
    deadline = time.monotonic() + 30
    found: list[Any] = []
    while len(found) < 20 and time.monotonic() < deadline:
        time.sleep(2)
        end = int(time.time()) - 3
        base = {
            "url": prometheus_url,
            "selector": "up",
            "start": str(end - 60),
            "end": str(end),
            "labels": "job,instance",
        }
        found = sorted(map(tuple, spark.read.format("prometheus").options(**base, tasks="1").load().collect()), key=str)
    assert len(found) >= 20
    for more in ({"tasks": "5"}, {"wire": "json", "tasks": "3"}, {}):
        assert (
            sorted(map(tuple, spark.read.format("prometheus").options(**base, **more).load().collect()), key=str)
            == found
        )
        assert sorted(map(tuple, read_samples(spark, **base, **more).collect()), key=str) == found
    middle = found[len(found) // 2][0]
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushed = spark.read.format("prometheus").options(**base, pushdown="true", tasks="2").load()
        instance = found[0][4]
        some = pushed.where((pushed.ts >= middle) & (pushed.instance == instance))
        wanted = [row for row in found if row[0] >= middle and row[4] == instance]
        assert sorted(map(tuple, some.collect()), key=str) == wanted
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
