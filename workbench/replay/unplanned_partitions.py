"""Partitions that the old group reads and the plan does not cover. A fleet changes its group for everything it reads: where the new
group has no commit, `auto.offset.reset` would decide, and could skip records. So they are reported, and carried over on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workbench.errors import GuardError
from workbench.humanize import listed, plural
from workbench.plans.journal import Journal
from workbench.queues.replay_port import (
    WITHOUT_MEMBERS,
    ClusterView,
    Gateway,
    KeptCommit,
    names_of,
    offsets_of,
    read_by,
)
from workbench.queues.snapshot_views import Partition
from workbench.replay.commit_offsets import write_commits
from workbench.replay.cutover_checks import check_within_logs
from workbench.replay.guard import HINTS, ReplayLimits
from workbench.replay.planfile import Plan


def carried(plan_hash: str, journal: Journal, *, surely: bool = False) -> dict[Partition, int]:
    """Start offsets of carried-over partitions, from the journal; the last entry of each partition counts.

    Args:
        surely: only those that were read back; else also those of which it is not known, or that failed.
    """
    return {
        (topic, number): offset
        for entry in journal.read()[0]
        if entry.plan == plan_hash and entry.action == "carry"
        if not surely or (entry.phase == "end" and entry.outcome in ("done", "partial"))
        for topic, number, _, offset, error in entry.changes
        if offset is not None and not (surely and error)
    }


def gaps_beyond(
    plan: Plan, journal: Journal, *, old: Mapping[Partition, int], new: Mapping[Partition, int]
) -> dict[Partition, int]:
    """Messages between the old group's commit and the new group's start, on partitions for which the plan has no target."""
    begun = {key: offset for key, offset in new.items() if key in old and key not in plan.targets}
    if any(
        offset > old[key] for key, offset in begun.items()
    ):  # is it ahead because of its own progress since it was carried over?
        begun |= {key: offset for key, offset in carried(plan.hash, journal, surely=True).items() if key in begun}
    return {key: offset - old[key] for key, offset in begun.items() if offset > old[key]}


def check_or_carry(
    plan: Plan,
    gateway: Gateway,
    journal: Journal,
    limits: ReplayLimits,
    *,
    cluster: ClusterView,
    old: Mapping[Partition, int],
    new: Mapping[Partition, int],
    carry: bool,
) -> dict[Partition, int]:
    """Make sure that the new group has a commit wherever the old one reads; return what was carried over.

    Raises:
        GuardError: if a partition has none and is neither carried over nor allowed as a gap; if what would be carried over is outside
            of its log, or was not read back.
        SourceUnreachableError: if the cluster does not answer.
    """
    missing = read_by(gateway.group(plan.from_group), old, cluster) - set(new)
    if not missing or (limits.allow_gap and not carry):
        return {}
    if not carry:
        raise GuardError(
            f"{plan.from_group!r} also reads {names_of(missing)}, where {plan.new_group!r} has no commit: records could be skipped.",
            hint="Add them to the plan; or --carry-others to begin at the old group's commits; or --allow-gap for auto.offset.reset.",
        )
    places, blank = _places(gateway, missing, gateway.kept_commits(plan.from_group))
    wanted = offsets_of(places)
    if blank and not limits.allow_gap:
        raise GuardError(
            f"{names_of(blank)}: the old group has no commit there to carry over, and the log is not empty.",
            hint="Add them to the plan; or --allow-gap to use auto.offset.reset there.",
        )
    if not wanted:
        return {}
    view = gateway.group(plan.new_group)
    if view.state not in WITHOUT_MEMBERS:
        who = listed(sorted({member.client_id for member in view.members}))
        raise GuardError(
            f"Nothing can be carried over for {names_of(wanted)}: {plan.new_group!r} has {plural(len(view.members), 'member')}: {who}.",
            hint=HINTS["live_members"],
        )
    check_within_logs(plan, gateway, limits, group=plan.from_group, commits=wanted)
    found = write_commits(plan, gateway, journal, action="carry", before=new, pending=places, wanted=wanted)
    if found.wrong:
        key, words = next(iter(sorted(found.wrong.items())))
        raise GuardError(
            f"{plural(len(found.wrong), 'offset')} could not be carried over, the first for {names_of([key])}: {words}.",
            hint="No instance was switched. Repeat the command to try again.",
        )
    if found.trouble is not None:
        raise found.trouble
    return wanted


def _places(
    gateway: Gateway, missing: Iterable[Partition], old: Mapping[Partition, KeptCommit]
) -> tuple[dict[Partition, KeptCommit], list[Partition]]:
    """Start offsets, and the partitions without a known one. An empty log without a commit starts at its end."""
    wanted = {key: old[key] for key in sorted(missing) if key in old}
    without = sorted(key for key in missing if key not in old)
    if without:
        logs = gateway.logs(without)
        wanted |= {
            key: KeptCommit(logs.ends[key])
            for key in without
            if key in logs.ends and logs.ends[key] == logs.starts.get(key)
        }
    return wanted, [key for key in without if key not in wanted]
