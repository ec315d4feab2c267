"""Where it is known that the new group began at the start of the window, by what `apply` has left: the journal, and the receipt.

A commit behind the window proves that it was read only if the group has come from its start. A group that had commits before, or whose
consumers began at the end of the log because nothing was applied, is behind the window as well.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    begun, changed_at, ended_at = _of_journal(plan, entries)
    receipt = _receipt(path) if path.name else None
    if receipt is not None and receipt.plan == plan.hash:
        for part in receipt.partitions:
            key = (part.topic, part.partition)
            is_known = part.found is not None and part.status in (Status.COMMITTED, Status.UNCHANGED)
            if is_known and receipt.at > max(ended_at, changed_at.get(key, "")):
                begun[key] = part.found
    return frozenset(key for key, target in plan.targets.items() if (at := begun.get(key)) is not None and at <= target)


def _of_journal(plan: Plan, entries: Sequence[Entry]) -> tuple[dict[Partition, int | None], dict[Partition, str], str]:
    """Offsets that the group was set to last, by any plan and any command; when each was written; when it was taken back or deleted.

    From the line before a change on, nothing is known, until one after it tells that the offset was read back: a run may have been
    killed between its write and that line.
    """
    begun: dict[Partition, int | None] = {}
    changed_at: dict[Partition, str] = {}
    ended_at = ""
    for entry in entries:
        if (entry.group, entry.cluster_id) != (plan.new_group, plan.cluster_id):
            continue
        if entry.action in ("rollback", "retire"):
            begun.clear()
            ended_at = entry.at
            continue
        is_read_back = entry.phase == "end" and entry.outcome in ("done", "partial")
        for topic, number, _, at, error in entry.changes:
            begun[topic, number] = at if is_read_back and not error else None
            changed_at[topic, number] = entry.at
    return begun, changed_at, ended_at


def _receipt(path: Path) -> Receipt | None:
    try:
        return validated(Receipt, read_document(receipt_path(path), "receipt"), path, "receipt")
    except (UsageError, GuardError):
        return None
