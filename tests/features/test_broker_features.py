"""Brokers as a unit of their own: their series, who leads what, and what groups read from each come onto one grid, whatever the way."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from tests.profiles.pages import PAGES
from tests.triage.brokers import END, WINDOW, Made, after, at
from workbench.collect.capture import Capture, new_info, read_capture, write_capture
from workbench.collect.scrape import Page, page_series
from workbench.features.broker_features import OF_SERVERS, _at_most, neighbourhood
from workbench.profiles import load_profile
from workbench.samples import GROUPS_SCHEMA, SampleBatch, grown

# What Kafka tells in another way, or has not.
OTHERS = {"topic_writes", "segment_failovers"}
NOBODY = GROUPS_SCHEMA.empty_table()


def micros(minutes: float) -> int:
    """Microseconds since the epoch, so long before the end."""
    return round((END - timedelta(minutes=minutes)).timestamp() * 1e6)


def test_a_page_of_a_broker_comes_through_a_capture(tmp_path: Path) -> None:
    """Every signal of the recorded page, under the id that the page tells, and with the address of its target."""
    page = Page(url="http://broker-1:5556/metrics", taken_at=micros(0) / 1e6, text=PAGES["jmx_kafka_broker"])
    [series] = page_series(page, [load_profile("jmx_kafka_broker")], cluster="c")
    info = new_info(cluster="c", source="watch", profiles=["jmx_kafka_broker"], window=WINDOW)
    write_capture(tmp_path / "kept", Capture(info=info, samples=series.to_samples()))
    found = neighbourhood(read_capture(tmp_path / "kept").samples, NOBODY, WINDOW)
    assert dict(found.addresses) == {1: "broker-1:5556"}
    own = found.servers[1]
    assert {signal for signal, _ in own} | {
        "topic_reads",
        "remote_reads",
        "remote_copy_lag",
        "client_reads",
        "client_writes",
        "client_request_time",
        "request_handler_idle_time",
    } == set(OF_SERVERS) - OTHERS
    assert own["request_time", "Produce"][-1] == pytest.approx(0.11966)
    assert own["request_handler_idle", "value"][-1] == pytest.approx(
        0.9973, abs=1e-4
    )  # one page shows no rate of a counter
    assert np.isnan(own["request_time", "Produce"][0])
    assert found.clients["reader", 1][-1] == pytest.approx(680425.5, abs=1)
    assert found.absent & set(OF_SERVERS) == OTHERS


def test_a_counter_has_no_rate_after_its_last_sample() -> None:
    """It has not stopped: nobody has looked since. A rate of 0 there would be the last that is known of each line."""
    batch = SampleBatch("c", "p")
    when = [micros(minutes) for minutes in np.arange(24.6, 0.4, -1.0)]  # the last is less than a step before the end
    batch.add("server_start_time", {"broker": "b"}, when, [1.0] * len(when), stat="1")
    batch.add("metadata_requests", {"broker": "b"}, when, [(it - when[0]) / 1e6 * 7 for it in when])
    found = neighbourhood(batch.to_arrow(), NOBODY, WINDOW)
    line = found.servers[1]["metadata_requests", "value"]
    assert line[~np.isnan(line)] == pytest.approx(7.0, rel=0.01) and np.isnan(line[-1])


def test_a_counter_of_idle_time_comes_before_a_mean_of_the_last_minute() -> None:
    """The mean shows half of a rise after 40 s; where the counter is not known, the mean is."""
    made = Made(1)
    made.own(1, "request_handler_idle", at(0.9))
    busy = after(-6, 0.5, before=0.9)
    made.count(1, "request_handler_idle_time", busy)
    line = made.seen().servers[1]["request_handler_idle", "value"]
    assert line[-3:] == pytest.approx(0.5, abs=0.02) and line[5] == pytest.approx(0.9, abs=0.02)
    assert line[0] == pytest.approx(0.9, abs=0.02)


def test_a_counter_is_a_rate_and_one_that_begins_anew_is_no_fall() -> None:
    """It counts from there; where nobody reports, nothing is known."""
    assert grown(np.array([5.0, 8.0, 2.0, 6.0])).tolist() == [0.0, 3.0, 5.0, 9.0]
    made = Made(1)
    made.traffic(1, at(600.0))
    line = made.seen().servers[1]["broker_traffic", "BytesOutPerSec"]
    assert np.isnan(line[0]) and line[5] == pytest.approx(600, rel=0.02)
    assert ("request_handler_idle", "value") not in made.seen().servers[1]


def test_a_gap_is_not_known_and_not_the_last_value() -> None:
    """After three missing samples of its own: a page that is asked for every three minutes has no gaps."""
    for every in (0.25, 3.0):
        when = [it for it in np.arange(25, -0.1, -every) if not 4 * every < it < 4 * every + 9.5 * every]
        batch = SampleBatch("c", "p")
        batch.add("server_start_time", {"broker": "b"}, [micros(it) for it in when], [1.0] * len(when), stat="7")
        batch.add("network_idle", {"broker": "b"}, [micros(it) for it in when], [0.8] * len(when))
        batch.add(
            "consumer_lag",
            {"group": "g", "topic": "t", "partition": 0},
            [micros(0.25 * it) for it in range(100)],
            [0.0] * 100,
        )
        found = neighbourhood(batch.to_arrow(), NOBODY, WINDOW)
        line = found.servers[7]["network_idle", "value"]
        at_minutes = (END.timestamp() - found.times) / 60
        is_gap = (at_minutes > every * 7.7) & (at_minutes < min(25, every * 9.8))
        is_known = at_minutes < every * 4
        assert is_gap.any() and np.isnan(line[is_gap]).all(), every
        assert line[is_known] == pytest.approx(0.8), every


def test_a_broker_that_comes_back_at_another_address_is_the_same() -> None:
    """Its lines go on; and a page that is there and does not name a client gives it nothing, one that is not there is not known."""
    batch = SampleBatch("c", "p")
    for address, start, begin, end in (("b:1", 1.0, 25.0, 12.0), ("b:2", 900.0, 10.0, 0.0)):
        when = np.arange(begin, end - 0.1, -0.25)
        for signal, labels, value, stat in (
            ("server_start_time", {}, start, "7"),
            ("network_idle", {}, 0.5, "value"),
            ("client_reads", {"member": "all"}, 5.0, "value"),
        ):
            batch.add(
                signal, {"broker": address, **labels}, [micros(it) for it in when], [value] * len(when), stat=stat
            )
    late = np.arange(5, -0.1, -0.25)
    batch.add("client_reads", {"broker": "b:2", "member": "late"}, [micros(it) for it in late], [9.0] * len(late))
    batch.add(
        "consumer_lag",
        {"group": "g", "topic": "t", "partition": 0},
        [micros(0.25 * it) for it in range(100)],
        [0.0] * 100,
    )
    found = neighbourhood(batch.to_arrow(), NOBODY, WINDOW)
    assert dict(found.addresses) == {7: "b:2"}
    minutes = (END.timestamp() - found.times) / 60
    is_gone = (minutes > 10.95) & (minutes < 11.05)
    idle, everybody, late_one = (
        found.servers[7]["network_idle", "value"],
        found.clients["all", 7],
        found.clients["late", 7],
    )
    assert np.isnan(idle[is_gone]).all() and idle[minutes > 12] == pytest.approx(0.5) and idle[-1] == pytest.approx(0.5)
    assert np.isnan(everybody[is_gone]).all() and everybody[minutes < 9] == pytest.approx(5)
    assert np.isnan(late_one[is_gone]).all() and late_one[(minutes > 7) & (minutes < 9)] == pytest.approx(0)


@pytest.mark.parametrize(("start", "is_known"), [(1.0, True), (5000.0, False)])
def test_two_processes_with_one_id_are_of_two_clusters(start: float, *, is_known: bool) -> None:
    """Whose is this cluster's nobody knows; one process that is asked twice is one."""
    made = Made(0)
    for address, began in (("a:1", 1.0), ("b:1", start)):
        made.add("server_start_time", {"broker": address}, np.full(len(made.at), began), stat="1")
        made.add("network_idle", {"broker": address}, np.full(len(made.at), 0.9))
    line = made.seen().servers[1]["network_idle", "value"]
    assert np.isnan(line).all() != is_known


