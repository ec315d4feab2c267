"""What a framework measures in its threads (a listener's timer), by what the clients of the same process tell: group, and records.

A framework calls its threads as it likes, the same in every process, and may count a batch as one call. Only what clients and threads
are scraped with tells whose they are; and only what the clients have read, how many records a call had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import pyarrow.compute as pc

from workbench.collect.measurer_labels import REPLICA_LABELS
from workbench.collect.processes_of_one_name import is_of_members, place_of, process_label, process_of
from workbench.collect.restore_underscored_names import underscored
from workbench.collect.source_agreement import Measured, measured
from workbench.samples import FloatArray, IntArray, SeriesTable, concat_series
from workbench.signals import FAILURES

READ = "deserialized"  # the signal that tells how many records a client has read
# Records without a call of their own are those of batches if they are more than what waited for a while, and a quarter of all calls.
_OF_CALLS = 0.25
_ERRORS = 2  # standard errors: one estimate in twenty is further off

_Unit = tuple[str, str, tuple[tuple[str, str], ...]]  # process, group, and which copy of its page


@dataclass(slots=True)
class GroupsOfProcesses:
    """Remembers the clients of each process with their groups, and the counters of what they read."""

    _clients: dict[str, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    _places: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _by_label: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    # Metric of what a process reads: of several, the first.
    _tells: dict[tuple[str, str], str] = field(default_factory=dict)
    _read: dict[_Unit, tuple[list[Measured], list[Measured]]] = field(
        default_factory=lambda: defaultdict(lambda: ([], []))
    )

    def learn(self, series: SeriesTable, labels: Sequence[Mapping[str, str]], members: Mapping[str, str]) -> None:
        """Take the series of a profile whose members are client ids.

        Args:
            series: of the profile, with its own names.
            labels: the server's own of each series.
            members: client id to group, of ids that are one group's alone.
        """
        names = series.names.select(["signal", "member", "topic"]).to_pylist()
        starts = series.starts
        dotted = {underscored(it["topic"]) for it in names if it["topic"] is not None and "." in it["topic"]}
        for at, (it, where) in enumerate(zip(names, labels, strict=True)):
            group, place = members.get(it["member"]), process_of(where)
            if group is None or not place:
                continue
            self._clients[place][group].add(it["member"])
            self._places[it["member"]].add(place)
            self._by_label[process_label(where)].add(place)
            if it["signal"] != READ or it["topic"] in dotted:
                continue
            metric = where.get("__name__", "")
            if self._tells.setdefault((place, group), metric) == metric:
                by_topic, whole = self._read[place, group, _copy(where)]
                (whole if it["topic"] is None else by_topic).append(measured(series, starts, [at]))

    @property
    def by_label(self) -> dict[str, list[str]]:
        """Processes of the clients, by the label that names them."""
        return {label: sorted(places) for label, places in sorted(self._by_label.items())}

    def threads(
        self,
        series: SeriesTable,
        labels: Sequence[Mapping[str, str]],
        members: Mapping[str, str],
        *,
        namesakes: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[SeriesTable, list[Mapping[str, str]]]:
        """Series of a profile whose members are threads, with their groups, and times for each record; with their labels.

        The times of a call are left out where nothing tells how many records it had. A thread that names its group, or is given one
        in the settings, takes one: Spring's observed listener does. Frameworks whose clients export nothing count the records of their
        calls themselves.

        Args:
            series: of the profile, with its own names.
            labels: the server's own of each series.
            members: thread, or process, to group, of the settings.
            namesakes: groups by their names as a thread may write them: what a process without clients calls itself.
        """
        names = series.names
        threads, signals, own = (names[it].to_pylist() for it in ("member", "signal", "group"))
        places, shown = ([of(it) for it in labels] for of in (process_of, place_of))
        groups = [
            group
            or members.get(thread)
            or (None if self._clients.get(at) else namesakes.get(thread) or members.get(by))
            for group, thread, at, by in zip(own, threads, places, shown, strict=True)
        ]
        of = [(at, self._group(group, it, at)) for group, it, at in zip(groups, threads, places, strict=True)]
        beside = defaultdict[tuple[str, str | None], set[str | None]](set)
        for unit, thread in zip(of, threads, strict=True):
            beside[unit].add(thread)
        told: list[tuple[str | None, str | None]] = [
            (unit[1], self._member(*unit, thread, shown[at], alone=len(beside[unit]) == 1))
            if is_of_members(signals[at])
            else (own[at], thread)
            for at, (unit, thread) in enumerate(zip(of, threads, strict=True))
        ]
        named = series.renamed("group", [it[0] for it in told]).renamed("member", [it[1] for it in told])
        named = replace(named, values=series.values.copy())  # times are written for each record
        kept = np.ones(len(series), bool)
        units = defaultdict[_Unit, dict[str, list[int]]](lambda: defaultdict(list))
        self._learn_own(series, labels, told)
        for number, (signal, stat) in enumerate(zip(signals, names["stat"].to_pylist(), strict=True)):
            group = told[number][0]
            if group is None or (signal != "process_time" and stat not in FAILURES):
                continue
            unit_of = places[number], group, _copy(labels[number])
            if unit_of in self._read:
                units[unit_of][stat].append(number)
            elif signal == "process_time":
                kept[number] = groups[number] is not None
        starts = named.starts
        for whose, parts in units.items():
            kept[_without_batches(named, starts, parts, self._read[whose])] = False
        wanted = np.flatnonzero(kept)
        return named.take(wanted), [labels[at] for at in wanted.tolist()]

    def _learn_own(
        self, series: SeriesTable, labels: Sequence[Mapping[str, str]], told: Sequence[tuple[str | None, str | None]]
    ) -> None:
        """Take what threads have read by their own count, of processes without clients that tell it."""
        known, starts = set(self._read), series.starts
        for at, signal in enumerate(series.names["signal"].to_pylist()):
            place, group = process_of(labels[at]), told[at][0]
            if signal == READ and place and group and (unit := (place, group, _copy(labels[at]))) not in known:
                self._read[unit][0].append(measured(series, starts, [at]))

    def _group(self, group: str | None, thread: str | None, place: str) -> str | None:
        """Of a thread: the one that it names itself, one that it is named after, or the only one of its process."""
        there = self._clients.get(place, {})
        if group is not None or not there:
            return group
        after = (thread or "").rpartition("-")[0]
        return after if after in there else next(iter(there)) if len(there) == 1 else None

    def _member(self, place: str, group: str | None, thread: str | None, shown: str, *, alone: bool) -> str:
        """The process's client, if the group has one there and the thread is alone; else the thread."""
        clients = self._clients.get(place, {}).get(group or "", set())
        client = next(iter(clients)) if len(clients) == 1 and alone else None
        if client is not None and len(self._places[client]) == 1:
            return client
        name = client or thread
        return f"{name} ({shown})" if name and shown else name or shown


