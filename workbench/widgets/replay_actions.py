"""Actions of the replay panel's buttons, in the panel's worker thread: plan, apply, follow, verify, roll back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from workbench.api.replay_steps import CONNECTIONS, Replay, ReplayConnections, open_replay, open_rollback
from workbench.api.replays import plan_on
from workbench.errors import UsageError
from workbench.plans.journal import Journal
from workbench.plans.strict_document import write_file
from workbench.replay.confirm import of_plan, of_rollback
from workbench.replay.parse_replay_request import request_of
from workbench.replay.plan_save_path import check_place
from workbench.replay.planfile import Plan
from workbench.replay.progress import Pace, ReplayProgress
from workbench.replay.receipt import Receipt, ReplayOutcome
from workbench.replay.rollback_of_apply import RolledBack
from workbench.replay.verify_evidence import Checked
from workbench.settings import load_settings
from workbench.widgets.panel_work import PanelWork
from workbench.widgets.prefill import Wish

PLAN_STEPS, CHECK_STEPS, APPLY_STEPS, VERIFY_STEPS, ROLLBACK_STEPS = 2, 3, 4, 2, 2
_LOOK_SECONDS = 2.0


def _path(file: str) -> Path:
    path = Path(file.strip() or Wish().file).expanduser()
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder of {path} does not exist.")
    return path


def plan_it(wish: Wish, work: PanelWork, *, connections: ReplayConnections = CONNECTIONS) -> tuple[Plan, Path]:
    """Find where each partition would begin, and write the plan to its file. Changes nothing on the cluster.

    Raises:
        WorkbenchError: as planning does.
        GuardError: if the file holds a plan that was applied.
    """
    for name, value in (("cluster", wish.cluster), ("old group", wish.from_group), ("new group", wish.new_group)):
        if not value:
            raise UsageError(f"Enter the {name}.")
    if not wish.since:
        raise UsageError(
            "Enter the start.", hint="15m ago, or a timestamp with a time zone (2026-11-21T03:00:00+08:00)."
        )
    path = _path(wish.file)
    check_place(path, Journal.of_user(), replace=True)
    request = request_of(
        cluster=wish.cluster,
        from_group=wish.from_group,
        new_group=wish.new_group,
        topics=wish.topics.replace(",", " ").split(),
        partitions=wish.partitions.replace(",", " ").split(),
        since=wish.since,
        until=wish.until or None,
        after_end=wish.after_end,
        reason=wish.reason or None,
    )
    cluster = load_settings().cluster(wish.cluster)
    work.step(f"Looking up offsets on {wish.cluster}")
    plan = plan_on(request, connections.open(cluster)[0], bootstrap=cluster.bootstrap or "").plan
    work.step("Writing the plan")
    work.show(lambda: write_file(path, plan.document()))
    return plan, path


def apply_it(
    path: Path,
    typed: str,
    work: PanelWork,
    *,
    dry_run: bool,
    held: Callable[[], None],
    connections: ReplayConnections = CONNECTIONS,
) -> Receipt:
    """Commit the plan in the file, if group and number were typed; or only run the safety checks.

    It can be cancelled during the safety checks. From the first write on, it completes.

    Args:
        held: called at that moment.

    Raises:
        WorkbenchError: as `apply_plan` does.
        GuardError: if something else was typed.
    """
    work.step("Reading the plan")
    replay = open_replay(path, connections=connections)
    if not dry_run:
        of_plan(replay.plan).check(typed)
    work.step("Running the safety checks")

    def sleep(seconds: float) -> None:
        work.step(f"Checking for {seconds:.0f} s that the group does not commit")
        work.pause(seconds)
        if not dry_run:
            work.step("Committing and reading back")
            work.disable_cancel(held)

    return replay.apply(None if dry_run else typed, sleep=sleep)


def follow_it(
    plan: Plan,
    work: PanelWork,
    *,
    show: Callable[[ReplayProgress, Pace], None],
    connections: ReplayConnections = CONNECTIONS,
) -> None:
    """Poll every other second until the window is committed, or until cancelled. Changes nothing.

    Raises:
        WorkbenchError: as following does.
    """
    replay, pace = _of(plan, connections), Pace()
    replay.check_cluster()

    def stop(seconds: float) -> bool:
        work.pause(seconds)
        return False

    for look in replay.looks(interval_seconds=_LOOK_SECONDS, stop=stop):
        pace.add(look)
        work.show(lambda look=look: show(look, pace))  # type: ignore[misc]


def verify_it(plan: Plan, work: PanelWork, *, records: bool, connections: ReplayConnections = CONNECTIONS) -> Checked:
    """Check that the new group has processed every record, by its commits and, on request, by reading records. Changes nothing.

    Raises:
        WorkbenchError: as verifying does.
    """
    work.step("Reading the records" if records else "Comparing the commits with the plan")
    found = _of(plan, connections).verify(records=records)
    work.step("Judging")
    return found


def roll_back_it(
    file: Path, typed: str, work: PanelWork, *, held: Callable[[], None], connections: ReplayConnections = CONNECTIONS
) -> RolledBack:
    """Make the new group as it was before; what was typed must be the group and its number of commits.

    Raises:
        WorkbenchError: as `roll_back` does.
        GuardError: if something else was typed, or the group has moved on since.
    """
    undo = open_rollback(file, connections=connections)
    of_rollback(undo.rollback).check(typed)
    work.step("Checking that the group does not commit")

    def sleep(seconds: float) -> None:
        work.pause(seconds)
        work.step("Restoring and reading back")
        work.disable_cancel(held)

    return undo.run(typed, sleep=sleep)


def _of(plan: Plan, connections: ReplayConnections) -> Replay:
    """A plan that the panel has at hand, whatever has become of its file."""
    cluster = load_settings().cluster(plan.cluster)
    gateway, counter = connections.open(cluster)
    return Replay(plan=plan, path=Path(), cluster=cluster, gateway=gateway, count_records=counter)


def applied(receipt: Receipt) -> bool:
    """Whether the receipt's commits may have been written: then they can be followed and rolled back."""
    return receipt.outcome in (ReplayOutcome.DONE, ReplayOutcome.PARTIAL, ReplayOutcome.FAILED)
