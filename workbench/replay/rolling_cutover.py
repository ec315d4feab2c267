"""Rolling cutover: one instance moves to the new group first, then the others in batches; each batch waits until the last is healthy.

The journal has a line before and after each switch. An interrupted cutover can be repeated: instances in the group are only checked,
and an instance whose switch has no end in the journal is switched again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from workbench.errors import GuardError, NoAnswerError, SourceUnreachableError, WorkbenchError
from workbench.humanize import count, counted, listed, plural
from workbench.logs.window_done import reading_ends
from workbench.logs.window_end import TAIL_OFFSETS
from workbench.masking import masked
from workbench.plans.journal import Entry, Journal, only_one
from workbench.queues.replay_port import ClusterView, Gateway, names_of, read_by
from workbench.queues.snapshot_views import Partition
from workbench.queues.systems import CountRecords
from workbench.replay.commit_offsets import end_interrupted
from workbench.replay.cutover_checks import check_applied, check_old_commits, check_within_logs
from workbench.replay.group_gap import gaps
from workbench.replay.guard import HINTS, ReplayLimits, check_cluster, wrong_kind
from workbench.replay.members_outside_fleet import check_left, check_named
from workbench.replay.planfile import Plan
from workbench.replay.service_fleet import FleetFile, InstanceStatus, ServiceFleet, run_template
from workbench.replay.unplanned_partitions import carried, check_or_carry, gaps_beyond

_LOOK_SECONDS = 0.5
Say = Callable[[str], None]


@dataclass(slots=True)
class Cutover:
    """Cutover of a fleet to another group, or back.

    Args:
        back: from the plan's new group to the old one.
        carry_others: start the new group at the old one's commits on partitions that the old group reads and the plan does not cover.
        say: called with a line for every step.
        count_records: counts the records at the end of a partition; there may be none.
        begun: partitions where it is known that the new group began at the target; None: that was not looked for.
    """

    plan: Plan
    fleet: ServiceFleet
    file: FleetFile
    gateway: Gateway
    journal: Journal
    say: Say
    count_records: CountRecords
    begun: Collection[Partition] | None = None
    back: bool = False
    carry_others: bool = False
    limits: ReplayLimits = field(default_factory=ReplayLimits)
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    @property
    def group(self) -> str:
        """Group that the instances join."""
        return self.plan.from_group if self.back else self.plan.new_group

    @property
    def old_group(self) -> str:
        """Group that the instances leave."""
        return self.plan.new_group if self.back else self.plan.from_group

    def run(self) -> None:
        """Switch the fleet, batch by batch.

        Raises:
            GuardError: if the plan is not applied, a batch does not become healthy, or another cutover is running.
            SourceUnreachableError: if the cluster or an instance does not answer.
        """
        # Apply and rollback take the lock of the new group; another plan may switch the same fleet from the old one.
        with only_one(self.plan.new_group), only_one(self.plan.from_group):
            self._preflight()
            switched: list[str] = []
            waves = batches(self.fleet.instances, self.file.batch_size)
            for number, batch in enumerate(waves, 1):
                self.say(f"Batch {number} of {len(waves)}: {listed(batch)} → {self.group}")
                try:
                    for instance in batch:
                        self._switch(instance)
                    switched += batch
                    SwitchGate(self, switched, batch).wait()
                except WorkbenchError as error:
                    raise GuardError(
                        f"The cutover stopped in batch {number} of {len(waves)}: {error.message}",
                        hint=self._ways_on(list(dict.fromkeys([*switched, *batch]))),
                    ) from None
                self.say(f"Batch {number} of {len(waves)}: healthy.")
                if number < len(waves):
                    self.sleep(self.file.pause_seconds)
            check_left(self)

    def _ways_on(self, touched: Sequence[str]) -> str:
        other = "" if self.back else " --back"
        return (
            f"Check {listed(touched)}. Repeat the command to continue from here. To switch back to {self.old_group!r}: "
            f"workbench replay cutover PLAN --fleet FILE{other or ' (without --back)'}"
        )

    def _preflight(self) -> None:
        cluster = self.gateway.cluster(self.plan.topics)
        if refusals := check_cluster(self.plan, cluster, self.limits):
            raise GuardError(refusals[0].message, hint=HINTS[refusals[0].code])
        plan = self.plan
        if not self.back and (wrong := wrong_kind(self.gateway.group(plan.new_group))) is not None:
            raise GuardError(wrong, hint=HINTS["wrong_kind"])
        old, new = self.gateway.commits(plan.from_group), self.gateway.commits(plan.new_group)
        if self.back:
            held = {part for member in self.gateway.group(plan.new_group).members for part in member.partitions}
            beyond = held | set(carried(plan.hash, self.journal))
            check_old_commits(plan, self.limits, old=old, new=new, beyond=beyond)
            begin = {key: old[key] for key in beyond | {part.key for part in plan.partitions} if key in old}
        else:
            end_interrupted(plan, self.journal, new)
            check_applied(plan, self.limits, new=new, begun=self.begun)
            self._check_gaps(cluster, old, new)
            begin = {key: offset for key, offset in new.items() if key in plan.targets or key in old}
        check_within_logs(plan, self.gateway, self.limits, group=self.group, commits=begin)
        self._check_keeps(plan)
        statuses = [
            self.fleet.status(it) for it in self.fleet.instances
        ]  # all must answer before the first is switched
        for instance, status in zip(self.fleet.instances, statuses, strict=True):
            self._check_group(instance, status)
        check_named(self, statuses)
        if not self.back:
            self._carry(cluster, old, new)

    def _check_group(self, instance: str, status: InstanceStatus | None) -> None:
        if status is not None and status.group not in (self.group, self.old_group):
            raise GuardError(
                f"The instance {instance} is in the group {status.group!r}, which is not in the plan.",
                hint="Is this the correct fleet? Does another plan switch it now?",
            )

    def _check_keeps(self, plan: Plan) -> None:
        """Refuse a switch that the next restart of an instance would undo, and ranges without an end."""
        if not (self.fleet.can.keeps_group or self.file.persist is not None or self.limits.allow_forgetting):
            forgets = [
                it
                for it in self.fleet.instances
                if (status := self.fleet.status(it)) is None or not status.keeps_switch
            ]
            if forgets:
                raise GuardError(
                    f"A restart would bring {listed(forgets)} back to {self.old_group!r}: the switch is kept in memory only.",
                    hint='Set switch_file in the runtime\'s settings; or persist in the fleet file: a command, or "elsewhere" '
                    "if the group is already in the instances' settings; or --allow-forgetting.",
                )
        if not plan.is_of_ranges or self.back or self.limits.allow_beyond:
            return
        if self.fleet.can.stops_at_ranges and self.file.persist is not None:
            raise GuardError(
                "persist keeps the group of an instance, and not its ranges: after a restart it would also take the records between "
                "and behind them.",
                hint="Remove persist from the fleet file, and set switch_file in the runtime's settings, which keeps both; or "
                "--allow-beyond.",
            )
        if not self.fleet.can.stops_at_ranges:
            raise GuardError(
                "These instances do not stop at the end of a range: they would also take the records between and behind the ranges.",
                hint="See the plan's warnings for their number. Continue with --allow-beyond, follow it, and switch back at the end.",
            )

    def _carry(self, cluster: ClusterView, old: Mapping[Partition, int], new: Mapping[Partition, int]) -> None:
        found = check_or_carry(
            self.plan,
            self.gateway,
            self.journal,
            self.limits,
            cluster=cluster,
            old=old,
            new=new,
            carry=self.carry_others,
        )
        if found:
            self.say(
                f"Carried over: on {names_of(found)} {self.group!r} begins at the commits of {self.old_group!r}. Until the whole fleet "
                "has switched, both groups read there, and some records are processed twice."
            )

    def _check_gaps(self, cluster: ClusterView, old: Mapping[Partition, int], new: Mapping[Partition, int]) -> None:
        planned = [part for part in self.plan.partitions if part.target is not None]
        read = read_by(self.gateway.group(self.plan.from_group), old, cluster)
        gap = gaps(planned, old, read=read) | gaps_beyond(self.plan, self.journal, old=old, new=new)
        if gap and not self.limits.allow_gap:
            raise GuardError(
                f"{counted(sum(gap.values()), 'message')} would be skipped: {self.old_group!r} has not committed up to where "
                f"{self.group!r} begins, on {names_of(gap)}.",
                hint="Let the old group catch up, or plan from an earlier timestamp; --allow-gap skips them.",
            )

    def _switch(self, instance: str) -> None:
        if self._is_there(instance):
            self.say(f"  {instance}: in {self.group} already")
            last = self._last(instance)
            if last is not None and last.group == self.group and last.is_open:
                self.note(instance, "end", "done", "found there after an interruption")
            return
        for again in (False, True):
            self.note(instance, "begin", None)
            try:
                if isinstance(self.file.persist, list):
                    # Before the switch: a kill in between leaves an instance that a restart brings into the new group, which is wanted.
                    values = {
                        "instance": instance,
                        "group": self.group,
                        "old_group": self.old_group,
                        "since": self.plan.since,
                    }
                    run_template(self.file.persist, values, timeout_seconds=self.file.persist_timeout_seconds)
                self.fleet.switch(instance, group=self.group, old_group=self.old_group, since=self.plan.since)
            except WorkbenchError as error:
                unknown = isinstance(error, NoAnswerError)
                if (unknown or again) and self._has_arrived(instance):  # the request without an answer took effect
                    self.note(instance, "end", "done", f"{error.message} But it has switched to {self.group}.")
                    return
                self.note(instance, "end", "unknown" if unknown else "failed", error.message)
                if not unknown or again:
                    raise
                self.say(f"  {instance}: unknown whether it switches; sending the request again")
            except Exception as error:  # not foreseen: the journal must not end with a begin
                self.note(instance, "end", "unknown", f"{type(error).__name__}: {error}")
                raise
            else:
                self.note(instance, "end", "done")
                return

    def _has_arrived(self, instance: str) -> bool:
        deadline = self.clock() + self.file.health.timeout_seconds
        while True:
            try:
                return self._is_there(instance)
            except SourceUnreachableError:  # it may be restarting
                if self.clock() >= deadline:
                    return False
            self.sleep(_LOOK_SECONDS)

    def _is_there(self, instance: str) -> bool:
        status = self.fleet.status(instance)
        deadline = self.clock() + self.file.health.timeout_seconds
        while status is not None and status.state == "switching" and self.clock() < deadline:
            self.sleep(_LOOK_SECONDS)  # a request of an interrupted run; it would refuse another one
            status = self.fleet.status(instance)
        self._check_group(instance, status)  # another machine may have switched it by another plan since the first look
        if status is not None:
            return status.group == self.group
        last = self._last(instance)
        return last is not None and last.group == self.group and last.phase == "end" and last.outcome == "done"

    def _last(self, instance: str) -> Entry | None:
        """The last line of the journal about a switch of an instance by this plan."""
        switches = (it for it in reversed(self.journal.read()[0]) if (it.plan, it.action) == (self.plan.hash, "switch"))
        return next((it for it in switches if it.target == masked(instance)), None)

    def note(self, instance: str, phase: str, outcome: str | None, detail: str | None = None) -> None:
        """Write a line about the switch of an instance."""
        self.journal.append(
            plan=self.plan.hash,
            cluster_id=self.plan.cluster_id,
            group=self.group,
            action="switch",
            phase="begin" if phase == "begin" else "end",
            outcome=outcome,
            target=instance,
            detail=detail or f"{self.old_group} → {self.group}",
        )


def batches(instances: Sequence[str], size: int) -> list[list[str]]:
    """One instance alone first, then the others in batches."""
    return [list(instances[:1]), *(list(instances[at : at + size]) for at in range(1, len(instances), size))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Observation of the group at one moment.

    Attributes:
        waiting: what is not healthy yet, in words; None if everything is.
        members: their ids; a change of them is a rebalance.
        rebalances: the instances' own counts, if they have any.
    """

    waiting: str | None
    members: frozenset[str]
    rebalances: int
    commits: Mapping[Partition, int] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)


