"""Brokers as a unit of their own: what each shows, whom it serves, and what every group reads from it, over time. No judgement yet.

Everything is a line on one grid of times: a broker's own signals, what each client id reads, and what each group reads, what arrives
for it and what waits, summed over the partitions that the broker leads. A line is NaN where it is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workbench.judgement_numbers import MORE, STALE, TREND_SAMPLES
from workbench.samples import codes_of, grown
from workbench.signals import OF_BROKERS, SIGNALS, Grain, Kind
from workbench.window import Window

FloatArray = npt.NDArray[np.float64]

OF_SERVERS = tuple(it.name for it in SIGNALS.values() if it.grain in OF_BROKERS)
# What is worked out where no source tells it, and from what: bytes of a broker are those of its topics.
WORKED_OUT = {"broker_traffic": "topic_reads", "request_handler_idle": "request_handler_idle_time"}
_ADDED_UP = ("metadata_requests",)  # whatever their kind
_OF_TOPICS = {"BytesOutPerSec": "topic_reads", "BytesInPerSec": "topic_writes"}
_OF_GROUPS = ("consumer_lag", "committed_offset", "log_end_offset")
_SAME_START_SECONDS = 1.0  # two pages of one process tell the same start
_BINS = 240  # of a line: a day becomes steps of six minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOnBroker:
    """One group on the partitions that one broker leads, (T,) each.

    Attributes:
        lag: messages that wait.
        grown: the lag without what commits that were set back have added to it; None: the same.
        reads, arrivals: messages/s.
        read_bytes: bytes/s, its part of what the broker gives of each topic, as far as its records explain it; None: not told.
    """

    lag: FloatArray
    reads: FloatArray
    arrivals: FloatArray
    read_bytes: FloatArray | None = None
    grown: FloatArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """The brokers of a cluster and everybody that they serve, on one grid.

    Attributes:
        times: seconds since the epoch, ascending, `step` seconds apart, (T,).
        first: place of the window's start in `times`; what is before it is the baseline.
        addresses: broker id to the address of its metrics page; "" for one that only leads.
        servers: of each broker, its own signals by (signal, kind); a counter is a rate per second, (T,).
        clients, writers: (client id, broker) to bytes/s that the broker gives to it or takes from it.
        askers: (client id, broker) to the time of the broker's threads that its requests take; 1 is one thread.
        groups: (group, broker) to what the group does there.
        clients_of: client ids of each group, as Kafka lists its members.
        leaders: partition to broker; None without a leader.
        short: partitions that lack a replica in sync, with their number.
        unread: (group, topic, partition) to messages that wait, last.
        readers: groups with a commit in each partition; of one without a leader nobody measures the lag.
        behind: group to the age in seconds of the oldest message that waits, (T,), where somebody measures it.
        coordinators: ids of the brokers that have coordinated a group in the window, in order of time.
        absent: signals of which there is no sample.
    """

    times: FloatArray
    step: float
    first: int
    addresses: Mapping[int, str] = field(default_factory=dict)
    servers: Mapping[int, Mapping[tuple[str, str], FloatArray]] = field(default_factory=dict)
    clients: Mapping[tuple[str, int], FloatArray] = field(default_factory=dict)
    writers: Mapping[tuple[str, int], FloatArray] = field(default_factory=dict)
    askers: Mapping[tuple[str, int], FloatArray] = field(default_factory=dict)
    groups: Mapping[tuple[str, int], GroupOnBroker] = field(default_factory=dict)
    clients_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leaders: Mapping[tuple[str, int], int | None] = field(default_factory=dict)
    short: Mapping[tuple[str, int], int] = field(default_factory=dict)
    unread: Mapping[tuple[str, str, int], float] = field(default_factory=dict)
    readers: Mapping[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    behind: Mapping[str, FloatArray] = field(default_factory=dict)
    coordinators: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()

    @property
    def brokers(self) -> tuple[int, ...]:
        """Ids of all brokers that are known."""
        led = {it for it in self.leaders.values() if it is not None}
        return tuple(sorted(self.servers.keys() | led))


def tells_of_brokers(samples: pa.Table) -> bool:
    """Whether a `neighbourhood` would have any broker: from pages of their own, or as leaders of partitions."""
    return not {"leader", "server_start_time"}.isdisjoint(samples["signal"].unique().to_pylist())


def neighbourhood(samples: pa.Table, groups: pa.Table, window: Window) -> Neighbourhood:
    """Put a cluster's measurements (`SAMPLES_SCHEMA`, `GROUPS_SCHEMA`) on one grid, from the baseline's start to the window's end."""
    first, start, end = (it.timestamp() for it in (window.baseline_start, window.start, window.end))
    step = _step(samples, end - first)
    times = np.arange(first, end + step / 2, step)
    grid = _Grid(samples, times, step)
    leaders = {key: None if np.isnan(value) else int(value) for key, value in grid.last("leader", "topic", "partition")}
    pages = _Pages(grid)
    begins = int(np.searchsorted(times, start))
    on_brokers, unread = _groups(grid, _led_most(grid, start), pages.of_each("topic_reads", "topic"), begins)
    readers: dict[tuple[str, int], set[str]] = defaultdict(set)
    for signal in ("committed_offset", "consumer_lag"):
        for (group, topic, partition), _ in grid.last(signal, "group", "topic", "partition"):
            readers[topic, partition].add(group)
    clients_of: dict[str, set[str]] = defaultdict(set)
    for it in groups.group_by(["group", "client_id"]).aggregate([]).to_pylist():
        if it["client_id"]:  # Kafka's tools take an empty id for the default of all clients
            clients_of[it["group"]].add(it["client_id"])
    told = grid.signals_since(start)
    told |= {signal for signal, source in WORKED_OUT.items() if source in told}
    return Neighbourhood(
        times=times,
        step=step,
        first=begins,
        addresses=pages.addresses,
        servers=pages.signals(),
        clients=pages.of_each("client_reads", "member", unnamed=0.0),
        writers=pages.of_each("client_writes", "member", unnamed=0.0),
        askers=pages.of_each("client_request_time", "member", unnamed=0.0),
        groups=on_brokers,
        clients_of={group: tuple(sorted(found)) for group, found in clients_of.items()},
        leaders=leaders,
        short={key: int(value) for key, value in grid.last("missing_replicas", "topic", "partition") if value > 0},
        unread=unread,
        readers={part: tuple(sorted(names)) for part, names in readers.items()},
        behind={group: line for (group,), line in grid.highest("time_lag", "group")},
        coordinators=_coordinators(groups, start),
        absent=frozenset({*OF_SERVERS, *_OF_GROUPS, "leader", "missing_replicas"} - told),
    )


