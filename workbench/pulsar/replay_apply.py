"""Carry out a replay on Pulsar, and take it back. Every partition is read back: the admin's own call for all of them is not enough."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import ConfigDict, Field

from workbench.errors import GuardError, SourceUnreachableError, WorkbenchError
from workbench.humanize import plural
from workbench.plans.confirm import Confirmation
from workbench.plans.document import StrictDocument, canonical_hash, write_file
from workbench.plans.journal import Change, Journal, only_one
from workbench.pulsar.admin import NotThereError, PulsarAdmin
from workbench.pulsar.log import PulsarCursor, part_name, partitions_of, place, read_log
from workbench.pulsar.replay_plan import Place, PulsarReplayPlan, PulsarWindow, names_of, read_sealed, topic_of


class Made(StrEnum):
    """Outcome for one partition."""

    CREATED = "created"
    THERE = "there"  # an earlier run of this plan has made it
    WOULD_CREATE = "would_create"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMade:
    """One partition: where the new subscription begins, read back, and what went wrong."""

    partition: int
    outcome: Made
    found: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarApplied:
    """Result of applying a plan; `undo` is the file that takes it back."""

    plan: PulsarReplayPlan
    partitions: tuple[PartitionMade, ...]
    undo: Path | None

    @property
    def failed(self) -> tuple[PartitionMade, ...]:
        """Partitions that are not as planned."""
        return tuple(it for it in self.partitions if it.outcome is Made.FAILED)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "schema": "workbench.pulsar-replay-receipt/1",
            "plan": self.plan.hash,
            "topic": self.plan.topic,
            "subscription": self.plan.new_subscription,
            "outcome": "partial" if self.failed else "done" if self.undo is not None else "dry_run",
            "rollback": str(self.undo) if self.undo is not None else None,
            "partitions": [
                {"partition": it.partition, "outcome": it.outcome.value, "begins_at": it.found, "error": it.error}
                for it in self.partitions
            ],
        }


UNDO_SCHEMA = "workbench.pulsar-replay-rollback/1"


class PulsarUndo(StrictDocument):
    """What `apply` writes before its first change: the subscriptions that the plan makes."""

    schema_: Literal["workbench.pulsar-replay-rollback/1"] = Field(
        alias="schema", default="workbench.pulsar-replay-rollback/1"
    )
    plan: str
    cluster: str
    clusters: list[str]
    topic: str
    subscription: str
    starts: list[tuple[Annotated[int, Field(ge=-1)], Place]]
    hash: str = ""

    model_config = ConfigDict(
        hide_input_in_errors=True, extra="forbid", frozen=True, strict=True, populate_by_name=True
    )

    @property
    def confirmation(self) -> Confirmation:
        """What is typed before it is carried out."""
        asked = "the subscription and the number of its partitions"
        return Confirmation(hash=self.hash, name=self.subscription, number=len(self.starts), asked=asked)


def undo_path(plan: Path) -> Path:
    """Where the rollback file of a plan is."""
    return plan.with_suffix(".rollback.json")


def read_undo(path: Path) -> PulsarUndo:
    """Read a rollback file that nobody has changed.

    Raises:
        UsageError: if it cannot be read, or is none. GuardError: if it was changed.
    """
    return read_sealed(PulsarUndo, UNDO_SCHEMA, path, "rollback file")


def check_cluster(admin: PulsarAdmin, clusters: list[str]) -> None:
    """Refuse another Pulsar than the one of a file.

    Raises:
        GuardError: if it is another one. SourceUnreachableError: if the admin does not answer.
    """
    if (found := names_of(admin)) != clusters:
        told, planned = ", ".join(found) or "nothing", ", ".join(clusters) or "nothing"
        raise GuardError(
            f"This is another Pulsar: its admin knows {told}, the plan is for {planned}.",
            hint="Use --cluster with the cluster of the plan, or make a new plan.",
        )


def apply_pulsar_plan(plan: PulsarReplayPlan, path: Path, admin: PulsarAdmin, journal: Journal) -> PulsarApplied:
    """Make the new subscription on every partition, and read it back. Safe to repeat after any failure.

    Raises:
        GuardError: if a check fails, before anything is changed. SourceUnreachableError: if the admin does not answer a check.
        UsageError: if the rollback file or the journal cannot be written; nothing was changed then.
    """
    group = f"{plan.new_subscription}@{plan.topic}"
    with only_one(group):
        there = check_plan(plan, admin, journal)
        undo = PulsarUndo(
            plan=plan.hash,
            cluster=plan.cluster,
            clusters=plan.clusters,
            topic=plan.topic,
            subscription=plan.new_subscription,
            starts=[(it.partition, it.start) for it in plan.windows],
        )
        document = undo.model_dump(mode="json", by_alias=True)
        write_file(undo_path(path), document | {"hash": canonical_hash(document)})
        about: dict[str, Any] = {"plan": plan.hash, "cluster_id": ",".join(plan.clusters), "group": group}
        journal.append(**about, action="apply", phase="begin", detail=f"{plan.topic}: {plan.written}")
        made = []
        for it in plan.windows:
            made.append(_made(plan, it, admin, there.get(it.partition)))
        changes: list[Change] = [(plan.topic, it.partition, None, None, it.error) for it in made]
        outcome = "partial" if any(it.error for it in made) else "done"
        starts = ", ".join(f"{it.partition}: {it.found}" for it in made if it.found)
        journal.append(**about, action="apply", phase="end", outcome=outcome, detail=starts, changes=changes)
    return PulsarApplied(plan=plan, partitions=tuple(made), undo=undo_path(path))


def check_plan(plan: PulsarReplayPlan, admin: PulsarAdmin, journal: Journal) -> dict[int, PulsarCursor]:
    """All checks before the first change; the cursors that an earlier run of this plan has made.

    Raises:
        GuardError: naming the partition that is not as it was planned. SourceUnreachableError: if the admin does not answer.
    """
    check_cluster(admin, plan.clusters)
    try:
        numbers = partitions_of(admin, plan.name)
    except NotThereError:
        raise GuardError(f"The topic {plan.topic} is gone.", hint="Make a new plan.") from None
    if numbers != [it.partition for it in plan.windows]:
        raise GuardError(f"{plan.topic} has other partitions than when it was planned.", hint="Make a new plan.")
    made = _made_before(plan, journal)
    found: dict[int, PulsarCursor] = {}
    others: list[int] = []
    for it in plan.windows:
        log = read_log(admin, plan.name, it.partition)
        name = part_name(plan.name, it.partition)
        cursor = log.cursors.get(plan.new_subscription)
        at_start = log.begins_at(plan.new_subscription, it.begin)
        if cursor is not None and made is not None and (at_start or it.partition in made):
            found[it.partition] = cursor
            continue
        if cursor is not None:
            others.append(it.partition)
        if log.stop < it.end:
            raise GuardError(f"The log of {name} ends before the window: it was made anew.", hint="Make a new plan.")
        if log.first > it.begin and log.stop > it.begin:
            raise GuardError(
                f"Entries of the window were deleted from {name} since the plan was made: it now begins at {log.first}.",
                hint="Make a new plan, which says what is left.",
            )
    if others:
        told = ", ".join("the topic" if it < 0 else str(it) for it in others)
        raise GuardError(
            f"A subscription {plan.new_subscription!r} exists already on {plural(len(others), 'partition')} of {plan.topic}: {told}. "
            "Nothing was changed.",
            hint="Plan with another --new-group, or delete that one if nobody needs it.",
        )
    return found


def _made_before(plan: PulsarReplayPlan, journal: Journal) -> set[int] | None:
    """Partitions on which an earlier run read its subscription back; None if no run has begun, or the last one was taken back."""
    found: set[int] | None = None
    for entry in journal.read()[0]:
        if entry.plan != plan.hash:
            continue
        if entry.action == "rollback":
            found = None
        elif entry.action == "apply":
            found = found or set()
            found |= {number for _, number, _, _, error in entry.changes if error is None}
    return found


def _made(plan: PulsarReplayPlan, it: PulsarWindow, admin: PulsarAdmin, there: PulsarCursor | None) -> PartitionMade:
    name = part_name(plan.name, it.partition)
    if there is not None:
        return PartitionMade(partition=it.partition, outcome=Made.THERE, found=str(there.read))
    ledger, entry = it.begin.numbers
    try:
        path = f"{name.path}/subscription/{quote(plan.new_subscription, safe='')}"
        is_new = admin.create_subscription(path, {"ledgerId": ledger, "entryId": entry})
        log = read_log(admin, plan.name, it.partition)
    except WorkbenchError as error:
        return PartitionMade(partition=it.partition, outcome=Made.FAILED, error=error.message)
    cursor = log.cursors.get(plan.new_subscription)
    if not is_new:
        words = "somebody else has made it meanwhile"
    elif cursor is None:
        words = "it was made, and is not there"
    elif not log.begins_at(plan.new_subscription, it.begin):
        words = f"it was made, and begins at {cursor.read} instead of {it.begin}"
    else:
        return PartitionMade(partition=it.partition, outcome=Made.CREATED, found=str(cursor.read))
    return PartitionMade(partition=it.partition, outcome=Made.FAILED, error=words)


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarUndone:
    """Partitions whose subscription is deleted, and those where it is not, with the reason."""

    deleted: tuple[int, ...]
    failed: dict[int, str]


def undo_pulsar_plan(
    undo: PulsarUndo, admin: PulsarAdmin, journal: Journal, *, discard_progress: bool = False
) -> PulsarUndone:
    """Delete the new subscription on every partition.

    Raises:
        GuardError: if it has acknowledged something, unless `discard_progress`; nothing is deleted then.
        SourceUnreachableError: if the admin does not answer a check.
    """
    name, group = topic_of(undo.topic), f"{undo.subscription}@{undo.topic}"
    with only_one(group):
        check_cluster(admin, undo.clusters)
        cursors = {number: read_log(admin, name, number).cursors.get(undo.subscription) for number, _ in undo.starts}
        moved = [number for number, start in undo.starts if _has_moved(cursors[number], start)]
        if moved and not discard_progress:
            raise GuardError(
                f"{undo.subscription!r} has acknowledged entries on {plural(len(moved), 'partition')}. Nothing was changed.",
                hint="To delete it all the same: --discard-progress.",
            )
        about: dict[str, Any] = {"plan": undo.plan, "cluster_id": ",".join(undo.clusters), "group": group}
        journal.append(**about, action="rollback", phase="begin")
        deleted, failed = [], {}
        for number, cursor in cursors.items():
            if cursor is None:
                continue
            try:
                path = part_name(name, number).path
                admin.delete_subscription(f"{path}/subscription/{quote(undo.subscription, safe='')}")
                deleted.append(number)
            except NotThereError:
                continue
            except SourceUnreachableError as error:
                failed[number] = error.message
        journal.append(**about, action="rollback", phase="end", outcome="partial" if failed else "done")
    return PulsarUndone(deleted=tuple(deleted), failed=failed)


def _has_moved(cursor: PulsarCursor | None, start: str) -> bool:
    return cursor is not None and cursor.acknowledged >= place(start)
