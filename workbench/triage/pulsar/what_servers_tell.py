"""What brokers and bookies tell of a whole Pulsar, from samples of `collect.broker_and_bookie_metrics`. Pure.

None is what they do not tell. A number that only grows if more is known is a proof as soon as it is large; that it is small is
known only of all brokers, over half an hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from workbench.judgement_numbers import CHANGE_SECONDS, LESS, PAUSE_SECONDS, SEVERAL
from workbench.samples import Flag, FloatArray, SeriesTable, position_of, rises

_NOT_FINITE = (position_of(Flag.INF), position_of(Flag.NAN))
_SCHEME = "persistent://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """A cluster's brokers and bookies.

    Attributes:
        bad_loads: which load of which broker was not a finite number ("cpu of 10.0.0.1:8080"). bad_reports: how many.
        unload_times: moments at which bundles had been unloaded since the one before.
        quarantines: of bookies, by all brokers.
        busiest: bookie that is written most. busiest_share: of the mean of all that tell.
        ack_share: of the writes to bookies, those of subscriptions' positions. ack_writers: subscriptions that write most, and
            their writes/s.
        write_seconds: mean time of a write to bookies, by broker. broker_of: topic to its broker.
        misses: entries of a topic that were read from bookies, per second, at least.
    """

    bad_loads: tuple[str, ...] = ()
    bad_reports: int | None = None
    unload_times: int | None = None
    quarantines: int | None = None
    busiest: str | None = None
    busiest_share: float | None = None
    ack_share: float | None = None
    ack_writers: tuple[tuple[str, float], ...] = ()
    write_seconds: Mapping[str, float] = field(default_factory=dict)
    broker_of: Mapping[str, str] = field(default_factory=dict)
    misses: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    broker: str
    topic: str
    group: str
    stat: str
    ts_us: np.ndarray
    values: FloatArray
    flags: np.ndarray

    @property
    def seconds(self) -> float:
        return float(self.ts_us[-1] - self.ts_us[0]) / 1e6

    @property
    def rises(self) -> FloatArray:
        """What a counter has counted up to each known value since the one before."""
        return rises(self.values[~np.isnan(self.values)])

    @property
    def risen_at(self) -> set[int]:
        """When it had risen, µs since the epoch."""
        at = self.ts_us[~np.isnan(self.values)][1:]
        return set(at[self.rises > 0].tolist())

    @property
    def per_second(self) -> float | None:
        return float(self.rises.sum()) / self.seconds if self.seconds > 0 else None


def servers_of(samples: pa.Table, *, brokers: int | None, end_seconds: float) -> Servers:
    """Sum up samples.

    Args:
        brokers: how many there are; None if not known: then nothing is known of all of them.
        end_seconds: of the last look, since the epoch.
    """
    by = _by_signal(samples)
    loads = by["load_usage"]
    told = {it.broker for it in loads}
    spans = [it.seconds for it in loads]
    is_whole = brokers is not None and len(told) >= brokers
    is_long = is_whole and min(spans) >= LESS * CHANGE_SECONDS
    bad = tuple(f"{it.stat} of {it.broker}" for it in loads if np.isin(it.flags, _NOT_FINITE).any())
    unloads = len({at for it in by["bundle_unloads"] for at in it.risen_at})
    quarantines = _quarantines(by)
    busiest, share = _busiest(by["bookie_writes"])
    acks, writers = _acknowledgements(by)
    recent = (end_seconds - PAUSE_SECONDS) * 1e6
    misses, broker_of = dict[str, float](), dict[str, str]()
    for it in by["cache_misses"]:
        lately = it.values[(it.ts_us >= recent) & ~np.isnan(it.values)]
        if len(lately):
            misses[it.topic], broker_of[it.topic] = float(lately.min()), it.broker
    return Servers(
        bad_loads=bad,
        bad_reports=len(bad) if bad or is_whole else None,
        unload_times=unloads if unloads >= SEVERAL or is_long else None,
        quarantines=quarantines
        if quarantines or (is_long and told <= {it.broker for it in by["store_write_time"]})
        else None,
        busiest=busiest,
        busiest_share=share,
        ack_share=acks,
        ack_writers=writers,
        write_seconds=_write_seconds(by["store_write_time"]),
        broker_of=broker_of,
        misses=misses,
    )


def _by_signal(samples: pa.Table) -> dict[str, list[_Series]]:
    found: dict[str, list[_Series]] = defaultdict(list)
    if not samples.num_rows:
        return found
    table = SeriesTable.of_samples(samples).merged()
    for name, start, length in zip(table.names.to_pylist(), table.starts, table.lengths, strict=True):
        part = slice(start, start + length)
        found[name["signal"]].append(
            _Series(
                broker=name["broker"] or "",
                topic=(name["topic"] or "").removeprefix(_SCHEME),
                group=name["group"] or "",
                stat=name["stat"],
                ts_us=table.ts_us[part],
                values=table.values[part],
                flags=table.flags[part],
            )
        )
    return found


def _quarantines(by: Mapping[str, list[_Series]]) -> int:
    """The counter has no series before the first one: where a broker's other counters are older than it, it began at 0."""
    since = {it.broker: it.ts_us[0] for it in by["store_write_time"]}
    begun = [it.values[0] for it in by["quarantines"] if it.ts_us[0] > since.get(it.broker, it.ts_us[0])]
    return round(float(np.nansum(begun)) + sum(float(it.rises.sum()) for it in by["quarantines"]))


def _busiest(bookies: list[_Series]) -> tuple[str | None, float | None]:
    rates = {it.broker: rate for it in bookies if (rate := it.per_second) is not None}
    mean = sum(rates.values()) / len(rates) if rates else 0.0
    if len(rates) < 2 or not mean:
        return None, None
    busiest = max(rates, key=lambda it: rates[it])
    return busiest, rates[busiest] / mean


def _acknowledgements(by: Mapping[str, list[_Series]]) -> tuple[float | None, tuple[tuple[str, float], ...]]:
    """On the brokers that tell both: how often positions are written, and entries."""
    entries = {it.broker: float(np.nanmean(it.values)) for it in by["entry_writes"] if not np.isnan(it.values).all()}
    rates: dict[str, float] = defaultdict(float)
    both = set[str]()
    for it in by["acknowledgement_writes"]:
        if it.broker in entries and (rate := it.per_second) is not None:
            both.add(it.broker)
            rates[f"{it.group}@{it.topic.replace('/persistent/', '/', 1)}"] += rate
    acks, written = sum(rates.values()), sum(entries[it] for it in both)
    most = sorted(rates.items(), key=lambda it: (-it[1], it[0]))[: int(SEVERAL)]
    return (acks / (acks + written) if acks + written else None), tuple(most)


def _write_seconds(series: list[_Series]) -> dict[str, float]:
    sums = {it.broker: float(it.rises.sum()) for it in series if it.stat == "sum"}
    counts = {it.broker: float(it.rises.sum()) for it in series if it.stat == "count"}
    return {broker: total / counts[broker] for broker, total in sums.items() if counts.get(broker)}
