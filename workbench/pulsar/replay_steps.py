"""A replay on Pulsar, from a plan to the way back: what `workbench replay` does on such a cluster.

`plan_pulsar_replay(…)` makes a plan, and `open_pulsar_replay("plan.json")` reads one: `apply("billing-2 9314")`, `look()`.
`roll_back_pulsar` is the way back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.pulsar.replay_apply import PulsarApplied, PulsarUndo, PulsarUndone
    from workbench.pulsar.replay_plan import Missing, PulsarReplayPlan
    from workbench.pulsar.replay_progress import PulsarProgress
    from workbench.settings import Cluster


def plan_pulsar_replay(
    cluster: Cluster,
    *,
    topic: str,
    from_subscription: str,
    new_subscription: str,
    since: str | None,
    until: str | None = None,
    missing: Missing | None = None,
    reason: str | None = None,
) -> PulsarReplayPlan:
    """Find where a new subscription begins on every partition of a topic. Changes nothing.

    Args:
        topic: tenant/namespace/topic.
        since, until: timestamps with a time zone, or `15m ago`; of publish times.
        missing: instead: see `make_pulsar_plan`.

    Raises:
        UsageError, WindowError: if the request is wrong. UnknownGroupError: if the subscription is not there.
        SourceUnreachableError, EvidenceError: if the admin does not answer, or not with what can be read.
    """
    from workbench.pulsar.admin import PulsarAdmin
    from workbench.pulsar.replay_plan import make_pulsar_plan
    from workbench.window import parse_instant

    now = datetime.now(UTC)
    return make_pulsar_plan(
        PulsarAdmin(cluster, seconds=math.inf),
        cluster=cluster.name,
        topic=topic,
        from_subscription=from_subscription,
        new_subscription=new_subscription,
        since=parse_instant(since, now=now) if since else None,
        until=parse_instant(until, now=now) if until else None,
        missing=missing,
        written="missing records" if since is None else since if until is None else f"{since} to {until}",
        reason=reason,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarReplay:
    """A plan with its cluster. Nothing changes anything without `confirm`."""

    plan: PulsarReplayPlan
    path: Path
    cluster: Cluster

    def apply(self, confirm: str | None) -> PulsarApplied:
        """Make the new subscription on every partition; see `apply_pulsar_plan`.

        Args:
            confirm: the new subscription and the number of entries, or the hash; None: only the checks.

        Raises:
            GuardError: if the confirmation is wrong, or a check fails. WorkbenchError: as `apply_pulsar_plan`.
        """
        from workbench.plans.journal import Journal
        from workbench.pulsar.admin import PulsarAdmin
        from workbench.pulsar.replay_apply import Made, PartitionMade, PulsarApplied, apply_pulsar_plan, check_plan
        from workbench.pulsar.replay_marks import Ownership

        admin, journal = PulsarAdmin(self.cluster, seconds=math.inf), Journal.of_user()
        if confirm is not None:
            self.plan.confirmation.check(confirm)
            return apply_pulsar_plan(self.plan, self.path, admin, journal)
        made = tuple(
            PartitionMade(
                partition=it.window.partition,
                outcome=Made.THERE if it.whose is Ownership.PROVEN else Made.WOULD_CREATE,
                found=str(it.begin),
            )
            for it in check_plan(self.plan, admin)
        )
        return PulsarApplied(plan=self.plan, partitions=made, undo=None)

    def look(self) -> PulsarProgress:
        """How far the new subscription is now.

        Raises:
            GuardError: if it is another Pulsar. SourceUnreachableError, EvidenceError: as `look_at`.
        """
        from workbench.pulsar.admin import PulsarAdmin
        from workbench.pulsar.replay_apply import check_cluster
        from workbench.pulsar.replay_progress import look_at

        admin = PulsarAdmin(self.cluster, seconds=math.inf)
        check_cluster(admin, self.plan.clusters)
        return look_at(self.plan, admin)

    def looks(self, *, stop: Callable[[float], bool], interval_seconds: float) -> Iterator[PulsarProgress]:
        """Look until the window is complete.

        Args:
            stop: waits for so many seconds, and says whether to end.

        Raises:
            WorkbenchError: as `look`.
        """
        while True:
            yield (found := self.look())
            if found.complete or stop(interval_seconds):
                return


def open_pulsar_replay(
    plan_file: str | Path, *, cluster: str | None = None, config: Path | None = None
) -> PulsarReplay:
    """Read a plan and the settings of its cluster.

    Raises:
        UsageError, GuardError: if the file is no plan, or was changed. ConfigError: if the settings are wrong.
    """
    from workbench.pulsar.replay_plan import read_plan
    from workbench.settings import load_settings

    plan = read_plan(Path(plan_file))
    return PulsarReplay(plan=plan, path=Path(plan_file), cluster=load_settings(config).cluster(cluster or plan.cluster))


def roll_back_pulsar(
    undo: PulsarUndo,
    confirm: str,
    *,
    cluster: str | None = None,
    config: Path | None = None,
    discard_progress: bool = False,
) -> PulsarUndone:
    """Delete the new subscription on every partition; the old one was never touched.

    Args:
        confirm: the subscription and the number of its partitions, or the hash.

    Raises:
        GuardError: if the confirmation is wrong, or something was acknowledged. WorkbenchError: as `undo_pulsar_plan`.
    """
    from workbench.plans.journal import Journal
    from workbench.pulsar.admin import PulsarAdmin
    from workbench.pulsar.replay_apply import undo_pulsar_plan
    from workbench.settings import load_settings

    undo.confirmation.check(confirm)
    admin = PulsarAdmin(load_settings(config).cluster(cluster or undo.cluster), seconds=math.inf)
    return undo_pulsar_plan(undo, admin, Journal.of_user(), discard_progress=discard_progress)
