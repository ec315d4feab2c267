"""Rollback of `apply`: restore the group as it was before, with the metadata of its commits.

Commits that did not exist before are taken away one by one; only a group that did not exist is removed. The rollback file has all that
was seen, so a second run can finish after a crash.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from workbench.errors import GuardError, SourceUnreachableError
from workbench.humanize import listed, plural
from workbench.plans.journal import Change, Journal, only_one
from workbench.queues.replay_port import GONE, WITHOUT_MEMBERS, Gateway, KeptCommit
from workbench.queues.snapshot_views import Partition
from workbench.replay.guard import wrong_kind
from workbench.replay.receipt import Rollback
from workbench.replay.remove_group import remove_group
from workbench.replay.unplanned_partitions import carried


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """Result of a rollback: partitions whose commit was not restored, and why. `deleted`: the group is gone; where it
    only has no commit any more, the brokers remove it."""

    group: str
    deleted: bool
    restored: int
    failed: Mapping[Partition, str]


def roll_back(
    rollback: Rollback,
    gateway: Gateway,
    journal: Journal,
    *,
    discard_progress: bool = False,
    quiet_seconds: float = 1.0,
    sleep: Callable[[float], None] = time.sleep,
) -> RolledBack:
    """Restore the group as it was before the plan was applied.

    Args:
        discard_progress: roll back even if the group has consumed since.

    Raises:
        GuardError: if it is another cluster, the group is not a consumer group, has members, or it has consumed since.
        SourceUnreachableError: if the cluster stops answering; repeat it then.
    """
    with only_one(rollback.group):
        cluster = gateway.cluster(sorted({topic for topic, *_ in (*rollback.before, *rollback.targets)}))
        if cluster.cluster_id != rollback.cluster_id:
            raise GuardError(
                f"The rollback file is for the cluster {rollback.cluster_id}, this one is {cluster.cluster_id}."
            )
        view = gateway.group(rollback.group)
        if (wrong := wrong_kind(view)) is not None:
            raise GuardError(wrong, hint="There is nothing to roll back in it.")
        if view.state not in WITHOUT_MEMBERS:
            who = listed(sorted({member.client_id for member in view.members}))
            raise GuardError(
                f"The group {rollback.group!r} has {plural(len(view.members), 'member')}: {who}.",
                hint="Stop them, or switch them back to their old group: workbench replay cutover PLAN --fleet fleet.toml --back",
            )
        now = gateway.kept_commits(rollback.group)
        sleep(quiet_seconds)
        if gateway.kept_commits(rollback.group) != now:
            raise GuardError(f"Something still commits for the group {rollback.group!r}.", hint="Stop it first.")
        # Kafka has deleted the commits of a topic that was deleted; those of before would skip records of the one that is there now.
        before, lost = dict[Partition, KeptCommit](), dict[Partition, str]()
        for key, kept in rollback.kept.items():
            topic = cluster.topics.get(key[0])
            if topic is not None and topic.is_remade(rollback.topic_ids.get(key[0])):
                lost[key] = f"the topic was deleted and recreated since, {kept.offset:,} is an offset of the former one"
            else:
                unknown = rollback.metadata is None and key in now and now[key].offset == kept.offset
                before[key] = now[key] if unknown else kept
        ours = rollback.wanted | carried(rollback.plan, journal)
        moved = [key for key, it in now.items() if it != before.get(key) and it.offset != ours.get(key)]
        if moved and not discard_progress:
            names = listed([f"{topic}-{number}" for topic, number in moved])
            raise GuardError(
                f"The group {rollback.group!r} has moved on in {plural(len(moved), 'partition')}: {names}.",
                hint="To discard that progress: --discard-progress.",
            )
        done = _restore(rollback, gateway, journal, now, before)
        return replace(done, failed={**lost, **done.failed})


def _restore(
    rollback: Rollback,
    gateway: Gateway,
    journal: Journal,
    now: Mapping[Partition, KeptCommit],
    before: Mapping[Partition, KeptCommit],
) -> RolledBack:
    changes: list[Change] = [
        (*key, now[key].offset if key in now else None, before[key].offset if key in before else None, None)
        for key in sorted(set(now) | set(before))
        if now.get(key) != before.get(key)
    ]

    def note(
        phase: str,
        outcome: str | None,
        lines: list[Change],
        detail: str | None = None,
        after: BaseException | None = None,
    ) -> None:
        journal.append(
            plan=rollback.plan,
            cluster_id=rollback.cluster_id,
            group=rollback.group,
            action="rollback",
            phase="begin" if phase == "begin" else "end",
            outcome=outcome,
            detail=detail,
            after=after,
            changes=lines,
        )

    extra = [key for key in now if key not in before]
    gone = bool(extra) and not rollback.existed
    if not changes:
        begun = journal.open_change(rollback.group, rollback.cluster_id)
        if begun is not None and (begun.action, begun.plan) == ("rollback", rollback.plan):
            note("end", "done", begun.changes, "read back after an interruption")
        return RolledBack(group=rollback.group, deleted=False, restored=0, failed={})
    note("begin", None, changes, "delete the group" if gone else None)
    errors: dict[Partition, str] = {}
    try:
        if gone:
            errors = dict(remove_group(gateway, rollback.group, now))
        else:
            errors = dict(gateway.delete_commits(rollback.group, extra)) if extra else {}
            restore = {key: it for key, it in before.items() if now.get(key) != it}
            errors |= gateway.restore(rollback.group, restore) if restore else {}
        after = gateway.kept_commits(rollback.group)
    except SourceUnreachableError as error:
        note("end", "unknown", changes, error.message, error)
        raise
    wrong = {key for key in set(after) | set(before) if after.get(key) != before.get(key)}
    failed = {key: errors.get(key, _read_back(after.get(key), before.get(key))) for key in wrong}
    outcome = "done" if not failed else "partial" if len(failed) < len(changes) else "failed"
    note("end", outcome, [(*change[:4], failed.get(change[:2])) for change in changes])
    return RolledBack(
        group=rollback.group,
        deleted=gone and not after and gateway.group(rollback.group).state in GONE,
        restored=len(before) - len(wrong & set(before)),
        failed=failed,
    )


def _read_back(found: KeptCommit | None, wanted: KeptCommit | None) -> str:
    if found is not None and wanted is not None and found.offset == wanted.offset:
        return "its metadata was not read back as it was before"
    return f"read back as {'no commit' if found is None else f'{found.offset:,}'}"
