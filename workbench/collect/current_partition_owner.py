"""Series of one partition under the names of several owners: exporters that name the client keep showing clients that are gone, and
some clients keep telling partitions that were taken from them.

Only one client owns a partition at a time. The series of a former owner stands where it was left, so the present one is the owner whose
commit has moved last; among commits that have never moved, the one that came last.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.collect.source_agreement import GAP_INTERVALS
from workbench.collect.source_join import with_derived
from workbench.humanize import listed
from workbench.job_signals import READ_AS_COMMITTED
from workbench.judgement_numbers import MOST, SEVERAL
from workbench.profiles import Profile
from workbench.profiles.left_out_series import WHOLE
from workbench.quantiles import median
from workbench.samples import (
    DERIVED,
    Flag,
    FloatArray,
    IntArray,
    SeriesTable,
    codes_of,
    concat,
    concat_series,
    position_of,
)

# Labels of a metric that name the owner of a partition.
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
_OF_AN_OWNER = ("consumer_lag", "committed_offset", "time_lag", "read_offset", "given_offset")
_PARTITION = ("cluster", "group", "topic", "partition")
_MADE = (DERIVED, READ_AS_COMMITTED)
_SHOWN = 3
_UNKNOWN = -1
_NO_SIGN = float(np.finfo(np.float64).min)  # below all times, above who is not there


def of_present_owners(series: SeriesTable, profiles: Sequence[Profile]) -> tuple[SeriesTable, tuple[str, ...]]:
    """Leave out what members tell of partitions that another one reads by now, and say so.

    Where nothing shows which one reads it, the values are unusable. So are those that several members tell of a topic as a whole: each
    may mean its own part.

    Args:
        series: with the groups of members, in baseline and window.
        profiles: that they are read by.
    """
    names, starts = series.names, series.starts
    several = _told_by_several(names)
    if not several:
        return series, ()
    of_topics = {(it.name, signal) for it in profiles for signal, rule in it.rules() if "partition" not in rule.labels}
    kept, flags, values = np.ones(len(series.ts_us), bool), series.flags.copy(), series.values.copy()
    former, disputed = set[str](), set[str]()
    label = {name: names[name].to_pylist() for name in ("topic", "partition", "member", "source", "signal")}
    firsts, lasts = series.ts_us[starts].tolist(), series.ts_us[starts + series.lengths - 1].tolist()
    for members in several:
        if not _at_once([(min(firsts[at] for at in ats), max(lasts[at] for at in ats)) for ats in members]):
            continue
        claims = [_Claim.of(series, starts, ats) for ats in members]
        first = claims[0].series[0]
        topic, which = label["topic"][first], label["partition"][first]
        who = [str(label["member"][it.series[0]]) for it in claims]
        rows = [np.arange(starts[at], starts[at] + series.lengths[at]) for it in claims for at in it.series]
        told = np.concatenate(rows)
        of = np.repeat([place for place, it in enumerate(claims) for _ in it.series], [len(it) for it in rows])
        parted = {(label["source"][at], label["signal"][at]) for it in claims for at in it.series}.isdisjoint(of_topics)
        is_open = (which == WHOLE and not parted) or _go_on_by_turns(claims)
        owner = np.full(len(told), _UNKNOWN) if is_open else _owner(series.ts_us[told], claims)
        unknown = told[(owner == _UNKNOWN) & ~np.isnan(series.values[told])]
        gone = (owner != of) & (owner != _UNKNOWN)
        kept[told[gone]] = False
        former.update(f"{who[place]} (topic {topic})" for place in set(of[gone].tolist()))
        if len(unknown):
            values[unknown], flags[unknown] = np.nan, position_of(Flag.MIXED)
            disputed.add(f"partition {which} of topic {topic} ({' and '.join(sorted(who))})")
    notes = []
    if former:
        notes.append(f"left out of {listed(sorted(former), most=_SHOWN)}: partitions that another member reads by now")
    if disputed:
        notes.append(f"nothing shows which member reads {listed(sorted(disputed), most=_SHOWN)}: not judged")
    if not notes:
        return series, ()
    return replace(series, values=values, flags=flags).with_samples(kept), tuple(notes)


def samples_of_present_owners(samples: pa.Table, profiles: Sequence[Profile]) -> tuple[pa.Table, tuple[str, ...]]:
    """The same for samples that were recorded in rounds; what each round has derived of a former one is derived anew."""
    told = _by_members(samples)
    theirs = samples.filter(told)
    mine, notes = of_present_owners(_by_series(theirs), profiles)
    if not notes:
        return samples, ()
    of_groups = pc.is_in(samples["group"], pc.unique(theirs["group"]))
    made = pc.and_(of_groups, pc.is_in(samples["source"], pa.array(_MADE)))
    rest = samples.filter(pc.invert(pc.or_(told, made)))
    near = rest.filter(pc.or_(pc.is_null(rest["group"]), pc.is_in(rest["group"], pc.unique(mine.names["group"]))))
    again = with_derived(concat_series([mine, _by_series(near)]))
    is_new = pc.and_(pc.is_valid(again.names["group"]), pc.is_in(again.names["source"], pa.array(_MADE)))
    return concat([rest, concat_series([mine, again.where(is_new)]).to_samples()]), notes


def _by_series(samples: pa.Table) -> SeriesTable:
    return SeriesTable.of_samples(samples).merged()


def _by_members(names: pa.Table) -> pa.ChunkedArray:
    told = pc.and_(pc.is_in(names["signal"], pa.array(_OF_AN_OWNER)), pc.is_valid(names["partition"]))
    return pc.and_(told, pc.is_valid(names["member"]))


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
    """What one member tells of a partition: its series, from when to when it tells numbers, how often, and when any of them changed.

    Times in µs.
    """

    series: Sequence[int]
    begin: float
    end: float
    step: float
    changes: IntArray
    last: frozenset[float]

    @classmethod
    def of(cls, series: SeriesTable, starts: IntArray, ats: Sequence[int]) -> _Claim:
        begin, end, step, changes, last = math.inf, -math.inf, 0.0, [], set()
        for at in ats:
            rows = slice(starts[at], starts[at] + series.lengths[at])
            known = ~np.isnan(series.values[rows])
            times, values = series.ts_us[rows][known], series.values[rows][known]
            if not len(times):
                continue
            begin, end = min(begin, float(times[0])), max(end, float(times[-1]))
            step = max(step, median(times[1:] - times[:-1]) if len(times) > 1 else 0.0)
            changes.append(times[1:][values[1:] != values[:-1]])
            last.add(float(values[-1]))
        every = np.unique(np.concatenate(changes)) if changes else np.zeros(0, np.int64)
        return cls(ats, begin, end, step, every, frozenset(last))

    def came_after(self, claims: Sequence[_Claim]) -> bool:
        """Whether another one was there before: each is asked at a moment of its own."""
        return self.begin > min(it.begin for it in claims) + GAP_INTERVALS * self.step


def _at_once(spans: Sequence[tuple[int, int]]) -> bool:
    """Whether one begins before another one ends."""
    in_time = sorted(spans)
    until = accumulate((end for _, end in in_time), max)
    return any(begin <= end for (begin, _), end in zip(in_time[1:], until, strict=False))


def _go_on_by_turns(claims: Sequence[_Claim]) -> bool:
    """Whether they change by turns: who takes a partition over changes alone from then on, and so does who gets it back."""
    who = np.repeat(np.arange(len(claims)), [len(it.changes) for it in claims])
    in_time = who[np.argsort(np.concatenate([it.changes for it in claims]), kind="stable")]
    turns, second = int(np.count_nonzero(np.diff(in_time))), sorted(len(it.changes) for it in claims)[-2]
    return turns > 2 * SEVERAL and turns > MOST * second


def _owner(times: IntArray, claims: Sequence[_Claim]) -> IntArray:
    """Who has the partition at each time, as positions in `claims`: of those that tell it still, who changed last, or came since.

    Before any change it is who changes first. Who has shown no sign has it while nobody else has told it yet; and where nobody has
    shown one, while all tell the same.
    """
    seen, told, begins = np.full((len(claims), len(times)), _NO_SIGN), np.zeros(len(times), int), math.inf
    for place, it in enumerate(claims):
        came, slack = it.came_after(claims), GAP_INTERVALS * it.step
        signs = np.append(it.begin, it.changes) if came else it.changes
        if len(signs):
            begins = min(begins, float(signs[0]))
            # What it was left with may be told of the former one a scrape or two after the new one came.
            late = np.append(it.begin + slack, it.changes) if came else it.changes
            last = np.searchsorted(signs, times, side="right") - 1
            # Before the first event, the sooner it comes, the better.
            seen[place] = np.where(last >= 0, np.maximum.accumulate(late)[np.maximum(last, 0)], -float(signs[0]))
        # Those who were there first have told it all along: each is asked at a moment of its own.
        begun = (times >= it.begin) | np.full(len(times), not came)
        seen[place][~begun | (times > it.end + (slack if len(signs) else 0))] = -np.inf
        told += begun
    no_sign = seen.max(axis=0) <= _NO_SIGN
    same = len({it.last for it in claims if it.last}) < 2
    unknown = no_sign & (told > 1) & ((times >= begins) | np.full(len(times), not same))
    return np.where(unknown, _UNKNOWN, seen.argmax(axis=0))
