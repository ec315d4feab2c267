"""Shapes of the JSON of `workbench impact`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from workbench.serve.json_shapes import Answered
from workbench.triage.broker_findings import BrokerVerdict
from workbench.triage.verdict_names import Answer
from workbench.triage.who_holds_up_whom import Cleared


class ImpactReader(Answered):
    """Who moves so much: a group, a client id of no known group, or a producer; rates in bytes/s on its brokers together."""

    kind: Literal["group", "client", "writer"]
    name: str
    clients: list[str]
    brokers: list[int]
    since: str
    until: str | None
    bytes_per_second_before: float
    bytes_per_second: float
    share_of_rise: float
    measured_by: str
    shared_clients: list[str]
    behind_seconds: float | None
    unread_bytes: float | None


class ImpactVictim(Answered):
    """A group that waits; growth of its lag as a share of what arrives, there and on other brokers."""

    group: str
    brokers: list[int]
    since: str
    behind_seconds_before: float
    behind_seconds: float
    lag_growth_of_arrivals: float
    lag_growth_elsewhere: float | None


class ImpactStrain(Answered):
    """A signal of a broker that is worse than before."""

    broker: int
    signal: str
    kind: str
    value: float | None
    before: float | None
    limit: float | None
    unit: str
    rule: str | None


class ImpactAction(Answered):
    """What to do, and what shows that it works; `parameters`: of a cap, the client ids and the bytes/s of each."""

    title: str
    command: str | None
    verify: str
    parameters: dict[str, Any]


class ImpactCauseDocument(Answered):
    """One offender and its victims."""

    headline: str
    comparison: str
    offender: ImpactReader
    victims: list[ImpactVictim]
    strains: list[ImpactStrain]
    groups_served: int
    groups_elsewhere: int
    held_up_elsewhere: int
    cap_bytes_per_second: float | None
    done_seconds_at_cap: float | None
    actions: list[ImpactAction]


class BrokerFindingDocument(Answered):
    """What is wrong with brokers; `at_risk`: messages that a group has not read on partitions short of replicas."""

    verdict: BrokerVerdict
    headline: str
    brokers: list[int]
    groups: list[str]
    at_risk: dict[str, int]
    strains: list[ImpactStrain]
    runbook: str
    actions: list[ImpactAction]


class ImpactDocument(Answered):
    """Who slows whom on the brokers of a cluster; `held_up`: groups that wait and that no cause
    explains; `unknown`: verdicts about brokers that cannot be told, and the signals that they lack."""

    schema_: Literal["workbench.impact/1"] = Field(alias="schema")
    cluster: str
    start: str
    end: str
    step_seconds: float
    brokers: list[int]
    answer: Answer
    sentence: str
    causes: list[ImpactCauseDocument]
    cleared: list[Cleared]
    held_up: dict[str, list[int]]
    missing: list[str]
    broker_findings: list[BrokerFindingDocument]
    unknown: dict[BrokerVerdict, list[str]]
    unsuited: dict[BrokerVerdict, str]
    silent: list[int]
    incomplete: list[str]