def _led_most(grid: _Grid, start: float) -> dict[tuple[str, int], int]:
    """Who led each partition for most of the window, as far as it is told: what happened there is of that broker."""
    found = {}
    for key, at, values in grid.each("leader", "topic", "partition"):
        lately = values[at >= start] if at[-1] >= start else values[-1:]
        ids, times = np.unique(lately[~np.isnan(lately)], return_counts=True)
        if len(ids):
            found[key] = int(ids[np.argmax(times)])
    return found


def _coordinators(groups: pa.Table, start: float) -> dict[str, tuple[int, ...]]:
    rows = groups.select(["ts", "group", "coordinator"]).filter(pc.is_valid(groups["coordinator"])).sort_by("ts")
    found: dict[str, dict[int, None]] = defaultdict(dict)
    seconds = pc.cast(rows["ts"], pa.int64()).to_numpy() / 1e6
    for at, group, broker in zip(seconds, rows["group"].to_pylist(), rows["coordinator"].to_pylist(), strict=True):
        if at >= start and broker >= 0:
            found[group][broker] = None
    return {group: tuple(ids) for group, ids in found.items()}


def _step(samples: pa.Table, seconds: float) -> float:
    """Seconds between two points: the usual interval of the lag's samples, and not too many points."""
    lag = samples.select(["ts", "signal", "group", "topic", "partition"])
    lag = lag.filter(pc.equal(lag["signal"], "consumer_lag"))
    usual = 1.0
    if lag.num_rows > 1:
        codes = codes_of(lag, ("group", "topic", "partition"))
        micros = pc.cast(lag["ts"], pa.int64()).to_numpy()
        order = np.lexsort((micros, codes))
        gaps = np.diff(micros[order])[np.diff(codes[order]) == 0]
        usual = float(np.median(gaps[gaps > 0])) / 1e6 if (gaps > 0).any() else 1.0
    return max(1.0, round(usual), seconds / _BINS)


