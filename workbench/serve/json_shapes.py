"""Shapes of the JSON that programs get: from `/api/…`, and by a webhook of their own."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from workbench.serve.broker_causes import SharedCause


class Answered(BaseModel):
    """A part of a document: these fields and no others."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)


class ServedIncident(Answered):
    """An incident; times in seconds since 1970, `closed` null while it is open."""

    id: str
    cluster: str
    verdict: str
    state: str
    headline: str
    opened: float
    changed: float
    closed: float | None
    told_verdict: str | None
    subscriptions: int


class ServedIncidents(Answered):
    """Incidents of `workbench serve`, open ones first."""

    schema_: Literal["workbench.incidents/1"] = Field(alias="schema")
    incidents: list[ServedIncident]


class AnsweredTriage(Answered):
    """What `POST /api/triage` answers: the verdicts, or what the command would print of them.

    `exit_code` is the command's; `triage` the document `workbench.triage/1`, or null if the request has `printing`.
    """

    schema_: Literal["workbench.asked_triage/1"] = Field(alias="schema")
    exit_code: int
    triage: dict[str, Any] | None
    stdout: str | None
    stderr: str | None


class ServedCause(Answered):
    """A cause on brokers that holds subscriptions of the fleet up; `at` and `since` are seconds since 1970."""

    cluster: str
    at: float
    since: float | None
    origin: SharedCause


class ServedSubscription(Answered):
    """A subscription of the fleet; `grp` is its group, times are seconds since 1970, `time_lag` seconds and `lag` messages.

    `cause` is the key of a cause on brokers that holds it up; the verdict is what it shows by itself.
    """

    cluster: str
    grp: str
    topic: str
    rank: int
    verdict: str
    state: str
    headline: str
    time_lag: float | None
    lag: int | None
    at: float
    since: float | None
    cause: str | None


class ServedFleet(Answered):
    """Every subscription with its last verdict, worst first; causes on brokers beside them."""

    schema_: Literal["workbench.fleet/1"] = Field(alias="schema")
    causes: list[ServedCause]
    subscriptions: list[ServedSubscription]


class IncidentMember(Answered):
    """A subscription of an incident."""

    group: str
    topic: str
    verdict: str
    state: str
    headline: str
    time_lag_seconds: float | None
    lag_messages: int | None


class IncidentNote(Answered):
    """A note; `kind` is note, resolution, or what was done."""

    at: float
    author: str
    kind: str
    words: str


class IncidentMessage(Answered):
    """A message about an incident."""

    target: str
    kind: str
    state: str
    made: float
    sent: float | None


class IncidentState(Answered):
    """One incident with its subscriptions, notes and messages."""

    schema_: Literal["workbench.incident_state/1"] = Field(alias="schema")
    id: str
    cluster: str
    verdict: str
    state: str
    headline: str
    opened: float
    changed: float
    closed: float | None
    origin: SharedCause | None
    subscriptions: list[IncidentMember]
    subscription_count: int
    alerts: list[dict[str, Any]]
    notes: list[IncidentNote]
    messages: list[IncidentMessage]
    similar: Any


class WorstMember(Answered):
    """One of the worst subscriptions of an incident."""

    group: str
    topic: str
    headline: str


class IncidentPosted(Answered):
    """What a webhook of one's own gets; `key` is the same if it is sent twice. `origin`: whose fault it is, of a cause on
    brokers; `subscriptions` is then the number of groups that it hits.
    """

    schema_: Literal["workbench.incident/1"] = Field(alias="schema")
    key: str
    kind: str
    incident: str
    revision: int
    url: str | None
    cluster: str
    verdict: str
    before: str | None
    state: str
    headline: str
    trend: str | None
    subscriptions: int
    worst: list[WorstMember]
    other_causes: list[Any]
    other_incidents: Any
    left_out: int
    alerts: list[Any]
    actions: list[Any]
    runbook: str | None
    owner: str | None
    origin: str | None
    like: Any
