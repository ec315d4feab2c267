"""A planned replay on its cluster: apply, follow, verify, roll back, cut over, retire. Commands and panels come through here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError

if TYPE_CHECKING:
    from workbench.api.broker_headroom import Headroom
    from workbench.api.groups_beside_replay import NeighbourWatch
    from workbench.plans.confirm import Confirmation
    from workbench.queues.replay_port import Gateway
    from workbench.queues.snapshot_views import Partition
    from workbench.queues.systems import CountRecords
    from workbench.replay.guard import ReplayLimits
    from workbench.replay.planfile import Plan
    from workbench.replay.progress import ReplayProgress
    from workbench.replay.receipt import Receipt, Rollback
    from workbench.replay.retire import Retired
    from workbench.replay.rollback_of_apply import RolledBack
    from workbench.replay.service_fleet import FleetFile
    from workbench.replay.verify_evidence import Checked
    from workbench.settings import Cluster

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ReplayConnections:
    """Factories of connections to a cluster and to its records; None: those of its queue. Tests replace them."""

    gateway: Callable[[Cluster], Gateway] | None = None
    counter: Callable[[Cluster], CountRecords] | None = None

    def open(self, cluster: Cluster) -> tuple[Gateway, CountRecords]:
        """Both connections.

        Raises:
            UsageError: if the settings have no address of the cluster.
        """
        from workbench.queues.systems import counter_of, gateway_of

        return (self.gateway or gateway_of)(cluster), (self.counter or counter_of)(cluster)


CONNECTIONS = ReplayConnections()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A plan with its cluster. Its methods raise `WorkbenchError` as they say; none of them changes anything without `confirm`.

    Attributes:
        path: of the plan's file; rollback file and receipt are written beside it.
        config: the settings file that was asked for.
    """

    plan: Plan
    path: Path
    cluster: Cluster
    gateway: Gateway
    count_records: CountRecords
    config: Path | None = None

    def headroom(self) -> Headroom:
        """Which brokers have no room for more reading now; asked only where the settings name their metrics."""
        from workbench.api.broker_headroom import headroom

        return headroom(self.cluster, group=self.plan.from_group, config=self.config)

    def check_cluster(self, *, with_topics: bool = True) -> None:
        """Check that this is the cluster of the plan, and (`with_topics`) that it has its topics.

        Raises:
            GuardError: if it is another one. EvidenceError: if a topic was deleted. SourceUnreachableError: if it does not answer.
        """
        from workbench.replay.follow import check_same_cluster

        check_same_cluster(self.plan, self.gateway, with_topics=with_topics)

    def _begun(self) -> frozenset[Partition]:
        from workbench.plans.journal import Journal
        from workbench.replay.known_start import known_starts

        return known_starts(self.plan, self.path, Journal.of_user())

    def apply(
        self,
        confirm: str | None,
        *,
        limits: ReplayLimits | None = None,
        quiet_seconds: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Receipt:
        """Commit the plan's offsets for its new group, after all safety checks; see `apply_plan`.

        Args:
            confirm: name and number, or the hash; None: only the safety checks.
            sleep: waits for the time during which the group's commits must not move; from its end on, the run completes.

        Raises:
            GuardError: if the confirmation is wrong. WorkbenchError: as `apply_plan`.
        """
        from workbench.api.broker_headroom import Headroom
        from workbench.plans.journal import Journal
        from workbench.replay.apply import ApplyOptions, apply_plan
        from workbench.replay.confirm import of_plan
        from workbench.replay.guard import ReplayLimits

        if confirm is not None:
            of_plan(self.plan).check(confirm)
        chosen = limits or ReplayLimits()
        room = Headroom() if chosen.allow_busy_brokers else self.headroom()
        options = ApplyOptions(
            limits=chosen,
            quiet_seconds=quiet_seconds,
            dry_run=confirm is None,
            busy=room.busy,
            notes=room.notes,
        )
        return apply_plan(self.plan, self.path, self.gateway, Journal.of_user(), options, sleep=sleep)

    def looks(self, *, interval_seconds: float, stop: Callable[[float], bool]) -> Iterator[ReplayProgress]:
        """Look at the group until it has committed the window, or until `stop` says so. Changes nothing.

        Args:
            stop: gets the seconds to wait before the next look; waits, or returns True.
        """
        from workbench.replay.follow import Follower

        follower = Follower(self.plan, self.gateway, self.count_records, begun=self._begun)
        yield from follower.run(interval_seconds=interval_seconds, stop=stop)

    def neighbours(self, fleet: Path | None = None) -> NeighbourWatch:
        """Watch the groups on the brokers of the plan, and hold the replay while one of them is late.

        Args:
            fleet: file of the instances that replay; those of a runtime are held and released. None: only the commands are told.

        Raises:
            ConfigError: if the file is wrong. UsageError: if the journal cannot be read.
        """
        from workbench.api.groups_beside_replay import NeighbourWatch
        from workbench.plans.journal import Journal
        from workbench.replay.pause_for_neighbours import Holding, Pausable
        from workbench.replay.service_fleet import read_fleet
        from workbench.replay.service_fleet_kinds import make_fleet

        found = make_fleet(read_fleet(fleet)) if fleet is not None else None
        pausable = found if isinstance(found, Pausable) else None
        holding = Holding(plan=self.plan, journal=Journal.of_user(), fleet=pausable)
        return NeighbourWatch(
            plan=self.plan, cluster=self.cluster, gateway=self.gateway, holding=holding, config=self.config
        )

    def verify(
        self,
        *,
        fleet: Path | None = None,
        processed: Path | None = None,
        records: bool = False,
        key_ranges: int | None = None,
    ) -> Checked:
        """Check whether the new group got every record of the window. Changes nothing.

        Args:
            fleet: file of the instances, whose counts are compared too.
            processed: log of processed records (topic, partition, offset; JSON lines, CSV or Parquet).
            records: read the records and count them.
            key_ranges: count them by so many ranges of the key's hash.
        """
        from workbench.replay.service_fleet import read_fleet
        from workbench.replay.service_fleet_kinds import make_fleet
        from workbench.replay.verify_evidence import CheckRequest, check

        if processed is not None and not processed.exists():
            raise UsageError(f"The log of processed records {processed} does not exist.")
        asked = CheckRequest(
            fleet=make_fleet(read_fleet(fleet)) if fleet is not None else None,
            processed=processed,
            records=records,
            key_ranges=key_ranges,
            begun=self._begun(),
        )
        return check(self.plan, self.cluster, self.gateway, self.count_records, asked)

    def counts(self, kinds: list[str], *, most: int) -> dict[str, Any]:
        """Count the records of the plan by `type`, `key`, `minute` or `partition`, the largest first. Joins no group."""
        from workbench.logs.record_counts import counts_by
        from workbench.queues.systems import system_of
        from workbench.redrive.inspect_records import types_of_records
        from workbench.spark.session import session, start_in_background

        own = self.cluster.records
        by_schema = "type" in kinds and bool(own.schema_registry or own.schemas or own.formats)
        counted = [kind for kind in kinds if kind != "type" or not by_schema]
        if counted:
            start_in_background()
        self.check_cluster()
        ranges = {part.key: part.spans for part in self.plan.partitions}
        found: dict[str, Any] = {}
        system = system_of(self.cluster)
        if by_schema:
            found["type"] = types_of_records(
                ranges, lambda topic: system.letters(self.cluster, topic), self.cluster, most=most
            )
        if counted:
            needed = {"type": "event_type", "key": "key", "minute": "timestamp", "partition": "topic"}
            columns = list(dict.fromkeys(["topic", "partition", *(needed[kind] for kind in counted), "value_bytes"]))
            frame = system.read_records(session(), self.cluster, ranges, columns)
            if len(counted) > 1:
                frame = frame.persist()
            found |= {kind: counts_by(frame, kind, most=most) for kind in counted}
        return {kind: found[kind] for kind in kinds}

    def first_records(self, *, most: int) -> list[dict[str, Any]]:
        """The first records of the plan, decoded; hidden fields stay hidden. Joins no group."""
        from workbench.queues.systems import system_of
        from workbench.redrive.inspect_records import first_records

        self.check_cluster()
        system, spans = system_of(self.cluster), {part.key: part.spans for part in self.plan.partitions}
        return first_records(spans, lambda topic: system.letters(self.cluster, topic), self.cluster, most=most)

    def switching(self, file: FleetFile, *, back: bool) -> Confirmation:
        """What must be typed before `cut_over`."""
        from workbench.plans.confirm import Confirmation

        return Confirmation(
            hash=self.plan.hash,
            name=self.plan.from_group if back else self.plan.new_group,
            number=len(file.instances),
            asked="the group that they switch to and the number of instances",
        )

    def cut_over(
        self,
        file: FleetFile,
        confirm: str,
        *,
        back: bool = False,
        carry_others: bool = False,
        limits: ReplayLimits | None = None,
        say: Say = lambda _text: None,
    ) -> None:
        """Switch a fleet to the new group: one instance, then batches, each healthy before the next. Repeat it after any failure.

        Raises:
            GuardError: if the confirmation is wrong. WorkbenchError: as `Cutover.run`.
        """
        from workbench.plans.journal import Journal
        from workbench.replay.guard import ReplayLimits
        from workbench.replay.rolling_cutover import Cutover
        from workbench.replay.service_fleet_kinds import make_fleet

        self.switching(file, back=back).check(confirm)
        Cutover(
            plan=self.plan,
            fleet=make_fleet(file, ranges=None if back else self.plan.range_table()),
            file=file,
            gateway=self.gateway,
            journal=Journal.of_user(),
            say=say,
            count_records=self.count_records,
            begun=self._begun(),
            back=back,
            carry_others=carry_others,
            limits=limits or ReplayLimits(),
        ).run()

    def retiring(self, *, stays: bool) -> Confirmation:
        """What must be typed before `retire`."""
        from workbench.plans.confirm import Confirmation

        return Confirmation(
            hash=self.plan.hash,
            name=self.plan.from_group if stays else self.plan.new_group,
            number=len(self.plan.partitions),
            asked="the group that is deleted and the number of the plan's partitions",
        )

    def retire(
        self, confirm: str, *, stays: bool = False, allow_gap: bool = False, allow_unproven: bool = False
    ) -> Retired:
        """Delete the new group, if nothing is left only to it; with `stays`, keep it and delete the old one.

        Raises:
            GuardError: if the confirmation is wrong. WorkbenchError: as `retire`.
        """
        from workbench.plans.journal import Journal
        from workbench.replay.retire import retire

        self.retiring(stays=stays).check(confirm)
        return retire(
            self.plan,
            self.path,
            self.gateway,
            Journal.of_user(),
            stays=stays,
            now_ms=time.time() * 1000,
            allow_gap=allow_gap,
            allow_unproven=allow_unproven,
            begun=self._begun(),
        )


def open_replay(
    plan_file: str | Path,
    *,
    cluster: str | None = None,
    config: Path | None = None,
    connections: ReplayConnections = CONNECTIONS,
) -> Replay:
    """Read a plan and connect to its cluster.

    Args:
        plan_file: of `workbench replay plan`.
        cluster: None: the plan's.

    Raises:
        UsageError, GuardError: if the file is no plan, or was changed. ConfigError: if the settings are wrong.
    """
    from workbench.replay.planfile import read_plan
    from workbench.settings import load_settings

    plan = read_plan(Path(plan_file))
    chosen = load_settings(config).cluster(cluster or plan.cluster)
    gateway, counter = connections.open(chosen)
    return Replay(
        plan=plan, path=Path(plan_file), cluster=chosen, gateway=gateway, count_records=counter, config=config
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """A rollback file with its cluster."""

    rollback: Rollback
    gateway: Gateway

    def run(
        self, confirm: str, *, discard_progress: bool = False, sleep: Callable[[float], None] = time.sleep
    ) -> RolledBack:
        """Make the new group as it was before `apply`.

        Args:
            confirm: the group and the number of its commits that are restored, or the hash.
            discard_progress: also if the group has consumed since.
            sleep: as for `Replay.apply`.

        Raises:
            GuardError: if the confirmation is wrong, or the group has moved on. WorkbenchError: as `roll_back`.
        """
        from workbench.plans.journal import Journal
        from workbench.replay.confirm import of_rollback
        from workbench.replay.rollback_of_apply import roll_back

        of_rollback(self.rollback).check(confirm)
        return roll_back(self.rollback, self.gateway, Journal.of_user(), discard_progress=discard_progress, sleep=sleep)


def open_rollback(
    rollback_file: str | Path,
    *,
    cluster: str | None = None,
    config: Path | None = None,
    connections: ReplayConnections = CONNECTIONS,
) -> Undo:
    """Read the file that `apply` wrote beside the plan (plan.rollback.json), and connect to its cluster.

    Raises:
        UsageError, GuardError: if the file is none, or was changed. ConfigError: if the settings are wrong.
    """
    from workbench.replay.receipt import read_rollback
    from workbench.settings import load_settings

    rollback = read_rollback(Path(rollback_file))
    chosen = load_settings(config).cluster(cluster or rollback.cluster)
    return Undo(rollback=rollback, gateway=connections.open(chosen)[0])
