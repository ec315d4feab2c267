"""`spark.read.format("prometheus")`: raw samples of Prometheus as a Spark frame, for windows that are too large for the driver.

A Python Data Source that cuts the window into time ranges, one task each, and hands Spark Arrow batches. It asks for the stored chunks
(remote read) where the server offers them, else for JSON, parsed by column; a task that cannot have its whole range fails, so a frame
is never a part of the truth in silence.

    from workbench.collect.prometheus_frames import PrometheusFrames
    spark.dataSource.register(PrometheusFrames)
    spark.read.format("prometheus").options(url=…, selector='kafka_consumergroup_lag{topic="t"}', start=…, end=…).load()

Columns: ts timestamp; value double, NULL where there is no finite number; flag string: `nan`, `inf` or `stale` for such a value; then
one string column for each of `labels`.

Options:
    url: base URL of the server.
    selector: a metric's name with matchers, or matchers alone. No functions: what is to be computed, Spark computes.
    start, end: instants in ISO 8601 with a zone, or seconds since the epoch; both inclusive.
    labels: label names with commas between them; default `consumergroup,topic,partition`.
    wire: `auto` (default), `remote_read` (fails where it is not offered) or `json`.
    tasks: time ranges; default: one per 500,000 samples, as the server counts them.
    timeout_seconds: for one request; default 120.
    headers_variable: name of an environment variable that holds JSON of HTTP headers, so that no token stands in a plan.
    pushdown: `true` lets filters on ts and labels reduce what is asked for; the session needs
        spark.sql.python.filterPushdown.enabled=true then, or Spark refuses the reader.
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
from typing import Any

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

from workbench.collect.columnar import Matrix, parse_matrix
from workbench.collect.remote_read import NotOffered, fetch
from workbench.collect.selectors import LabelMatcher, one_of, parse_selector, to_promql
from workbench.samples import STALE_NAN_BITS

SAMPLES_PER_TASK = 500_000  # a task costs about 30 ms however little it reads
_MOST_TASKS = 64
_ROWS_PER_BATCH = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for; travels to the executors."""

    url: str
    matchers: tuple[LabelMatcher, ...]
    start_ms: int
    end_ms: int
    labels: tuple[str, ...]
    wire: str
    timeout_seconds: float
    headers_variable: str | None

    @classmethod
    def of(cls, options: Any) -> Request:
        """From a data source's options.

        Raises:
            ValueError: naming the option that is wrong.
        """
        for name in ("url", "selector", "start", "end"):
            if not options.get(name):
                raise ValueError(f"prometheus: option {name!r} is missing")
        wire = options.get("wire", "auto")
        if wire not in ("auto", "json", "remote_read"):
            raise ValueError(f"prometheus: wire {wire!r} is none of auto, json, remote_read")
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
        )


@dataclass
class TimeRange(InputPartition):  # type: ignore[misc]
    """What one task reads: [start_ms, end_ms], both inclusive, of whole milliseconds, so no sample falls into two."""

    start_ms: int
    end_ms: int


class PrometheusFrames(DataSource):  # type: ignore[misc]
    """The data source; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(…)`."""
        return "prometheus"

    def schema(self) -> str:
        """The columns, in their order."""
        labels = "".join(f", `{name}` string" for name in Request.of(self.options).labels)
        return f"ts timestamp, value double, flag string{labels}"

    def reader(self, schema: Any) -> DataSourceReader:
        """The reader of these options."""
        del schema
        kind = PushdownReader if self.options.get("pushdown") == "true" else PrometheusReader
        return kind(Request.of(self.options), tasks=int(self.options.get("tasks", 0)))


