"""Where the samples of each subscription are in a table: a fleet's report asks for hundreds of them, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from workbench.equal_row_runs import runs_of

Place = tuple[str | None, str | None]  # group, none of logs and brokers; topic, none of what is a group's as a whole


def places_of(group: str, topic: str | None) -> tuple[Place, ...]:
    """A subscription's own rows, those of its group, and those of its log."""
    return ((group, topic), (group, None), (None, topic)) if topic is not None else ((group, None),)


class SamplesBySubscription:
    """Finds rows by group and topic without a search through all of them.

    Args:
        samples: in any order; sorted ones by `workbench.samples.SERIES_ORDER` have one run for each place.
    """

    def __init__(self, samples: pa.Table) -> None:
        self._samples = samples
        self._runs: dict[Place, list[tuple[int, int]]] = {}
        starts, ends = runs_of(samples, ("group", "topic"))
        names = (samples[name].take(pa.array(starts)).to_pylist() for name in ("group", "topic"))
        for place, begin, end in zip(zip(*names, strict=True), starts.tolist(), ends.tolist(), strict=True):
            self._runs.setdefault(place, []).append((begin, end))

    def by_groups(self, *, rows: int) -> Iterator[pa.Table]:
        """All samples of some groups with those of the logs that they read, part by part: so many rows, or those of one group."""
        topics: dict[str, list[str | None]] = {}
        for group, topic in self._runs:
            if group is not None:
                topics.setdefault(group, []).append(topic)
        held, size = set[Place](), 0
        for group, its in sorted(topics.items()):
            places = {place for topic in its for place in places_of(group, topic)}
            more = self._rows_of(places - held)
            if held and size + more > rows:
                yield self.at(held)
                held, size, more = set(), 0, self._rows_of(places)
            held |= places
            size += more
        if held:
            yield self.at(held)

    def about(self, group: str, topic: str) -> pa.Table:
        """The rows of a subscription, and those of neither a group nor a topic."""
        return self.at([*places_of(group, topic), (None, None)])

    def _rows_of(self, places: Iterable[Place]) -> int:
        return sum(end - begin for place in places for begin, end in self._runs.get(place, ()))

    def at(self, places: Iterable[Place]) -> pa.Table:
        """The rows of these different places, in the order of the table."""
        runs = sorted(run for place in places for run in self._runs.get(place, ()))
        parts = (self._samples.slice(begin, end - begin) for begin, end in runs)
        return pa.concat_tables([self._samples.slice(0, 0), *parts])
