"""Where it is known that the new group began at the start of the window, by what `apply` has left: the journal, and the receipt.

A commit behind the window proves that it was read only if the group has come from its start. A group that had commits before, or whose
consumers began at the end of the log because nothing was applied, is behind the window as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workbench.errors import GuardError, UsageError
from workbench.plans.journal import Entry, Journal
from workbench.plans.strict_document import read_document, validated
from workbench.queues.snapshot_views import Partition
from workbench.replay.planfile import Plan
from workbench.replay.receipt import Receipt, Status, receipt_path


def known_starts(plan: Plan, path: Path, journal: Journal) -> frozenset[Partition]:
    """Partitions where the new group was set to the plan's target, or before it, and not elsewhere since.

    A journal that is there and cannot be read may tell of a later change: then nothing is known.

    Args:
        path: of the plan; its receipt lies next to it. An empty one: the plan has no file.
    """
    try:
        entries, _ = journal.read()
    except UsageError:
        return frozenset()
    told = _of_journal(plan, entries)
    begun, receipt = told.begun, _receipt(path) if path.name else None
    if receipt is not None and receipt.plan == plan.hash:
        for part in receipt.partitions:
            key = (part.topic, part.partition)
            is_known = part.found is not None and part.status in (Status.COMMITTED, Status.UNCHANGED)
            if is_known and told.is_before(receipt, key):
                begun[key] = part.found
    return frozenset(key for key, target in plan.targets.items() if (at := begun.get(key)) is not None and at <= target)


@dataclass(slots=True)
class _Told:
    """What a journal tells of a group.

    Attributes:
        begun: offsets that it was set to last, by any plan and any command.
        changed_at, ended_at: when each was written; when it was taken back or deleted.
        overtaken: what others changed after this plan was applied here; None as a partition: all of it was taken back or deleted.
        is_applied: whether this plan was applied here, or begun to be.
    """

    begun: dict[Partition, int | None] = field(default_factory=dict)
    changed_at: dict[Partition, str] = field(default_factory=dict)
    ended_at: str = ""
    overtaken: set[Partition | None] = field(default_factory=set)
    is_applied: bool = False

    def is_before(self, receipt: Receipt, key: Partition) -> bool:
        """Whether nothing came after a receipt of the plan. On one machine, lines have an order, whatever its clock did."""
        if self.is_applied and self.overtaken & {key, None}:
            return False
        return receipt.at > max(self.ended_at, self.changed_at.get(key, ""))


def _of_journal(plan: Plan, entries: Sequence[Entry]) -> _Told:
    """What the group was set to last.

    From the line before a change on, nothing is known, until one after it tells that the offset was read back: a run may have been
    killed between its write and that line.
    """
    told = _Told()
    for entry in entries:
        if (entry.group, entry.cluster_id) != (plan.new_group, plan.cluster_id):
            continue
        if entry.action in ("rollback", "retire"):
            told.begun.clear()
            told.overtaken.add(None)
            told.ended_at = entry.at
            continue
        is_own = entry.plan == plan.hash and entry.action == "apply"
        if is_own:
            told.is_applied = True
            told.overtaken.clear()
        is_read_back = entry.phase == "end" and entry.outcome in ("done", "partial")
        for topic, number, _, at, error in entry.changes:
            told.begun[topic, number] = at if is_read_back and not error else None
            told.changed_at[topic, number] = entry.at
            if not is_own:
                told.overtaken.add((topic, number))
    return told


def _receipt(path: Path) -> Receipt | None:
    try:
        return validated(Receipt, read_document(receipt_path(path), "receipt"), path, "receipt")
    except (UsageError, GuardError):
        return None
