"""Which partitions of a group's commits one of its members has, by the coordinator: a commit that nobody goes on from is left over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pyarrow as pa

from workbench.queues.kinds import CLASSIC, CONSUMER
from workbench.queues.views import SOURCE, Partition
from workbench.samples import SampleBatch, SeriesTable

Read = tuple[str, str, int]  # group, topic, partition


def read_partitions(series: SeriesTable) -> set[Read]:
    """What the groups of these series have commits or lag of."""
    names = series.names.select(["signal", "group", "topic", "partition"]).to_pylist()
    return {
        (row["group"], row["topic"], row["partition"])
        for row in names
        if row["signal"] in ("committed_offset", "consumer_lag") and None not in row.values()
    }


def assigned_samples(views: pa.Table, read: Iterable[Read], cluster: str, at: float) -> pa.Table:
    """1 for each of these partitions that a member of its group has, 0 for each that none has, in `SAMPLES_SCHEMA`.

    Nothing of groups whose members assign partitions themselves, or are about to exchange them.

    Args:
        views: groups, members and assignments in `GROUPS_SCHEMA`.
        read: partitions of the groups' commits.
        at: time of the look, in seconds since the epoch.
    """
    has: dict[str, set[Partition]] = defaultdict(set)
    for row in views.select(["group", "state", "protocol", "topic", "partition"]).to_pylist():
        if row["topic"] is not None and row["state"] == "stable" and row["protocol"] in (CLASSIC, CONSUMER):
            has[row["group"]].add((row["topic"], row["partition"]))
    batch = SampleBatch(cluster, SOURCE)
    for group, topic, partition in sorted(read):
        if group in has:
            labels = {"group": group, "topic": topic, "partition": partition}
            batch.add("assigned", labels, [round(at * 1e6)], [float((topic, partition) in has[group])])
    return batch.to_arrow()
