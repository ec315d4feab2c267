"""Where the samples of each subscription are in a table: a fleet's report asks for hundreds of them, one after the other."""

from __future__ import annotations

import pyarrow as pa

from workbench.equal_row_runs import runs_of


class SamplesBySubscription:
    """Finds rows by group and topic without a search through all of them.

    Args:
        samples: in any order; sorted ones by `workbench.samples.SERIES_ORDER` have one run for each place.
    """

    def __init__(self, samples: pa.Table) -> None:
        self._samples = samples
        self._runs: dict[tuple[str | None, str | None], list[tuple[int, int]]] = {}
        starts, ends = runs_of(samples, ("group", "topic"))
        names = (samples[name].take(pa.array(starts)).to_pylist() for name in ("group", "topic"))
        for place, begin, end in zip(zip(*names, strict=True), starts.tolist(), ends.tolist(), strict=True):
            self._runs.setdefault(place, []).append((begin, end))

    def about(self, group: str, topic: str) -> pa.Table:
        """The rows of a subscription in their order: its own, its group's, its log's, and those of neither a group nor a topic."""
        places = ((group, topic), (group, None), (None, topic), (None, None))
        runs = sorted(run for place in places for run in self._runs.get(place, ()))
        parts = (self._samples.slice(begin, end - begin) for begin, end in runs)
        return pa.concat_tables([self._samples.slice(0, 0), *parts])
