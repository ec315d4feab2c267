"""Shapes of the JSON documents that are put together from several parts; the others are models of the files themselves. A part that
is printed as it is has no shape of its own: it is the dataclass.

Nothing is built from them: `workbench schema` prints them, and tests hold real output against them, without a field more or less.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from workbench.queues.snapshot_views import Member
from workbench.redrive.dead_letter_topics import LetterTopic
from workbench.replay.progress import TopicProgress
from workbench.replay.verify import PartitionVerdict
from workbench.serve.json_shapes import Answered
from workbench.triage.verdict_names import Answer, State, Verdict


class WindowTimes(Answered):
    """The judged window, and the baseline before it: ISO 8601 with a time zone."""

    start: str
    end: str
    baseline_start: str


class UnjudgedDocument(Answered):
    """A group that cannot be judged, such as a share group; `lag_messages` null where it is not known."""

    cluster: str
    group: str
    kind: str
    group_state: str
    members: int | None
    topics: list[str]
    lag_messages: int | None
    muted: str | None
    headline: str


class TriageDocument(Answered):
    """Findings of one run, the worst first. `incomplete`: what sources left out, a sentence each."""

    schema_: Literal["workbench.triage/1"] = Field(alias="schema")
    window: WindowTimes
    source: dict[str, Any]
    incomplete: list[str]
    sources: list[str]
    findings: list[Any]
    not_judged: list[UnjudgedDocument]


class SweepReading(Answered):
    """What was read of a store."""

    files: int
    files_read: int
    bytes_read: int
    samples_read: int


class SweepDocument(Answered):
    """A whole fleet: healthy subscriptions are counted, the others are rows of `unwell`, the worst also findings."""

    schema_: Literal["workbench.sweep/1"] = Field(alias="schema")
    window: WindowTimes
    source: dict[str, Any]
    incomplete: list[str]
    reading: SweepReading
    subscriptions: int
    states: dict[str, int]
    verdicts: dict[str, int]
    unwell: list[dict[str, Any]]
    findings: list[Any]
    not_judged: list[UnjudgedDocument]


class Brief(Answered):
    """A finding in a comparison."""

    verdict: Verdict
    state: State
    headline: str
    time_lag_seconds: float | None
    lag_messages: int | None
    eta_drain_seconds: float | None


class CheckedAction(Answered):
    """Whether the check of an advised action holds now."""

    title: str
    verify: str
    holds: Answer


class FindingChangeDocument(Answered):
    """One subscription before and after; null where it was not there."""

    cluster: str
    group: str
    topic: str
    before: Brief | None
    after: Brief | None
    settled: bool
    checks: list[CheckedAction]


class ComparedDocument(Answered):
    """Two captures of the same subscriptions (`--compare`)."""

    schema_: Literal["workbench.triage-compare/1"] = Field(alias="schema")
    before: WindowTimes
    after: WindowTimes
    changes: list[FindingChangeDocument]


class SnapshotGroup(Answered):
    """A group; `judged`: whether triage can judge its kind."""

    group: str
    kind: str
    state: str
    protocol: str
    judged: bool
    members: int | None
    reassigning: int | None
    assignments: list[Member]


class SnapshotPartition(Answered):
    """A partition that a group has read, in offsets; null where something is not known."""

    group: str
    kind: str
    topic: str
    partition: int
    committed: int | None
    start_offset: int | None
    log_end: int | None
    lag_messages: int | None
    lag_entries: int | None
    client_id: str | None
    host: str | None


class SnapshotDocument(Answered):
    """Groups and partitions, read from Kafka."""

    schema_: Literal["workbench.snapshot/1"] = Field(alias="schema")
    cluster: str
    taken_at: str
    groups: list[SnapshotGroup]
    partitions: list[SnapshotPartition]
    incomplete: list[str]


class RankedSubscription(Answered):
    """A row of `--limit` or `--sort`; the bounds of its time lag, in seconds, only with `--sort time_lag`."""

    group: str
    topic: str | None
    kind: str
    state: str
    members: int | None
    partitions: int
    partitions_known: int
    lag_messages: int | None
    lag_entries: int | None
    time_lag_low: float | None = None
    time_lag_high: float | None = None


class RankedSnapshot(Answered):
    """Subscriptions, the furthest behind first."""

    schema_: Literal["workbench.snapshot/1"] = Field(alias="schema")
    cluster: str
    taken_at: str
    group_count: int
    kinds: dict[str, int]
    subscriptions: list[RankedSubscription]
    incomplete: list[str]


class TreeRule(Answered):
    """A rule of a question; `compares` in words, all of them, or with `either` one of them."""

    id: str
    because: str
    proof: bool
    compares: list[str]
    either: bool
    look: str | None


class TreeCause(Answered):
    """Why a yes is so; the first that holds is the finding's `scope.cause`."""

    id: str
    cause: str
    because: str
    compares: list[str]


