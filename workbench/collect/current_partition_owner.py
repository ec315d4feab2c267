"""Series of one partition under the names of several owners: exporters that name the client keep showing clients that are gone, and
some clients keep telling partitions that were taken from them.

Only one client owns a partition at a time. The series of a former owner stands where it was left, so the present one is the owner whose
commit has moved last; among commits that have never moved, the one that came last.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.collect.source_agreement import GAP_INTERVALS
from workbench.humanize import listed
from workbench.judgement_numbers import MOST, SEVERAL
from workbench.samples import Flag, FloatArray, IntArray, SeriesTable, codes_of, position_of

# Labels of a metric that name whoever owns a partition.
OWNER_LABELS = frozenset({
    "client_id", "clientid", "consumer_id", "consumerid", "member_id", "memberid", "member_host", "consumer_host", "client_host",
    "consumer_instance_id",
})  # fmt: skip


def owner_at(times: IntArray, commits: Sequence[tuple[IntArray, FloatArray]], *, moves: bool = True) -> IntArray:
    """Which of the owners had the partition at each time, (n,) as positions in `commits`; -1 before any of them was seen.

    Args:
        times: µs since the epoch, in order.
        commits: of each owner, µs and offsets in order of time.
        moves: whether a changed value is one of the owner; without (a lag changes with every arrival) the last that came is taken.
    """
    at: list[IntArray] = []
    who: list[IntArray] = []
    for owner, (seen, value) in enumerate(commits):
        if not len(seen):
            continue
        changed = np.flatnonzero(np.diff(value) != 0) + 1 if moves else np.empty(0, np.int64)
        events = seen[np.concatenate([np.zeros(1, np.int64), changed])]
        at.append(events)
        who.append(np.full(len(events), owner, np.int64))
    if not at:
        return np.full(len(times), -1, np.int64)
    moments, owners = np.concatenate(at), np.concatenate(who)
    order = np.argsort(moments, kind="stable")
    last = np.searchsorted(moments[order], times, side="right") - 1
    return np.where(last >= 0, owners[order][np.maximum(last, 0)], -1)


def latest_begun(series: SeriesTable) -> SeriesTable:
    """One series of several that follow each other: at each time the sample of the one that began last, or came back last."""
    began = np.empty(len(series.ts_us), np.int64)
    for start, length in zip(series.starts, series.lengths, strict=True):
        times = series.ts_us[start : start + length]
        steps = np.diff(times, prepend=times[0])
        usual = float(np.median(steps[1:])) if length > 1 else 0.0
        anew = (steps > GAP_INTERVALS * usual) | (np.arange(length) == 0)
        began[start : start + length] = times[np.maximum.accumulate(np.where(anew, np.arange(length), 0))]
    order = np.lexsort((began, series.ts_us))
    times = series.ts_us[order]
    kept = order[np.append(times[1:] != times[:-1], True)]
    return SeriesTable(
        series.names.slice(0, 1), np.array([len(kept)]), series.ts_us[kept], series.values[kept], series.flags[kept]
    )


# What the member that reads a partition tells of it: of two that do so at once, one has lost it.
_OF_AN_OWNER = ("consumer_lag", "committed_offset", "time_lag", "read_offset")
_PARTITION = ("cluster", "group", "topic", "partition")
_SHOWN = 3


def of_present_owners(series: SeriesTable) -> tuple[SeriesTable, tuple[str, ...]]:
    """Leave out what members tell of partitions that another one reads by now, and say so.

    Of two that both go on, or both stand, nobody knows which one reads it: those values are unusable.

    Args:
        series: with the groups of members, in baseline and window.
    """
    names, starts = series.names, series.starts
    several = _told_by_several(names)
    if not several:
        return series, ()
    kept, flags, values = np.ones(len(series.ts_us), bool), series.flags.copy(), series.values.copy()
    former, disputed = set[str](), set[str]()
    for members in several:
        claims = [_Claim.of(series, starts, ats) for ats in members]
        if not _at_once(claims):
            continue
        label = names.slice(claims[0].series[0], 1).to_pylist()[0]
        who = [str(names["member"][it.series[0]].as_py()) for it in claims]
        is_open = _both_go_on(claims) or _both_stand(claims)
        if is_open:
            disputed.add(f"partition {label['partition']} of topic {label['topic']} ({' and '.join(sorted(who))})")
        for place, claim in enumerate(claims):
            for at in claim.series:
                rows = slice(starts[at], starts[at] + series.lengths[at])
                if is_open:
                    values[rows], flags[rows] = np.nan, position_of(Flag.MIXED)
                    continue
                kept[rows] = _owner(series.ts_us[rows], claims) == place
                if not kept[rows].all():
                    former.add(f"{who[place]} (topic {label['topic']})")
    notes = []
    if former:
        notes.append(f"left out of {listed(sorted(former), most=_SHOWN)}: partitions that another member reads by now")
    if disputed:
        notes.append(f"nothing shows which member reads {listed(sorted(disputed), most=_SHOWN)}: not judged")
    if not notes:
        return series, ()
    lengths = np.add.reduceat(kept, starts, dtype=np.int64)
    left = lengths > 0
    found = SeriesTable(names.filter(pa.array(left)), lengths[left], series.ts_us[kept], values[kept], flags[kept])
    return found, tuple(notes)


def samples_of_present_owners(samples: pa.Table) -> pa.Table:
    """The same for samples that were recorded one by one."""
    told = _by_members(samples)
    series = SeriesTable.of_samples(samples.filter(told)).merged()
    found, notes = of_present_owners(series)
    return pa.concat_tables([samples.filter(pc.invert(told)), found.to_samples()]) if notes else samples


def _by_members(names: pa.Table) -> pa.ChunkedArray:
    return pc.and_(pc.is_in(names["signal"], pa.array(_OF_AN_OWNER)), pc.is_valid(names["member"]))


def _told_by_several(names: pa.Table) -> list[list[list[int]]]:
    """For each partition that several members tell: of each of them, its series."""
    told = np.flatnonzero(_by_members(names).to_numpy(zero_copy_only=False))
    if not len(told):
        return []
    parts = names.take(pa.array(told))
    partition, member = codes_of(parts, _PARTITION), codes_of(parts, (*_PARTITION, "member"))
    _, first = np.unique(member, return_index=True)
    several = np.bincount(partition[first], minlength=len(told)) > 1
    found: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at in np.flatnonzero(several[partition]).tolist():
        found[int(partition[at])][int(member[at])].append(int(told[at]))
    return [list(of.values()) for of in found.values()]


@dataclass(frozen=True, slots=True)
class _Claim:
    """What one member tells of a partition: its series, from when to when, how often, and when any of it changed; times in µs."""

    series: Sequence[int]
    begin: int
    end: int
    step: float
    changes: IntArray
    last: frozenset[float]

    @classmethod
    def of(cls, series: SeriesTable, starts: IntArray, ats: Sequence[int]) -> _Claim:
        spans = [slice(starts[at], starts[at] + series.lengths[at]) for at in ats]
        times, changes = [series.ts_us[it] for it in spans], []
        for it in spans:
            value = series.values[it]
            changes.append(series.ts_us[it][1:][(value[1:] != value[:-1]) & ~np.isnan(value[1:])])
        begin, end = min(int(it[0]) for it in times), max(int(it[-1]) for it in times)
        ends = [float(series.values[it][-1]) for it in spans]
        last = frozenset(it for it in ends if not math.isnan(it))
        step = max(float(np.median(np.diff(it))) if len(it) > 1 else 0.0 for it in times)
        return cls(ats, begin, end, step, np.unique(np.concatenate(changes)), last)

    def came_after(self, claims: Sequence[_Claim]) -> bool:
        """Whether another one was there before: each is asked at a moment of its own."""
        return self.begin > min(it.begin for it in claims) + GAP_INTERVALS * self.step


def _at_once(claims: Sequence[_Claim]) -> bool:
    """Whether one begins before another one ends."""
    in_time = sorted(claims, key=lambda it: it.begin)
    until = np.maximum.accumulate([it.end for it in in_time]).tolist()
    return any(it.begin <= end for it, end in zip(in_time[1:], until[:-1], strict=True))


def _both_go_on(claims: Sequence[_Claim]) -> bool:
    """Whether they change by turns: who takes a partition over changes alone from then on, and so does who gets it back."""
    who = np.repeat(np.arange(len(claims)), [len(it.changes) for it in claims])
    in_time = who[np.argsort(np.concatenate([it.changes for it in claims]), kind="stable")]
    turns, second = int(np.count_nonzero(np.diff(in_time))), sorted(len(it.changes) for it in claims)[-2]
    return turns > 2 * SEVERAL and turns > MOST * second


def _both_stand(claims: Sequence[_Claim]) -> bool:
    """Whether nothing has changed and nobody came, and they do not tell the same."""
    is_still = not any(len(it.changes) or it.came_after(claims) for it in claims)
    return is_still and len({it.last for it in claims if it.last}) > 1


def _owner(times: IntArray, claims: Sequence[_Claim]) -> IntArray:
    """Who has the partition at each time, as positions in `claims`: of those that tell it still, who changed last, or came since.

    Before any change it is who changes first.
    """
    seen = np.full((len(claims), len(times)), -np.inf)
    for place, it in enumerate(claims):
        came = it.came_after(claims)
        at = np.append(it.begin, it.changes) if came else it.changes
        if not len(at):
            continue
        # What it was left with may be told of the former one a scrape or two after the new one came.
        late = np.append(it.begin + GAP_INTERVALS * it.step, it.changes) if came else it.changes
        last = np.searchsorted(at, times, side="right") - 1
        # Before the first event, the sooner it comes, the better.
        seen[place] = np.where(last >= 0, np.maximum.accumulate(late)[np.maximum(last, 0)], -float(at[0]))
        seen[place][(times < it.begin) | (times > it.end + GAP_INTERVALS * it.step)] = -np.inf
    return np.asarray(seen.argmax(axis=0), np.int64)
