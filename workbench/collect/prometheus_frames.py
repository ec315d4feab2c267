"""`spark.read.format("prometheus")`: raw samples of Prometheus as a Spark frame, for windows that are too large for the driver.

A Python Data Source that divides the window into time ranges, one task each, and returns Arrow batches. It reads stored chunks (remote
read) if the server offers them, or else JSON, parsed by column. A task with an incomplete answer fails, so a frame is never silently
incomplete.

    from workbench.collect.prometheus_frames import PrometheusFrames, read_samples
    spark.dataSource.register(PrometheusFrames)
    spark.read.format("prometheus").options(url=…, selector='kafka_consumergroup_lag{topic="t"}', start=…, end=…).load()
    read_samples(spark, url=…, selector=…, start=…, end=…)  # the same frame, faster: samples are sent as arrays

Columns: ts timestamp; value double, NULL for values that are not finite; flag string: `nan`, `inf` or `stale` for such a value; then
one string column for each of `labels`. With `rows=series`, ts, value and flag are arrays of the same length, a row for each series and
task; flag is NULL where every value is a finite number.

Options:
    url: base URL of the server.
    selector: a metric name with matchers, or matchers alone. No functions: compute in Spark.
    start, end: timestamps in ISO 8601 with a time zone, or seconds since the epoch; both inclusive.
    labels: label names separated by commas; default `consumergroup,topic,partition`.
    wire: `auto` (default), `remote_read` (fails if the server does not offer it) or `json`.
    rows: `samples` (default) or `series`.
    tasks: number of time ranges; default: one per 500,000 samples, estimated by the server in a part of the window, but at most two per
    core (`cores`) while none has more than 4,000,000.
    cores: of the session; default: unknown. `read_samples` sets it.
    timeout_seconds: for one request; default 120.
    headers_variable: name of an environment variable with HTTP headers as JSON, so that no token is part of a plan.
    headers_file: path of a file with such JSON, where every task can read it; for a session on this computer.
    pushdown: `true` pushes filters on ts and labels down to the query; the session then needs
    spark.sql.python.filterPushdown.enabled=true, or Spark refuses the reader.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import requests
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from workbench.collect.matrix_parser import Matrix, parse_answer
from workbench.collect.remote_read import NotOffered, fetch
from workbench.collect.selectors import LabelMatcher, one_of, parse_selector, to_promql
from workbench.http_client import WebSession
from workbench.samples import STALE_NAN_BITS
from workbench.spark.spark_connect import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Comparison: TypeAlias = GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual | EqualTo
SAMPLES_PER_TASK = 500_000  # a task costs at least about 30 ms
_MOST_SAMPLES_PER_TASK = 4_000_000  # 100 MB of JSON, 200 MB decoded
_TASKS_PER_CORE = 2  # so that one fetches while another decodes
_SPANS, _SPAN_SHARE = 4, 24  # samples are counted in four spans, a 24th of the window together
_SAMPLES_PER_BATCH = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest:
    """Parameters of a query; sent to the executors."""

    url: str
    matchers: tuple[LabelMatcher, ...]
    start_ms: int
    end_ms: int
    labels: tuple[str, ...]
    wire: str
    timeout_seconds: float
    headers_variable: str | None
    rows: str = "samples"
    headers_file: str | None = None

    @classmethod
    def of(cls, options: Any) -> QueryRequest:
        """Parse the options of the data source.

        Raises:
            ValueError: naming the wrong option.
        """
        for name in ("url", "selector", "start", "end"):
            if not options.get(name):
                raise ValueError(f"prometheus: option {name!r} is missing")
        wire = options.get("wire", "auto")
        if wire not in ("auto", "json", "remote_read"):
            raise ValueError(f"prometheus: wire {wire!r} is not one of auto, json, remote_read")
        rows = options.get("rows", "samples")
        if rows not in ("samples", "series"):
            raise ValueError(f"prometheus: rows {rows!r} is not one of samples, series")
        start, end = (_instant_ms(name, options[name]) for name in ("start", "end"))
        if start > end:
            raise ValueError("prometheus: start is after end")
        labels = options.get("labels", "consumergroup,topic,partition").split(",")
        return cls(
            url=options["url"].rstrip("/"),
            matchers=tuple(parse_selector(options["selector"])),
            start_ms=start,
            end_ms=end,
            labels=tuple(name.strip() for name in labels if name.strip()),
            wire=wire,
            timeout_seconds=float(options.get("timeout_seconds", 120)),
            headers_variable=options.get("headers_variable"),
            headers_file=options.get("headers_file"),
            rows=rows,
        )


@dataclass
class TimeRange(InputPartition):
    """Time range of one task: [start_ms, end_ms], both inclusive, in whole milliseconds, so no sample is in two ranges."""

    start_ms: int
    end_ms: int


class PrometheusFrames(DataSource):
    """The data source; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        """Name for `format(…)`."""
        return "prometheus"

    def schema(self) -> str:
        """The columns, in their order."""
        request = QueryRequest.of(self.options)
        labels = "".join(f", `{name}` string" for name in request.labels)
        if request.rows == "series":
            return f"ts array<timestamp>, value array<double>, flag array<string>{labels}"
        return f"ts timestamp, value double, flag string{labels}"

    def reader(self, schema: Any) -> DataSourceReader:
        """Make the reader for these options."""
        del schema
        kind = PushdownReader if self.options.get("pushdown") == "true" else PrometheusReader
        tasks, cores = (int(self.options.get(name, 0)) for name in ("tasks", "cores"))
        return kind(QueryRequest.of(self.options), tasks=tasks, cores=cores)