def lag_is_growing(first: Look, last: Look, *, share: float, tolerance: float) -> dict[Partition, str]:
    """Partitions whose lag grows faster than the fleet's progress explains, in words. Each is checked: a sum would hide a dead one.

    While only a part of the fleet has switched, the group must keep up only with that share of the produced records.
    """
    found = {}
    for key, end in last.ends.items():
        committed = last.commits.get(key)
        produced = end - first.ends.get(key, end)
        if committed is None:
            if produced > 0:
                found[key] = f"it has no commit while {counted(produced, 'message was', 'messages were')} produced"
            continue
        lag, consumed = end - committed, committed - first.commits.get(key, committed)
        if lag > 0 and (consumed <= 0 or consumed < produced * (share - tolerance)):
            found[key] = (
                f"it consumed {counted(consumed, 'message')} while {counted(produced, 'was', 'were')} produced, "
                f"and is {count(lag)} behind"
            )
    return found


@dataclass(slots=True)
class SwitchGate:
    """Waits until a batch is healthy: all members in the group, no rebalance, no growing lag."""

    cutover: Cutover
    switched: Sequence[str]
    batch: Sequence[str]
    _unseen: bool = False  # whether members are missing in the group

    def wait(self) -> None:
        """Return when the batch is healthy.

        Raises:
            GuardError: on a timeout or repeated rebalances, with what was missing.
        """
        cutover, health = self.cutover, self.cutover.file.health
        deadline = cutover.clock() + health.timeout_seconds
        changes, missing = 0, "no data"
        before: Look | None = None
        settled: tuple[float, Look] | None = None
        proven: set[Partition] = set()  # have kept up since the group settled; commits may be rarer than observations
        while cutover.clock() < deadline:
            look = self._look()
            if before is not None and (look.members != before.members or look.rebalances > before.rebalances):
                changes += 1
                settled = None
                proven.clear()
            if changes > health.max_rebalances:
                raise GuardError(
                    f"the group {cutover.group!r} was rebalanced {plural(changes, 'time')}: a rebalance storm."
                )
            before = look
            if look.waiting is not None:
                missing, settled = look.waiting, None
                proven.clear()
            elif settled is None:
                missing, settled = f"stable for {health.settle_seconds:g} s", (cutover.clock(), look)
            elif cutover.clock() - settled[0] >= health.settle_seconds:
                growing = self._growing(settled[1], look, proven)
                if not growing:
                    return
                proven |= set(look.ends) - set(growing)
                key, words = min(growing.items())
                more = f"; and {plural(len(growing) - 1, 'partition')} more" if len(growing) > 1 else ""
                missing = f"lag of {cutover.group!r} is growing on {names_of([key])}: {words}{more}"
                settled = cutover.clock(), look
            cutover.sleep(_LOOK_SECONDS)
        if self._unseen:
            self._doubt()
        raise GuardError(f"not healthy after {health.timeout_seconds:g} s: {missing}.")

    def _doubt(self) -> None:
        """Let the next run tell those again that cannot be asked: one was started again in its old group, or has never gone."""
        for instance in self.switched:
            with suppress(SourceUnreachableError):  # one that can be asked, and tells its group once it is back
                if self.cutover.fleet.status(instance) is not None:
                    continue
                self.cutover.note(instance, "end", "unknown", f"members are missing in {self.cutover.group}")

    def _growing(self, first: Look, last: Look, proven: set[Partition]) -> dict[Partition, str]:
        """Partitions that have not kept up, without those that did so before and those whose remaining offsets hold no record."""
        share = len(self.switched) / len(self.cutover.fleet.instances)
        growing = lag_is_growing(first, last, share=share, tolerance=self.cutover.file.health.lag_growth_ratio)
        growing = {key: words for key, words in growing.items() if key not in proven}
        rests = {
            key: (last.commits[key], last.ends[key])
            for key in growing
            if key in last.commits and last.ends[key] - last.commits[key] <= TAIL_OFFSETS
        }
        try:
            counts = self.cutover.count_records(rests) if rests else {}
        except SourceUnreachableError:
            counts = {}  # not known whether there are records: assume so
        return {key: words for key, words in growing.items() if counts.get(key) != 0}

    def _look(self) -> Look:
        cutover = self.cutover
        waiting: str | None = None
        expected = rebalances = 0
        for instance in self.switched:
            try:
                status = cutover.fleet.status(instance)
            except SourceUnreachableError as error:  # it may be restarting
                waiting, status = error.message.rstrip("."), None
            else:
                waiting = waiting or self._of_instance(instance, status)
            if status is None:
                expected += cutover.file.members_per_instance
            else:
                expected += len(status.members)
                rebalances += status.rebalances
        view = cutover.gateway.group(cutover.group)
        members = frozenset(member.member_id for member in view.members)
        if waiting is None and view.state != "stable":
            waiting = f"the group {cutover.group!r} is {view.state.replace('_', ' ')}"
        self._unseen = len(members) < expected
        if waiting is None and self._unseen:
            waiting = f"{len(members)} of {plural(expected, 'member')} are in the group {cutover.group!r}"
        if waiting is not None:
            return Look(waiting=waiting, members=members, rebalances=rebalances)
        commits = cutover.gateway.commits(cutover.group)
        # Assigned partitions beyond the plan are checked, too, up to the last stable offset.
        held = {part for member in view.members for part in member.partitions}
        keys = sorted({part.key for part in cutover.plan.partitions} | held)
        logs = cutover.gateway.logs(keys, stable=True)
        ends = {key: min(end, logs.stable_ends.get(key, end)) for key, end in logs.ends.items()}
        # An instance that stops at the plan's ranges leaves the rest of the log alone: that is no lag.
        ends = reading_ends(cutover.plan, ends, stops_at_ranges=cutover.fleet.can.stops_at_ranges and not cutover.back)
        waiting = next((f"{names_of([key])} does not answer" for key in keys if key not in ends), None)
        return Look(waiting=waiting, members=members, rebalances=rebalances, commits=commits, ends=ends)

    def _of_instance(self, instance: str, status: InstanceStatus | None) -> str | None:
        group = self.cutover.group
        if status is not None and (status.group != group or status.state != "running"):
            why = f": {status.switch_error}" if status.switch_error and status.group != group else ""
            return f"{instance} is {status.state} in {status.group!r}{why}"
        if instance in self.batch and not self.cutover.fleet.healthy(instance, group=group):
            return f"the check of {instance} fails"
        return None
