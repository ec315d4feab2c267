"""What a task has taken in of a partition and not told an audit yet, in columns of numbers."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from workbench.layers.meter import Meter, MeterColumns
from workbench.layers.record_marks import MarkColumns, marks_in
from workbench.layers.rows import Point
from workbench.runtime.event import Record

# One of so many offsets (a power of 2) is measured until its end: percentiles need no more.
MEASURED = 16
_headers = itemgetter(Record._fields.index("headers"))


def _numbers(values: Iterable[int] = ()) -> array[int]:
    return array("q", values)


@dataclass(slots=True)
class _Taken:
    """What was taken in and is not told yet, in the order of the log: columns of 64-bit numbers, which no loop of ours fills.

    Attributes:
        marked: (first place, marks) of the runs in which records have some.
        taken_ms: (first place, time) of each run.
        ended: offsets that were finished, in any order.
        ended_ms: (first place in `ended`, time) of those finished together.
    """

    offsets: array[int] = field(default_factory=_numbers)
    stamps_ms: array[int] = field(default_factory=_numbers)
    sizes: array[int] = field(default_factory=_numbers)
    marked: list[tuple[int, MarkColumns]] = field(default_factory=list)
    taken_ms: list[tuple[int, int]] = field(default_factory=list)
    ended: array[int] = field(default_factory=_numbers)
    ended_ms: list[tuple[int, int]] = field(default_factory=list)

    def add(
        self, run: Sequence[Record], offsets: Sequence[int], stamps_ms: Sequence[int], sizes: Sequence[int], now_ms: int
    ) -> None:
        """Records that were read together."""
        place = len(self.offsets)
        self.taken_ms.append((place, now_ms))
        if (marks := marks_in(list(map(_headers, run)))) is not None:
            self.marked.append((place, marks))
        # By arrays: one that is extended by a list takes twice the time.
        self.offsets.extend(_numbers(offsets))
        self.stamps_ms.extend(_numbers(stamps_ms))
        self.sizes.extend(_numbers(sizes))

    def end(self, offsets: Sequence[int], now_ms: int) -> None:
        """Records are finished."""
        self.ended_ms.append((len(self.ended), now_ms))
        self.ended.extend(_numbers(offsets))

    def gathered(self) -> _Gathered:
        """The same, for numpy."""
        offsets, stamps, sizes = (np.array(it, dtype=np.int64) for it in (self.offsets, self.stamps_ms, self.sizes))
        number = len(offsets)
        hashes, named, updated = np.zeros(number, np.int64), np.zeros(number, bool), np.full(number, -1)
        for place, marks in self.marked:
            mine = slice(place, place + len(marks.hashes))
            hashes[mine], named[mine], updated[mine] = marks.hashes, marks.named, marks.updated_ms
            stamps[mine] = np.where(marks.created_ms >= 0, marks.created_ms, stamps[mine])
        return _Gathered(
            offsets=offsets, created_ms=np.maximum(stamps, 0), sizes=sizes, hashes=hashes, named=named, updated_ms=updated,
            taken_ms=_spread(self.taken_ms, number), ended_ms=self._ended_of(offsets),
        )  # fmt: skip

    def _ended_of(self, offsets: np.ndarray) -> np.ndarray:
        """When those that are measured were finished; -1: not known."""
        ended, times = self._measured()
        found = np.full(len(offsets), -1)
        places = np.searchsorted(offsets, ended)
        known = offsets[np.minimum(places, len(offsets) - 1)] == ended
        found[places[known]] = times[known]
        return found

    def _measured(self) -> tuple[np.ndarray, np.ndarray]:
        """Offsets that were finished and are measured, and when."""
        ended = np.array(self.ended, dtype=np.int64)
        chosen = ended & (MEASURED - 1) == 0
        return ended[chosen], _spread(self.ended_ms, len(ended))[chosen]

    def forget(self, stop: int) -> None:
        """What lies below an offset was told."""
        ended, times = self._measured()
        later = ended >= stop
        self.ended, self.ended_ms = _numbers(ended[later].tolist()), list(enumerate(times[later].tolist()))
        gone = bisect_left(self.offsets, stop)
        for column in (self.offsets, self.stamps_ms, self.sizes):
            del column[:gone]
        batch = max(0, bisect_right(self.taken_ms, gone, key=itemgetter(0)) - 1)
        self.taken_ms = [(max(0, place - gone), now) for place, now in self.taken_ms[batch:]] if self.offsets else []
        kept = ((place - gone, marks) for place, marks in self.marked if place + len(marks.hashes) > gone)
        self.marked = [(max(0, place), _behind(marks, -place) if place < 0 else marks) for place, marks in kept]


def _spread(pieces: Sequence[tuple[int, int]], number: int) -> np.ndarray:
    """A number for each of so many places, from (first place, number) of each piece."""
    if not pieces:
        return np.zeros(0, np.int64)
    places, numbers = (np.array(it, dtype=np.int64) for it in zip(*pieces, strict=True))
    return np.repeat(numbers, np.diff(np.append(places, number)))


def _behind(marks: MarkColumns, number: int) -> MarkColumns:
    return MarkColumns(*(it[number:] for it in marks))


class _Gathered(NamedTuple):
    """What is not told yet, a column each, in the order of the offsets; updated_ms and ended_ms -1: not known, or not measured."""

    offsets: np.ndarray
    created_ms: np.ndarray
    sizes: np.ndarray
    hashes: np.ndarray
    named: np.ndarray
    updated_ms: np.ndarray
    taken_ms: np.ndarray
    ended_ms: np.ndarray


@dataclass(slots=True)
class TaskMeter(Meter):
    """A meter whose records come in runs, and whose fate is known by offset.

    Attributes:
        others: what became of an offset if it was not handled with success; processor threads write it before the offset is finished.
    """

    others: dict[int, tuple[Point, str]] = field(default_factory=dict)
    _taken: _Taken = field(default_factory=_Taken)
    _all: _Gathered | None = None  # of what was taken

    @property
    def untold(self) -> int:
        """Number of records that are in no row yet."""
        return len(self._taken.offsets)

    def took(
        self, run: Sequence[Record], offsets: Sequence[int], stamps_ms: Sequence[int], sizes: Sequence[int], now_ms: int
    ) -> None:
        """Records of this partition were taken in together; sizes are bytes of their bodies."""
        self._taken.add(run, offsets, stamps_ms, sizes, now_ms)
        self._all = None

    def ended(self, offsets: Sequence[int], now_ms: int) -> None:
        """Records are finished, whatever became of them."""
        self._taken.end(offsets, now_ms)
        self._all = None

    def columns(self, point: Point, start: int, stop: int) -> MeterColumns | None:
        """See `Meter`."""
        if not self._taken.offsets:
            return None
        if self._all is None:
            self._all = self._taken.gathered()
        every = self._all
        others = [
            offset
            for offset, (of, _) in (list(self.others.items()) if point != "in" else ())
            if start <= offset < stop and (point == "out" or of == point)
        ]
        if not others and point not in ("in", "out"):
            return None
        first, last = np.searchsorted(every.offsets, (start, stop)).tolist()
        mine = _Gathered(*(it[first:last] for it in every))
        if others:
            chosen = np.isin(mine.offsets, others, invert=point == "out")
            mine = _Gathered(*(it[chosen] for it in mine))
        if not len(mine.offsets):
            return None
        errors: Counter[str] = Counter()
        if point in ("rejected", "dead"):
            errors.update(self.others[offset][1] for offset in mine.offsets.tolist())
        created, updated, now = mine.created_ms, mine.updated_ms, mine.taken_ms
        if point != "in":
            known = mine.ended_ms >= 0
            now, created, updated = mine.ended_ms[known], created[known], updated[known]
        return MeterColumns(
            created_ms=mine.created_ms, sizes=mine.sizes, hashes=mine.hashes, named=mine.named, since_created_ms=now - created,
            since_updated_ms=(now - updated)[updated >= 0], errors=errors,
        )  # fmt: skip

    def forget(self, stop: int) -> None:
        """See `Meter`."""
        self._taken.forget(stop)
        self._all = None
        for offset in [it for it in list(self.others) if it < stop]:
            del self.others[offset]
        self.start = stop
