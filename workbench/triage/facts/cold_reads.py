"""Cold reads: what a group reads next is in remote storage alone (KIP-405), and each read goes there."""

from __future__ import annotations

from workbench.triage.facts import fact
from workbench.triage.facts.member_facts import Members
from workbench.triage.facts.unknown_numbers import Number, above, minus, total


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
        """How long it takes at this pace to be back on the brokers' own disks; unknown if it never is, or nobody can tell.

        Their beginning moves on about as fast as records arrive.
        """
        cold = [p for p in self.partitions if p.partition in self.cold_partitions]
        gains = total(minus(p.committed_recent_per_second, p.arrival_recent_per_second) for p in cold)
        left = self.cold_messages
        return left / gains if left is not None and gains is not None and gains > 0 else None