def with_all_time(series: SeriesTable) -> SeriesTable:
    """Beside the time that processes stood still, all of the time in which they tell it: what it is a share of."""
    told = pc.and_(pc.equal(series.names["signal"], "gc_time"), pc.equal(series.names["stat"], "value"))
    if not pc.any(told).as_py():
        return series
    stopped = series.where(told)
    every = replace(stopped.renamed("stat", ["all"] * len(stopped)), values=stopped.ts_us / 1e6)
    return concat_series([series.where(pc.invert(told)), stopped.renamed("stat", ["stopped"] * len(stopped)), every])


def _copy(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What tells the copies of one page apart: a pair of servers scrapes it twice."""
    return tuple(sorted((name, labels[name]) for name in REPLICA_LABELS & labels.keys()))


def _sum(lines: Sequence[Measured], ts_us: IntArray) -> FloatArray:
    """Counters of one process together, as they are known at these times; NaN where none is. An agent has a page of its own."""
    total, number = np.zeros(len(ts_us)), np.zeros(len(ts_us))
    for times, values in lines:
        if len(times):
            at = np.searchsorted(times, ts_us, side="right") - 1
            apart = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
            here = (at >= 0) & (ts_us - times[np.maximum(at, 0)] <= apart)
            total += np.where(here, values[np.maximum(at, 0)], 0.0)
            number += here
    return np.where(number > 0, total, np.nan)


def _without_batches(
    series: SeriesTable,
    starts: IntArray,
    parts: Mapping[str, Sequence[int]],
    read: tuple[Sequence[Measured], Sequence[Measured]],
) -> list[int]:
    """Write the times of a process's calls for each record, where a call takes several; returns the series that are then no more.

    All of its threads are then one: nobody tells which of them has read what. Micrometer shows what a client has read of each topic a
    minute after its start, and until then as a whole; the JMX exporter shows both.
    """
    # The first is the longest: the times of failures begin with the first one.
    counts, sums, buckets = (
        sorted(parts.get(it, ()), key=lambda at: -series.lengths[at]) for it in ("count", "sum", "bucket")
    )
    if not counts or not sums:
        return []
    failed = [at for it in FAILURES for at in parts.get(it, ())]
    times = np.unique(np.concatenate([series.ts_us[starts[at] :][: series.lengths[at]] for at in (*counts, *sums)]))
    calls, seconds, fails = (
        _sum([measured(series, starts, [at]) for at in those], times) for those in (counts, sums, failed)
    )
    by_topic, whole = (_sum(lines, times) for lines in read)
    records, fails = np.where(np.isnan(by_topic), whole, by_topic), np.nan_to_num(fails)
    batches = _in_batches(calls, records, fails)
    if batches is None:
        return [*counts, *sums, *buckets]
    if not batches:
        return []
    records = _handled(calls, records, fails)
    for at, each in ((counts[0], records), (sums[0], np.where(np.isnan(records), np.nan, seconds))):
        span = slice(starts[at], starts[at] + series.lengths[at])
        series.values[span] = each[np.searchsorted(times, series.ts_us[span])]
    return [*counts[1:], *sums[1:], *buckets]


def _handled(calls: FloatArray, records: FloatArray, fails: FloatArray) -> FloatArray:
    """Records of the calls that have ended: all of a batch, and one of each that failed, as what it had is read again."""
    known = ~np.isnan(calls) & ~np.isnan(records)
    if not known.any():
        return records
    called, had, failed = (
        np.where(np.diff(it) < 0, it[1:], np.diff(it)) for it in (calls[known], records[known], fails[known])
    )
    ends = np.flatnonzero(called > 0)
    of_each = np.diff(np.cumsum(had)[ends], prepend=0.0)
    failing = np.minimum(1.0, failed[ends] / called[ends])
    risen = np.zeros(len(called))
    risen[ends] = of_each * (1 - failing) + failed[ends]
    total = np.full(len(records), np.nan)
    total[known] = np.cumsum(np.append(records[known][0], risen))
    return total


def _in_batches(calls: FloatArray, records: FloatArray, fails: FloatArray) -> bool | None:
    """Whether calls are fewer than records, and not by those that wait in a thread: these are called later, and come off again.

    Where a call fails, what a poll has brought is read again. So it is looked where fewer calls fail; if none do there, that tells all.
    None: it may be either.
    """
    known = ~np.isnan(calls) & ~np.isnan(records)
    called, had, failed = (np.diff(it[known]) for it in (calls, records, fails))
    usable = (called >= 0) & (had >= 0) & (failed >= 0)
    called, had, failed = called[usable], had[usable], failed[usable]
    if not len(called):
        return None
    share = np.divide(failed, called, out=(failed > 0).astype(float), where=called > 0)
    order = np.argsort(share, kind="stable")
    of_half = np.cumsum(called[order]) >= called.sum() / 2
    fewer = share <= share[order][of_half.argmax()]
    ahead = (had - called)[fewer]
    more, less = ahead[ahead > 0].sum(), -ahead[ahead < 0].sum()
    if more - less <= max(less, _OF_CALLS * called[fewer].sum()):
        return False
    return _beside_failures(called, had, failed) if failed[fewer].any() else True


def _beside_failures(called: FloatArray, had: FloatArray, failed: FloatArray) -> bool | None:
    """Whether a call takes several records, where each failure has some read again, too: by least squares. None: it may be either."""
    both = np.column_stack([called, failed])
    if len(both) <= 2 or np.linalg.matrix_rank(both) < 2:
        return None
    each, left, *_ = np.linalg.lstsq(both, had)
    error = np.sqrt(left[0] / (len(both) - 2) * np.linalg.inv(both.T @ both)[0, 0])
    beyond = each[0] - 1 - _OF_CALLS
    return bool(beyond > 0) if abs(beyond) > _ERRORS * error else None
