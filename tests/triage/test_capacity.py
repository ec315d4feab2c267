"""Sizing by Little's law, against a simulation that a person can follow; and the sum in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.triage.made import made, subscription
from workbench.features.subscription_measurements import ProcessorFeatures, QueueFeatures
from workbench.judgement_numbers import UTILISATION
from workbench.thresholds import Thresholds
from workbench.triage import capacity
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import Verdict


def processor(name: str, **known: Any) -> ProcessorFeatures:
    """An event type."""
    return made(ProcessorFeatures, processor=name, **known)


def queue(name: str, **known: Any) -> QueueFeatures:
    """A queue of an event type."""
    return made(QueueFeatures, processor=name, **known)


def row(**changes: Any) -> SubscriptionFeatures:
    """A subscription with two event types; 100/s arrive, 60 of them refunds."""
    known: dict[str, Any] = {
        "arrival_per_second": 100.0,
        "lag_messages": 9000.0,
        "lag_slope": 40.0,
        "group_members": 3.0,
        "partition_count": 21,
        "processors": (
            processor("refund", attempts=200.0, baseline_attempts=600.0, process_seconds=0.4),
            processor("order", attempts=300.0, baseline_attempts=400.0, process_seconds=0.01),
        ),
        "slow_processors": ("refund",),
        "full_queues": (queue("refund"),),
        "queues": (queue("refund"),) * 8,
    }
    return subscription(**{**known, **changes})


def test_threads_are_arrivals_times_time() -> None:
    """60/s × 400 ms = 24 busy threads; at 80 % use 30. Shares come from before the incident, when all could be handled."""
    sizing = capacity.processor_threads(row(), {"refund"})
    assert sizing is not None
    assert sizing.keep_up == 30
    assert sizing.drain == 32  # 9,000 in 30 min are 5/s more, 3 of them refunds: 1.2 threads
    assert "60/s × 400 ms ÷ 80 % = 30 threads to keep up" in sizing.words
    assert "32 to drain" in sizing.words


def test_without_a_baseline_the_attempts_of_the_window_are_what_there_is() -> None:
    """A new event type has no past."""
    processors = tuple(replace(it, baseline_attempts=None) for it in row().processors)
    sizing = capacity.processor_threads(row(processors=processors), {"refund"})
    assert sizing is not None
    assert sizing.keep_up == 20  # 40/s × 400 ms ÷ 0.8


def test_threads_that_share_a_queue_are_seen_by_their_work() -> None:
    """Eight queues, but 30 attempts a second of 400 ms: twelve threads are busy."""
    processors = tuple(replace(it, rate_per_second=30.0) for it in row().processors)
    assert capacity.current_threads(row(processors=processors), {"refund"}) == 12
    assert capacity.current_threads(row(), {"refund"}) == 8


def test_threads_in_members_without_such_events_do_not_count() -> None:
    """Two of three members get the slow type's keys; what is not known is not taken for idle."""
    fills = [("a", 0.9), ("a", 0.1), ("b", 0.7), ("c", 0.0), (None, 1.0), ("d", None)]
    queues = (
        *(queue("refund", member=member, fill=fill) for member, fill in fills),
        queue("order", member="e", fill=1.0),
    )
    assert capacity.loaded_members(row(queues=queues), {"refund"}) == (2, 3)


def test_consumers_go_by_their_own_pace() -> None:
    """100/s arrive, 60/s are committed by three: 20/s each; 100 ÷ 20 ÷ 0.8 = 7."""
    sizing = capacity.consumers(row())
    assert sizing is not None
    assert (sizing.keep_up, sizing.drain) == (7, 7)
    assert "100/s arriving ÷ 20/s per consumer ÷ 80 % = 7 consumers to keep up" in sizing.words