def test_what_happened_is_of_the_broker_that_led_most_of_the_window() -> None:
    """Leaders that move at the end do not take the past along; who leads now is told beside."""
    made = Made(2)
    made.group("g", 1, at(100.0))
    made.batch.add("leader", {"topic": "g", "partition": 1}, [micros(it) for it in (9, 6, 3)], [1, 1, 1])
    made.batch.add("leader", {"topic": "g", "partition": 1}, [micros(-0.1)], [2])
    found = made.seen()
    assert set(found.groups) == {("g", 1)} and found.leaders["g", 1] == 2


def test_a_partition_that_a_group_has_left_does_not_hide_the_others() -> None:
    """Its lag is told no more since before the window."""
    made = Made(1)
    made.group("g", 1, at(100.0))
    when = made.at[made.minutes < -14]
    made.batch.add(
        "consumer_lag",
        {"group": "g", "topic": "old", "partition": 1},
        np.round(when * 1e6).astype(np.int64),
        [5.0] * len(when),
    )
    made.batch.add("leader", {"topic": "old", "partition": 1}, [micros(0)], [1])
    assert not np.isnan(made.seen().groups["g", 1].lag).any()


def test_the_last_leader_counts_and_none_is_none() -> None:
    """A partition that has lost its leader is not led by the one before."""
    batch = SampleBatch("c", "kafka")
    batch.add("leader", {"topic": "t", "partition": 0}, [micros(4), micros(1)], [1, 2])
    batch.add("leader", {"topic": "t", "partition": 1}, [micros(4), micros(1)], [1, -1])
    batch.add("missing_replicas", {"topic": "t", "partition": 0}, [micros(4), micros(1)], [0, 1])
    batch.add("missing_replicas", {"topic": "t", "partition": 1}, [micros(4), micros(1)], [1, 0])
    found = neighbourhood(batch.to_arrow(), NOBODY, WINDOW)
    assert dict(found.leaders) == {("t", 0): 2, ("t", 1): None}
    assert dict(found.short) == {("t", 0): 1}


