"""Verdicts about brokers: both sides of every threshold, victims, and "cannot tell" where a signal is missing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.triage.brokers import END, WINDOW, Made, after, at
from tests.triage.test_blame_heavy_readers import hog, neighbours, strained
from workbench.features.broker_features import neighbourhood
from workbench.queues.snapshot_views import GroupView, views_table
from workbench.queues.tool_words import tools_of
from workbench.thresholds import Thresholds
from workbench.triage.blame_heavy_readers import blame
from workbench.triage.broker_findings import BrokerFinding, BrokerLook, BrokerVerdict
from workbench.triage.brokers import judge_brokers

LIMITS = Thresholds()
V = BrokerVerdict


def look(made: Made, *, without: str | None = None) -> BrokerLook:
    """What it says of the brokers."""
    samples = made.samples()
    if without is not None:
        samples = samples.filter(pc.not_equal(samples["signal"], without))
    seen = neighbourhood(samples, made.groups(), WINDOW)
    return judge_brokers(seen, blame(seen, LIMITS), LIMITS, tools_of("b:1"))


def one(made: Made, verdict: BrokerVerdict) -> BrokerFinding | None:
    """The finding with this verdict."""
    return next((it for it in look(made).findings if it.verdict is verdict), None)


def quiet() -> Made:
    """Three brokers that are well, with two groups each, and every signal."""
    made = Made()
    made.well(1, 2, 3)
    for broker in (1, 2, 3):
        neighbours(made, broker, slow=None, groups=2)
        made.own(broker, "log_flush_time", at(0.02))
        made.own(broker, "under_replicated", at(0.0))
        made.own(broker, "remote_failures", at(0.0), kind="RemoteFetchErrorsPerSec")
        made.own(broker, "coordinator_partitions", at(3.0), kind="active")
        made.count(broker, "metadata_requests", at(2.0))
        made.traffic(broker, at(1e6))
    return made


def test_a_cluster_that_is_well_has_no_finding() -> None:
    """And nothing is open."""
    assert look(quiet()) == BrokerLook(findings=(), unknown={})


# Verdict, and how a signal of broker 1 becomes x; below and above its threshold.
SIDES: list[tuple[BrokerVerdict, Callable[[Made, float], None], float, float]] = [
    (V.UNDER_REPLICATED, lambda m, x: m.own(1, "under_replicated", after(-10, x)), 0.4, 0.6),
    (V.LEADERLESS, lambda m, x: m.own(1, "offline", after(-10, x)), 0.4, 0.6),
    (V.REQUEST_QUEUE_FULL, lambda m, x: handlers(m, 1 - x, 0.5), 0.69, 0.71),
    (V.REQUEST_QUEUE_FULL, lambda m, x: handlers(m, 0.1, x), 0.019, 0.021),
    (V.FLUSH_SLOW, lambda m, x: m.own(1, "log_flush_time", after(-10, x, before=0.02)), 0.98, 1.02),
    (V.FLUSH_SLOW, lambda m, x: m.own(1, "log_flush_time", after(-10, x, before=0.5)), 1.48, 1.52),
    (V.FLUSH_SLOW, lambda m, x: m.count(1, "segment_failovers", after(-8, x / 480)), 2, 4),
    (V.FLUSH_SLOW, lambda m, x: m.count(1, "segment_failovers", after(-10, x / 600, before=0.05)), 88, 92),
    (V.REMOTE_STORAGE_FAILING, lambda m, x: fails(m, x), 2, 4),
    (
        V.COORDINATOR_MOVING,
        lambda m, x: m.own(1, "coordinator_partitions", after(-4, x, before=3.0), kind="active"),
        3,
        2,
    ),
    (V.COORDINATOR_MOVING, lambda m, x: m.own(1, "coordinator_partitions", after(-4, x), kind="loading"), 0, 1),
    (V.SLOW_BROKER, lambda m, x: slow(m, x), 0.019, 0.021),
]


def handlers(made: Made, idle: float, waits: float) -> None:
    """How idle the handlers are, and how long requests wait for them."""
    made.own(1, "request_handler_idle", after(-10, idle, before=0.9))
    made.own(1, "request_queue_time", after(-10, waits, before=0.001), kind="Produce")


def fails(made: Made, times: float) -> None:
    """So many failed reads in the window."""
    made.own(1, "remote_failures", lambda minutes: (minutes > -5) * times, kind="RemoteFetchErrorsPerSec")


def slow(made: Made, seconds: float) -> None:
    """Broker 1 works so long on a request, and everybody on it waits."""
    made.own(1, "request_local_time", after(-10, seconds, before=0.001), kind="Produce")
    neighbours(made, 1, slow=after(-9.5, 0.6, before=1.0), groups=2)


def fresh(verdict: BrokerVerdict) -> Made:
    """Brokers without what the case sets itself."""
    made = Made()
    made.well(2, 3)
    for broker in (2, 3):
        neighbours(made, broker, slow=None, groups=2)
    for broker in (1, 2, 3):
        made.traffic(broker, at(1e6))
    if verdict is not V.SLOW_BROKER:
        neighbours(made, 1, slow=None, groups=2)
    return made


@pytest.mark.parametrize(("verdict", "set_to", "below", "above"), SIDES)
def test_both_sides_of_every_threshold(
    verdict: BrokerVerdict, set_to: Callable[[Made, float], None], below: float, above: float
) -> None:
    """A value on one side is no finding, on the other it is, about broker 1."""
    made = fresh(verdict)
    set_to(made, below)
    assert one(made, verdict) is None
    made = fresh(verdict)
    set_to(made, above)
    found = one(made, verdict)
    assert found is not None and found.brokers == (1,)


@pytest.mark.parametrize(
    ("verdict", "signal"),
    [
        (V.FLUSH_SLOW, "log_flush_time"),
        (V.REMOTE_STORAGE_FAILING, "remote_failures"),
        (V.UNDER_REPLICATED, "under_replicated"),
        (V.REQUEST_QUEUE_FULL, "request_handler_idle"),
        (V.COORDINATOR_MOVING, "coordinator_partitions"),
        (V.SLOW_BROKER, "response_send_time"),
        (V.METADATA_STORM, "metadata_requests"),
    ],
)
def test_a_verdict_without_its_signal_is_open(verdict: BrokerVerdict, signal: str) -> None:
    """With the signal's name, and never a no."""
    found = look(quiet(), without=signal)
    assert not found.findings
    assert any(signal in name for name in found.unknown[verdict])


