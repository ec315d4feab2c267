"""Which groups wait because of a broker: late since a moment, more than before, and not by a burst of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

import numpy as np
import numpy.typing as npt

from workbench.features.broker_features import FloatArray, Neighbourhood
from workbench.judgement_numbers import COMMIT_SECONDS, FAR, FEW_SAMPLES, LESS, MORE, RECENT, TENTH
from workbench.thresholds import Thresholds
from workbench.triage.broker_strains import mean_of
from workbench.triage.who_holds_up_whom import Victim

_FEW = int(FEW_SAMPLES)


@dataclass(frozen=True, slots=True)
class Span:
    """From where to where on the grid somebody moves more than before; `ends` if it no longer does."""

    begin: int
    end: int
    ends: bool


class HeldUp:
    """Which groups are held up on which brokers, in a span against the time before it."""

    def __init__(self, all_of: Neighbourhood, limits: Thresholds) -> None:
        self._all, self._limits = all_of, limits
        self.keys = sorted(all_of.groups)
        groups, shape = [all_of.groups[key] for key in self.keys], (len(self.keys), len(all_of.times))
        self._reads = np.array([it.reads for it in groups]).reshape(shape)
        self._arrivals = np.array([it.arrivals for it in groups]).reshape(shape)
        # What a group is to read again waits for no broker.
        self._lag = np.array([it.lag if it.grown is None else it.grown for it in groups]).reshape(shape)
        self._mask = cache(self._held)

    @property
    def is_known(self) -> bool:
        """Whether the lag of any group is known in the last third of the window."""
        recent = max(1, int((len(self._all.times) - self._all.first) * RECENT))
        return not np.isnan(self._lag[:, -recent:]).all()

    def at(self, span: Span) -> list[tuple[str, int]]:
        """(group, broker) that is held up."""
        return [key for key, is_held in zip(self.keys, self._mask(span), strict=True) if is_held]

    def victims(
        self, without: str | None, brokers: Sequence[int], elsewhere: Sequence[int], span: Span
    ) -> tuple[tuple[Victim, ...], int]:
        """Groups that are held up on these brokers and not elsewhere, and how many groups read from these at all."""
        mask = self._mask(span)
        growth = self._growth(span.begin, span.end) / self._need(span.begin, span.end)
        before, now = self._behind(0, span.begin), self._late(span)
        tolerance = 2 + int(np.ceil(COMMIT_SECONDS / self._all.step))
        found, served = [], 0
        for group, every in groupby(enumerate(self.keys), key=lambda it: it[1][0]):
            mine = [(row, broker) for row, (_, broker) in every]
            here = [row for row, broker in mine if broker in brokers]
            there = [row for row, broker in mine if broker in elsewhere]
            if group == without or not here:
                continue
            served += 1
            held = [row for row in here if mask[row] and self._since(row, span) >= span.begin - tolerance]
            if not held or any(mask[row] for row in there):
                continue
            worst = max(held, key=lambda row: float(now[row]))
            found.append(
                Victim(
                    group=group,
                    brokers=tuple(self.keys[row][1] for row in held),
                    since=float(self._all.times[min(self._since(row, span) for row in held)]),
                    behind_seconds_before=float(np.nan_to_num(before[worst])),
                    behind_seconds=float(now[worst]),
                    lag_growth_of_arrivals=float(np.nan_to_num(growth[worst])),
                    lag_growth_elsewhere=max(growth[there][~np.isnan(growth[there])].tolist(), default=None),
                )
            )
        return tuple(sorted(found, key=lambda it: -it.behind_seconds)), served

    def elsewhere(self, brokers: Sequence[int], span: Span) -> tuple[int, int]:
        """Groups that read from these brokers, and how many of them are held up there."""
        on: dict[str, bool] = {}
        for (group, broker), is_held in zip(self.keys, self._mask(span), strict=True):
            if broker in brokers:
                on[group] = on.get(group, False) or bool(is_held)
        return len(on), sum(on.values())

    def _held(self, span: Span) -> npt.NDArray[np.bool_]:
        """Whether each group waits on a broker: late, and growing or far later than before; and not by a burst of its own."""
        limits = self._limits
        need, usual = self._need(span.begin, span.end), self._need(0, span.begin)
        growth, grew = self._growth(span.begin, span.end) / need, self._growth(0, span.begin) / usual
        late, was = self._late(span), self._behind(0, span.begin)
        floor = limits.growth_floor_ratio * limits.time_lag_objective_seconds
        reads, read = _means(self._reads[:, span.begin : span.end]), _means(self._reads[:, : span.begin])
        with np.errstate(invalid="ignore"):
            falls = (growth > limits.growth_ratio) & ~(grew > limits.growth_ratio)
            own = (need > MORE * usual) & (reads >= LESS * read)
            return (late > floor) & (falls | (late > FAR * was)) & ~own

    def _need(self, begin: int, end: int) -> FloatArray:
        found = _means(self._arrivals[:, begin:end])
        return np.where(found > 0, found, np.nan)

    def _growth(self, begin: int, end: int) -> FloatArray:
        """Messages/s by which the lag grows: from the first third of a span to the last."""
        third = max(1, int((end - begin) * RECENT))
        if end - begin < _FEW:
            return np.full(len(self.keys), np.nan)
        early, late = self._lag[:, begin : begin + third], self._lag[:, end - third : end]
        return (_means(late) - _means(early)) / ((end - begin - third) * self._all.step)

    def _behind(self, begin: int, end: int) -> FloatArray:
        """What waits on average, in seconds of what arrives."""
        return _means(self._lag[:, begin:end]) / self._need(begin, end)

    def _late(self, span: Span) -> FloatArray:
        third = max(1, int((span.end - span.begin) * RECENT))
        return _means(self._lag[:, span.end - third : span.end]) / self._need(span.begin, span.end)

    def _since(self, row: int, span: Span) -> int:
        """When a lag left what it was before: its last point within a tenth of its rise."""
        line = self._lag[row, : span.end]
        low, high = mean_of(line[: span.begin]) or 0.0, float(np.nanmax(line[span.begin :]))
        with np.errstate(invalid="ignore"):
            below = np.flatnonzero(line <= low + TENTH * (high - low))
        return int(min(below[-1] + 1, span.end - 1)) if len(below) else 0


def _means(lines: FloatArray) -> FloatArray:
    """Mean of each row without NaN; NaN for a row of nothing else."""
    known = ~np.isnan(lines)
    count = known.sum(axis=1)
    return np.where(count > 0, np.where(known, lines, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)
