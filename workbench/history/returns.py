"""When a group that had stood still while messages waited went on: what its samples before that say is not how it reads now."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.history.partition_series import Track


def returned_ago(lines: Mapping[int, Mapping[str, Track]], since: float | None, patience: float) -> float | None:
    """Seconds from the first commit after the latest stop of all partitions to the last sample; None if they never stood.

    `since` is when the group fell behind, in seconds before the window's end, negative (None: before the data begin), and `patience`
    the seconds without a commit of any partition, behind, that are a stop. Of each partition `committed` is read.
    """
    committed = [own["committed"] for own in lines.values() if len(own.get("committed", ()))]
    moves = [it.at[1:][np.diff(it.value) != 0] for it in committed]
    at = np.unique(np.concatenate(moves)) if moves else np.empty(0)
    if not len(at):
        return None
    first = min(float(it.at[0]) for it in committed)
    begins = np.maximum(np.append(first, at[:-1]), first if since is None else since)
    stops = np.flatnonzero(at - begins > patience)
    return max(float(it.at[-1]) for it in committed) - float(at[stops[-1]]) if len(stops) else None
