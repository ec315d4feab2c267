"""Answers of several Prometheus as one: series that only one of them has, and series that two scrape of one target.

Two series with the same labels are one series: of a pair that both scrape the same targets, each at its own moments. Interleaved, their
samples would double rates of events and show resets where a clock is late. So one of them is used as long as it has samples, and the
others fill its gaps, as `collect.duplicate_series` does with copies that their labels tell apart. (Thanos does about the same: it stays
with one replica until that one has a gap, and then with the other.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workbench.collect.matrix_parser import EMPTY, Matrix
from workbench.collect.source_agreement import Measured, in_gaps, reaches, surely_whole

_MOST_RATIO = 0.9  # of the samples of the one that has most: so many, and a series is read from the usual address


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedAnswers:
    """Series with different labels each.

    Attributes:
        matrix: of all answers.
        shared: indices of the answers that have series in common.
    """

    matrix: Matrix
    shared: frozenset[int] = frozenset()


def joined(answers: Sequence[Matrix], *, rises: Callable[[Mapping[str, str]], bool]) -> JoinedAnswers:
    """Join the answers of several servers to one query.

    Args:
        answers: one of each server.
        rises: whether the values of a series with these labels only grow, until they begin anew.
    """
    whole = _with_samples(_concatenated(answers))
    answer_of = np.repeat(np.arange(len(answers)), [int((it.lengths > 0).sum()) for it in answers]).tolist()
    together: dict[frozenset[tuple[str, str]], int] = {}
    copies: dict[int, list[int]] = {}
    for at, labels in enumerate(whole.labels):
        first = together.setdefault(frozenset(labels.items()), at)
        if first != at:
            copies.setdefault(first, [first]).append(at)
    if not copies:
        return JoinedAnswers(matrix=whole)
    matrix = _Copies(whole, answer_of, list(copies.values())).settled(rises)
    return JoinedAnswers(matrix=matrix, shared=frozenset(answer_of[at] for ats in copies.values() for at in ats))


def _concatenated(answers: Sequence[Matrix]) -> Matrix:
    if not answers:
        return EMPTY
    return Matrix(
        [labels for it in answers for labels in it.labels],
        np.concatenate([it.lengths for it in answers]),
        np.concatenate([it.ts_us for it in answers]),
        np.concatenate([it.values for it in answers]),
    )


def _with_samples(whole: Matrix) -> Matrix:
    there = whole.lengths > 0
    if there.all():
        return whole
    labels = [labels for labels, is_there in zip(whole.labels, there.tolist(), strict=True) if is_there]
    return Matrix(labels, whole.lengths[there], whole.ts_us, whole.values)


class _Copies:
    """Series that several answers have."""

    def __init__(self, whole: Matrix, answer_of: Sequence[int], copies: Sequence[Sequence[int]]) -> None:
        self.whole = whole
        self.answer_of = answer_of
        self.copies = copies
        # As lists: numpy's numbers are slow one by one, and a fleet has a million series.
        ends = np.cumsum(whole.lengths)
        self.starts: list[int] = (ends - whole.lengths).tolist()
        self.lengths: list[int] = whole.lengths.tolist()
        self.firsts: list[int] = whole.ts_us[ends - whole.lengths].tolist()
        self.lasts: list[int] = whole.ts_us[ends - 1].tolist()
        self.gapless = surely_whole(whole.ts_us, whole.values, whole.lengths)

    def settled(self, rises: Callable[[Mapping[str, str]], bool]) -> Matrix:
        """Each series once."""
        rank = self._ranked()
        instead: dict[int, Measured] = {}  # by the place of a series
        dropped: set[int] = set()
        for ats in self.copies:
            used, *others = self._ordered(ats, rank)
            dropped.update(others)
            if not self._covers(used, others):
                instead[used] = self._filled(used, others, rises=rises(self.whole.labels[used]))
        return self._without(dropped, instead)

    def _ranked(self) -> dict[int, int]:
        """Order of the answers, by their samples of what they share."""
        samples: dict[int, int] = defaultdict(int)
        for ats in self.copies:
            for at in ats:
                samples[self.answer_of[at]] += self.lengths[at]
        order = sorted(samples, key=lambda answer: (-samples[answer], answer))
        return {answer: place for place, answer in enumerate(order)}

    def _ordered(self, ats: Sequence[int], rank: Mapping[int, int]) -> list[int]:
        """The usual address first, if it has about as many samples of this series as another one."""
        enough = _MOST_RATIO * max(self.lengths[at] for at in ats)
        return sorted(ats, key=lambda at: (self.lengths[at] < enough, rank[self.answer_of[at]], at))

    def _covers(self, used: int, others: Sequence[int]) -> bool:
        """Whether a series surely has no gap that another one could fill."""
        begin, end = min(self.firsts[at] for at in others), max(self.lasts[at] for at in others)
        return self.gapless[used] and reaches(
            self.firsts[used], self.lasts[used], self.lengths[used], begin=begin, end=end
        )

    def _filled(self, used: int, others: Sequence[int], *, rises: bool) -> Measured:
        times, values = self._samples(used)
        for at in others:
            more_times, more_values = self._samples(at)
            taken = in_gaps(times, more_times)
            if rises:
                taken &= ~_out_of_order((times, values), (more_times, more_values))
            if taken.any():
                order = np.argsort(both := np.concatenate([times, more_times[taken]]), kind="stable")
                times, values = both[order], np.concatenate([values, more_values[taken]])[order]
        return times, values

    def _samples(self, at: int) -> Measured:
        span = slice(self.starts[at], self.starts[at] + self.lengths[at])
        return self.whole.ts_us[span], self.whole.values[span]

    def _without(self, dropped: set[int], instead: Mapping[int, Measured]) -> Matrix:
        whole = self.whole
        gone = np.zeros(len(whole), bool)
        gone[[*dropped, *instead]] = True
        left = whole.where(~np.repeat(gone, whole.lengths))
        kept = _with_samples(left)
        made = [
            Matrix([whole.labels[at]], np.array([len(times)]), times, values) for at, (times, values) in instead.items()
        ]
        return _concatenated([kept, *made])


def _out_of_order(used: Measured, other: Measured) -> npt.NDArray[np.bool_]:
    """Samples of another copy that fall, or let the next one fall, although that copy has not begun anew: its clock is wrong."""
    (times, values), (more_times, more_values) = used, other
    begun = np.cumsum(np.diff(more_values, prepend=more_values[:1]) < 0)
    last, end = len(times) - 1, len(more_times)
    after = np.searchsorted(times, more_times, side="right")
    at = np.maximum(after - 1, 0)
    own = np.searchsorted(more_times, times[at], side="right") - 1  # its own sample by then
    falls = (after > 0) & (own >= 0) & (more_values < values[at]) & (begun[own] == begun)
    at = np.minimum(after, last)
    own = np.searchsorted(more_times, times[at], side="left")  # its own sample from then on
    makes_fall = (after <= last) & (own < end) & (more_values > values[at]) & (begun[np.minimum(own, end - 1)] == begun)
    wrong: npt.NDArray[np.bool_] = falls | makes_fall
    return wrong