class PrometheusReader(DataSourceReader):  # type: ignore[misc]
    """Plans time ranges and reads them."""

    def __init__(self, request: Request, *, tasks: int = 0) -> None:
        self.request = request
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """Time ranges of about equal length."""
        start, end = self.request.start_ms, self.request.end_ms
        if start > end:  # filters have left nothing; an empty list would come back as one partition of None
            return [TimeRange(1, 0)]
        tasks = self._tasks or _tasks_for(self.request)
        edges = [start + (end + 1 - start) * number // tasks for number in range(tasks + 1)]
        return [TimeRange(low, high - 1) for low, high in itertools.pairwise(edges) if low < high]

    def read(self, partition: TimeRange) -> Iterator[pa.RecordBatch]:
        """The rows of one time range."""
        if partition.start_ms > partition.end_ms:
            return
        yield from _batches(read_range(self.request, partition), self.request.labels)


class PushdownReader(PrometheusReader):
    """The same, taking filters on ts and labels over."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow the request; what is not taken is given back. Instants are, too: Spark compares microseconds, we ask milliseconds."""
        for item in filters:
            taken = False
            if isinstance(item, EqualTo | In):
                values = [item.value] if isinstance(item, EqualTo) else list(item.value)
                name = item.attribute[0]
                if name in self.request.labels and all(isinstance(value, str) for value in values):
                    matcher = one_of(name, values)
                    self.request = replace(self.request, matchers=(*self.request.matchers, matcher))
                    taken = True
            comparison = isinstance(item, GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual | EqualTo)
            if comparison and item.attribute == ("ts",) and isinstance(item.value, datetime):
                self._narrow(item)
            if not taken:
                yield item

    def _narrow(self, item: Any) -> None:
        at = item.value.timestamp() * 1000
        if isinstance(item, GreaterThan | GreaterThanOrEqual | EqualTo):
            self.request = replace(self.request, start_ms=max(self.request.start_ms, math.floor(at)))
        if isinstance(item, LessThan | LessThanOrEqual | EqualTo):
            self.request = replace(self.request, end_ms=min(self.request.end_ms, math.ceil(at)))


def read_range(request: Request, of: TimeRange) -> Matrix:
    """All samples of a range, by the better way that the server offers.

    Raises:
        RuntimeError: if the server cannot be asked, or gives less than all.
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


def _read_json(session: requests.Session, request: Request, of: TimeRange) -> Matrix:
    # One millisecond more than needed: servers differ in whether the far edge belongs to a range; what is outside is dropped.
    length = of.end_ms - of.start_ms + 1
    params = {"query": f"{to_promql(request.matchers)}[{length}ms]", "time": f"{of.end_ms / 1000:.3f}"}
    body = _ask(session, request, params)
    tail = body[-4000:]
    if b'"warnings"' in tail and (warnings := json.loads(body).get("warnings")):
        raise RuntimeError(f"prometheus: the answer is incomplete: {str(warnings[0])[:200]}")
    found = parse_matrix(body)
    return found.where((found.ts_us >= of.start_ms * 1000) & (found.ts_us <= of.end_ms * 1000))


def _ask(session: requests.Session, request: Request, params: dict[str, str]) -> bytes:
    try:
        # POST: a selector may be longer than some proxies let a URL be.
        answer = session.post(f"{request.url}/api/v1/query", data=params, timeout=request.timeout_seconds)
    except requests.RequestException as error:
        raise RuntimeError(f"prometheus: the server cannot be reached: {type(error).__name__}") from None
    if answer.status_code != 200:
        words = re.sub(r"[\s\x00-\x1f]+", " ", answer.text)[:200]
        raise RuntimeError(f"prometheus: the server refuses (status {answer.status_code}): {words}")
    return answer.content


def _tasks_for(request: Request) -> int:
    """As many as the server's own count of samples asks for."""
    length = request.end_ms - request.start_ms + 1
    query = f"sum(count_over_time({to_promql(request.matchers)}[{length}ms]))"
    body = _ask(_session(request), request, {"query": query, "time": f"{request.end_ms / 1000:.3f}"})
    result = json.loads(body)["data"]["result"]
    samples = float(result[0]["value"][1]) if result else 0.0
    return min(_MOST_TASKS, max(1, math.ceil(samples / SAMPLES_PER_TASK)))


_sessions: dict[str | None, requests.Session] = {}  # one per worker process and set of headers: workers are reused


def _session(request: Request) -> requests.Session:
    session = _sessions.get(request.headers_variable)
    if session is None:
        session = _sessions[request.headers_variable] = requests.Session()
        session.headers["Accept-Encoding"] = "identity"  # compressing takes the server longer than sending
        if request.headers_variable:
            session.headers.update(json.loads(os.environ.get(request.headers_variable, "{}")))
    return session


def _batches(matrix: Matrix, labels: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    values = matrix.values
    finite = np.isfinite(values)
    flags = None
    if not finite.all():
        words = np.array(["nan", "inf", "stale"])
        kind = np.where(np.isinf(values), 1, np.where(values.view(np.uint64) == STALE_NAN_BITS, 2, 0))
        flags = pa.array(words[kind], pa.string(), mask=finite)
    of_sample = pa.array(np.repeat(np.arange(len(matrix), dtype=np.int32), matrix.lengths))
    columns = [
        pa.array(matrix.ts_us).cast(pa.timestamp("us", "UTC")),
        pa.array(values, mask=None if finite.all() else ~finite),
        flags if flags is not None else pa.nulls(len(values), pa.string()),
        *(pa.array([item.get(name) for item in matrix.labels], pa.string()).take(of_sample) for name in labels),
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=["ts", "value", "flag", *labels])
    for start in range(0, batch.num_rows, _ROWS_PER_BATCH):
        yield batch.slice(start, _ROWS_PER_BATCH)


def _instant_ms(name: str, text: str) -> int:
    try:
        return round(float(text) * 1000)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"prometheus: {name} {text!r} is no instant") from None
    if at.tzinfo is None:
        raise ValueError(f"prometheus: {name} {text!r} needs a zone, as in 2026-11-21T03:00:00Z")
    return math.floor(at.astimezone(UTC).timestamp() * 1000)
