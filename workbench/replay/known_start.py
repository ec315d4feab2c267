"""Where it is known that the new group began at the start of the window, by what `apply` has left: the journal, and the receipt.

A commit behind the window proves that it was read only if the group has come from its start. A group that had commits before, or whose
consumers began at the end of the log because nothing was applied, is behind the window as well.
"""

from __future__ import annotations

from pathlib import Path

from workbench.errors import GuardError, UsageError
from workbench.plans.journal import Journal
from workbench.plans.strict_document import read_document, validated
from workbench.queues.snapshot_views import Partition
from workbench.replay.planfile import Plan
from workbench.replay.receipt import Receipt, Status, receipt_path


def known_starts(plan: Plan, path: Path, journal: Journal) -> frozenset[Partition]:
    """Partitions where the new group was set to the plan's target, or before it, and not elsewhere since.

    Args:
        path: of the plan; its receipt lies next to it. An empty one: the plan has no file.
    """
    begun, ended_at = _of_journal(plan, journal)
    receipt = _receipt(path) if path.name else None
    if receipt is not None and receipt.plan == plan.hash and receipt.at > ended_at:
        known = (part for part in receipt.partitions if part.status in (Status.COMMITTED, Status.UNCHANGED))
        begun = {(it.topic, it.partition): it.found for it in known if it.found is not None} | begun
    return frozenset(key for key, target in plan.targets.items() if key in begun and begun[key] <= target)


def _of_journal(plan: Plan, journal: Journal) -> tuple[dict[Partition, int], str]:
    """Offsets that were read back after the last apply of any plan to the group, and when the group was last taken back or deleted."""
    begun: dict[Partition, int] = {}
    ended_at = ""
    try:
        entries, _ = journal.read()
    except UsageError:
        return begun, ended_at
    for entry in entries:
        if (entry.group, entry.cluster_id) != (plan.new_group, plan.cluster_id):
            continue
        if entry.action in ("rollback", "retire"):
            begun.clear()
            ended_at = entry.at
        elif entry.action == "apply" and entry.phase == "end" and entry.outcome in ("done", "partial"):
            begun |= {
                (topic, number): at for topic, number, _, at, error in entry.changes if at is not None and not error
            }
    return begun, ended_at


def _receipt(path: Path) -> Receipt | None:
    try:
        return validated(Receipt, read_document(receipt_path(path), "receipt"), path, "receipt")
    except (UsageError, GuardError):
        return None
