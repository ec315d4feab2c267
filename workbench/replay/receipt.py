"""Files next to a plan: the rollback file, written before the first change, and the receipt, written after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from workbench.errors import GuardError, UsageError
from workbench.plans.strict_document import Offset, StrictDocument, canonical_hash, read_document, validated, write_file
from workbench.queues.replay_port import GONE, KeptCommit
from workbench.queues.snapshot_views import Partition
from workbench.replay.planfile import Plan


class ReplayOutcome(StrEnum):
    """Outcome of a change."""

    DONE = "done"  # every offset was read back as planned
    PARTIAL = "partial"
    FAILED = "failed"  # tried, but no offset is as planned
    REFUSED = "refused"  # not tried
    DRY_RUN = "dry_run"


_SENTENCES = {
    ReplayOutcome.DONE: "Done: every offset was read back as planned.",
    ReplayOutcome.PARTIAL: "PARTIAL: some offsets are as planned, some are not.",
    ReplayOutcome.FAILED: "FAILED: no offset is as planned.",
    ReplayOutcome.REFUSED: "REFUSED: nothing was written.",
    ReplayOutcome.DRY_RUN: "Dry run: all safety checks passed, nothing was written.",
}


class Status(StrEnum):
    """Outcome for one partition."""

    COMMITTED = "committed"
    UNCHANGED = "unchanged"  # it was correct before
    FAILED = "failed"
    REFUSED = "refused"
    SKIPPED = "skipped"  # the plan commits nothing there
    WOULD_COMMIT = "would_commit"


class PartitionReceipt(StrictDocument):
    """One partition: offset before, planned, and read back."""

    topic: str
    partition: Offset
    old: Offset | None
    target: Offset | None
    found: Offset | None
    status: Status = Field(strict=False)
    error: str | None = None


class Receipt(StrictDocument):
    """Result of `apply`."""

    schema_: Literal["workbench.replay-receipt/1"] = Field(alias="schema", default="workbench.replay-receipt/1")
    plan: str
    cluster_id: str
    group: str
    at: str
    outcome: ReplayOutcome = Field(strict=False)
    resumed: bool
    reasons: list[str]
    hints: list[str]
    rollback: str | None
    seconds: float
    partitions: list[PartitionReceipt]

    model_config = ConfigDict(
        hide_input_in_errors=True, extra="forbid", frozen=True, strict=True, populate_by_name=True
    )

    @property
    def sentence(self) -> str:
        """Outcome in words."""
        return _SENTENCES[self.outcome]

    def counts(self) -> dict[str, int]:
        """Partitions by status."""
        return dict(Counter(part.status.value for part in self.partitions))


class Rollback(StrictDocument):
    """All commits of the group before the first change, for a rollback.

    Attributes:
        before: every commit of the group that was seen, including topics outside the plan.
        targets: the offsets of the plan.
        metadata: what stands in those commits besides the offset, each byte as a character; without those where it is
            nothing. None: it was not kept.
        topic_ids: of the topics of both, if the brokers have them: offsets of a recreated topic name other records.
    """

    schema_: Literal["workbench.replay-rollback/1"] = Field(alias="schema", default="workbench.replay-rollback/1")
    hash: str = ""
    plan: str
    cluster: str
    cluster_id: str
    group: str
    group_state: str
    written_at: str
    before: list[tuple[str, Offset, Offset]]
    targets: list[tuple[str, Offset, Offset]]
    metadata: list[tuple[str, Offset, str]] | None = Field(default=None)  # files of earlier versions have neither
    topic_ids: dict[str, str] = Field(default={})

    model_config = ConfigDict(
        hide_input_in_errors=True, extra="forbid", frozen=True, strict=True, populate_by_name=True
    )

    @property
    def commits(self) -> dict[Partition, int]:
        """The group's earlier commits."""
        return {(topic, number): offset for topic, number, offset in self.before}

    @property
    def kept(self) -> dict[Partition, KeptCommit]:
        """The group's earlier commits, with their metadata."""
        words = {(topic, number): text.encode("latin-1") for topic, number, text in self.metadata or ()}
        return {key: KeptCommit(offset, words.get(key, b"")) for key, offset in self.commits.items()}

    @property
    def existed(self) -> bool:
        """Whether the group was there, also without a commit that could be seen."""
        return bool(self.before) or self.group_state not in GONE

    @property
    def wanted(self) -> dict[Partition, int]:
        """The plan's targets."""
        return {(topic, number): offset for topic, number, offset in self.targets}

    @property
    def short_hash(self) -> str:
        """What a person types to confirm."""
        return self.hash[:8]

    def document(self) -> dict[str, Any]:
        """Plain values; a file of an earlier version as it was."""
        return self.model_dump(mode="json", by_alias=True, exclude={"metadata"} if self.metadata is None else None)


def rollback_path(plan: Path) -> Path:
    """Path of the rollback file: `plan.rollback.json` for `plan.json`."""
    return plan.with_suffix(".rollback.json")


def receipt_path(plan: Path) -> Path:
    """Path of the receipt: `plan.receipt.json` for `plan.json`."""
    return plan.with_suffix(".receipt.json")


def triples(offsets: Mapping[Partition, int]) -> list[tuple[str, int, int]]:
    """Convert offsets to lists for a file."""
    return [(topic, number, offset) for (topic, number), offset in sorted(offsets.items())]


def metadata_of(commits: Mapping[Partition, KeptCommit]) -> list[tuple[str, int, str]]:
    """Metadata as text for a file: Latin-1 has a character for every byte, and it stays readable."""
    return [(*key, it.metadata.decode("latin-1")) for key, it in sorted(commits.items()) if it.metadata]


def write_rollback(path: Path, rollback: Rollback) -> None:
    """Write the rollback file with its hash, atomically, and sync it to disk."""
    sealed = rollback.model_copy(update={"hash": canonical_hash(rollback.document())})
    write_file(path, sealed.document())


def read_rollback(path: Path) -> Rollback:
    """Read and check a rollback file.

    Raises:
        UsageError: if it cannot be read or is not a rollback file.
        GuardError: if it was changed.
    """
    document = read_document(path, "rollback file")
    if not isinstance(document, dict) or document.get("schema") != "workbench.replay-rollback/1":
        raise UsageError(f"{path} is not a rollback file.", hint="It is next to the plan: plan.rollback.json.")
    rollback = validated(Rollback, document, path, "rollback file")
    if rollback.hash != canonical_hash(document):
        raise GuardError(f"The rollback file {path} was changed after it was written.")
    return rollback


def rollback_of_plan(path: Path, plan: Plan) -> Rollback | None:
    """Read the rollback file of an earlier run of this plan; None if there is none.

    Raises:
        GuardError: if it belongs to another plan or is damaged.
    """
    if not path.exists():
        return None
    rollback = read_rollback(path)
    if rollback.plan != plan.hash:
        raise GuardError(
            f"{path} belongs to another plan ({rollback.plan[:8]}).",
            hint="Keep it, and save this plan under another name.",
        )
    return rollback
