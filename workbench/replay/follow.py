"""Follow a replay until the window's end is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from workbench.commit_note import CommitNote, parse_note
from workbench.errors import EvidenceError, GuardError
from workbench.humanize import listed, shell_word
from workbench.logs.window_done import through
from workbench.logs.window_end import TAIL_OFFSETS, WindowEnd, instants_of, window_ends
from workbench.queues.replay_port import ClusterView, Gateway, LogView
from workbench.queues.snapshot_views import Partition
from workbench.queues.systems import CountRecords
from workbench.replay.planfile import Plan
from workbench.replay.progress import ReplayProgress, progress
from workbench.replay.window_end_now import windows_now

_STILL_LOOKS = 3


@dataclass(slots=True)
class Follower:
    """Observes a replay repeatedly.

    Args:
        begun: tells the partitions where it is known that the group began at the target; None: that is not looked for.
    """

    plan: Plan
    gateway: Gateway
    count_records: CountRecords
    begun: Callable[[], Collection[Partition]] | None = None
    now_ms: Callable[[], float] = lambda: time.time() * 1000
    _without_records: frozenset[tuple[Partition, int, int]] = (
        frozenset()
    )  # between this commit and this end of the window
    _lost: dict[Partition, str] = field(default_factory=dict)  # what retention has taken before the group came there
    _still: int = 0
    _left: Mapping[Partition, int] | None = None

    def look(self) -> ReplayProgress:
        """Observe both groups once.

        Raises:
            SourceUnreachableError: if the cluster does not answer.
        """
        keys = [part.key for part in self.plan.partitions]
        new, old = self.gateway.commits(self.plan.new_group), self.gateway.commits(self.plan.from_group)
        logs = self.gateway.logs(keys, instants_ms=instants_of(self.plan), stable=True)
        windows = window_ends(self.plan, logs, now_ms=self.now_ms())
        members = len(self.gateway.group(self.plan.new_group).members)
        self._note_lost(new, logs, windows)
        found = self._progress(new, old, logs, windows, members)
        self._still = self._still + 1 if found.left == self._left else 0
        self._left = found.left
        if found.left and self._still >= _STILL_LOOKS:
            self._still = 0
            self._look_for_markers(new, windows, found)
            found = self._progress(new, old, logs, windows, members)
        if found.complete:
            cluster = self.gateway.cluster(self.plan.topics)
            windows = windows_now(self.plan, cluster, logs, now_ms=self.now_ms())
            notes = {key: parse_note(text) for key, text in self.gateway.notes(self.plan.new_group).items()}
            begun = self.begun() if self.begun is not None else None
            found = self._progress(new, old, logs, windows, members, notes, begun)
        return found

    def _note_lost(self, new: Mapping[Partition, int], logs: LogView, windows: Mapping[Partition, WindowEnd]) -> None:
        """A commit below the log's start now: the group will be moved over what is deleted, and its later commits do not tell."""
        for part in self.plan.partitions:
            if part.key in new:
                found = through(part, new[part.key], windows[part.key].stop, log_start=logs.starts.get(part.key))
                if found.deleted and found.reservation is not None:
                    self._lost[part.key] = found.reservation

    def _progress(
        self,
        new: Mapping[Partition, int],
        old: Mapping[Partition, int],
        logs: LogView,
        windows: Mapping[Partition, WindowEnd],
        members: int,
        notes: Mapping[Partition, CommitNote] | None = None,
        begun: Collection[Partition] | None = None,
    ) -> ReplayProgress:
        return progress(
            self.plan,
            new=new,
            old=old,
            ends=logs.ends,
            windows=windows,
            members=members,
            at=time.monotonic(),
            starts=logs.starts,
            notes=notes,
            lost=self._lost,
            begun=begun,
            without_records=frozenset(
                key
                for key, committed, stop in self._without_records
                if (new.get(key), windows[key].stop) == (committed, stop)
            ),
        )

    def _look_for_markers(
        self, new: Mapping[Partition, int], windows: Mapping[Partition, WindowEnd], found: ReplayProgress
    ) -> None:
        ranges = {
            key: (new[key], windows[key].stop)
            for key, missing in found.left.items()
            if missing <= TAIL_OFFSETS and key in new and windows[key].readable == windows[key].stop
        }
        if ranges:
            counts = self.count_records(ranges)
            self._without_records |= {(key, *ranges[key]) for key, number in counts.items() if number == 0}

    def run(self, *, interval_seconds: float, stop: Callable[[float], bool]) -> Iterator[ReplayProgress]:
        """Observe until the replay is complete or `stop`, which waits for the interval, returns true."""
        while True:
            look = self.look()
            yield look
            if look.complete or stop(interval_seconds):
                return


def check_same_cluster(plan: Plan, gateway: Gateway, *, with_topics: bool = True) -> ClusterView:
    """Check that the plan is for this cluster, and (`with_topics`) that its topics are there; return the cluster's view of them.

    Raises:
        GuardError: if it is another cluster. EvidenceError: if a topic was deleted.
    """
    found = gateway.cluster(plan.topics)
    if found.cluster_id != plan.cluster_id:
        raise GuardError(
            f"The plan is for the cluster {plan.cluster_id}, this one is {found.cluster_id}.",
            hint="Use --cluster with the cluster of the plan.",
        )
    if with_topics:
        check_topics_exist(plan, found)
    return found


def check_topics_exist(plan: Plan, cluster: ClusterView) -> None:
    """Check that no topic of the plan was deleted: its partitions would look like those of a broker that does not answer.

    Raises:
        EvidenceError: if one was, and is not merely hidden from these credentials.
    """
    gone = [topic for topic in plan.topics if topic not in cluster.topics and topic not in cluster.denied]
    if gone:
        names, were = listed([repr(it) for it in gone]), "was" if len(gone) == 1 else "were"
        raise EvidenceError(
            f"The plan's topic{'' if len(gone) == 1 else 's'} {names} {were} deleted since the plan was made, with the records and"
            " the groups' commits: nothing about this replay can be told any more.",
            hint=f"The group: workbench snapshot --cluster {shell_word(plan.cluster)} --group {shell_word(plan.new_group)}",
        )
