"""Partitions of a finding, the worst first, each with the consumer that has it: which process to look at, or to restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from workbench.humanize import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from workbench.collect.capture import Capture
    from workbench.triage.finding import Finding, PartitionLag


def worst_first(finding: Finding) -> Sequence[PartitionLag]:
    """Those with messages that wait for nobody knows how long, then by time lag, then by lag."""

    def rank(it: PartitionLag) -> tuple[float, int, int]:
        lag = it.lag_messages or 0
        waits = it.time_lag_seconds if it.time_lag_seconds is not None else float("inf") if lag else -1.0
        return -waits, -lag, it.partition

    return sorted(finding.partitions, key=rank)


def consumers(finding: Finding, capture: Capture) -> Mapping[int, str]:
    """Partition to the consumer that has it: by Kafka's member list, or by their own metrics; of others, nobody knows it."""
    return {**_measured(finding, capture.samples), **_listed(finding, capture.groups)}


def _listed(finding: Finding, groups: pa.Table) -> dict[int, str]:
    mine = groups.filter(pc.and_(pc.equal(groups["group"], finding.group), pc.equal(groups["topic"], finding.topic)))
    return {
        row["partition"]: named(row["client_id"], row["host"])
        for row in mine.to_pylist()
        if row["member_id"] is not None and row["partition"] is not None
    }


def _measured(finding: Finding, samples: pa.Table) -> dict[int, str]:
    """Who told of the partition last."""
    mine = samples.filter(
        pc.and_(
            pc.and_(pc.equal(samples["group"], finding.group), pc.equal(samples["topic"], finding.topic)),
            pc.and_(pc.is_valid(samples["partition"]), pc.is_valid(samples["member"])),
        )
    )
    last = mine.group_by(["partition", "member"]).aggregate([("ts", "max")]).sort_by("ts_max")
    return {row["partition"]: printable(row["member"]) for row in last.to_pylist()}


def named(client: str | None, host: str | None) -> str:
    """A member of Kafka's list in words."""
    return printable(f"{client or ''} at {host.lstrip('/')}" if host else client or "")
