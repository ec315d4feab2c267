"""The end of a replay: the new group is removed, or it stays and the old one is removed. Never a group that is still needed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from workbench.commit_note import parse_note
from workbench.errors import GuardError, SourceUnreachableError, WorkbenchError
from workbench.humanize import counted, listed, plural, shell_word
from workbench.logs.window_done import count_tails, through
from workbench.logs.window_end import instants_of
from workbench.plans.journal import Change, Journal, only_one
from workbench.plans.strict_document import write_file
from workbench.queues.replay_port import ABSENT, GONE, WITHOUT_MEMBERS, Gateway, names_of, offsets_of
from workbench.queues.snapshot_views import Partition
from workbench.replay.follow import check_topics_exist
from workbench.replay.group_gap import left_to_old
from workbench.replay.guard import remade_topics
from workbench.replay.planfile import Plan
from workbench.replay.receipt import metadata_of, triples
from workbench.replay.records_beside_plan import added_since, records_beside
from workbench.replay.remove_group import remove_group
from workbench.replay.unplanned_partitions import gaps_beyond
from workbench.replay.window_end_now import windows_now


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """What was done.

    Attributes:
        group: the removed one; commits: what it had, also in the file.
        existed: whether it was still there.
        stands: whether the brokers still have it: without a commit that these credentials see, perhaps with others.
    """

    group: str
    commits: Mapping[Partition, int]
    existed: bool
    file: Path
    stands: bool = False


def retired_path(plan: Path) -> Path:
    """File with the commits of the deleted group, next to the plan."""
    return plan.with_suffix(".retired.json")


def retire(
    plan: Plan,
    path: Path,
    gateway: Gateway,
    journal: Journal,
    *,
    stays: bool,
    now_ms: float,
    allow_gap: bool = False,
    allow_unproven: bool = False,
    begun: Collection[Partition] | None = None,
) -> Retired:
    """Remove the new group, or (`stays`) the old one.

    Args:
        allow_gap: with `stays`: also if there are records that only the old group would process.
        allow_unproven: also if the new group's commits do not prove that it processed the window.
        begun: partitions where it is known that the new group began at the target; None: that was not looked for.

    Raises:
        GuardError: if the group has members, or something is left that only it would process.
        EvidenceError: if a topic of the plan was deleted. SourceUnreachableError: if Kafka does not answer.
    """
    group, other = (plan.from_group, plan.new_group) if stays else (plan.new_group, plan.from_group)
    with only_one(plan.new_group), only_one(plan.from_group):  # another plan may apply to the old one just now
        view = gateway.group(group)
        if view.state not in WITHOUT_MEMBERS:
            raise GuardError(
                f"The group {group!r} has {plural(len(view.members), 'member')}.",
                hint="Switch the fleet first: workbench replay cutover PLAN --fleet fleet.toml"
                + ("" if stays else " --back"),
            )
        kept, theirs = gateway.kept_commits(group), gateway.commits(other)
        # Of a run that was interrupted, or that could not take all of them.
        earlier = _taken_before(plan, group, journal)
        mine = earlier | offsets_of(kept)
        if stays:
            _check_takes_over(plan, gateway, journal, old=mine, new=theirs, allow_gap=allow_gap)
        else:
            # An interrupted run has checked where the group began; the journal, with its line in it, tells nothing of that any more.
            if begun is not None:
                begun = {*begun, *(key for key, at in earlier.items() if mine[key] == at)}
            _check_done(plan, gateway, mine, theirs, now_ms, allow_unproven=allow_unproven, begun=begun)
        file = retired_path(path)
        document = {
            "schema": "workbench.replay-retired/1",
            "plan": plan.hash,
            "cluster_id": plan.cluster_id,
            "group": group,
        }
        if not file.exists() or (kept and not earlier):  # a repeated run must not replace the commits by what is left
            written = datetime.now(UTC).isoformat(timespec="seconds")
            commits = {"commits": triples(mine), "metadata": metadata_of(kept)}
            write_file(file, {**document, "written_at": written, **commits})
        changes: list[Change] = [(*key, offset, None, None) for key, offset in sorted(mine.items())]
        existed = view.state != ABSENT
        if existed or earlier:  # an interrupted run may have removed the group, and not have said so
            _remove(plan, gateway, journal, group, kept, changes)
        stands = existed and gateway.group(group).state not in GONE
        return Retired(group=group, commits=mine, existed=existed, file=file, stands=stands)


def _taken_before(plan: Plan, group: str, journal: Journal) -> dict[Partition, int]:
    """Commits of a group that an earlier run began to take away, and did not end; it had passed the checks with all of them."""
    for entry in reversed(journal.read()[0]):
        if entry.group == group and entry.cluster_id == plan.cluster_id:
            if entry.action != "retire" or entry.plan != plan.hash or entry.outcome == "done":
                break
            return {(topic, number): old for topic, number, old, *_ in entry.changes if old is not None}
    return {}


def _remove(
    plan: Plan,
    gateway: Gateway,
    journal: Journal,
    group: str,
    commits: Collection[Partition],
    changes: list[Change],
) -> None:
    def note(phase: str, outcome: str | None = None, failed: WorkbenchError | None = None) -> None:
        journal.append(
            plan=plan.hash,
            cluster_id=plan.cluster_id,
            group=group,
            action="retire",
            phase="begin" if phase == "begin" else "end",
            outcome=outcome,
            detail=failed.message if failed is not None else None,
            after=failed,
            changes=changes,
        )

    note("begin")
    try:
        errors = remove_group(gateway, group, commits)
        left = gateway.commits(group)
    except SourceUnreachableError as error:
        note("end", "unknown", error)
        raise
    if left:
        key = min(left)
        why = errors.get(key, "its commit is still there")
        still = GuardError(
            f"The group {group!r} still has {plural(len(left), 'commit')}, the first on {names_of([key])}: {why}.",
            hint="Retire again once the reason is gone: it continues from here. Whoever sees all topics may delete the group: "
            f"kafka-consumer-groups --delete --group {shell_word(group)}",
        )
        note("end", "failed", still)
        raise still
    note("end", "done")


def _check_done(
    plan: Plan,
    gateway: Gateway,
    new: Mapping[Partition, int],
    old: Mapping[Partition, int],
    now_ms: float,
    *,
    allow_unproven: bool,
    begun: Collection[Partition] | None,
) -> None:
    """The new group has processed the whole window, and the old one reads on where the fleet continues."""
    keys = {part.key for part in plan.partitions}
    cluster = gateway.cluster(plan.topics)
    check_topics_exist(plan, cluster)
    added = added_since(plan, cluster)
    logs = gateway.logs(sorted(plan.known | set(added)), instants_ms=instants_of(plan), stable=True)
    ends = windows_now(plan, cluster, logs, now_ms=now_ms)
    tails = count_tails(plan, gateway, new, logs, ends)
    notes = {key: parse_note(text) for key, text in gateway.notes(plan.new_group).items()}
    found = {
        part.key: through(
            part,
            new.get(part.key),
            ends[part.key].stop,
            log_start=logs.starts.get(part.key),
            tail=tails.get(part.key) if ends[part.key].readable == ends[part.key].stop else None,
            note=notes.get(part.key),
            has_begun=begun is None or part.key in begun,
        )
        for part in plan.partitions
    }
    left = [key for key, it in found.items() if it.left]
    if left and new:
        raise GuardError(
            f"{plan.new_group!r} has not processed the whole window: {names_of(left)}.",
            hint="See: workbench replay follow PLAN, and verify.",
        )
    planned = {part.key for part in plan.partitions if part.target is not None}
    doubts = {key: words for key, it in found.items() if key in planned and (words := ends[key].open or it.reservation)}
    if doubts and new and not allow_unproven:
        words = doubts[min(doubts)]
        raise GuardError(
            f"It cannot be told whether {plan.new_group!r} processed the whole window, on {names_of(doubts)}: {words}",
            hint="Its instances or its log of processed records may: replay verify --fleet, --processed. Then: --allow-unproven.",
        )
    beside = records_beside(plan, gateway, logs, added, new) if new and not allow_unproven else ()  # it reads records
    if beside:
        raise GuardError(
            f"It cannot be told whether {plan.new_group!r} processed the whole window: {beside[0][0]}",
            hint="Plan another replay of these, or compare with what it wrote. Then: --allow-unproven.",
        )
    gone = [part.key for part in plan.partitions if part.old_committed is not None and part.key not in old]
    if gone:
        raise GuardError(
            f"{plan.from_group!r} has no commit on {names_of(gone)} any more: nobody would know where to continue.",
            hint="Keep the new group with --stay.",
        )
    only_new = [key for key in new if key not in old and key not in keys]
    if only_new:
        raise GuardError(
            f"Only {plan.new_group!r} has a commit on {names_of(only_new)}.", hint="Keep the new group with --stay."
        )


def _check_takes_over(
    plan: Plan,
    gateway: Gateway,
    journal: Journal,
    *,
    old: Mapping[Partition, int],
    new: Mapping[Partition, int],
    allow_gap: bool,
) -> None:
    """The new group has a commit wherever the old one has, and has not passed records that only the old one would still process."""
    missing = sorted(set(old) - set(new))
    if missing:
        raise GuardError(
            f"{plan.new_group!r} has no commit on {names_of(missing)}, which {plan.from_group!r} has read.",
            hint="Cut over with --carry-others first.",
        )
    if not allow_gap and (remade := remade_topics(plan, gateway.cluster(plan.topics))):
        raise GuardError(
            f"{listed(remade)} {'was' if len(remade) == 1 else 'were'} deleted and recreated since the plan was made: it cannot be told"
            f" what is left to {plan.from_group!r} alone.",
            hint="Compare the commits of both groups; then: --allow-gap.",
        )
    gap = left_to_old(plan.partitions, old=old, new=new) | gaps_beyond(plan, journal, old=old, new=new)
    if gap and not allow_gap:
        raise GuardError(
            f"{counted(sum(gap.values()), 'message is', 'messages are')} left to {plan.from_group!r} alone, on {names_of(gap)}: "
            f"{plan.new_group!r} began behind them, or has passed them outside of its ranges.",
            hint="Let the old group process them first; or --allow-gap to lose them.",
        )
