"""A replay from its plan to its end, as functions: only those with `confirm` change anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench.api.replay_steps import open_replay, open_rollback

if TYPE_CHECKING:
    from workbench.queues.replay_port import Gateway
    from workbench.replay.guard import ReplayLimits
    from workbench.replay.planfile import Plan
    from workbench.replay.progress import ReplayProgress
    from workbench.replay.receipt import Receipt
    from workbench.replay.replay_request import PlanRequest
    from workbench.replay.retire import Retired
    from workbench.replay.rollback_of_apply import RolledBack
    from workbench.replay.verify_evidence import Checked


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReplay:
    """A plan and its cluster."""

    plan: Plan
    bootstrap: str
    login_file: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The plan's document, as `workbench replay plan --json` prints it."""
        return self.plan.document()

    def write(self, path: str | Path, *, replace: bool = False) -> Path:
        """Write the plan to a file, for `workbench replay apply`.

        Raises:
            GuardError: if the file is an applied plan. UsageError: if it is another existing file; `replace` overwrites a plan.
        """
        from workbench.plans.journal import Journal
        from workbench.plans.strict_document import write_file
        from workbench.replay.plan_save_path import check_place

        check_place(Path(path), Journal.of_user(), replace=replace)
        write_file(Path(path), self.to_json())
        return Path(path)

    def _repr_html_(self) -> str:
        from workbench.api.plan_view import plan_html
        from workbench.report.finding_fragment import style

        return f"<style>{style()}</style>{plan_html(self.plan, Path('plan.json'), self.bootstrap, self.login_file)}"


def plan_replay(
    *,
    cluster: str,
    from_group: str,
    new_group: str,
    topics: Sequence[str],
    since: str,
    until: str | None = None,
    partitions: Sequence[str] = (),
    after_end: Literal["fail", "skip", "end"] = "fail",
    reason: str | None = None,
    config: Path | None = None,
) -> PlannedReplay:
    """Find the offset where a replay would begin, for each partition. Writes nothing to Kafka and joins no group.

    Args:
        cluster: a cluster of the settings with `bootstrap`.
        from_group, new_group: the group that processed the records, and the new group that will process them again.
        topics: the topics to replay.
        since, until: timestamps with a time zone, or `15m ago`; without `until` the replay continues into live traffic.
        partitions: `3`, or `orders:3` with several topics; empty: all.
        after_end: for partitions without a record at or after `since`: refuse, commit nothing, or commit the log end.
        reason: stored in the plan and the journal.

    Raises:
        UsageError, WindowError, ConfigError: if the request or the settings are wrong.
        SourceUnreachableError: if Kafka does not answer. GuardError: if no safe plan can be made.
    """
    from workbench.queues.systems import gateway_of, not_there
    from workbench.replay.parse_replay_request import request_of
    from workbench.settings import load_settings

    request = request_of(
        cluster=cluster,
        from_group=from_group,
        new_group=new_group,
        topics=topics,
        partitions=partitions,
        since=since,
        until=until,
        after_end=after_end,
        reason=reason,
    )
    chosen = load_settings(config).cluster(cluster)
    if chosen.system != "kafka":
        raise not_there(chosen, "Planning a replay but by the command `workbench replay plan` does")
    return plan_on(request, gateway_of(chosen), bootstrap=chosen.bootstrap or "", login_file=chosen.login_file)


def plan_on(request: PlanRequest, gateway: Gateway, *, bootstrap: str, login_file: str | None = None) -> PlannedReplay:
    """Make a plan on a connected cluster."""
    from workbench.replay.plan import make_plan, survey

    return PlannedReplay(plan=make_plan(request, *survey(gateway, request)), bootstrap=bootstrap, login_file=login_file)


