"""Shapes of what `workbench audit` prints with `--json`; see `documents`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from workbench.serve.json_shapes import Answered


class AuditSilentLayer(Answered):
    """A layer that tells nothing of a stream; `told`: its latest row, null: none; `seconds`: silent for at least so long."""

    stream: str
    layer: str
    told: str | None
    seconds: float


class AuditRunDocument(Answered):
    """Numbers of windows by what arrived, of the ledger that was written to the folder `output`.

    `reaches_to`: how far back the rows reach: nothing is known of streams that fell silent before; null: there are no rows.
    """

    schema_: Literal["workbench.audit-run/1"] = Field(alias="schema")
    output: str
    windows: dict[str, int]
    silent: list[AuditSilentLayer]
    reaches_to: str | None


class AuditWindow(Answered):
    """One window of one edge of a stream; numbers are bounds, equal where they are exact. `same`: by the sum of hashes."""

    window: str
    stream: str
    edge: str
    state: str
    arrival: str
    from_low: int
    from_high: int
    to_low: int
    to_high: int
    lost_low: int
    lost_high: int
    doubled_low: int
    doubled_high: int
    same: bool | None


class AuditLatency(Answered):
    """How long records take to a layer, from their creation or from the layer before; upper bounds of buckets, null beyond the last."""

    stream: str
    layer: str
    point: str
    since: Literal["created", "updated"]
    records: int
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None


class AuditDelayed(Answered):
    """A stream beside a burst of another one: time from creation of 99 of 100 records, with it and usually; see `AuditLatency`.

    `is_delayed` null: too few records tell, or both are beyond the last bucket.
    """

    stream: str
    burst: str
    layer: str
    point: str
    records: int
    p99_ms: int | None
    usual_p99_ms: int | None
    at_least_ms: int
    is_delayed: bool | None


class AuditWindowsDocument(Answered):
    """Windows in which not everything arrived, the worst first; `latencies` and `delayed` with --latency.

    `silent` and `reaches_to`: as of `audit run`.
    """

    schema_: Literal["workbench.audit-windows/1"] = Field(alias="schema")
    windows: list[AuditWindow]
    silent: list[AuditSilentLayer]
    reaches_to: str | None
    latencies: list[AuditLatency] = Field(default=[])
    delayed: list[AuditDelayed] = Field(default=[])


class AuditGateDocument(Answered):
    """Whether a job may begin with these windows, and why not."""

    schema_: Literal["workbench.audit-gate/1"] = Field(alias="schema")
    passage: str
    reasons: list[str]
    windows: int
    lost: int
    doubled: int


class ComparedSide(Answered):
    """One side of a comparison: `only` are records that the other side lacks, `sample` places of some."""

    name: str
    records: int
    only: int
    sample: list[str]


class AuditCompareDocument(Answered):
    """Two topics or tables side by side, by hour; `hour_ms` null: of records without a time."""

    schema_: Literal["workbench.audit-compare/1"] = Field(alias="schema")
    same: bool
    sides: list[ComparedSide]
    hours: list[dict[str, Any]]


class AuditTraceDocument(Answered):
    """Places where one record has been, in the order of time."""

    schema_: Literal["workbench.audit-trace/1"] = Field(alias="schema")
    record: str
    places: list[dict[str, Any]]


class JobRestartDocument(Answered):
    """A restart of a job with checkpoints: times, and records read again as bounds; null: for what is `missing`."""

    group: str
    restored: str
    since: str | None
    until: str | None
    outage_seconds: float | None
    read_again_low: int | None
    read_again_high: int | None
    passed: int | None
    replay_ratio_low: float | None
    replay_ratio_high: float | None
    missing: list[str]


class AuditRestartsDocument(Answered):
    """Restarts of a window; jobs that tell of theirs, and those of which it cannot be told. `recorded`: of a capture."""

    schema_: Literal["workbench.audit-restarts/1"] = Field(alias="schema")
    cluster: str
    recorded: bool
    restarts: list[JobRestartDocument]
    told: list[str]
    untold: list[str]


class BreakerFindingDocument(Answered):
    """A fault of a breaker, with shares over its time: of records sent to failover, and of failures at each; null: not known.

    `is_told`: by a gauge of the state. `changes`: between closed and open, at least.
    """

    fault: Literal["open", "flapping", "both open", "not diverted", "pinned"]
    since: str
    until: str
    is_told: bool
    failover_share: float | None
    failed: float | None
    failover_failed: float | None
    changes: int | None


class BreakerDocument(Answered):
    """A gateway's breaker at `until`; what lasts for twice `resolution_seconds` is surely seen. See `BreakerFindingDocument`."""

    gateway: str
    state: Literal["closed", "open", "failing", "unknown"]
    is_told: bool
    until: str | None
    changes: int
    failover_share: float | None
    resolution_seconds: float | None
    findings: list[BreakerFindingDocument]
    missing: list[str]


class HeldBackDocument(Answered):
    """Records that wait before Kafka: requests answered by 429, or a backlog on disk; null: not told. Ages are of the oldest."""

    process: str
    destination: str | None
    since: str
    refused: int | None
    refused_share: float | None
    records: int | None
    size_bytes: int | None
    age_low_seconds: float | None
    age_high_seconds: float | None
    is_growing: bool | None


class UntoldUpstream(Answered):
    """A process before Kafka, and what it does not tell."""

    process: str
    missing: str


class AuditUpstreamDocument(Answered):
    """What stands before Kafka: breakers of gateways, and what is held back. `told`: processes that tell whether they do.

    `consumer_lag_messages`: of all consumers, null: not measured; what is held back is not in it.
    """

    schema_: Literal["workbench.audit-upstream/1"] = Field(alias="schema")
    cluster: str
    recorded: bool
    consumer_lag_messages: int | None
    breakers: list[BreakerDocument]
    held_back: list[HeldBackDocument]
    told: list[str]
    untold: list[UntoldUpstream]