class _Grid:
    """Samples by series, and each series on the grid."""

    def __init__(self, samples: pa.Table, times: FloatArray, step: float) -> None:
        self._samples = samples.combine_chunks()
        self.times, self.step = times, step
        codes = pc.dictionary_encode(self._samples["signal"]).combine_chunks()
        self._places = codes.indices.to_numpy()
        self._codes = {str(it): number for number, it in enumerate(codes.dictionary.to_pylist())}

    def signals_since(self, start: float) -> set[str]:
        """Those of which there is a value since then, in seconds since the epoch."""
        lately = pc.cast(self._samples["ts"], pa.int64()).to_numpy() >= start * 1e6
        known = pc.is_valid(self._samples["value"]).to_numpy(zero_copy_only=False)
        seen = set(np.unique(self._places[known & lately]).tolist())
        return {name for name, code in self._codes.items() if code in seen or name == "leader"}

    def each(self, signal: str, *labels: str) -> Iterator[tuple[tuple[Any, ...], FloatArray, FloatArray]]:
        """(label values, times, values) of a signal's series, in order of time; those without one of the labels are left out.

        Only a leader may be NaN: there is none.
        """
        if signal not in self._codes:
            return
        places = np.flatnonzero(self._places == self._codes[signal])
        rows = self._samples.select(["ts", "value", *labels]).take(pa.array(places))
        for name in (*labels, *(() if signal == "leader" else ("value",))):
            if rows[name].null_count:
                rows = rows.filter(pc.is_valid(rows[name]))
        if not rows.num_rows:
            return
        codes = codes_of(rows, labels)
        at = pc.cast(rows["ts"], pa.int64()).to_numpy() / 1e6
        order = np.lexsort((at, codes))
        at, values, codes = at[order], rows["value"].to_numpy()[order], codes[order]
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        names = rows.select(labels).take(pa.array(order[begins])).to_pylist()
        for key, begin, end in zip(names, begins, [*begins[1:], len(codes)], strict=True):
            yield tuple(key.values()), at[begin:end], values[begin:end]

    def last(self, signal: str, *labels: str) -> Iterator[tuple[tuple[Any, ...], float]]:
        """The last value of each series up to the end."""
        for key, at, values in self.each(signal, *labels):
            until = int(np.searchsorted(at, self.times[-1] + self.step, side="right"))
            if until:
                yield key, float(values[until - 1])

    def lines(self, signal: str, *labels: str) -> Iterator[tuple[tuple[Any, ...], FloatArray]]:
        """A signal's series on the grid; of a counter its rate per second. Kinds that are not asked for are added up."""
        counts = SIGNALS[signal].kind is Kind.COUNTER
        added: dict[tuple[Any, ...], FloatArray] = {}
        for key, at, values in self.each(signal, *labels, *(() if "stat" in labels else ("stat",))):
            add(added, key[: len(labels)], self.rate(at, grown(values)) if counts else self.on(at, values))
        yield from added.items()

    def highest(self, signal: str, *labels: str) -> Iterator[tuple[tuple[Any, ...], FloatArray]]:
        """The highest value of several series of the same labels, at each point."""
        for key, at, values in self.each(signal, *labels):
            found = np.full(len(self.times), -np.inf)
            places = np.clip(np.searchsorted(self.times, at), 0, len(self.times) - 1)
            np.maximum.at(found, places, values)
            yield key, np.where(np.isinf(found), np.nan, found)

    def on(self, at: FloatArray, values: FloatArray) -> FloatArray:
        """Values on the grid, between two samples on the straight line; NaN where several of the series' own samples are missing."""
        found = np.interp(self.times, at, values)
        bounds = np.concatenate([[-np.inf], at, [np.inf]])
        after = np.searchsorted(at, self.times)
        distance = np.minimum(self.times - bounds[after], bounds[after + 1] - self.times)
        usual = float(np.median(np.diff(at))) if len(at) > 1 else 0.0
        found[distance > STALE * max(self.step, usual)] = np.nan
        return found

    def rate(self, at: FloatArray, growth: FloatArray) -> FloatArray:
        """Growth per second of what only grows, on the grid; not known before its first sample and after its last one."""
        line = self.on(at, growth)
        line[(self.times < at[0]) | (self.times > at[-1])] = np.nan
        return np.append(np.nan, np.diff(line)) / self.step