def test_data_at_risk_is_what_groups_have_not_read_on_short_partitions() -> None:
    """Named with the partition; a group that has read all of it risks nothing."""
    made = quiet()
    made.group("late", 1, at(200), after(-9, 0.5, before=1.0), topic="orders")
    made.own(1, "under_replicated", after(-10, 1.0))
    made.batch.add("missing_replicas", {"topic": "orders", "partition": 1}, [round(made.at[-1] * 1e6)], [1])
    found = one(made, V.UNDER_REPLICATED)
    assert found is not None and found.groups == ("late",)
    assert found.at_risk["late"] == pytest.approx(200 * 0.5 * 9 * 60, rel=0.05)
    assert "orders-1" in found.headline
    assert found.actions[0].command == "kafka-topics --bootstrap-server b:1 --describe --under-replicated-partitions"


def test_partitions_without_a_leader_name_their_readers() -> None:
    """Kafka itself tells them, without any metrics of brokers."""
    made = quiet()
    made.group("g", 1, at(10), topic="lost")
    made.batch.add("leader", {"topic": "lost", "partition": 1}, [round(made.at[-1] * 1e6) + 1], [-1])
    found = one(made, V.LEADERLESS)
    assert found is not None and found.groups == ("g",) and "lost-1" in found.headline


def test_slow_flushes_on_most_brokers_are_a_shared_storage() -> None:
    """One is its own disk."""
    made = quiet()
    made.own(1, "log_flush_time", at(3.0))
    single = Made()
    single.own(1, "log_flush_time", after(-10, 3.0))
    single.own(2, "log_flush_time", at(0.02))
    assert "its disk" in (one(single, V.FLUSH_SLOW) or made).headline  # type: ignore[union-attr]
    single.own(3, "log_flush_time", after(-10, 3.0))
    assert "that they share" in (one(single, V.FLUSH_SLOW) or made).headline  # type: ignore[union-attr]


