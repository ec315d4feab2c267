"""Carry out a replay on Pulsar, and take it back. Every partition is read back: the admin's own call for all of them is not enough."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import ConfigDict, Field

from workbench.errors import GuardError, SourceUnreachableError, WorkbenchError
from workbench.humanize import plural
from workbench.plans.confirm import Confirmation
from workbench.plans.journal import Change, Journal, only_one
from workbench.plans.strict_document import StrictDocument, canonical_hash, write_file
from workbench.pulsar.admin import NotThereError, PulsarAdmin
from workbench.pulsar.policies import backlog_quotas, ttl_seconds
from workbench.pulsar.replay_marks import Ownership, ownership_of, properties_of, read_part
from workbench.pulsar.replay_plan import Place, PulsarReplayPlan, PulsarWindow, each, names_of, read_sealed, topic_of
from workbench.pulsar.topic_log import PulsarLog, partitions_of, place, read_log
from workbench.pulsar.topic_names import part_name
from workbench.queues.position import Position


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
    """Make the new subscription on every partition, and read it back. Safe to repeat after any failure; ends at the first.

    Raises:
        GuardError: if a check fails, before anything is changed. SourceUnreachableError: if the admin does not answer a check.
        UsageError: if the rollback file or the journal cannot be written; nothing was changed then.
    """
    group = f"{plan.new_subscription}@{plan.topic}"
    with only_one(group):
        checked = check_plan(plan, admin)
        undo = PulsarUndo(
            plan=plan.hash,
            cluster=plan.cluster,
            clusters=plan.clusters,
            topic=plan.topic,
            subscription=plan.new_subscription,
            starts=[(it.partition, it.start) for it in plan.windows],
        )
        _write_undo(undo, undo_path(path))
        about: dict[str, Any] = {"plan": plan.hash, "cluster_id": ",".join(plan.clusters), "group": group}
        why = f" ({plan.reason})" if plan.reason else ""
        journal.append(**about, action="apply", phase="begin", detail=f"{plan.topic}: {plan.written}{why}")
        made: list[PartitionMade] = []
        for it in checked:
            failed = next((before for before in made if before.error), None)
            if failed is not None:
                words = f"not tried, after partition {failed.partition}"
                made.append(PartitionMade(partition=it.window.partition, outcome=Made.FAILED, error=words))
            else:
                made.append(_made(plan, it, admin))
        changes: list[Change] = [(plan.topic, it.partition, None, None, it.error) for it in made]
        outcome = "partial" if any(it.error for it in made) else "done"
        starts = ", ".join(f"{it.partition}: {it.found}" for it in made if it.found)
        journal.append(**about, action="apply", phase="end", outcome=outcome, detail=starts, changes=changes)
    return PulsarApplied(plan=plan, partitions=tuple(made), undo=undo_path(path))


def _write_undo(undo: PulsarUndo, path: Path) -> None:
    if path.exists() and read_undo(path).plan != undo.plan:
        raise GuardError(
            f"{path} belongs to another plan.",
            hint="Keep it, and save this plan under another name. Nothing was changed.",
        )
    document = undo.model_dump(mode="json", by_alias=True)
    write_file(path, document | {"hash": canonical_hash(document)})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedWindow:
    """A window before the first change.

    Attributes:
        begin: where the subscription begins now. Its start, unless that has gone with entries before the window.
        whose: of the subscription that is there; None if there is none.
    """

    window: PulsarWindow
    begin: Position
    whose: Ownership | None


def check_plan(plan: PulsarReplayPlan, admin: PulsarAdmin) -> list[CheckedWindow]:
    """All checks before the first change.

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
    if (words := plan.outlived(ttl_seconds(admin, plan.name), now_ms=time.time() * 1000)) is not None:
        raise GuardError(
            words, hint="Raise messageTTL of the topic or of its namespace first, or plan with a later --since."
        )
    logs = dict(zip(numbers, each(numbers, lambda number: read_log(admin, plan.name, number)), strict=True))
    quotas, _ = backlog_quotas(admin, plan.name)
    if (words := plan.over_quota(quotas, logs, now_ms=time.time() * 1000)) is not None:
        raise GuardError(
            words, hint="Raise the quota of the topic or of its namespace first, or plan with a later --since."
        )
    found = each(plan.windows, lambda it: _checked(plan, it, logs[it.partition], admin))
    if others := [it.window.partition for it in found if it.whose is Ownership.OTHER]:
        told = ", ".join("the topic" if it < 0 else str(it) for it in others)
        raise GuardError(
            f"A subscription {plan.new_subscription!r} that this plan has not made exists on "
            f"{plural(len(others), 'partition')} of {plan.topic}: {told}. Nothing was changed.",
            hint="Plan with another --new-group, or delete that one if nobody needs it.",
        )
    return found


