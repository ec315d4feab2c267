"""Shapes of the JSON of scheduled reports: a run, and its result."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from workbench.reference.composed_documents import UnjudgedDocument, WindowTimes
from workbench.report.health_audit_lines import StreamLine
from workbench.report.health_broker_lines import BrokerLine
from workbench.report.runs.run_record import RunRecord
from workbench.report.sizing_advice import SizingAdvice
from workbench.report.state_before_kafka import BeforeKafka
from workbench.serve.json_shapes import Answered
from workbench.triage.verdict_names import AnyVerdict, State


class ErrorBudget(Answered):
    """The error budget of a subscription over the period; `holds` null: it cannot be told."""

    objective: float
    period_seconds: float
    known_seconds: float
    late_seconds: float
    allowed_seconds: float
    resolution_seconds: float | None
    too_short: bool
    holds: bool | None


class HealthLineDocument(Answered):
    """A subscription in a health report; `news`: new, worse, still or fixed; `time_lag_words` as screens say it: "about 13 min"."""

    group: str
    owner: str | None
    runbook: str | None
    muted: str | None
    topic: str
    kind: str | None
    state: State
    verdict: AnyVerdict
    headline: str
    time_lag_seconds: float | None
    time_lag_words: str
    lag_messages: int | None
    lag_entries: int | None
    trend: str | None
    news: str | None
    lagging_since: str | None
    budget: ErrorBudget | None


class Period(Answered):
    """Start and end as ISO 8601."""

    start: str
    end: str


class PrintedRun(RunRecord):
    """A run of a report; the file has no `folder` and `repeated`, which only commands print."""

    folder: str | None = None
    repeated: bool | None = None


class LetterLine(Answered):
    """A dead-letter topic in a health report."""

    topic: str
    letters: int | None
    new: int | None
    grows: bool
    first_at: str | None
    last_at: str | None
    readers: list[str]
    unread: int | None
    words: str


class HealthDocument(Answered):
    """`result.json` of a scheduled health report."""

    schema_: Literal["workbench.health/1"] = Field(alias="schema")
    run_id: str
    cluster: str
    source: dict[str, Any]
    period: Period
    judged: WindowTimes
    exit_code: Literal[0, 3, 4]
    subscriptions: int
    states: dict[str, int]
    verdicts: dict[str, int]
    over_budget: int
    budget_unknown: int
    incomplete: list[str]
    previous_run: str | None
    gone: list[str]
    sizing: SizingAdvice
    dead_letters: list[LetterLine]
    arrivals: list[StreamLine]
    brokers: list[BrokerLine]
    brokers_unsure: str | None
    before_kafka: BeforeKafka | None
    lines: list[HealthLineDocument]
    not_judged: list[UnjudgedDocument]
    findings: list[Any]