class PrometheusReader(DataSourceReader):
    """Plans time ranges and reads them."""

    def __init__(self, request: QueryRequest, *, tasks: int = 0, cores: int = 0) -> None:
        self.request = request
        self._tasks = tasks
        self._cores = cores

    def partitions(self) -> list[InputPartition]:
        """Time ranges of about equal length."""
        start, end = self.request.start_ms, self.request.end_ms
        if start > end:  # the filters exclude everything; an empty list would become one partition of None
            return [TimeRange(1, 0)]
        tasks = self._tasks or tasks_for(estimated_samples(self.request), cores=self._cores)
        edges = [start + (end + 1 - start) * number // tasks for number in range(tasks + 1)]
        return [TimeRange(low, high - 1) for low, high in itertools.pairwise(edges) if low < high]

    def read(self, partition: TimeRange) -> Iterator[pa.RecordBatch]:  # type: ignore[override] # its own `partitions` come back
        """The rows of one time range."""
        if partition.start_ms > partition.end_ms:
            return
        batches = _series_batches if self.request.rows == "series" else _batches
        yield from batches(read_range(self.request, partition), self.request.labels)


class PushdownReader(PrometheusReader):
    """The same with pushdown of filters on ts and labels."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow the request; unsupported filters are returned. So are those on ts: Spark compares µs, the query has ms."""
        for item in filters:
            taken = False
            if isinstance(item, EqualTo | In):
                values = [item.value] if isinstance(item, EqualTo) else list(item.value)
                name = item.attribute[0]
                if name in self.request.labels and all(isinstance(value, str) for value in values):
                    matcher = one_of(name, values)
                    self.request = replace(self.request, matchers=(*self.request.matchers, matcher))
                    taken = True
            if isinstance(item, _Comparison) and item.attribute == ("ts",) and isinstance(item.value, datetime):
                self._narrow(item)
            if not taken:
                yield item

    def _narrow(self, item: Any) -> None:
        at = item.value.timestamp() * 1000
        if isinstance(item, GreaterThan | GreaterThanOrEqual | EqualTo):
            self.request = replace(self.request, start_ms=max(self.request.start_ms, math.floor(at)))
        if isinstance(item, LessThan | LessThanOrEqual | EqualTo):
            self.request = replace(self.request, end_ms=min(self.request.end_ms, math.ceil(at)))


def read_samples(spark: SparkSession, **options: str) -> DataFrame:
    """The frame of `format("prometheus")` with a row for each sample, read with a row for each series.

    Labels are then sent and stored once per series instead of once per sample; Spark expands the arrays in compiled code.

    Args:
        spark: the session.
        options: those of the source, except `rows`.

    Returns:
        ts, value, flag and a column for each label; lazy: each action queries the server again.
    """
    from pyspark.sql import functions as F

    from workbench.spark.register_sources import register

    register(spark, PrometheusFrames)
    cores = 0 if is_remote(spark) else spark.sparkContext.defaultParallelism
    options = {"cores": str(cores), **options, "rows": "series"}
    series = spark.read.format(PrometheusFrames.name()).options(**options).load()
    labels = [F.col(f"`{name}`") for name in series.columns[3:]]
    spread = series.select(F.posexplode("ts").alias("_position", "_ts"), "value", "flag", *labels)
    return spread.select(
        F.col("_ts").alias("ts"),
        F.col("value")[F.col("_position")].alias("value"),
        F.col("flag")[F.col("_position")].alias("flag"),
        *labels,
    )


def read_range(request: QueryRequest, of: TimeRange) -> Matrix:
    """Read all samples of a range, by remote read if the server offers it.

    Raises:
        RuntimeError: if the server cannot be reached, or its answer is incomplete.
    """
    session = _session(request)
    if request.wire != "json":
        try:
            return fetch(
                session,
                request.url,
                request.matchers,
                start_ms=of.start_ms,
                end_ms=of.end_ms,
                timeout_seconds=request.timeout_seconds,
            )
        except NotOffered as reason:
            if request.wire == "remote_read":
                raise RuntimeError(f"prometheus: remote read is not offered: {reason}") from None
        except requests.RequestException as error:
            raise RuntimeError(f"prometheus: the server cannot be reached: {type(error).__name__}") from None
    return _read_json(session, request, of)


def _read_json(session: requests.Session, request: QueryRequest, of: TimeRange) -> Matrix:
    # One millisecond more than needed: servers differ in whether a range includes its start; samples outside are dropped.
    length = of.end_ms - of.start_ms + 1
    params = {"query": f"{to_promql(request.matchers)}[{length}ms]", "time": f"{of.end_ms / 1000:.3f}"}
    body = _ask(session, request, params)
    answer = parse_answer(body)
    if answer.partial:
        raise RuntimeError(f"prometheus: the answer is incomplete: {answer.partial[0][:200]}")
    found = answer.matrix
    return found.where((found.ts_us >= of.start_ms * 1000) & (found.ts_us <= of.end_ms * 1000))


def _ask(session: requests.Session, request: QueryRequest, params: dict[str, str]) -> bytes:
    try:
        # POST: a selector may be too long for a URL in some proxies.
        answer = session.post(f"{request.url}/api/v1/query", data=params, timeout=request.timeout_seconds)
    except requests.RequestException as error:
        raise RuntimeError(f"prometheus: the server cannot be reached: {type(error).__name__}") from None
    if answer.status_code != 200:
        words = re.sub(r"[\s\x00-\x1f]+", " ", answer.text)[:200]
        raise RuntimeError(f"prometheus: the server refuses (status {answer.status_code}): {words}")
    return answer.content


def tasks_for(samples: int, *, cores: int = 0) -> int:
    """Number of tasks for a number of samples; `cores`: of the session, 0 if not known."""
    wanted = math.ceil(samples / SAMPLES_PER_TASK)
    if cores:
        wanted = min(wanted, max(_TASKS_PER_CORE * cores, math.ceil(samples / _MOST_SAMPLES_PER_TASK)))
    return max(1, wanted)


def estimated_samples(request: QueryRequest) -> int:
    """Estimate the number of samples: the server counts them in a few short spans, because a full count takes as long as reading.

    It affects only the size of tasks.
    """
    length = request.end_ms - request.start_ms + 1
    span = length // (_SPANS * _SPAN_SHARE)
    if span:
        ends = [request.start_ms + length * (2 * number + 1) // (2 * _SPANS) for number in range(_SPANS)]
        counted = sum(_counted(request, end, span) for end in ends)
        if counted:
            return counted * _SPAN_SHARE
    return _counted(request, request.end_ms, length)


def _counted(request: QueryRequest, end_ms: int, length_ms: int) -> int:
    query = f"sum(count_over_time({to_promql(request.matchers)}[{length_ms}ms]))"
    body = _ask(_session(request), request, {"query": query, "time": f"{end_ms / 1000:.3f}"})
    result = json.loads(body)["data"]["result"]
    return int(float(result[0]["value"][1])) if result else 0


_sessions: dict[
    tuple[str | None, str | None], requests.Session
] = {}  # one per worker process and set of headers: workers are reused


def _session(request: QueryRequest) -> requests.Session:
    key = (request.headers_variable, request.headers_file)
    session = _sessions.get(key)
    if session is None:
        session = _sessions[key] = WebSession(deadline_seconds=request.timeout_seconds)
        session.headers["Accept-Encoding"] = "identity"  # for the server, compression takes longer than sending
        if request.headers_variable:
            session.headers.update(json.loads(os.environ.get(request.headers_variable, "{}")))
        if request.headers_file:
            session.headers.update(json.loads(Path(request.headers_file).read_text(encoding="utf-8")))
    return session


def _columns(matrix: Matrix) -> tuple[pa.Array, pa.Array, pa.Array | None]:
    """ts, value and flag of all samples; no flag if every value is a finite number."""
    values = matrix.values
    finite = np.isfinite(values)
    ts = pa.array(matrix.ts_us).cast(pa.timestamp("us", "UTC"))
    if finite.all():
        return ts, pa.array(values), None
    words = np.array(["nan", "inf", "stale"])
    kind = np.where(np.isinf(values), 1, np.where(values.view(np.uint64) == STALE_NAN_BITS, 2, 0))
    return ts, pa.array(values, mask=~finite), pa.array(words[kind], pa.string(), mask=finite)


def _batches(matrix: Matrix, labels: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Make batches with a row per sample."""
    ts, values, flags = _columns(matrix)
    of_sample = pa.array(np.repeat(np.arange(len(matrix), dtype=np.int32), matrix.lengths))
    columns = [
        ts,
        values,
        pa.nulls(len(values), pa.string()) if flags is None else flags,
        *(column.take(of_sample) for column in _label_columns(matrix, labels)),
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=["ts", "value", "flag", *labels])
    for start in range(0, batch.num_rows, _SAMPLES_PER_BATCH):
        yield batch.slice(start, _SAMPLES_PER_BATCH)


def _series_batches(matrix: Matrix, labels: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Make batches with a row per series."""
    ts, values, flags = _columns(matrix)
    ends = np.cumsum(matrix.lengths)
    bounds = pa.array(np.concatenate([[0], ends]), pa.int32())
    of_values = [pa.ListArray.from_arrays(bounds, column) for column in (ts, values)]
    flag = pa.nulls(len(matrix), pa.list_(pa.string())) if flags is None else pa.ListArray.from_arrays(bounds, flags)
    columns = [*of_values, flag, *_label_columns(matrix, labels)]
    batch = pa.RecordBatch.from_arrays(columns, names=["ts", "value", "flag", *labels])
    start = 0
    while start < batch.num_rows:
        upto = int(ends[start - 1]) if start else 0
        rows = max(1, int(np.searchsorted(ends, upto + _SAMPLES_PER_BATCH, side="right")) - start)
        yield batch.slice(start, rows)
        start += rows


def _label_columns(matrix: Matrix, labels: tuple[str, ...]) -> list[pa.Array]:
    return [pa.array([item.get(name) for item in matrix.labels], pa.string()) for name in labels]


def _instant_ms(name: str, text: str) -> int:
    try:
        return round(float(text) * 1000)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"prometheus: {name} {text!r} is not a timestamp") from None
    if at.tzinfo is None:
        raise ValueError(f"prometheus: {name} {text!r} needs a time zone, as in 2026-11-21T03:00:00Z")
    return math.floor(at.astimezone(UTC).timestamp() * 1000)
