"""Plan a replay: the start offset of a new group in each partition. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from workbench.queues.gateway import Gateway
    from workbench.replay.planfile import Plan
    from workbench.replay.request import PlanRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReplay:
    """A plan and its cluster."""

    plan: Plan
    bootstrap: str

    def to_json(self) -> dict[str, Any]:
        """The plan's document, as `workbench replay plan --json` prints it."""
        return self.plan.document()

    def write(self, path: str | Path, *, replace: bool = False) -> Path:
        """Write the plan to a file, for `workbench replay apply`.

        Raises:
            GuardError: if the file is an applied plan. UsageError: if it is another existing file; `replace` overwrites a plan.
        """
        from workbench.plans.document import write_file
        from workbench.plans.journal import Journal
        from workbench.replay.keep import check_place

        check_place(Path(path), Journal.of_user(), replace=replace)
        write_file(Path(path), self.to_json())
        return Path(path)

    def _repr_html_(self) -> str:
        from workbench.api.plan_view import plan_html
        from workbench.report.fragment import style

        return f"<style>{style()}</style>{plan_html(self.plan, Path('plan.json'), self.bootstrap)}"


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
    from workbench.queues.systems import gateway_of
    from workbench.replay.parse_request import request_of
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
    return plan_on(request, gateway_of(chosen), bootstrap=chosen.bootstrap or "")


def plan_on(request: PlanRequest, gateway: Gateway, *, bootstrap: str) -> PlannedReplay:
    """Make a plan on a connected cluster."""
    from workbench.replay.plan import make_plan, survey

    return PlannedReplay(plan=make_plan(request, *survey(gateway, request)), bootstrap=bootstrap)
