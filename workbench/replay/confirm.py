"""What is typed before a change: a name and a number that say what will happen; a script gives the hash of what it has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.plans.confirm import Confirmation

if TYPE_CHECKING:
    from workbench.replay.planfile import Plan
    from workbench.replay.receipt import Rollback


def of_plan(plan: Plan) -> Confirmation:
    """Of writing the offsets of a replay."""
    return Confirmation(
        hash=plan.hash, name=plan.new_group, number=plan.messages, asked="the new group and the number of messages"
    )


def of_rollback(rollback: Rollback) -> Confirmation:
    """Of undoing a replay."""
    return Confirmation(
        hash=rollback.hash,
        name=rollback.group,
        number=len(rollback.before),
        asked="the group and the number of its commits that are restored",
    )
