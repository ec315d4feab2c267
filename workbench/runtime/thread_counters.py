"""Histograms and counters that one thread writes without a lock, and that a scrape sums up.

The metrics of prometheus_client lock for every number, six times per event; that takes as long as the rest of an event.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from workbench.signals import ProcessingOutcome


class Tally:
    """Histogram with one writing thread; any thread may read it (and may miss a concurrent update)."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last one is for values above all bounds
        self.total = 0.0

    def observe(self, values: Sequence[float]) -> None:
        """Count values, at least one."""
        lowest = bisect_left(self._bounds, min(values))
        if lowest == bisect_left(self._bounds, max(values)):  # the usual case
            self.counts[lowest] += len(values)
        else:
            for value in values:
                self.counts[bisect_left(self._bounds, value)] += 1
        self.total += sum(values)

    def add(self, other: Tally) -> None:
        """Add the counts of another one."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, as the exposition format requires."""
        found, sum_so_far = [], 0
        for bound, count in zip((*self._bounds, float("inf")), self.counts, strict=True):
            sum_so_far += count
            found.append(("+Inf" if bound == float("inf") else str(float(bound)), float(sum_so_far)))
        return found


class _Attempts:
    """Attempts of one thread at one event type."""

    __slots__ = ("ok", "others", "times")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.times = Tally(bounds)
        self.ok = 0
        self.others: dict[ProcessingOutcome, int] = {}

    def add(self, other: _Attempts) -> None:
        """Add the counts of another one."""
        self.times.add(other.times)
        self.ok += other.ok
        for outcome, count in other.others.items():
            self.others[outcome] = self.others.get(outcome, 0) + count


_Page = dict[tuple[str, str], _Attempts]


class AttemptBook:
    """Attempts by (topic, event type label), per thread; those of ended threads are merged."""

    def __init__(self, bounds: Sequence[float], *, label: Callable[[str], str]) -> None:
        self._bounds = bounds
        self._label = label
        self._local = threading.local()
        self._lock = threading.Lock()
        self._pages: list[tuple[threading.Thread, _Page]] = []
        self._ended: _Page = {}

    def count(self, topic: str, event_type: str, outcome: ProcessingOutcome, seconds: float) -> None:
        """Count one attempt of a processor, with outcome and duration."""
        try:
            page = self._local.page
        except AttributeError:
            page = self._local.page = {}
            with self._lock:
                self._fold()
                self._pages.append((threading.current_thread(), page))
        attempts = page.get((topic, event_type))
        if attempts is None:  # its first one, or a type without a label of its own
            attempts = page.setdefault((topic, self._label(event_type)), _Attempts(self._bounds))
        times = attempts.times  # `observe`, without its call: every event comes here
        times.counts[bisect_left(self._bounds, seconds)] += 1
        times.total += seconds
        if outcome is ProcessingOutcome.OK:
            attempts.ok += 1
        else:
            attempts.others[outcome] = attempts.others.get(outcome, 0) + 1

    def _fold(self) -> None:
        """Merge the pages of ended threads into a new page, because a reader may use the old one."""
        ended: list[_Page] = []
        alive: list[tuple[threading.Thread, _Page]] = []
        for thread, page in self._pages:
            if thread.is_alive():
                alive.append((thread, page))
            else:
                ended.append(page)
        if not ended:
            return
        sums: _Page = {}
        for page in (self._ended, *ended):
            for key, attempts in page.items():
                sums.setdefault(key, _Attempts(self._bounds)).add(attempts)
        self._ended, self._pages = sums, alive

    def totals(self) -> Iterator[tuple[tuple[str, str], Tally, dict[ProcessingOutcome, int]]]:
        """Sum up durations and outcomes by (topic, label), over all threads."""
        times: dict[tuple[str, str], Tally] = {}
        outcomes: dict[tuple[str, str], dict[ProcessingOutcome, int]] = {}
        with self._lock:
            pages = [self._ended, *(page for _, page in self._pages)]
        for page in pages:
            for key, attempts in list(page.items()):
                times.setdefault(key, Tally(self._bounds)).add(attempts.times)
                counts = outcomes.setdefault(key, {})
                if attempts.ok:
                    counts[ProcessingOutcome.OK] = counts.get(ProcessingOutcome.OK, 0) + attempts.ok
                for outcome, count in list(attempts.others.items()):
                    counts[outcome] = counts.get(outcome, 0) + count
        for key, tally in times.items():
            yield key, tally, outcomes[key]