def test_a_group_is_told_by_broker() -> None:
    """Lag, reads and arrivals of the partitions that each leads; without log ends, what arrives is what is read and what waits more."""
    made = Made(2)
    made.group("g", 1, at(200.0), after(-5, 0.5, before=1.0))
    made.group("g", 2, at(100.0))
    for samples in (
        made.samples(),
        made.samples().filter([it != "log_end_offset" for it in made.samples()["signal"].to_pylist()]),
    ):
        found = neighbourhood(samples, NOBODY, WINDOW)
        one, two = found.groups["g", 1], found.groups["g", 2]
        assert one.reads[-3] == pytest.approx(100, rel=0.05) and two.reads[-3] == pytest.approx(100, rel=0.05)
        assert one.arrivals[-3] == pytest.approx(200, rel=0.05)
        assert one.lag[-1] - one.lag[-2] == pytest.approx(100 * found.step, rel=0.05)
        assert one.read_bytes is None


def test_a_page_that_does_not_tell_its_id_is_nobodys() -> None:
    """A host's name is no broker id."""
    batch = SampleBatch("c", "p")
    batch.add("network_idle", {"broker": "b:1"}, [micros(1)], [0.9])
    found = neighbourhood(batch.to_arrow(), NOBODY, WINDOW)
    assert not found.servers and "server_start_time" in found.absent


def test_an_unknown_size_of_records_bounds_nothing() -> None:
    """Also where no record was committed: that is no missing value."""
    given, records = np.array([0.0, 5.0]), np.array([0.0, 1.0])
    assert _at_most(given, records, np.inf).tolist() == [0.0, 5.0]
    assert _at_most(given, records, 2.0).tolist() == [0.0, 2.0]