def add(lines: dict[Any, FloatArray], key: object, line: FloatArray) -> None:
    """Add a line to another one, if there is one; where one is not known it adds nothing."""
    one = lines.get(key)
    lines[key] = line if one is None else np.where(np.isnan(one), line, one + np.nan_to_num(line))


class _Pages:
    """What pages tell, under the id of the broker whose page each was at that moment.

    A broker that restarts may come back at another address, and another one may get its own. Two processes that tell the same id at the
    same time are of two clusters: what is this one's is not known.
    """

    def __init__(self, grid: _Grid) -> None:
        self._grid = grid
        began: dict[int, dict[str, FloatArray]] = defaultdict(dict)
        for (address, told), line in grid.lines("server_start_time", "broker", "stat"):
            if str(told).isascii() and str(told).isdigit():
                began[int(told)][address] = line
        self._there: dict[str, dict[int, npt.NDArray[np.bool_]]] = defaultdict(dict)
        for broker, lines in began.items():
            starts = np.stack(list(lines.values()))
            latest = np.where(np.isnan(starts), -np.inf, starts).max(axis=0)
            is_one = ~(starts < latest - _SAME_START_SECONDS).any(axis=0)
            for address, line in lines.items():
                self._there[address][broker] = ~np.isnan(line) & is_one
        # The one that was there last.
        self.addresses = {
            broker: max(lines, key=lambda it: float(np.max(np.flatnonzero(~np.isnan(lines[it])), initial=-1)))
            for broker, lines in sorted(began.items())
        }

    def signals(self) -> dict[int, dict[tuple[str, str], FloatArray]]:
        """Each broker's own signals."""
        found: dict[int, dict[tuple[str, str], FloatArray]] = {broker: {} for broker in self.addresses}
        for signal in (it.name for it in SIGNALS.values() if it.grain is Grain.SERVER):
            for (kind, broker), line in self.of_each(signal, "stat").items():
                add(found[broker], (signal, "value" if signal in _ADDED_UP else kind), line)
        for own in found.values():
            if (idle := own.pop(("request_handler_idle_time", "value"), None)) is not None:
                key = ("request_handler_idle", "value")
                told = own.get(key, np.full(len(idle), np.nan))  # a mean of the last minute, which rises late
                own[key] = np.where(np.isnan(idle), told, np.minimum(idle, 1.0))
        for kind, signal in _OF_TOPICS.items():
            whole: dict[int, FloatArray] = {}
            for (_, broker), line in self.of_each(signal, "topic").items():
                add(whole, broker, line)
            for broker, line in whole.items():
                found[broker].setdefault(("broker_traffic", kind), line)
        return found

    def of_each(self, signal: str, label: str, *, unnamed: float = np.nan) -> dict[tuple[str, int], FloatArray]:
        """(Label, broker) to a line; `unnamed` is the value where its page is there and does not name it."""
        found: dict[tuple[str, int], FloatArray] = {}
        nothing = np.full(len(self._grid.times), np.nan)
        for (name, address), line in self._grid.lines(signal, label, "broker"):
            for broker, is_there in self._there.get(address, {}).items():
                known = found.get((name, broker), nothing)
                found[name, broker] = np.where(np.isnan(known), np.where(is_there, line, np.nan), known)
        if not np.isnan(unnamed):
            paged: dict[int, npt.NDArray[np.bool_]] = {}
            for of in self._there.values():
                for broker, is_there in of.items():
                    paged[broker] = paged.get(broker, False) | is_there
            for (_, broker), line in found.items():
                line[np.isnan(line) & paged[broker]] = unnamed
        return found