def _checked(plan: PulsarReplayPlan, it: PulsarWindow, log: PulsarLog, admin: PulsarAdmin) -> CheckedWindow:
    name = part_name(plan.name, it.partition)
    begin = max(it.begin, log.first)
    if plan.new_subscription in log.cursors:
        whose = ownership_of(read_part(admin, plan.name, it.partition, plan.new_subscription), plan.hash)
        if whose is Ownership.MADE and not log.begins_at(plan.new_subscription, begin):
            raise GuardError(
                f"An earlier run has made {plan.new_subscription!r} on {name}, and it does not begin at {begin}: it was interrupted.",
                hint="Take it back first: workbench replay rollback plan.rollback.json, the file next to the plan.",
            )
        return CheckedWindow(window=it, begin=begin, whose=whose)
    if log.stop < it.end:
        raise GuardError(f"The log of {name} ends before the window: it was made anew.", hint="Make a new plan.")
    if (kept := log.entries_between(it.begin, it.end)) != it.entries:
        raise GuardError(
            f"The window on {name} had {plural(it.entries, 'entry', 'entries')} when it was planned, and has {kept:,} now: "
            "some were deleted, or this is another log.",
            hint="Make a new plan, which says what is left.",
        )
    return CheckedWindow(window=it, begin=begin, whose=None)


def _made(plan: PulsarReplayPlan, it: CheckedWindow, admin: PulsarAdmin) -> PartitionMade:
    number, begin = it.window.partition, it.begin

    def failed(words: str) -> PartitionMade:
        return PartitionMade(partition=number, outcome=Made.FAILED, error=words)

    if it.whose is Ownership.PROVEN:
        return PartitionMade(partition=number, outcome=Made.THERE, found=it.window.start)
    path = f"{part_name(plan.name, number).path}/subscription/{quote(plan.new_subscription, safe='')}"
    ledger, entry = begin.numbers
    try:
        position = {"ledgerId": ledger, "entryId": entry, "properties": properties_of(plan.hash)}
        if it.whose is None and not admin.create_subscription(path, position):
            return failed("somebody else has made it meanwhile")
        log = read_log(admin, plan.name, number)
        cursor = log.cursors.get(plan.new_subscription)
        if cursor is None:
            return failed("it was made, and is not there")
        if not log.begins_at(plan.new_subscription, begin):
            return failed(f"it was made, and begins at {cursor.read} instead of {begin}")
        admin.set_properties(path, properties_of(plan.hash, began_at=str(begin)))
        if ownership_of(read_part(admin, plan.name, number, plan.new_subscription), plan.hash) is not Ownership.PROVEN:
            return failed("it was made, and its broker does not keep whose it is: that takes Pulsar 2.11 or later")
    except WorkbenchError as error:
        return failed(error.message)
    outcome = Made.CREATED if it.whose is None else Made.THERE
    return PartitionMade(partition=number, outcome=outcome, found=str(cursor.read))


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarUndone:
    """Partitions whose subscription is deleted, those where it is not, with the reason, and those where one of others stays."""

    deleted: tuple[int, ...]
    failed: dict[int, str]
    others: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "schema": "workbench.pulsar-replay-rolled-back/1",
            "deleted": list(self.deleted),
            "failed": [{"partition": number, "error": words} for number, words in sorted(self.failed.items())],
            "others": list(self.others),
        }


def undo_pulsar_plan(
    undo: PulsarUndo, admin: PulsarAdmin, journal: Journal, *, discard_progress: bool = False
) -> PulsarUndone:
    """Delete the new subscription on every partition where the plan has made it.

    Raises:
        GuardError: if it has acknowledged something, unless `discard_progress`; nothing is deleted then.
        SourceUnreachableError: if the admin does not answer a check.
    """
    name, group = topic_of(undo.topic), f"{undo.subscription}@{undo.topic}"

    def look(item: tuple[int, str]) -> tuple[int, Ownership | None, bool]:
        number, start = item
        cursor = read_log(admin, name, number).cursors.get(undo.subscription)
        if cursor is None:
            return number, None, False
        whose = ownership_of(read_part(admin, name, number, undo.subscription), undo.plan)
        return number, whose, whose is Ownership.PROVEN and cursor.has_acknowledged(place(start))

    with only_one(group):
        check_cluster(admin, undo.clusters)
        found = each(undo.starts, look)
        if (moved := sum(has_moved for _, _, has_moved in found)) and not discard_progress:
            raise GuardError(
                f"{undo.subscription!r} has acknowledged entries on {plural(moved, 'partition')}. Nothing was changed.",
                hint="To delete it all the same: --discard-progress.",
            )
        about: dict[str, Any] = {"plan": undo.plan, "cluster_id": ",".join(undo.clusters), "group": group}
        journal.append(**about, action="rollback", phase="begin")
        deleted, failed = [], {}
        for number in (number for number, whose, _ in found if whose in (Ownership.MADE, Ownership.PROVEN)):
            try:
                path = part_name(name, number).path
                admin.delete_subscription(f"{path}/subscription/{quote(undo.subscription, safe='')}")
                deleted.append(number)
            except NotThereError:
                continue
            except SourceUnreachableError as error:
                failed[number] = error.message
        journal.append(**about, action="rollback", phase="end", outcome="partial" if failed else "done")
    others = tuple(number for number, whose, _ in found if whose is Ownership.OTHER)
    return PulsarUndone(deleted=tuple(deleted), failed=failed, others=others)
