"""How fast a group has read in its best minutes since it is behind: what its consumers can, whatever they read now.

Who is behind is not held up by a want of records, so each pace that it had then is one that its members have room for. A neighbour's
load, a job or a cache that empties slow it for a time; more consumers or partitions do not help against that.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.history.partition_series import Track
from workbench.judgement_numbers import TENTH, TREND_SAMPLES


def best_paces(
    lines: Mapping[int, Mapping[str, Track]], since: float | None, window_seconds: float, between: float
) -> dict[int, float]:
    """Messages/s of each partition in those minutes in which all together read most.

    `since` is when it fell behind, in seconds before the window's end, negative (None: the data do not show it as anything else), and
    `between` the time between two samples or, if it is longer, between two commits. Stretches are a tenth of the window, or longer
    where so few samples or commits show no pace. Of each partition `committed` is read; empty if there is no whole stretch.
    """
    committed = {number: own["committed"] for number, own in lines.items() if len(own.get("committed", ())) > 1}
    if not committed:
        return {}
    first = max(float(it.at[0]) for it in committed.values())
    last = min(float(it.at[-1]) for it in committed.values())
    long = max(TENTH * window_seconds, TREND_SAMPLES * between)
    count = int((last - max(first, since if since is not None else first)) // long)
    if count < 1:
        return {}
    edges = last - long * np.arange(count, -1, -1.0)
    read = {number: np.diff(np.interp(edges, it.at, it.value)) / long for number, it in committed.items()}
    best = int(np.argmax(np.sum(list(read.values()), axis=0)))
    return {number: float(paces[best]) for number, paces in read.items()}
