"""Counters of which a source has several series: labels of the metric itself, such as an error's type, tell their parts apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from workbench.collect.measurer_labels import CLUSTER_LABELS, PLACE_LABELS, REPLICA_LABELS, Found, Source, varying
from workbench.collect.source_agreement import ONE_SCRAPE_RATIO, measured, summed
from workbench.samples import SeriesTable, concat_series
from workbench.signals import SIGNALS, Kind


class CounterParts:
    """Counters of one process, told apart by labels of the metric.

    Args:
        series: of one profile.
        declared: labels that the settings declare to tell copies apart.
        passing: labels that change with what is described.
    """

    def __init__(self, series: SeriesTable, declared: frozenset[str], passing: frozenset[str]) -> None:
        self._series = series
        self._starts = series.starts
        self._sources = REPLICA_LABELS | CLUSTER_LABELS | PLACE_LABELS | declared
        self._passing = passing
        self._known: dict[tuple[Source, ...], frozenset[str]] = {}

    def added_up(self, clashes: Found) -> tuple[SeriesTable, Found]:
        """The series with one for all parts of a source, and the keys that still have several sources."""
        made: list[SeriesTable] = []
        gone: list[int] = []
        found: dict[int, dict[Source, list[int]]] = {}
        for code, units in clashes.items():
            found[code] = {}
            for source, parts in self._by_source(units).items():
                found[code][source] = parts[0]
                if len(parts) > 1:
                    found[code][source] = [len(self._series) + len(made)]
                    made.append(self._sum(parts))
                    gone += [at for ats in parts for at in ats]
        left = {code: units for code, units in found.items() if len(units) > 1}
        if not made:
            return self._series, left
        kept = np.ones(len(self._series) + len(made), bool)
        kept[gone] = False
        place = (np.cumsum(kept) - 1).tolist()
        moved = {
            code: {source: [place[at] for at in ats] for source, ats in units.items()} for code, units in left.items()
        }
        return concat_series([self._series, *made]).where(pa.array(kept)), moved

    def _by_source(self, units: Mapping[Source, list[int]]) -> Mapping[Source, list[list[int]]]:
        """The parts of each source; where none are told apart, each has one."""
        differ = varying(units, self._known)
        parts = differ - self._sources
        if not parts or differ & self._passing or self._is_gauge(units):
            return {extra: [ats] for extra, ats in units.items()}
        found: dict[Source, list[list[int]]] = defaultdict(list)
        for extra, ats in units.items():
            found[tuple(pair for pair in extra if pair[0] not in parts)].append(ats)
        return found

    def _is_gauge(self, units: Mapping[Source, list[int]]) -> bool:
        first = next(iter(units.values()))[0]
        return SIGNALS[self._series.names["signal"][first].as_py()].kind is Kind.GAUGE

    def _sum(self, parts: Sequence[Sequence[int]]) -> SeriesTable:
        """Of each scrape, those that are in it.

        A process that has begun anew makes a part at its first event. With the part's old value until then, the sum would fall when it
        comes back, as if the others had begun anew, too.
        """
        times, total = summed([measured(self._series, self._starts, ats) for ats in parts], intervals=ONE_SCRAPE_RATIO)
        first = self._series.names.slice(parts[0][0], 1)
        return SeriesTable(first, np.array([len(times)]), times, total, np.full(len(times), -1, np.int8))