def _groups(
    grid: _Grid, leaders: Mapping[tuple[str, int], int], topic_reads: Mapping[tuple[str, int], FloatArray], first: int
) -> tuple[dict[tuple[str, int], GroupOnBroker], dict[tuple[str, str, int], float]]:
    partition_of = ("topic", "partition")
    ends = {key: grid.rate(*line) for key, *line in grid.each("log_end_offset", *partition_of)}
    commits = {key: grid.rate(*line) for key, *line in grid.each("committed_offset", "group", *partition_of)}
    points = len(grid.times)

    def zeros() -> defaultdict[Any, FloatArray]:
        return defaultdict(lambda: np.zeros(points))

    lag, grown, arrivals, of_topic = zeros(), zeros(), zeros(), zeros()
    reads: dict[tuple[str, int], dict[str, FloatArray]] = defaultdict(zeros)
    unread: dict[tuple[str, str, int], float] = {}
    for key, at, values in grid.each("consumer_lag", "group", "topic", "partition"):
        group, topic, partition = key
        unread[key] = float(values[-1])
        leader = leaders.get((topic, partition))
        waits = grid.on(at, values)
        if leader is None or np.isnan(waits[first:]).all():  # the group has left a partition that is no longer told of
            continue
        growth = np.append(np.nan, np.diff(waits)) / grid.step
        read, arriving = commits.get(key), ends.get((topic, partition))
        if read is None:
            read = np.full(points, np.nan) if arriving is None else arriving - growth
        if arriving is None:
            arriving = read + growth
        set_back = np.cumsum(np.maximum(-np.nan_to_num(read), 0.0)) * grid.step
        read = np.maximum(read, 0.0)  # a commit that was set back reads nothing
        lag[group, leader] += waits
        grown[group, leader] += np.maximum(waits - set_back, 0.0)
        arrivals[group, leader] += arriving
        reads[group, leader][topic] += read
        of_topic[topic, leader] += np.nan_to_num(read)
    found: dict[tuple[str, int], GroupOnBroker] = {}
    sizes = {key: _record_bytes(given, of_topic[key], first) for key, given in topic_reads.items() if key in of_topic}
    for (group, broker), mine in reads.items():
        parts = [
            _at_most(topic_reads[topic, broker] * _share(line, of_topic[topic, broker]), line, size)
            for topic, line in mine.items()
            if (size := sizes.get((topic, broker))) is not None
        ]
        found[group, broker] = GroupOnBroker(
            lag=lag[group, broker],
            reads=_sum(mine.values()),
            arrivals=arrivals[group, broker],
            read_bytes=_sum(parts) if len(parts) == len(mine) else None,
            grown=grown[group, broker],
        )
    return found, unread


def _at_most(given: FloatArray, records: FloatArray, record_bytes: float) -> FloatArray:
    """Bytes that a group got, as its records bound them; an infinite size bounds nothing, and no record times it is no number."""
    return given if np.isinf(record_bytes) else np.minimum(given, records * record_bytes)


def _record_bytes(given: FloatArray, read: FloatArray, first: int) -> float:
    """Bytes that a broker gives for each record of a topic that is committed, with the time before a window where it was read then.

    What it gives beyond `MORE` of that goes to somebody who commits nothing, or not yet.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(read > 0, given / read, np.nan)
    for part in (each[:first], each):
        if (~np.isnan(part)).sum() >= TREND_SAMPLES:
            return float(MORE * np.nanmedian(part))
    return np.inf


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.asarray(np.divide(np.nan_to_num(part), whole, out=np.zeros_like(whole), where=whole > 0), np.float64)


def _sum(lines: Iterable[FloatArray]) -> FloatArray:
    return np.asarray(np.sum(np.stack(list(lines)), axis=0), np.float64)
