"""Apply a plan: safety checks, rollback file, commit, per-partition errors, and read-back.

After a kill at any point it can be repeated: the rollback file of the first run is kept, and only missing offsets are committed. If the
journal does not tell how the last change ended, all of them are: what the group was set to is read there, by `verify` and by triage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from workbench.errors import OutputError, UsageError
from workbench.humanize import plural
from workbench.plans.journal import Journal, only_one
from workbench.plans.refusal import NO_RIGHT, Refusal
from workbench.plans.strict_document import write_file
from workbench.queues.replay_port import Gateway, KeptCommit, offsets_of
from workbench.queues.snapshot_views import Partition
from workbench.replay.commit_offsets import write_commits
from workbench.replay.guard import HINTS, Now, ReplayLimits, check_brokers, check_cluster, check_group, check_logs
from workbench.replay.planfile import Plan
from workbench.replay.receipt import (
    PartitionReceipt,
    Receipt,
    ReplayOutcome,
    Rollback,
    Status,
    metadata_of,
    receipt_path,
    rollback_of_plan,
    rollback_path,
    triples,
    write_rollback,
)

# A group with commits is observed for longer than the clients' default auto.commit.interval.ms of 5 s; a group without
# commits never had a consumer that commits.
QUIET_SECONDS = 6.0
QUIET_SECONDS_NEW = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """How to apply.

    Attributes:
        quiet_seconds: time during which the group's commits must not move; None: 6 s, or 1 s for a group without commits.
        dry_run: run all safety checks, write nothing.
        busy: brokers without room for more reading, and why; those that are not measured are not among them.
        notes: what its reader should know besides; they are hints of the receipt.
    """

    limits: ReplayLimits = field(default_factory=ReplayLimits)
    quiet_seconds: float | None = None
    dry_run: bool = False
    busy: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def apply_plan(
    plan: Plan,
    path: Path,
    gateway: Gateway,
    journal: Journal,
    options: ApplyOptions,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Receipt:
    """Commit a plan's targets for its new group.

    Args:
        path: file of the plan; the rollback file and the receipt are written next to it.

    Raises:
        SourceUnreachableError: if the cluster stops answering; repeat it then.
        GuardError: if another process is changing this group, or the rollback file belongs to another plan.
        UsageError: if the rollback file or the journal cannot be written; nothing is changed then.
        OutputError: if the offsets were written, but the journal's last line or the receipt was not; it includes the outcome.
    """
    began = time.monotonic()
    with only_one(plan.new_group):
        earlier = rollback_of_plan(rollback_path(path), plan)
        work = _Work(plan, gateway, earlier, began, options.notes)
        cluster = gateway.cluster(plan.topics)
        refusals = check_cluster(plan, cluster, options.limits)
        if refusals := refusals or check_brokers(plan, cluster, options.busy, options.limits):
            return work.refused(refusals, {})
        commits = gateway.commits(plan.new_group)
        quiet = options.quiet_seconds
        if quiet is None:
            quiet = QUIET_SECONDS if commits else QUIET_SECONDS_NEW
        quiet_from = time.monotonic()
        now = Now(
            cluster=cluster,
            commits=commits,
            logs=gateway.logs([part.key for part in plan.partitions], instants_ms=[plan.since_ms]),
            settings=gateway.settings(plan.topics),
            group=gateway.group(plan.new_group),
            lacking=gateway.lacking(plan.new_group, dict.fromkeys(plan.topics, "READ")),
            now_ms=time.time() * 1000,
            before=earlier.commits if earlier is not None else None,
        )
        refusals = [*check_group(plan, now, options.limits), *check_logs(plan, now, options.limits)]
        kept: Mapping[Partition, KeptCommit] = {}
        if not refusals:
            sleep(max(0.0, quiet - (time.monotonic() - quiet_from)))
            kept = gateway.kept_commits(plan.new_group)
            refusals = _check_quiet(commits, offsets_of(kept), quiet) or _check_metadata(plan, kept, earlier)
        if refusals:
            return work.refused(refusals, commits)
        # Metadata may say which records behind the offset are done: these would be left out.
        targets = {key: KeptCommit(target) for key, target in plan.targets.items()}
        interrupted = journal.open_change(plan.new_group, plan.cluster_id) is not None
        pending = {key: it for key, it in targets.items() if interrupted or kept.get(key) != it}
        if options.dry_run:
            return work.receipt(ReplayOutcome.DRY_RUN, pending, commits, commits, {}, rollback=None)
        if earlier is None:
            write_rollback(rollback_path(path), _rollback(plan, now, kept, _topic_ids(plan, now, gateway)))
        if pending:
            found = write_commits(
                plan, gateway, journal, action="apply", before=commits, pending=pending, wanted=plan.targets
            )
            receipt = work.receipt(
                found.outcome, pending, commits, found.after, found.wrong, rollback=rollback_path(path)
            )
            trouble = found.trouble
        else:
            receipt = work.receipt(ReplayOutcome.DONE, (), commits, commits, {}, rollback=rollback_path(path))
            trouble = None
        _keep(receipt, path, trouble)
        return receipt


def _keep(receipt: Receipt, path: Path, trouble: OutputError | None) -> None:
    """Write the receipt; an error here first says that the offsets are committed."""
    said = " ".join([receipt.sentence, *receipt.reasons])
    try:
        write_file(receipt_path(path), receipt.document())
    except UsageError as error:
        raise OutputError(
            f"{said} But the receipt could not be written: {error.message}",
            hint="The group has the offsets. Free some disk space and apply again: that reads them back and writes the receipt.",
        ) from None
    if trouble is not None:
        raise OutputError(f"{said} {trouble.message}", hint=trouble.hint)


def _topic_ids(plan: Plan, now: Now, gateway: Gateway) -> dict[str, str]:
    """Of the topics of the plan, and of those that the group has commits on."""
    names = {*plan.topics, *(topic for topic, _ in now.commits)}
    there = (now.cluster if names <= {*plan.topics} else gateway.cluster(sorted(names))).topics
    return {name: found for name in sorted(names & there.keys()) if (found := there[name].topic_id) is not None}


def _rollback(plan: Plan, now: Now, kept: Mapping[Partition, KeptCommit], topic_ids: dict[str, str]) -> Rollback:
    return Rollback(
        plan=plan.hash,
        cluster=plan.cluster,
        cluster_id=plan.cluster_id,
        group=plan.new_group,
        group_state=now.group.state,
        written_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        before=triples(now.commits),
        targets=triples(plan.targets),
        metadata=metadata_of(kept),
        topic_ids=topic_ids,
    )


def _check_quiet(first: Mapping[Partition, int], second: Mapping[Partition, int], seconds: float) -> list[Refusal]:
    return [
        Refusal(
            code="not_quiet",
            message=f"Its commit moved from {first.get(key)} to {second.get(key)} within {seconds:g} s.",
            partition=key,
        )
        for key in sorted(set(first) | set(second))
        if first.get(key) != second.get(key)
    ]


def _check_metadata(plan: Plan, kept: Mapping[Partition, KeptCommit], earlier: Rollback | None) -> list[Refusal]:
    """After an earlier run, other metadata than before is progress: records behind the offset are done."""
    if earlier is None or earlier.metadata is None:
        return []
    return [
        Refusal(
            code="group_moved",
            message=f"Its consumers have stored metadata with the commit at {it.offset:,} since the plan was applied.",
            partition=key,
        )
        for key, target in plan.targets.items()
        if (it := kept.get(key)) is not None and it not in (KeptCommit(target), earlier.kept.get(key))
    ]


@dataclass(frozen=True, slots=True)
class _Work:
    """Common fields of the receipts of this run."""

    plan: Plan
    gateway: Gateway
    earlier: Rollback | None
    began: float
    notes: tuple[str, ...]

    def refused(self, refusals: list[Refusal], commits: Mapping[Partition, int]) -> Receipt:
        """Receipt for a refusal: nothing was written."""
        of_all = [refusal.message for refusal in refusals if refusal.partition is None]
        by_partition = {refusal.partition: refusal.message for refusal in refusals if refusal.partition is not None}
        reasons = list(dict.fromkeys([*of_all, *by_partition.values()]))
        parts = [
            PartitionReceipt(
                topic=part.topic,
                partition=part.partition,
                old=commits.get(part.key),
                target=part.target,
                found=commits.get(part.key),
                status=Status.REFUSED,
                error=by_partition.get(part.key),
            )
            for part in self.plan.partitions
        ]
        hints = list(dict.fromkeys(HINTS[refusal.code] for refusal in refusals))
        return self._made(ReplayOutcome.REFUSED, parts, reasons=reasons, hints=hints, rollback=None)

    def receipt(
        self,
        outcome: ReplayOutcome,
        pending: Collection[Partition],
        before: Mapping[Partition, int],
        after: Mapping[Partition, int],
        errors: Mapping[Partition, str],
        *,
        rollback: Path | None,
    ) -> Receipt:
        """Receipt for a write or a dry run."""
        parts = []
        for part in self.plan.partitions:
            if part.target is None:
                status = Status.SKIPPED
            elif part.key in errors:
                status = Status.FAILED
            elif part.key not in pending:
                status = Status.UNCHANGED
            else:
                status = Status.WOULD_COMMIT if outcome is ReplayOutcome.DRY_RUN else Status.COMMITTED
            parts.append(
                PartitionReceipt(
                    topic=part.topic,
                    partition=part.partition,
                    old=before.get(part.key),
                    target=part.target,
                    found=after.get(part.key),
                    status=status,
                    error=errors.get(part.key),
                )
            )
        failed = sum(part.status is Status.FAILED for part in parts)
        reasons, hints = [], []
        if failed:
            reasons = [
                f"{failed:,} of {plural(len(self.plan.targets), 'offset')} {'is' if failed == 1 else 'are'} not as planned."
            ]
            if any("UNKNOWN_MEMBER_ID" in words for words in errors.values()):
                reasons.append("A consumer joined the group between the check and the write.")
            denied = any("AUTHORIZATION_FAILED" in words for words in errors.values())
            if denied:
                reasons.append("These credentials lack the permission to commit for this group, or to read its topics.")
            hints = (
                [NO_RIGHT]
                if denied
                else ["Stop the members of the group, then apply again: it continues from here. Or roll back."]
            )
        return self._made(outcome, parts, reasons=reasons, hints=hints, rollback=rollback)

    def _made(
        self,
        outcome: ReplayOutcome,
        parts: list[PartitionReceipt],
        *,
        reasons: list[str],
        hints: list[str],
        rollback: Path | None,
    ) -> Receipt:
        return Receipt(
            plan=self.plan.hash,
            cluster_id=self.plan.cluster_id,
            group=self.plan.new_group,
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            outcome=outcome,
            resumed=self.earlier is not None,
            reasons=reasons,
            hints=[*hints, *self.notes],
            rollback=str(rollback) if rollback is not None else None,
            seconds=round(time.monotonic() - self.began, 3),
            partitions=parts,
        )
