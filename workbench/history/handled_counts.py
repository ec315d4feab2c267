"""How many records the handlers of a group have finished between two moments, by the counters of their process times.

It is what tells a skip from a quick catching up: a commit says what was passed, and a counter what was worked on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.history.partition_series import Track, tracks_of
from workbench.judgement_numbers import FEW_SAMPLES, MISSED
from workbench.quantiles import median
from workbench.samples import grown
from workbench.window import Window

_COUNTED = "process_time"


@dataclass(slots=True)
class Handled:
    """Counters of one subscription, each as its growth since the data began; times in seconds before the window's end.

    Attributes:
        every: seconds between two samples, of the rarest counter.
        unseen: (after, until, count) of what no sample shows, at most: before a counter was first measured, when a process ended, and
            in one that comes back after a pause, above its old count, and may have begun anew.
    """

    lines: list[Track] = field(default_factory=list)
    every: float = 0.0
    unseen: list[tuple[float, float, float]] = field(default_factory=list)

    def between(self, begin: float, until: float) -> float:
        """Records that were handled between two times."""
        return float(sum(np.diff(np.interp([begin, until], it.at, it.value))[0] for it in self.lines))

    @property
    def first(self) -> float:
        """When the first of them was first measured."""
        return min(float(it.at[0]) for it in self.lines)

    @property
    def last(self) -> float:
        """When one of them was last measured."""
        return max(float(it.at[-1]) for it in self.lines)


def handled_by(
    samples: pa.Table, window: Window, groups: Collection[tuple[str, str]]
) -> Mapping[tuple[str, str, str | None], Handled]:
    """Counters of `counters_of`, by cluster, group and the topic that they name (None: none)."""
    found: dict[tuple[str, str, str | None], Handled] = defaultdict(Handled)
    parts = [it for it in counters_of(samples, window, groups) if len(it[1]) > 1]
    earliest: dict[tuple[str, str], float] = defaultdict(float)
    for label, line in parts:
        group = label["cluster"], label["group"]
        earliest[group] = min(earliest[group], float(line.at[0]))
    for label, line in parts:
        group, at, value = (label["cluster"], label["group"]), line.at, line.value
        mine, growth, took = found[*group, label["topic"]], grown(value), np.diff(at)
        every = median(took)
        mine.every = max(mine.every, every)
        anew = np.diff(value) < 0
        lost = np.where(anew, every * float(np.max(np.diff(growth) / took)), value[:-1])
        paused = took > MISSED * every
        mine.unseen += [(float(at[it]), float(at[it + 1]), float(lost[it])) for it in np.flatnonzero(anew | paused)]
        # After a pause of the measurements it has grown at the end of it: most pauses are those of a process.
        pauses = np.flatnonzero(paused)
        times = np.insert(at, pauses + 1, at[pauses + 1] - every)
        growth = np.insert(growth, pauses + 1, growth[pauses])
        if at[0] > earliest[group] + FEW_SAMPLES * every:
            times, growth = np.append(at[0] - every, times), np.append(0.0, growth + value[0])
        else:
            mine.unseen.append((-np.inf, float(at[0]), float(value[0])))
        mine.lines.append(Track(times, growth))
    return found


def counters_of(
    samples: pa.Table,
    window: Window,
    groups: Collection[tuple[str, str]],
    stat: str = "count",
    *,
    signal: str = _COUNTED,
) -> Iterator[tuple[Mapping[str, Any], Track]]:
    """Yield each counter of handled records (`stat` "sum": of the seconds that they took), one value an instant, with its labels.

    With another `signal`, its counters.

    Samples are in the order of `workbench.samples.SERIES_ORDER`, then time; `groups` are the cluster and group of those asked for.
    """
    if not groups:
        return
    names = pa.array(sorted({group for _, group in groups}), pa.string())
    wanted = pc.and_(pc.equal(samples["signal"], signal), pc.equal(samples["stat"], stat))
    wanted = pc.and_(pc.and_(wanted, pc.is_valid(samples["value"])), pc.is_in(samples["group"], names))
    rows = samples.filter(wanted)
    for label, line in tracks_of(rows, ("cluster", "group", "topic", "member", "processor", "source"), window):
        if (label["cluster"], label["group"]) in groups:
            yield label, line.once()