def test_a_broker_that_somebody_overloads_is_not_slow_by_itself() -> None:
    """The reader is the cause."""
    made = fresh(V.SLOW_BROKER)
    strained(made, 1)
    neighbours(made, 1, slow=after(-6, 0.6, before=1.0))
    assert one(made, V.SLOW_BROKER) is not None
    hog(made, 1)
    assert one(made, V.SLOW_BROKER) is None


def test_a_network_that_is_slow_everywhere_is_no_slow_broker() -> None:
    """Groups wait on every broker."""
    made = Made()
    for broker in (1, 2, 3):
        strained(made, broker)
        neighbours(made, broker, slow=after(-6, 0.6, before=1.0))
        made.traffic(broker, at(1e6))
    assert one(made, V.SLOW_BROKER) is None


@pytest.mark.parametrize(("groups", "moves"), [(2, False), (3, True)])
def test_groups_that_change_their_coordinator_together_are_one_finding(groups: int, moves: bool) -> None:
    """As Kafka's lists of groups show it over time."""
    made = quiet()

    def listed(coordinator: int, minutes: float) -> object:
        views = [
            GroupView(group=f"g{it}", state="stable", protocol="classic", coordinator=coordinator, members=())
            for it in range(groups)
        ]
        return views_table(views, "c", END.timestamp() + minutes * 60)

    import pyarrow as pa

    seen = neighbourhood(made.samples(), pa.concat_tables([listed(2, -8), listed(3, -1)]), WINDOW)
    found = judge_brokers(seen, blame(seen, LIMITS), LIMITS, tools_of("b:1")).findings
    assert [it.verdict for it in found] == ([V.COORDINATOR_MOVING] if moves else [])
    if moves:
        assert found[0].brokers == (2,) and found[0].groups == ("g0", "g1", "g2")


def test_one_group_elsewhere_does_not_hide_a_slow_broker() -> None:
    """Somebody is always late somewhere; a tenth as many as here are too many."""
    for lame, is_slow in ((1, True), (6, False)):
        made = fresh(V.SLOW_BROKER)
        made.own(1, "request_local_time", after(-10, 0.5, before=0.001), kind="Produce")
        neighbours(made, 1, slow=after(-9.5, 0.6, before=1.0), groups=8)
        for number in range(40):
            made.group(f"far{number}", 3, at(200.0), after(-9.5, 0.6, before=1.0) if number < lame else None)
        assert (one(made, V.SLOW_BROKER) is not None) == is_slow


def test_a_partition_is_short_as_kafka_says_where_its_leader_has_no_page() -> None:
    """The other brokers tell of theirs alone; a leader that tells of none is believed."""
    for silent, expected in ((True, (1,)), (False, None)):
        made = fresh(V.UNDER_REPLICATED)
        for broker in (2, 3) if silent else (1, 2, 3):
            made.own(broker, "under_replicated", at(0.0))
        made.batch.add("missing_replicas", {"topic": "g10", "partition": 1}, [round(made.at[-1] * 1e6)], [1])
        found = one(made, V.UNDER_REPLICATED)
        assert (found.brokers if found else None) == expected


def test_coordinators_that_came_back_before_the_window_have_not_moved() -> None:
    """A restart in the baseline."""
    made = fresh(V.COORDINATOR_MOVING)
    made.own(1, "coordinator_partitions", lambda it: np.where((it < -14) & (it > -20), 0.0, 25.0), kind="active")
    assert one(made, V.COORDINATOR_MOVING) is None


def test_failures_are_counted_where_the_page_is_there_and_not_in_its_gaps() -> None:
    """Two of them in a third of the window are two."""
    made = fresh(V.REMOTE_STORAGE_FAILING)
    fails(made, 2)
    samples = made.samples()
    is_gone = [
        name == "remote_failures" and -9.9 < (at_us.timestamp() - END.timestamp()) / 60 < -5.6
        for name, at_us in zip(samples["signal"].to_pylist(), samples["ts"].to_pylist(), strict=True)
    ]
    seen = neighbourhood(samples.filter(pa.array([not it for it in is_gone])), made.groups(), WINDOW)
    found = judge_brokers(seen, blame(seen, LIMITS), LIMITS, tools_of("b:1")).findings
    assert V.REMOTE_STORAGE_FAILING not in [it.verdict for it in found]