def apply_replay(
    plan_file: str | Path,
    *,
    confirm: str | None,
    cluster: str | None = None,
    config: Path | None = None,
    limits: ReplayLimits | None = None,
) -> Receipt:
    """Commit a plan's offsets for its new group, after all safety checks. Safe to repeat after any failure.

    Args:
        plan_file: of `plan_replay` or `workbench replay plan`; the rollback file and the receipt are written beside it.
        confirm: the new group and the number of messages (`payments-2 9,314`), or the plan's hash; None: only the safety checks.

    Raises:
        UsageError, GuardError: if the plan is none, was changed, or is refused. SourceUnreachableError: if Kafka does not answer.
    """
    return open_replay(plan_file, cluster=cluster, config=config).apply(confirm, limits=limits)


def follow_replay(
    plan_file: str | Path, *, cluster: str | None = None, config: Path | None = None, interval_seconds: float = 2.0
) -> Iterator[ReplayProgress]:
    """Yield the progress of a replay until its group has committed the whole window. Changes nothing.

    Raises:
        UsageError, GuardError: if the plan is none, or of another cluster. SourceUnreachableError: if Kafka does not answer.
    """
    replay = open_replay(plan_file, cluster=cluster, config=config)
    replay.check_cluster()

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    yield from replay.looks(interval_seconds=interval_seconds, stop=wait)


def verify_replay(
    plan_file: str | Path,
    *,
    cluster: str | None = None,
    config: Path | None = None,
    fleet: Path | None = None,
    processed: Path | None = None,
    records: bool = False,
) -> Checked:
    """Check whether the new group got every record of the window: yes, no, or cannot tell. Changes nothing.

    Args:
        fleet, processed, records: see `workbench replay verify`.

    Raises:
        UsageError, GuardError: if the plan is none, or of another cluster. SourceUnreachableError: if Kafka does not answer.
    """
    replay = open_replay(plan_file, cluster=cluster, config=config)
    return replay.verify(fleet=fleet, processed=processed, records=records)


def roll_back_replay(
    rollback_file: str | Path, *, confirm: str, cluster: str | None = None, config: Path | None = None
) -> RolledBack:
    """Make the new group as it was before `apply_replay`.

    Args:
        rollback_file: that was written beside the plan.
        confirm: the group and the number of its commits that are restored, or the file's hash.

    Raises:
        UsageError, GuardError: if the file is none, was changed, or the group has moved on. SourceUnreachableError: as above.
    """
    return open_rollback(rollback_file, cluster=cluster, config=config).run(confirm)


def cut_over_replay(
    plan_file: str | Path,
    fleet_file: str | Path,
    *,
    confirm: str,
    cluster: str | None = None,
    config: Path | None = None,
    back: bool = False,
    limits: ReplayLimits | None = None,
    say: Callable[[str], None] = lambda _text: None,
) -> None:
    """Switch a fleet to the new group, or `back`: one instance first, then batches. Safe to repeat after any failure.

    Args:
        confirm: the group that they switch to and the number of instances, or the plan's hash.
        say: called with a line for every step.

    Raises:
        UsageError, GuardError: if a file is wrong, or a batch is not healthy. SourceUnreachableError: if Kafka does not answer.
    """
    from workbench.replay.service_fleet import read_fleet

    replay = open_replay(plan_file, cluster=cluster, config=config)
    replay.cut_over(read_fleet(Path(fleet_file)), confirm, back=back, limits=limits, say=say)


def retire_replay(
    plan_file: str | Path,
    *,
    confirm: str,
    cluster: str | None = None,
    config: Path | None = None,
    stays: bool = False,
) -> Retired:
    """End a replay: delete the new group, if nothing is left only to it; with `stays`, keep it and delete the old one.

    Args:
        confirm: the group that is deleted and the number of the plan's partitions, or the plan's hash.

    Raises:
        UsageError, GuardError: if the plan is none, or something is left. SourceUnreachableError: if Kafka does not answer.
    """
    return open_replay(plan_file, cluster=cluster, config=config).retire(confirm, stays=stays)
