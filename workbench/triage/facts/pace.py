"""The pace against before, and what arrives in the partitions that are behind."""

from __future__ import annotations

from workbench.numbers import APART, MORE
from workbench.triage.facts import fact
from workbench.triage.facts.members import Members
from workbench.triage.facts.unknown import Number, at_least, most, ratio, times, total


class Facts(Members):
    """All facts of one subscription that the questions test."""

    @fact
    def pace_ratio(self) -> Number:
        """Messages/s read lately where it is late, as a multiple of the baseline's, for each member that is left.

        Where it kept up before, its pace was that of the arrivals. Fewer members have less of it.
        """
        late = self.behind or self.partitions
        read = total(p.committed_recent_per_second for p in late)
        before = total(p.arrival_baseline_per_second for p in late)
        fewer = ratio(self.usual_members, self.group_members_recent)
        return times(ratio(read, before), max(1.0, 1.0 if fewer is None else fewer))

    @fact
    def hot_arrival_ratio(self) -> Number:
        """What arrives in a hot partition, as a multiple of what arrives in a typical one."""
        hot = [p for p in self.partitions if p.partition in self.hot_partitions]
        return ratio(most(*(p.arrival_per_second for p in hot)), self.typical_arrival)

    @fact
    def hot_growth(self) -> Number:
        """By how much more its arrivals have grown since the baseline than the group's."""
        hot = [p for p in self.partitions if p.partition in self.hot_partitions]
        return ratio(
            most(*(ratio(p.arrival_per_second, p.arrival_baseline_per_second) for p in hot)), self.arrival_ratio
        )

    @fact
    def surely_hot(self) -> bool:
        """A lag in few partitions, to which more arrives than to the others, while nothing stands still."""
        if not self.queueless or self.frozen_partitions or self.standing_partitions or not self.few_are_behind:
            return False
        if not all(at_least(p.arrival_per_second, times(APART, self.typical_arrival)) for p in self.behind):
            return False
        if self.own_work is not True:
            return True
        # Its members may be busy with them; if their handlers are measured, these are asked.
        grown = times(MORE, self.arrival_ratio)
        return (
            self.median_slow_down is None
            and self.slowest_slow_down is None
            and all(at_least(p.arrival_per_second, times(grown, p.arrival_baseline_per_second)) for p in self.behind)
        )
