"""Which partitions of a group's commits one of its members has, by the coordinator: a commit that nobody goes on from is left over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from workbench.queues.group_kinds import CLASSIC, CONSUMER
from workbench.queues.snapshot_views import SOURCE, Partition, Snapshot

if TYPE_CHECKING:
    import pyarrow as pa

    from workbench.samples import SeriesTable

Read = tuple[str, str, int]  # group, topic, partition


def read_partitions(series: SeriesTable) -> set[Read]:
    """What the groups of these series have commits or lag of."""
    names = series.names.select(["signal", "group", "topic", "partition"]).to_pylist()
    return {
        (row["group"], row["topic"], row["partition"])
        for row in names
        if row["signal"] in ("committed_offset", "consumer_lag") and None not in row.values()
    }


def ends_in(series: SeriesTable) -> set[Partition]:
    """Partitions of which these series have the log's end."""
    names = series.names.select(["signal", "topic", "partition"]).to_pylist()
    return {(row["topic"], row["partition"]) for row in names if row["signal"] == "log_end_offset"}


def held_by(views: pa.Table) -> dict[str, set[Partition]]:
    """What the members of each group have, in `GROUPS_SCHEMA`.

    Nothing of groups whose members assign partitions themselves, or are about to exchange them.
    """
    has: dict[str, set[Partition]] = defaultdict(set)
    for row in views.select(["group", "state", "protocol", "topic", "partition"]).to_pylist():
        if row["topic"] is not None and is_settled(row["state"], row["protocol"]):
            has[row["group"]].add((row["topic"], row["partition"]))
    return has


def is_settled(state: str | None, protocol: str | None) -> bool:
    """Whether the assignments of such a group say who reads what."""
    return state == "stable" and protocol in (CLASSIC, CONSUMER)


def without_owner(held: Mapping[str, Collection[Partition]], topics: Mapping[str, Any]) -> set[Read]:
    """Partitions of topics that a group's members read, which none of them has: as those that were added, where a client does not look.

    Args:
        topics: confluent-kafka's `TopicMetadata` by name.
    """
    return {
        (group, topic, number)
        for group, parts in held.items()
        for topic in {it for it, _ in parts} & topics.keys()
        for number in topics[topic].partitions
        if (topic, number) not in parts
    }


def never_committed(snapshot: Snapshot) -> set[Read]:
    """What members have of topics on which their group has no commit at all: most exporters leave such a group out."""
    held = {
        (view.group, *part)
        for view in snapshot.groups
        if is_settled(view.state, view.protocol)
        for member in view.members
        for part in member.partitions
    }
    committed = {key[:2] for key, offset in snapshot.commits.items() if offset is not None}
    return {key for key in held if key in snapshot.commits and key[:2] not in committed}


def assigned_samples(
    held: Mapping[str, Collection[Partition]], read: Iterable[Read], cluster: str, at: float
) -> pa.Table:
    """1 for each of these partitions that a member of its group has, 0 for each that none has, in `SAMPLES_SCHEMA`.

    Args:
        held: of `held_by`.
        read: partitions of the groups' commits, and others of their topics.
        at: time of the look, in seconds since the epoch.
    """
    from workbench.samples import SampleBatch

    batch = SampleBatch(cluster, SOURCE)
    for group, topic, partition in sorted(read):
        if group in held:
            labels = {"group": group, "topic": topic, "partition": partition}
            batch.add("assigned", labels, [round(at * 1e6)], [float((topic, partition) in held[group])])
    return batch.to_arrow()
