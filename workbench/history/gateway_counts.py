"""What processes before Kafka tell of themselves: what each has counted between two scrapes, and what it keeps on its disk.

A counter that its process makes at its first event begins at 0. When one falls, the whole process has begun anew: what it counted since
the scrape before, nobody saw, as where scrapes are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.history.partition_series import FloatArray, Track, step_of, tracks_of
from workbench.judgement_numbers import MISSED
from workbench.samples import SERIES_ORDER
from workbench.signals_before_kafka import OF_GATEWAYS
from workbench.window import Window

Destination = str | None
Count = tuple[Destination, str]  # destination (None: it has no name), and outcome or code
_EMPTY: FloatArray = np.empty(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters of one signal of a process.

    Attributes:
        at: times of scrapes, (n,), in seconds before the window's end.
        counted: by destination and outcome, what was counted up to each scrape since the one before, (n,); the first is 0.
        is_gap: whether scrapes are missing or the process has begun anew before each one, (n,): nothing is counted there.
    """

    at: FloatArray = field(default_factory=lambda: _EMPTY)
    counted: Mapping[Count, FloatArray] = field(default_factory=dict)
    is_gap: np.ndarray = field(default_factory=lambda: np.empty(0, bool))

    def total(self, wanted: Sequence[Count]) -> FloatArray | None:
        """The sum of those that there are; None: there is none."""
        there = [self.counted[it] for it in wanted if it in self.counted]
        return np.sum(there, axis=0) if there else None

    def blocks(self, total: FloatArray, *, seconds: float, least: int) -> Iterator[tuple[int, int]]:
        """Neighbouring pieces of time, as places of scrapes (first, last], each so long and with so much of `total`, or longer."""
        first, much = 0, 0.0
        slack = step_of(self.at) / 2  # scrapes come a little early or late
        for last in range(1, len(self.at)):
            if self.is_gap[last]:
                first, much = last, 0.0
                continue
            much += float(total[last])
            if much >= least and self.at[last] - self.at[first] >= seconds - slack:
                yield first, last
                first, much = last, 0.0


@dataclass(slots=True)
class Process:
    """One process before Kafka; series of the other signals by destination and stat."""

    sends: Counters = field(default_factory=Counters)
    answers: Counters = field(default_factory=Counters)
    gauges: dict[str, dict[Count, Track]] = field(default_factory=dict)

    @property
    def last_at(self) -> float:
        """Its last sample, in seconds before the window's end."""
        lines = [line.at for of in self.gauges.values() for line in of.values()]
        return max(float(at[-1]) for at in (*lines, self.sends.at, self.answers.at) if len(at))

    def attempts(self, destination: Destination) -> FloatArray | None:
        """Sends that ended, up to each scrape; None: not told."""
        whole = self.sends.total([(destination, "total")])
        return self.sends.total([(destination, "ok"), (destination, "failed")]) if whole is None else whole


def processes(samples: pa.Table, window: Window) -> dict[str, Process]:
    """Read each process, by name; samples (`SAMPLES_SCHEMA`) of the baseline show what was before."""
    wanted = pa.array([name for name, *_ in OF_GATEWAYS])
    known = samples.filter(
        pc.and_(pc.is_in(samples["signal"], wanted), pc.and_(pc.is_valid(samples["value"]), pc.is_valid(samples["member"])))
    )  # fmt: skip
    known = known.sort_by([(it, "ascending") for it in (*SERIES_ORDER, "ts")])
    found: dict[str, Process] = {}
    counters: dict[tuple[str, str], dict[Count, Track]] = {}
    for label, line in tracks_of(known, SERIES_ORDER, window):
        process = found.setdefault(label["member"], Process())
        count = (label["queue"], label["stat"])
        if label["signal"] in ("gateway_sends", "gateway_answers"):
            counters.setdefault((label["member"], label["signal"]), {})[count] = line.once()
        else:
            process.gauges.setdefault(label["signal"], {})[count] = line.once()
    for (member, signal), of in counters.items():
        setattr(found[member], signal.removeprefix("gateway_"), _counters(of))
    return dict(sorted(found.items()))


def _counters(series: Mapping[Count, Track]) -> Counters:
    at = np.unique(np.concatenate([it.at for it in series.values()]))
    steps, missed = np.diff(at, prepend=at[0]), MISSED * step_of(at)
    values = np.full((len(series), len(at)), np.nan)
    for row, line in enumerate(series.values()):
        values[row, np.searchsorted(at, line.at)] = line.value
    before = values[:, 0]
    began_later = np.array([line.at[0] - at[0] > missed for line in series.values()])
    before[began_later] = 0.0  # it was there to be scraped, and had counted nothing yet
    counted, is_gap = np.zeros_like(values), steps > missed
    for now in range(1, len(at)):
        here = values[:, now]
        if (here < before).any():
            before, is_gap[now] = np.zeros(len(before)), True
        elif not is_gap[now]:
            counted[:, now] = np.nan_to_num(here - before)
        before = np.where(np.isnan(here), before, here)
    return Counters(at=at, counted=dict(zip(series, counted, strict=True)), is_gap=is_gap)
