"""Commit offsets between two lines of the journal, and read them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.errors import OutputError, SourceUnreachableError, WorkbenchError
from workbench.plans.journal import Action, Change, Journal
from workbench.queues.replay_port import Gateway, KeptCommit, offsets_of
from workbench.queues.snapshot_views import Partition
from workbench.replay.planfile import Plan
from workbench.replay.receipt import ReplayOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Result of a write.

    Attributes:
        after: the group's commits, read back.
        wrong: offsets that were not read back as planned, and why.
        trouble: error of the journal's last line, or None.
    """

    outcome: ReplayOutcome
    after: Mapping[Partition, int]
    wrong: Mapping[Partition, str]
    trouble: OutputError | None = None


def write_commits(
    plan: Plan,
    gateway: Gateway,
    journal: Journal,
    *,
    action: Action,
    before: Mapping[Partition, int],
    pending: Mapping[Partition, KeptCommit],
    wanted: Mapping[Partition, int],
) -> Written:
    """Write the pending commits for the plan's new group; done means that all were read back as planned, and these with their metadata.

    Args:
        wanted: offsets that the group shall be at, whether they are written now or stand there.

    Raises:
        SourceUnreachableError: if the cluster stops answering; the journal then says that the result is unknown.
        UsageError: if the journal cannot be written; nothing is changed then.
    """

    def note(
        phase: str, outcome: str | None, errors: Mapping[Partition, str], failed: WorkbenchError | None = None
    ) -> None:
        offsets = {**offsets_of(pending), **{key: wanted[key] for key in errors}}
        journal.append(
            plan=plan.hash,
            cluster_id=plan.cluster_id,
            group=plan.new_group,
            action=action,
            phase="begin" if phase == "begin" else "end",
            outcome=outcome,
            detail=failed.message if failed is not None else None,
            after=failed,
            changes=[(*key, before.get(key), offset, errors.get(key)) for key, offset in offsets.items()],
        )

    note("begin", None, {})
    try:
        errors = gateway.restore(plan.new_group, pending)
        # Only the group's current commits count, whatever the answer was.
        found_there = gateway.kept_commits(plan.new_group)
    except SourceUnreachableError as error:
        note("end", "unknown", {}, error)
        raise
    after = offsets_of(found_there)
    wrong = {}
    for key, offset in wanted.items():
        found = after.get(key)
        if found != offset:
            wrong[key] = errors.get(key, f"read back as {'no commit' if found is None else f'{found:,}'}")
        elif key in pending and found_there[key] != pending[key]:
            wrong[key] = errors.get(key, "its metadata was not read back")
    outcome = (
        ReplayOutcome.DONE if not wrong else ReplayOutcome.PARTIAL if len(wrong) < len(wanted) else ReplayOutcome.FAILED
    )
    trouble = None
    try:
        note("end", outcome.value, wrong)
    except OutputError as error:  # report what was written in any case
        trouble = error
    return Written(outcome=outcome, after=after, wrong=wrong, trouble=trouble)


def end_interrupted(plan: Plan, journal: Journal, commits: Mapping[Partition, int]) -> None:
    """Write the end of an interrupted write of this plan, where an offset stands as it was to be written.

    A group that stands there begins there, whoever wrote it. Without that line nothing tells so once the group has moved on.

    Args:
        commits: of the plan's new group now.

    Raises:
        UsageError: if the journal cannot be read. OutputError: if the line cannot be written.
    """
    begun = journal.open_change(plan.new_group, plan.cluster_id)
    if begun is None or begun.plan != plan.hash or begun.action not in ("apply", "carry"):
        return
    changes: list[Change] = [
        (topic, number, old, new, None if found == new else f"read back as {'no commit' if found is None else found}")
        for topic, number, old, new, _ in begun.changes
        for found in [commits.get((topic, number))]
    ]
    wrong = sum(error is not None for *_, error in changes)
    if wrong < len(changes):
        outcome = ReplayOutcome.PARTIAL if wrong else ReplayOutcome.DONE
        journal.append(
            plan=plan.hash,
            cluster_id=plan.cluster_id,
            group=plan.new_group,
            action=begun.action,
            phase="end",
            outcome=outcome.value,
            detail="read back after an interruption",
            changes=changes,
        )
