"""Shapes of what the commands print about a Pulsar; see `documents`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from workbench.pulsar.replay_apply import PulsarUndo
from workbench.pulsar.replay_plan import PulsarReplayPlan
from workbench.pulsar.risky_settings import CheckedSetting
from workbench.pulsar.subscriptions import PulsarSubscription
from workbench.serve.json_shapes import Answered


class PartitionMadeDocument(Answered):
    """One partition; -1 of a topic without partitions. `begins_at`: ledger:entry, read back."""

    partition: int
    outcome: Literal["created", "there", "would_create", "failed"]
    begins_at: str | None
    error: str | None


class PulsarReceiptDocument(Answered):
    """Result of `replay apply` on a Pulsar; `rollback`: the file that takes it back."""

    schema_: Literal["workbench.pulsar-replay-receipt/1"] = Field(alias="schema")
    plan: str
    topic: str
    subscription: str
    outcome: Literal["done", "partial", "dry_run"]
    rollback: str | None
    partitions: list[PartitionMadeDocument]


class PartitionLeftDocument(Answered):
    """One partition; `left_entries` null where there is no subscription of this plan, and `problem` says what is there."""

    partition: int
    left_entries: int | None
    problem: str | None


class PulsarProgressDocument(Answered):
    """One look of `replay follow` or `replay verify` on a Pulsar; `doubt`: why a complete one proves nothing."""

    schema_: Literal["workbench.pulsar-replay-progress/1"] = Field(alias="schema")
    plan: str
    topic: str
    subscription: str
    entries: int
    done_entries: int
    complete: bool
    doubt: str | None
    consumers: int | None
    partitions: list[PartitionLeftDocument]


class PartitionErrorDocument(Answered):
    """One partition whose subscription was not deleted."""

    partition: int
    error: str


class PulsarRolledBackDocument(Answered):
    """Partitions whose subscription was deleted; `others`: those with one that the plan has not made, which stays."""

    schema_: Literal["workbench.pulsar-replay-rolled-back/1"] = Field(alias="schema")
    deleted: list[int]
    failed: list[PartitionErrorDocument]
    others: list[int]


class PulsarSubscriptionsDocument(Answered):
    """Subscriptions of a Pulsar, the oldest backlog first. `incomplete`: what could not be read, a sentence each."""

    schema_: Literal["workbench.pulsar-subscriptions/1"] = Field(alias="schema")
    cluster: str
    taken_at: str
    subscriptions: list[PulsarSubscription]
    incomplete: list[str]


class SideDocument(Answered):
    """A bundle after the split."""

    bundle: str
    load: float
    topics: list[str]


class DivisionDocument(Answered):
    """One way to split: hashes, and the sides that they make."""

    cuts: list[int]
    cuts_hex: list[str]
    largest: float
    sides: list[SideDocument]


class SplitPlanDocument(Answered):
    """Where to split a bundle, beside what Pulsar's own algorithms would do; loads in the unit that was given."""

    schema_: Literal["workbench.pulsar-split-plan/1"] = Field(alias="schema")
    bundle: str
    total: float
    heaviest_hash: float
    best: DivisionDocument
    range_equally_divide: DivisionDocument
    topic_count_equally_divide: DivisionDocument


class MisspeltDocument(Answered):
    """A name that is no setting, and the one that may be meant."""

    name: str
    meant: str


class ConfigCheckDocument(Answered):
    """Settings of a broker that have made incidents, those at risk first."""

    schema_: Literal["workbench.pulsar-config-check/1"] = Field(alias="schema")
    checks: list[CheckedSetting]
    misspelt: list[MisspeltDocument]


# For `schemas.DOCUMENTS`: name, what writes it, and its type.
DOCUMENTS = (
    ("pulsar-plan", "replay plan; the file plan.json", PulsarReplayPlan),
    ("pulsar-receipt", "replay apply", PulsarReceiptDocument),
    ("pulsar-rollback", "the file plan.rollback.json", PulsarUndo),
    ("pulsar-rolled-back", "replay rollback", PulsarRolledBackDocument),
    ("pulsar-progress", "replay follow, a line each; replay verify", PulsarProgressDocument),
    ("pulsar-subscriptions", "pulsar subscriptions", PulsarSubscriptionsDocument),
    ("pulsar-split-plan", "pulsar split-plan", SplitPlanDocument),
    ("pulsar-config-check", "pulsar config-check", ConfigCheckDocument),
)
