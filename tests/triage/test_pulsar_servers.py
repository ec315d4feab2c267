"""Numbers of brokers and bookies, summed up from samples: what is proven by a part of them, and what is known only of all, for long."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from workbench.judgement_numbers import CHANGE_SECONDS, LESS
from workbench.samples import SampleBatch
from workbench.triage.pulsar.what_servers_tell import Servers, servers_of

NOW = 1_795_000_000
HALF_AN_HOUR = range(0, int(CHANGE_SECONDS) + 1, 60)
Told = tuple[str, dict[str, str], str, Iterable[float]]


def told(*series: Told, at: Iterable[int] = (0, 10), brokers: int | None = 1) -> Servers:
    """Samples of each series at these seconds before now, the oldest first."""
    times = [round((NOW - max(at) + second) * 1e6) for second in at]
    batch = SampleBatch("events", "pulsar_broker")
    for signal, labels, stat, values in series:
        batch.add(signal, {"broker": "b1:8080", **labels}, times, list(values), stat=stat)
    return servers_of(batch.to_arrow(), brokers=brokers, end_seconds=NOW)


def well(at: Iterable[int] = (0, 10), broker: str = "b1:8080") -> list[Told]:
    """A broker that tells its load and its writes."""
    steps = [float(it) for it, _ in enumerate(at)]
    return [
        ("load_usage", {"broker": broker}, "cpu", [20.0 for _ in steps]),
        ("store_write_time", {"broker": broker}, "count", [100 * it for it in steps]),
        ("store_write_time", {"broker": broker}, "sum", [0.5 * it for it in steps]),
    ]


def test_nothing_told_is_nothing_known() -> None:
    """Neither 0 nor well."""
    assert told() == Servers()


@pytest.mark.parametrize("load", [math.inf, -math.inf, math.nan])
def test_a_load_that_is_no_number_is_named(load: float) -> None:
    """At any moment, of any broker, however many are not told."""
    found = told(("load_usage", {}, "cpu", [20.0, load]), ("load_usage", {}, "memory", [20.0, 30.0]), brokers=None)
    assert (found.bad_reports, found.bad_loads) == (1, ("cpu of b1:8080",))


def test_that_all_loads_are_numbers_is_known_of_all_brokers() -> None:
    """Of one of two it is not, and not where nobody says how many there are."""
    assert told(*well()).bad_reports == 0
    assert told(*well(), brokers=2).bad_reports is None
    assert told(*well(), *well(broker="b2:8080"), brokers=2).bad_reports == 0
    assert told(*well(), brokers=None).bad_reports is None


def test_unloads_are_counted_by_the_moments() -> None:
    """Many bundles at once are one moment; few moments are few only if half an hour is known of all brokers."""
    counter = [0.0] * (len(HALF_AN_HOUR) - 5) + [50.0, 50.0, 51.0, 2.0, 2.0]  # it began anew at 2
    storm = told(*well(HALF_AN_HOUR), ("bundle_unloads", {}, "value", counter), at=HALF_AN_HOUR)
    assert storm.unload_times == 3
    once = ("bundle_unloads", {}, "value", [0.0, 50.0])
    assert told(*well(), once).unload_times is None
    calm = told(*well(HALF_AN_HOUR), at=HALF_AN_HOUR)  # who never unloaded has no such counter
    assert calm.unload_times == 0
    assert told(*well(HALF_AN_HOUR), at=HALF_AN_HOUR, brokers=2).unload_times is None
    short = range(0, int(LESS * CHANGE_SECONDS), 60)
    assert told(*well(short), at=short).unload_times is None


def test_the_first_quarantine_has_no_sample_before() -> None:
    """Its counter appears with it: where the broker's others are older, it began at 0."""
    first = ("quarantines", {}, "value", [math.nan, 2.0])
    late = SampleBatch("events", "pulsar_broker")
    for signal, labels, stat, values in well():
        late.add(signal, labels, [(NOW - 10) * 10**6, NOW * 10**6], list(values), stat=stat)
    late.add("quarantines", {"broker": "b1:8080"}, [NOW * 10**6], [2.0], stat="value")
    assert servers_of(late.to_arrow(), brokers=1, end_seconds=NOW).quarantines == 2
    assert told(first).quarantines is None  # of a broker of which nothing else is known, it may be old
    assert (
        told(*well(), ("quarantines", {}, "value", [2.0, 2.0])).quarantines is None
    )  # old, and 10 s are not half an hour
    assert told(*well(HALF_AN_HOUR), at=HALF_AN_HOUR).quarantines == 0


def test_the_busiest_bookie_is_one_of_several() -> None:
    """By what was written between the samples, beside the mean."""

    def bookie(name: str, written: float) -> Told:
        return ("bookie_writes", {"broker": name}, "value", [1e9, 1e9 + written])

    found = told(bookie("k1", 300.0), bookie("k2", 0.0), bookie("k3", 0.0))
    assert (found.busiest, found.busiest_share) == ("k1", 3.0)
    assert told(bookie("k1", 300.0)).busiest_share is None
    assert told(bookie("k1", 0.0), bookie("k2", 0.0)).busiest_share is None


def test_acknowledgements_are_a_share_of_the_writes() -> None:
    """Of brokers that tell both; those that write most are named as groups are."""

    def writes(group: str, each: float, broker: str = "b1:8080") -> Told:
        labels = {"broker": broker, "topic": "shop/orders/persistent/paid", "group": group}
        return ("acknowledgement_writes", labels, "value", [5.0, 5.0 + 10 * each])

    entries = ("entry_writes", {}, "value", [20.0, 20.0])
    found = told(writes("billing", 50.0), writes("audit", 10.0), writes("other", 900.0, "b2:8080"), entries)
    assert found.ack_share == 0.75
    assert found.ack_writers == (("billing@shop/orders/paid", 50.0), ("audit@shop/orders/paid", 10.0))
    assert told(writes("billing", 50.0)).ack_share is None
    assert told(entries).ack_share is None


def test_times_of_writes_and_misses_are_by_broker_and_topic() -> None:
    """The mean of the writes between the samples; the smaller miss rate of the two looks."""
    topic = {"topic": "persistent://shop/orders/paid-partition-3"}
    found = told(
        ("store_write_time", {}, "count", [100.0, 300.0]),
        ("store_write_time", {}, "sum", [1.0, 401.0]),
        ("cache_misses", topic, "value", [40.0, 30.0]),
    )
    assert found.write_seconds == {"b1:8080": 2.0}
    assert found.misses == {"shop/orders/paid-partition-3": 30.0}
    assert found.broker_of == {"shop/orders/paid-partition-3": "b1:8080"}
    assert told(("cache_misses", topic, "value", [np.nan, np.nan])).misses == {}
    assert (
        told(
            ("store_write_time", {}, "count", [100.0, 100.0]), ("store_write_time", {}, "sum", [1.0, 1.0])
        ).write_seconds
        == {}
    )