@given(needed=st.integers(1, 40), partitions=st.integers(1, 60))
def test_partitions_go_to_consumers_whole(needed: int, partitions: int) -> None:
    """With so many consumers the busiest has no more than its share, and with one fewer it would have."""
    found = capacity._whole_partitions(needed, partitions)
    if needed >= partitions:
        assert found == needed  # a consumer for each partition is all that helps
        return
    share = partitions / needed
    assert -(-partitions // found) <= share
    assert found == 1 or -(-partitions // (found - 1)) > share
    assert needed <= found <= partitions


def test_what_would_not_help_is_not_advised() -> None:
    """Five consumers of eight partitions leave two partitions to one of them, as four would."""
    eight = row(partition_count=8, arrival_per_second=80.0, lag_slope=20.0, group_members=3, lag_messages=0)
    sizing = capacity.consumers(eight)
    assert sizing is not None
    assert sizing.keep_up == 8
    assert "= 5 consumers to keep up, 8 to divide 8 partitions evenly enough" in sizing.words


@pytest.mark.parametrize("missing", ["arrival_per_second", "group_members", "lag_slope"])
def test_what_is_not_known_makes_no_number(missing: str) -> None:
    """Never 0, never a guess."""
    assert capacity.consumers(row(**{missing: None})) is None


def test_who_commits_nothing_has_no_pace() -> None:
    """A division by nothing is no answer."""
    assert capacity.consumers(row(lag_slope=100.0)) is None


@given(rate=st.floats(1, 5000), seconds=st.floats(0.0005, 2), lag=st.integers(0, 10**7), objective=st.floats(1, 600))
def test_what_is_needed_does_suffice(rate: float, seconds: float, lag: int, objective: float) -> None:
    """With so many threads at most 80 % are busy with what arrives, and what waits is gone in time; with one fewer they are not."""
    processors = (processor("x", attempts=10.0, baseline_attempts=10.0, process_seconds=seconds),)
    limits = Thresholds(time_lag_objective_seconds=objective)
    known = {"arrival_per_second": rate, "lag_messages": lag, "processors": processors, "limits": limits}
    sizing = capacity.processor_threads(row(**known), {"x"})
    assert sizing is not None
    assert rate * seconds <= sizing.keep_up * UTILISATION * (1 + 1e-9)
    assert sizing.keep_up == 1 or rate * seconds > (sizing.keep_up - 1) * UTILISATION * (1 - 1e-9)
    per_second = sizing.drain / seconds
    assert sizing.drain >= sizing.keep_up
    if per_second > rate:
        assert lag / (per_second - rate) <= sizing.drain_seconds * (1 + 1e-9)
    else:
        assert lag == 0 or per_second == pytest.approx(rate)


def test_only_a_lack_of_capacity_has_a_size() -> None:
    """A poison record needs no threads."""
    sized = {verdict for verdict in Verdict if leaf_of(verdict).sizing(row()) is not None}
    assert sized == {
        Verdict.SLOW_PROCESSOR, Verdict.SATURATED_PROCESSORS, Verdict.TOO_FEW_CONSUMERS, Verdict.PARTITION_CEILING,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lag", "slope", "seconds"),
    [(0, 40.0, 0.0), (9000, 40.0, None), (9000, -30.0, 300.0), (9000, None, None), (None, 40.0, None)],
)
def test_time_to_drain(lag: float | None, slope: float | None, seconds: float | None) -> None:
    """Lag over the pace at which it shrinks; never for what does not shrink."""
    assert capacity.drain_seconds(lag, slope) == seconds


@pytest.mark.parametrize("lag", [None, 0.0, 900.0])
def test_where_nothing_arrives_one_consumer_is_needed(lag: float | None) -> None:
    """A group that reads an old backlog of a silent topic: no number of partitions is divided by none."""
    row = subscription(
        limits=Thresholds(),
        group_members=3.0,
        partition_count=8,
        arrival_per_second=0.0,
        lag_slope=-0.9,
        lag_messages=lag,
    )
    sizing = capacity.consumers(row)
    assert sizing is not None
    assert sizing.keep_up == 1
    assert sizing.drain >= 1
