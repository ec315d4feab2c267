"""Duplicates and the order of keys, in numpy over columns of all selected letters. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from workbench.redrive.planfile import Dedup, Order

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
NONE = -1  # no key, no origin


@dataclass(slots=True)
class Columns:
    """One row per letter, in the order of partition and offset.

    Attributes:
        key: hash of target topic and key; -1 without a key.
        source_time: timestamp of the source record; -1 if it is not known.
        source: number of the source topic; -1 if the partition or offset of the origin is not known.
        content: hash of target, key and value.
        round: how often the record was redriven before.
        handled: 1 for a letter that an earlier plan has handled: it is compared with the others, and not taken.
    """

    partition: Ints
    offset: Ints
    timestamp: Ints
    key: Ints
    source: Ints
    source_partition: Ints
    source_offset: Ints
    source_time: Ints
    content: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    round: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    handled: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.partition)

    def where(self, rows: Mask | Ints) -> Columns:
        """Only some rows."""
        return Columns(*(getattr(self, name)[rows] for name in self.__slots__))


def duplicates(rows: Columns, by: Dedup) -> Mask:
    """Mark the letters of a record that an earlier row is a letter of, too, or one that was handled.

    A place does not name a record: a topic that was deleted and recreated has others at the same offsets, and so has a topic of the
    same name on another cluster. They differ in key, value, timestamp or the number of their redrives; where they do not, nobody could
    tell them apart.
    """
    repeated = np.zeros(len(rows), bool)
    if by is Dedup.NONE or not len(rows):
        return repeated
    known = rows.source != NONE if by is Dedup.ORIGIN else np.ones(len(rows), bool)
    names = (
        (rows.source, rows.source_partition, rows.source_offset, rows.content, rows.round)
        if by is Dedup.ORIGIN
        else (rows.content,)
    )
    at = np.flatnonzero(known)
    keys = [name[at] for name in names]
    if by is Dedup.ORIGIN and len(at):
        keys.append(_known_times(keys, rows.source_time[at]))
    ordered = np.lexsort((at, -rows.handled[at], *keys))  # of equal ones, what was handled first, then the earliest row
    same = np.ones(len(at), bool)
    same[:1] = False
    for values in keys:
        same[1:] &= values[ordered][1:] == values[ordered][:-1]
    repeated[at[ordered[same]]] = True
    return repeated


def _known_times(keys: list[Ints], times: Ints) -> Ints:
    """Timestamps; a letter that says none has that of the earliest letter with the same keys, which it may be the same record as."""
    if not (times == NONE).any():
        return times
    order = np.lexsort(tuple(keys))
    new = np.zeros(len(order), bool)
    new[:1] = True
    for values in keys:
        new[1:] |= values[order][1:] != values[order][:-1]
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(new) - 1
    least = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
    some = times != NONE
    np.minimum.at(least, group[some], times[some])
    return np.where(some, times, least[group])


def out_of_order(rows: Columns, by: Order) -> tuple[Mask, Ints]:
    """Keys whose order is not that of one partition of the dead-letter topic.

    Returns:
        The rows of those keys, and the same rows in the order to produce them.
    """
    at = np.flatnonzero(rows.key != NONE)
    none = np.zeros(len(rows), bool)
    if by is Order.LOG or len(at) < 2:
        return none, np.empty(0, np.int64)
    keyed = rows.where(at)
    # By origin if all letters of the key have one in the same log; otherwise by the time of the letter.
    group = np.unique(keyed.key, return_inverse=True)[1]
    count = int(group.max()) + 1
    one_log = _same(group, count, keyed.source) & _same(group, count, keyed.source_partition)
    one_log &= np.bincount(group, keyed.source == NONE, count) == 0
    by_origin = one_log[group]
    first = np.where(by_origin, keyed.source_offset, keyed.timestamp)
    wanted = np.lexsort((keyed.offset, keyed.partition, first, group))
    g, p, o = group[wanted], keyed.partition[wanted], keyed.offset[wanted]
    within = g[1:] == g[:-1]
    wrong = within & ((p[1:] != p[:-1]) | (o[1:] < o[:-1]))
    # Without origins, one partition's own order counts, whatever its timestamps say.
    unordered = wrong & ~(~by_origin[wanted][1:] & _same(group, count, keyed.partition)[g[1:]])
    special = np.zeros(count, bool)
    special[g[1:][unordered]] = True
    found = none
    found[at] = special[group]
    return found, at[wanted[special[g]]]


def _same(group: Ints, count: int, values: Ints) -> Mask:
    """Whether all values of a group are equal."""
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    same: Mask = low == high
    return same
