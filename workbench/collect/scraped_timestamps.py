"""Times that a metrics page gives its series: a value is as old as the page says, not as the answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client.samples import Sample

from workbench.humanize import duration

# A page that joins others (`/federate`) dates its series, and a cloud's metrics come minutes late. What is older is no measurement of
# now, and a clock that is wrong by more dates nothing.
_OLDEST_SECONDS = 3600.0
_AHEAD_SECONDS = 60.0


@dataclass(slots=True)
class OwnTimes:
    """Remembers what each series told at last, for pages that are read again and again: the same value at the same time is no new one.

    Attributes:
        refused: what could not be dated, a sentence for each page.
        late_seconds: of each page of this round, how old its newest value was when it was read.
    """

    refused: dict[str, None] = field(default_factory=dict)
    late_seconds: dict[str, float] = field(default_factory=dict)
    _last: dict[int, float] = field(default_factory=dict)  # by hashes: the names of 100,000 series would take 200 MB

    def next_round(self, began_at: float) -> None:
        """Before the pages are read anew: forget what was refused, and series that are gone; what these could repeat is refused."""
        self.refused.clear()
        self.late_seconds.clear()
        self._last = {series: told for series, told in self._last.items() if told >= began_at - _OLDEST_SECONDS}

    def of(self, sample: Sample, page: str, taken_at: float, *, is_open_metrics: bool = False) -> float | None:
        """Time of a value in seconds since the epoch: when its page was taken, or before, if it says so; None if it counts for nothing.

        The parser takes times for milliseconds; in OpenMetrics they are seconds.
        """
        if sample.timestamp is None:
            self.late_seconds[page] = 0.0
            return taken_at
        told = float(sample.timestamp) * (1000 if is_open_metrics else 1)
        if not taken_at - _OLDEST_SECONDS <= told <= taken_at + _AHEAD_SECONDS:
            self.refused[f"{page}: series are dated more than an hour ago, or ahead, and are left out"] = None
            return None
        found = min(told, taken_at)
        self.late_seconds[page] = min(self.late_seconds.get(page, taken_at), taken_at - found)
        series = hash((page, sample.name, frozenset(sample.labels.items())))
        if told <= self._last.get(series, 0.0):
            return None
        self._last[series] = told
        return found

    def too_late(self, window_seconds: float) -> list[str]:
        """Pages whose values are all from before a window that ends now, a sentence each."""
        return [
            f"{page}: its series come {duration(late)} late, and the window is {duration(window_seconds)} long: record for longer"
            for page, late in self.late_seconds.items()
            if late > window_seconds
        ]
