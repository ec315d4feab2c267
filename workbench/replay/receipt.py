"""What is kept of a replay beside its plan: the rollback file, written before the first change, and the receipt, written after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from workbench.errors import GuardError, UsageError
from workbench.replay.gateway import Partition
from workbench.replay.planfile import Offset, Plan, Strict, canonical_hash, read_document, validated, write_file


class ReplayOutcome(StrEnum):
    """How a change ended, as a whole."""

    DONE = "done"  # every offset was read back as wanted
    PARTIAL = "partial"
    FAILED = "failed"  # tried, and nothing is as wanted
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
    """How it ended for one partition."""

    COMMITTED = "committed"
    UNCHANGED = "unchanged"  # it was so before
    FAILED = "failed"
    REFUSED = "refused"
    SKIPPED = "skipped"  # the plan commits nothing there
    WOULD_COMMIT = "would_commit"


class PartitionReceipt(Strict):
    """One partition: before, wanted, read back."""

    topic: str
    partition: Offset
    old: Offset | None
    target: Offset | None
    found: Offset | None
    status: Status = Field(strict=False)
    error: str | None = None


class Receipt(Strict):
    """What was done with a plan."""

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
        """The outcome in words."""
        return _SENTENCES[self.outcome]

    def counts(self) -> dict[str, int]:
        """Partitions by status."""
        return dict(Counter(part.status.value for part in self.partitions))

    def document(self) -> dict[str, Any]:
        """As plain values."""
        return self.model_dump(mode="json", by_alias=True)


class Rollback(Strict):
    """The whole group as it was before the first change, so that it can be made so again.

    Attributes:
        before: every commit of the group, also on topics that the plan does not know: what cannot be taken back for one partition can
            only be taken back by making the group anew.
        targets: what the plan was about to commit.
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

    model_config = ConfigDict(
        hide_input_in_errors=True, extra="forbid", frozen=True, strict=True, populate_by_name=True
    )

    @property
    def commits(self) -> dict[Partition, int]:
        """The group's commits before."""
        return {(topic, number): offset for topic, number, offset in self.before}

    @property
    def wanted(self) -> dict[Partition, int]:
        """The plan's targets."""
        return {(topic, number): offset for topic, number, offset in self.targets}

    @property
    def short_hash(self) -> str:
        """What a person types to confirm."""
        return self.hash[:8]

    def document(self) -> dict[str, Any]:
        """As plain values."""
        return self.model_dump(mode="json", by_alias=True)


def rollback_path(plan: Path) -> Path:
    """Beside the plan: `plan.json` has `plan.rollback.json`."""
    return plan.with_suffix(".rollback.json")


def receipt_path(plan: Path) -> Path:
    """Beside the plan: `plan.json` has `plan.receipt.json`."""
    return plan.with_suffix(".receipt.json")


def triples(offsets: Mapping[Partition, int]) -> list[tuple[str, int, int]]:
    """For a file."""
    return [(topic, number, offset) for (topic, number), offset in sorted(offsets.items())]


def write_rollback(path: Path, rollback: Rollback) -> None:
    """On the disk, whole and with its hash, when this returns."""
    sealed = rollback.model_copy(update={"hash": canonical_hash(rollback.document())})
    write_file(path, sealed.document())


def read_rollback(path: Path) -> Rollback:
    """Read and check a rollback file.

    Raises:
        UsageError: if it cannot be read or is none.
        GuardError: if it is not as it was written.
    """
    document = read_document(path, "rollback file")
    if not isinstance(document, dict) or document.get("schema") != "workbench.replay-rollback/1":
        raise UsageError(f"{path} is not a rollback file.", hint="It is next to the plan: plan.rollback.json.")
    rollback = validated(Rollback, document, path, "rollback file")
    if rollback.hash != canonical_hash(document):
        raise GuardError(f"The rollback file {path} was changed after it was written.")
    return rollback


def rollback_of_plan(path: Path, plan: Plan) -> Rollback | None:
    """The rollback file of an earlier run of this plan; None if there was none.

    Raises:
        GuardError: if it is another plan's, or damaged.
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
