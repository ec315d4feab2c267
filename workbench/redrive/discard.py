"""Discard of letters: an audit record says who gave them up and why; a group's position can be moved past them. Nothing is deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from workbench.errors import GuardError, WorkbenchError
from workbench.humanize import listed, plural
from workbench.plans.journal import Change, Journal, only_one
from workbench.queues.replay_port import WITHOUT_MEMBERS, Gateway
from workbench.queues.snapshot_views import Partition
from workbench.redrive.commit_marks import PlanProgress
from workbench.redrive.every_log_must_answer import whole_logs
from workbench.redrive.guard import HINTS, of_other_log
from workbench.redrive.planfile import RedrivePlan
from workbench.redrive.redrive_ledger import Ledger, ended_of
from workbench.redrive.redrive_ports import LetterReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """What was done.

    Attributes:
        letters: marked as discarded; later plans leave them out.
        moved: new positions of the group, by partition.
        held: partitions where the group stays before a letter that is not discarded, and that letter.
    """

    letters: int
    moved: Mapping[Partition, int]
    held: Mapping[Partition, int]


def discard(
    plan: RedrivePlan,
    gateway: Gateway,
    letters: LetterReader,
    journal: Journal,
    ledger: Ledger,
    *,
    reason: str,
    group: str | None = None,
    claim: Callable[[], object] | None = None,
) -> Discarded:
    """Mark a plan's letters as discarded, instead of producing them.

    Args:
        claim: writes the end of the plan to Kafka, so that other machines know it; None: only this machine knows.
        group: a group without members, whose position is moved past them: forward only, and never past another letter.

    Raises:
        GuardError: if the topic is not the one of the plan, the plan was begun, the group has members or has committed meanwhile, or a
            position is not read back as written.
        SourceUnreachableError: if Kafka does not answer.
    """
    with only_one(plan.id):
        if (ended := ledger.ended(plan)) is not None and ended.outcome == "done":
            raise GuardError(f"The plan {plan.short_hash} was applied: its letters were produced.")
        if ended is not None and ended.outcome == "given_up":
            raise GuardError(
                f"The plan {plan.short_hash} was given up.",
                hint="Plan the letters that are left, and discard that plan.",
            )
        if ended is None and (ledger.was_started(plan) or (claim is None and gateway.commits(plan.id))):
            raise GuardError(
                f"The plan {plan.short_hash} was begun: some of its letters were produced.",
                hint="Apply it to the end; or give it up (dlq give-up), make a new plan of the rest, and discard that.",
            )
        if (other := of_other_log(plan, gateway.cluster([plan.topic]))) is not None:
            raise GuardError(other.message, hint=HINTS[other.code])
        before = gateway.commits(group) if group is not None else {}
        target, held = _positions(plan, gateway, letters, before) if group is not None else ({}, {})
        if group is not None:
            view = gateway.group(group)
            if view.state not in WITHOUT_MEMBERS:
                raise GuardError(
                    f"The group {group!r} has {plural(len(view.members), 'member')}.", hint="Stop its consumers first."
                )
            if gateway.commits(group) != before:  # a member that came and went would be moved back
                raise GuardError(
                    f"The group {group!r} has committed while the letters were read. Nothing was changed.",
                    hint="Stop its consumers, then discard again.",
                )
        changes: list[Change] = [(*key, before.get(key), at, None) for key, at in target.items()]
        note = partial(
            journal.append, plan=plan.hash, cluster_id=plan.cluster_id, group=group or plan.id, action="discard"
        )
        note(phase="begin", detail=reason, changes=changes)
        ledger.keep(plan)
        if claim is not None and ended is None:
            try:
                claim()
            except WorkbenchError as error:
                note(phase="end", outcome="failed", detail=error.message, after=error)
                raise
        ledger.end(plan, ended_of("discarded", plan, PlanProgress(), reason=reason))
        if target and group is not None:
            if gateway.commits(group) != before:  # a claim takes seconds
                moved = GuardError(
                    f"The letters are marked as discarded, and the group {group!r} has committed meanwhile: it was not moved.",
                    hint="Stop its consumers, then discard again: it continues from here.",
                )
                note(phase="end", outcome="partial", detail="the group has committed meanwhile", after=moved)
                raise moved
            errors = gateway.commit(group, target)
            after = gateway.commits(group)
            wrong = [key for key, at in target.items() if after.get(key) != at]
            if wrong:
                elsewhere = GuardError(
                    f"The group {group!r} is not at its new position on {plural(len(wrong), 'partition')}: "
                    f"{listed([errors.get(key, 'read back otherwise') for key in wrong])}.",
                    hint="Discard again: it continues from here.",
                )
                note(phase="end", outcome="failed", detail=listed(list(errors.values())), after=elsewhere)
                raise elsewhere
        note(phase="end", outcome="done", detail=reason, changes=changes)
        return Discarded(letters=plan.letters, moved=target, held=held)


def _positions(
    plan: RedrivePlan, gateway: Gateway, letters: LetterReader, before: Mapping[Partition, int]
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """Where the group may go: up to the first letter that is not in the plan."""
    logs = whole_logs(gateway, [(plan.topic, part.partition) for part in plan.partitions])
    if short := [part.partition for part in plan.partitions if logs.ends[plan.topic, part.partition] < part.stop]:
        raise GuardError(
            f"{plan.topic}-{short[0]} ends before the end of the plan: it was truncated, and what it has there now are other letters.",
            hint=HINTS["log_changed"],
        )
    start = {
        part.partition: max(before.get((plan.topic, part.partition), 0), logs.starts[plan.topic, part.partition])
        for part in plan.partitions
    }
    stop = {part.partition: max(part.stop, start[part.partition]) for part in plan.partitions}
    planned, held = plan.planned(), dict[Partition, int]()
    for batch, _ in letters.read(start, stop):
        for letter in batch:
            key = (plan.topic, letter.partition)
            if letter.offset not in planned[letter.partition]:
                held.setdefault(key, letter.offset)
    found = {(plan.topic, number): held.get((plan.topic, number), stop[number]) for number in start}
    return {key: at for key, at in found.items() if at > start[key[1]]}, held
