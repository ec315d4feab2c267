"""Cold reads: what a group reads next is in remote storage alone (KIP-405), and each read goes there."""

from __future__ import annotations

from workbench.features.subscription_measurements import PartitionFeatures
from workbench.triage.facts import fact
from workbench.triage.facts.member_facts import Members
from workbench.triage.facts.unknown_numbers import Number, above, minus, most, ratio, total


class Cold(Members):
    """Facts about what is not on the brokers' own disks."""

    @fact
    def cold_partitions(self) -> tuple[int, ...]:
        """Those whose commit is before the first offset on the broker's own disk."""
        return tuple(p.partition for p in self.partitions if above(minus(p.local_start, p.committed), 0) is True)

    @fact
    def cold_messages(self) -> Number:
        """Messages that it must still read from remote storage; unknown if that is so of any partition that is behind."""
        behind = [p for p in self.partitions if p.lag_messages]
        return total(
            max(0.0, it) if it is not None else None for it in (minus(p.local_start, p.committed) for p in behind)
        )

    @fact
    def tail_seconds(self) -> Number:
        """Until the last of them is back on the brokers' own disks; unknown if one never is, or nobody can tell.

        The beginning of the disks moves on about as fast as records arrive.
        """
        each = [_back_in(p) for p in self.partitions if p.partition in self.cold_partitions]
        return most(*each) if self.cold_messages is not None and all(it is not None for it in each) else None


def _back_in(p: PartitionFeatures) -> Number:
    """Seconds until a partition's commit is past the beginning of the disk; None if it gains nothing on the log, or nobody can tell."""
    gains = minus(p.committed_recent_per_second, p.arrival_recent_per_second)
    return ratio(minus(p.local_start, p.committed), gains) if above(gains, 0) else None
