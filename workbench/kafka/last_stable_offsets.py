"""Last stable offsets, of partitions that stand still: consumers with read_committed stop where the oldest open transaction begins.

A broker answers with the log end if no transaction is open. It is one more request per leader (and thousand partitions), and none while
everything moves. What a client says of it is of its last fetch, and counts only where that shows (`collect.whole_from_parts_or_rates`).
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from workbench.queues.snapshot_views import Partition, Snapshot
from workbench.samples import SeriesTable

_STILL_SAMPLES = 3  # with the same commit


def standing(series: SeriesTable) -> list[Partition]:
    """Partitions where the last samples of a group's commit are the same, below the log's end."""
    ends = _last_values(series, "log_end_offset", 1)
    found = set()
    for key, values in _last_values(series, "committed_offset", _STILL_SAMPLES).items():
        end = ends.get(("", *key[1:]))
        still = len(values) == _STILL_SAMPLES and bool((values == values[0]).all())
        if still and end is not None and values[0] < end[0]:
            found.add((key[1], key[2]))
    return sorted(found)


def _last_values(series: SeriesTable, signal: str, count: int) -> dict[tuple[str, str, int], np.ndarray]:
    """The last usable values by group ("" for the log's own), topic and partition."""
    wanted = series.where(pc.and_(pc.equal(series.names["signal"], signal), pc.is_valid(series.names["partition"])))
    times: dict[tuple[str, str, int], list[np.ndarray]] = {}
    labels = wanted.names.select(["group", "topic", "partition"]).to_pylist()
    for label, start, length in zip(labels, wanted.starts, wanted.lengths, strict=True):
        both = np.stack([wanted.ts_us[start : start + length], wanted.values[start : start + length]])
        key = (label["group"] or "", label["topic"], label["partition"])
        times.setdefault(key, []).append(both[:, ~np.isnan(both[1])])
    found = {}
    for key, parts in times.items():  # several members, one after the other
        whole = np.concatenate(parts, axis=1)
        found[key] = whole[1][np.argsort(whole[0], kind="stable")][-count:]
    return found


class StandingStill:
    """Which partitions stand still from snapshot to snapshot."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, int], tuple[int, int]] = {}  # the commit, and in how many snapshots

    def of(self, snapshot: Snapshot) -> list[Partition]:
        """Partitions with a lag whose commit is that of the snapshots before."""
        seen = {}
        for key, committed in snapshot.commits.items():
            if committed is not None and snapshot.lag(*key):
                before, times = self._seen.get(key, (committed, 0))
                seen[key] = (committed, times + 1 if before == committed else 1)
        self._seen = seen
        return sorted({(topic, part) for (_, topic, part), (_, times) in seen.items() if times >= _STILL_SAMPLES})
