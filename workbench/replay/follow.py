"""Follow a replay until the window's end is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from workbench.errors import GuardError
from workbench.replay.gateway import Gateway, Partition
from workbench.replay.planfile import Plan
from workbench.replay.progress import Progress, progress

# Offsets at the end of a range that may be transaction markers only: worth reading once nothing moves any more.
_TAIL_OFFSETS = 1_000
_STILL_LOOKS = 3

# Counts the records in offset ranges; the port is narrow so that Spark need not be there.
CountRecords = Callable[[Mapping[Partition, tuple[int, int]]], Mapping[Partition, int]]


@dataclass(slots=True)
class Follower:
    """Looks at a replay again and again."""

    plan: Plan
    gateway: Gateway
    count_records: CountRecords
    _without_records: frozenset[Partition] = frozenset()
    _still: int = 0
    _left: Mapping[Partition, int] | None = None

    def look(self) -> Progress:
        """One look at both groups.

        Raises:
            SourceUnreachableError: if the cluster does not answer.
        """
        keys = [part.key for part in self.plan.partitions]
        new, old = self.gateway.commits(self.plan.new_group), self.gateway.commits(self.plan.from_group)
        ends = self.gateway.logs(keys).ends
        members = len(self.gateway.group(self.plan.new_group).members)
        found = self._progress(new, old, ends, members)
        self._still = self._still + 1 if found.left == self._left else 0
        self._left = found.left
        if found.left and self._still >= _STILL_LOOKS:
            self._still = 0
            self._look_for_markers(new, found)
            found = self._progress(new, old, ends, members)
        return found

    def _progress(
        self, new: Mapping[Partition, int], old: Mapping[Partition, int], ends: Mapping[Partition, int], members: int
    ) -> Progress:
        return progress(
            self.plan,
            new=new,
            old=old,
            ends=ends,
            members=members,
            at=time.monotonic(),
            without_records=self._without_records,
        )

    def _look_for_markers(self, new: Mapping[Partition, int], found: Progress) -> None:
        stops = {part.key: part.stop for part in self.plan.partitions}
        ranges = {
            key: (new[key], stops[key])
            for key, missing in found.left.items()
            if missing <= _TAIL_OFFSETS and key in new
        }
        if ranges:
            counts = self.count_records(ranges)
            self._without_records |= {key for key, number in counts.items() if number == 0}

    def run(self, *, interval_seconds: float, stop: Callable[[float], bool]) -> Iterator[Progress]:
        """Looks until all is done or `stop`, which waits so long, says so."""
        while True:
            look = self.look()
            yield look
            if look.complete or stop(interval_seconds):
                return


def check_same_cluster(plan: Plan, gateway: Gateway) -> None:
    """Refuse to hold a plan against another cluster.

    Raises:
        GuardError: if it is another one.
    """
    found = gateway.cluster().cluster_id
    if found != plan.cluster_id:
        raise GuardError(
            f"The plan is for the cluster {plan.cluster_id}, this one is {found}.",
            hint="Use --cluster with the one that it was made for.",
        )
