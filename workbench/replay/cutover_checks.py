"""Checks before a cutover, in both directions: the target group has a commit within the log wherever the fleet reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

from workbench.errors import GuardError
from workbench.humanize import plural
from workbench.queues.replay_port import Gateway, LogView, names_of
from workbench.queues.snapshot_views import Partition
from workbench.replay.guard import HINTS, ReplayLimits, check_same_logs
from workbench.replay.planfile import Plan


def check_applied(
    plan: Plan, limits: ReplayLimits, *, new: Mapping[Partition, int], begun: Collection[Partition] | None
) -> None:
    """Check that the new group is at each target, or has come from there.

    Args:
        begun: partitions where it is known that it began at the target; None: that was not looked for.

    Raises:
        GuardError: if not.
    """
    missing = [key for key, target in plan.targets.items() if new.get(key, -1) < target]
    if missing:
        raise GuardError(
            f"The plan is not applied: {plural(len(missing), 'partition')} of {plan.new_group!r} lack a commit at the target.",
            hint="First: workbench replay apply PLAN",
        )
    beyond = [
        key for key, target in plan.targets.items() if begun is not None and new[key] > target and key not in begun
    ]
    if beyond and not limits.allow_gap:
        raise GuardError(
            f"{plan.new_group!r} is beyond the start of the window on {names_of(beyond)}, and neither journal nor receipt tells that "
            "it began there: the records before would be skipped.",
            hint="First: workbench replay apply PLAN. Was it applied on another machine, then put its receipt next to the plan; or "
            "--allow-gap.",
        )


def check_old_commits(
    plan: Plan,
    limits: ReplayLimits,
    *,
    old: Mapping[Partition, int],
    new: Mapping[Partition, int],
    beyond: Set[Partition],
) -> None:
    """Check that the old group's commits still exist, for a cutover back: they may have expired.

    Args:
        beyond: partitions that the fleet reads and the plan does not cover.

    Raises:
        GuardError: if not, naming them.
    """
    had = {part.key for part in plan.partitions if part.old_committed is not None}
    read = {part.key for part in plan.partitions} | beyond
    missing = (had | (read & set(new))) - set(old)
    if missing and not limits.allow_gap:
        raise GuardError(
            f"{plan.from_group!r} has no commit on {names_of(missing)} any more: records could be skipped there.",
            hint="Commit a start offset for it; or --allow-gap to use auto.offset.reset.",
        )


def check_within_logs(
    plan: Plan, gateway: Gateway, limits: ReplayLimits, *, group: str, commits: Mapping[Partition, int]
) -> None:
    """Check that the logs are those of the plan and contain these commits: otherwise `auto.offset.reset` would decide.

    Raises:
        GuardError: if a log is another one, a commit is outside its log, or a planned partition does not answer.
    """
    logs = gateway.logs(sorted({*(part.key for part in plan.partitions), *commits}))
    if refusals := check_same_logs(plan, logs):
        first = refusals[0]
        where = f"{names_of([first.partition])}: " if first.partition is not None else ""
        raise GuardError(where + first.message, hint=HINTS[first.code])
    outside = _outside(logs, commits)
    if outside and not limits.allow_gap:
        key, words = next(iter(outside.items()))
        raise GuardError(
            f"{plural(len(outside), 'commit')} of {group!r} are outside of the log, the first on {names_of([key])}: {words}.",
            hint="Retention has deleted the next records, or nobody can tell; --allow-gap uses auto.offset.reset.",
        )


def _outside(logs: LogView, commits: Mapping[Partition, int]) -> dict[Partition, str]:
    """Commits that are not known to lie within their logs, and why."""
    found = {}
    for key, committed in sorted(commits.items()):
        if key not in logs.starts or key not in logs.ends:
            found[key] = (
                f"committed {committed:,}, and its log does not answer: {logs.errors.get(key, 'nothing was told')}"
            )
        elif not logs.starts[key] <= committed <= logs.ends[key]:
            found[key] = f"committed {committed:,}, the log has {logs.starts[key]:,} to {logs.ends[key]:,}"
    return found
