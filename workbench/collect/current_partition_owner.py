"""Series of one partition under the names of several owners: exporters that name the client keep showing clients that are gone.

Only one client owns a partition at a time. The series of a former owner stands where it was left, so the present one is the owner whose
commit has moved last; among commits that have never moved, the one that came last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.collect.source_agreement import GAP_INTERVALS
from workbench.samples import FloatArray, IntArray, SeriesTable

# Labels of a metric that name whoever owns a partition.
OWNER_LABELS = frozenset({
    "client_id", "clientid", "consumer_id", "consumerid", "member_id", "memberid", "member_host", "consumer_host", "client_host",
    "consumer_instance_id",
})  # fmt: skip


def owner_at(times: IntArray, commits: Sequence[tuple[IntArray, FloatArray]], *, moves: bool = True) -> IntArray:
    """Which of the owners had the partition at each time, (n,) as positions in `commits`; -1 before any of them was seen.

    Args:
        times: µs since the epoch, in order.
        commits: of each owner, µs and offsets in order of time.
        moves: whether a changed value is one of the owner; without (a lag changes with every arrival) the last that came is taken.
    """
    at: list[IntArray] = []
    who: list[IntArray] = []
    for owner, (seen, value) in enumerate(commits):
        if not len(seen):
            continue
        changed = np.flatnonzero(np.diff(value) != 0) + 1 if moves else np.empty(0, np.int64)
        events = seen[np.concatenate([np.zeros(1, np.int64), changed])]
        at.append(events)
        who.append(np.full(len(events), owner, np.int64))
    if not at:
        return np.full(len(times), -1, np.int64)
    moments, owners = np.concatenate(at), np.concatenate(who)
    order = np.argsort(moments, kind="stable")
    last = np.searchsorted(moments[order], times, side="right") - 1
    return np.where(last >= 0, owners[order][np.maximum(last, 0)], -1)


def latest_begun(series: SeriesTable) -> SeriesTable:
    """One series of several that follow each other: at each time the sample of the one that began last, or came back last."""
    began = np.empty(len(series.ts_us), np.int64)
    for start, length in zip(series.starts, series.lengths, strict=True):
        times = series.ts_us[start : start + length]
        steps = np.diff(times, prepend=times[0])
        usual = float(np.median(steps[1:])) if length > 1 else 0.0
        anew = (steps > GAP_INTERVALS * usual) | (np.arange(length) == 0)
        began[start : start + length] = times[np.maximum.accumulate(np.where(anew, np.arange(length), 0))]
    order = np.lexsort((began, series.ts_us))
    times = series.ts_us[order]
    kept = order[np.append(times[1:] != times[:-1], True)]
    return SeriesTable(
        series.names.slice(0, 1), np.array([len(kept)]), series.ts_us[kept], series.values[kept], series.flags[kept]
    )