class TreeQuestion(Answered):
    """A question with its rules by what they answer; `order` is the order in which they are asked."""

    id: str
    number: int
    question: str
    by: Literal["gate", "proof", "elimination", "side"]
    proves: list[TreeRule]
    contradicts: list[TreeRule]
    leaves_open: list[TreeRule]
    order: list[str]
    needs: list[str]
    causes: list[TreeCause]
    yes: str
    no: str


class TreeWord(Answered):
    """A word of the rules."""

    name: str
    means: str


class TreeNumber(Answered):
    """A number that rules compare; `setting` if it can be changed."""

    name: str
    value: float
    unit: str
    why: str
    origin: str
    setting: str | None


class Tree(Answered):
    """The decision tree, or what leads to one verdict."""

    schema_: Literal["workbench.tree/1"] = Field(alias="schema")
    questions: list[TreeQuestion]
    words: list[TreeWord]
    numbers: list[TreeNumber]


class SettingsKey(Answered):
    """One key; `default` as TOML writes it."""

    path: str
    table: str
    name: str
    type: str
    unit: str | None
    default: str | None
    required: bool
    limits: str | None
    why: str


class EnvironmentVariable(Answered):
    """A variable of the environment."""

    name: str
    why: str


class SettingsKeys(Answered):
    """Every key of workbench.toml."""

    schema_: Literal["workbench.settings/1"] = Field(alias="schema")
    keys: list[SettingsKey]
    environment: list[EnvironmentVariable]


class LetterTopicsDocument(Answered):
    """Topics with dead letters, most letters first."""

    schema_: Literal["workbench.dlq-list/1"] = Field(alias="schema")
    cluster: str
    topics: list[LetterTopic]


class MovedOffset(Answered):
    """A partition of the old group that has moved since the plan."""

    topic: str
    partition: int
    planned: int | None
    now: int | None


class ReplayVerified(Answered):
    """Whether the new group got every record."""

    schema_: Literal["workbench.replay-verify/1"] = Field(alias="schema")
    plan: str
    group: str
    verdict: str
    evidence: list[str]
    notes: list[str]
    partitions: list[PartitionVerdict]
    old_group_moved: list[MovedOffset]
    key_ranges: list[dict[str, Any]]


class BesideDocument(Answered):
    """The groups on the replay's brokers: for whom it is held, or should be, and what cannot be told."""

    held_for: list[str]
    is_held: bool
    unknown: list[str]


class ReplayProgressDocument(Answered):
    """One line of `replay follow`; `waiting`: nothing has been read yet."""

    schema_: Literal["workbench.replay-progress/1"] = Field(alias="schema")
    plan: str
    group: str
    done: int
    total: int
    complete: bool
    waiting: Any
    doubt: Any
    partitions_left: int
    ranges: int
    ranges_through: int
    messages_per_second: float | None
    eta_seconds: float | None
    members: int | None
    lag_messages: int | None
    old_group_lag_messages: int | None
    neighbours: BesideDocument | None
    topics: list[TopicProgress]


class RedriveReceiptDocument(Answered):
    """What a redrive has produced; of what the target refuses, the first places with their reason."""

    schema_: Literal["workbench.redrive-receipt/1"] = Field(alias="schema")
    outcome: str
    plan: str
    letters: int
    produced: int
    resumed: bool
    before: int
    seconds: float
    reasons: list[str]
    hints: list[str]
    notes: list[str]
    refused: dict[str, str]
    refused_count: int


class RecordedEvent(Answered):
    """A deploy or another change."""

    ts: str
    kind: str
    text: str
    source: str
    service: str | None = None
    version: str | None = None
    group: str | None = None


class DoctorCheck(Answered):
    """A check; `needed`: whether it must hold."""

    check: str
    ok: bool
    what: str
    needed: bool


class ListedProfile(Answered):
    """A profile: for each signal `exact`, `proxy` or `absent`."""

    profile: str
    title: str
    names_from: str | None
    signals: dict[str, Literal["exact", "proxy", "absent"]]
