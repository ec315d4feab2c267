"""The second of two faults: a fact beside the verdict, or beside a cause that cannot be told, is named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.triage.made import made, subscription
from workbench.features.subscription_measurements import PartitionFeatures
from workbench.triage.lag_share_by_cause import shortfall_of
from workbench.triage.question_order import TREE
from workbench.triage.rank_candidate_causes import likeliest_first
from workbench.triage.second_faults import also_true
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import Answer, State, Verdict

YES, NO = Answer.YES, Answer.NO
V = Verdict


def partition(number: int, *, read: float, before: float = 50.0, slope: float = 20.0) -> PartitionFeatures:
    """One with its pace in messages/s."""
    return made(
        PartitionFeatures,
        partition=number,
        committed_recent_per_second=read,
        arrival_baseline_per_second=before,
        arrival_per_second=before,
        lag_slope=slope,
    )


def late(read: float = 20.0, **known: Any) -> SubscriptionFeatures:
    """Partition 0 stands still, 1 and 2 fall behind; fetched messages wait, and nothing measures the handlers."""
    known["answers"] = dict.fromkeys(TREE, Answer.CANNOT_TELL) | {"lagging": YES} | known.get("answers", {})
    return subscription(**{
        "partitions": (partition(0, read=0.0, slope=50.0), partition(1, read=read), partition(2, read=read)),
        "behind_partitions": (0, 1, 2), "frozen_partitions": (0,), "queueless": True, "own_work": True, "known_count": 0,
        "arrival_per_second": 150.0, "lag_slope": 90.0, "fetched_low": 500.0, **known,
    })  # fmt: skip


def told(row: SubscriptionFeatures, verdict: Verdict, *asked: str) -> str:
    """What stands beside a verdict whose path had these questions."""
    return " ".join(also_true(row, [TREE[it] for it in asked], leaf_of(verdict)))


def test_others_that_are_read_more_slowly_stand_beside_a_stuck_partition() -> None:
    """The stuck one does not count for their pace, and each has a part of what is not read."""
    row = late()
    assert "Own work slower: messages wait in the client, and the other partitions are read at 0.4" in told(
        row, V.STUCK_PARTITION
    )
    found = shortfall_of(row, State.LAGGING)
    assert found is not None
    assert [(it.cause, round(it.per_second)) for it in found.parts] == [
        ("stuck_partition", 50),
        ("slow_downstream", 40),
    ]


@pytest.mark.parametrize(
    "known",
    [
        {"read": 49.0},  # as fast as ever
        {"own_work": False},
        {"own_work": None},
        {"known_count": 1},  # process times say it themselves
        {"queueless": False},
        {"at_quota": True},
        {"behind_partitions": (0,)},
        {"standing_partitions": (1, 2)},
        {"partitions": (partition(0, read=0.0), partition(1, read=20.0, before=0.0))},  # nothing to compare with
    ],
)
def test_nothing_slower_is_made_up(known: dict[str, Any]) -> None:
    """What waits for its turn, is not late, or has no pace before is not slower."""
    assert "slower" not in told(late(**known), V.STUCK_PARTITION)


def test_a_pace_is_that_of_the_members_that_are_left() -> None:
    """Two of three members read two thirds."""
    row = late(usual_members=3.0, group_members_recent=2.0)
    assert row.pace_of(row.partitions[1:]) == pytest.approx(0.6)


def test_a_quota_beside_work_that_cannot_be_told_is_the_second_candidate() -> None:
    """The path of a consumer that is busy does not ask for it."""
    answers = {"queue_backed_up": YES, "throttled": YES, "slow_network": NO}
    row = late(frozen_partitions=(), throttle_seconds=0.5, pace_ratio=0.4, answers=answers)
    causes = [V.TOO_FEW_CONSUMERS, V.SLOW_PROCESSOR, V.SLOW_DOWNSTREAM]
    assert likeliest_first(causes, row)[:3] == [V.SLOW_DOWNSTREAM, V.THROTTLED, V.SLOW_PROCESSOR]
    assert "Throttled: 500 ms on average." in told(row, V.CANNOT_TELL, "queue_backed_up")
    assert "Throttled" not in told(row, V.CANNOT_TELL, "throttled")
    found = shortfall_of(row, State.CANNOT_TELL)
    assert found is not None
    assert [it.cause for it in found.parts] == ["slow_downstream", "throttled"]
    # What reaches it late costs no more than its own work, which is the limit.
    assert found.parts[1].per_second <= found.parts[0].per_second


@pytest.mark.parametrize(
    ("moved", "first"), [(0.0, V.CONSUMER_STOPPED), (9.0, V.SLOW_DOWNSTREAM), (None, V.SLOW_DOWNSTREAM)]
)
def test_a_slow_handler_is_no_first_guess_where_no_commit_has_ever_moved(moved: float | None, first: Verdict) -> None:
    """It has no rhythm that it could have lost, so none of its partitions counts as frozen; but a slow reader would move."""
    row = late(frozen_partitions=(), moving_partitions=0, committed_moved=moved, pace_ratio=0.0)
    assert likeliest_first([V.SLOW_DOWNSTREAM, V.STUCK_PARTITION, V.CONSUMER_STOPPED], row)[0] is first


@pytest.mark.parametrize(
    ("more", "first"),
    [
        (None, V.HOT_PARTITION),
        (3.0, V.HOT_PARTITION),
        (1.3, V.HOT_PARTITION),
        (1.02, V.SLOW_DOWNSTREAM),
        (0.6, V.SLOW_DOWNSTREAM),
    ],
)
def test_a_few_late_partitions_that_get_no_more_than_others_are_not_hot_at_first_guess(
    more: float | None, first: Verdict
) -> None:
    """Where their arrivals are measured, and even, it is who reads there, or what the records are."""
    row = late(
        frozen_partitions=(), frozen_count=0, standing_partitions=(), moving_partitions=8, comes_and_goes=False,
        behind_partitions=(5,), few_partitions=2, partition_count=8, hot_arrival_ratio=more,
    )  # fmt: skip
    causes = [V.TOO_FEW_CONSUMERS, V.HOT_KEY, V.HOT_PARTITION, V.SLOW_DOWNSTREAM]
    assert likeliest_first(causes, row)[0] is first


def test_a_slow_network_beside_fetched_messages_that_wait_is_named() -> None:
    """It is not the limit, and slow all the same."""
    row = late(
        frozen_partitions=(), surely_slow_network=True, rtt_seconds=1.0, rtt_baseline_seconds=0.01, pace_ratio=0.4,
        answers={"slow_network": NO},
    )  # fmt: skip
    assert likeliest_first([V.SLOW_DOWNSTREAM, V.SLOW_PROCESSOR], row)[1] is V.SLOW_NETWORK
    assert "Network slow: " in told(row, V.CANNOT_TELL, "queue_backed_up")
    found = shortfall_of(row, State.CANNOT_TELL)
    assert found is not None
    assert "slow_network" in [it.cause for it in found.parts]


def test_fetches_of_a_busy_client_are_no_slow_network() -> None:
    """The time of its fetches contains the wait for records, and grows with what it leaves to wait for."""
    known = {
        "frozen_partitions": (),
        "rtt_seconds": 0.24,
        "rtt_baseline_seconds": 0.03,
        "answers": {"slow_network": YES},
    }
    busy = late(pace_ratio=0.4, **known)
    assert V.SLOW_NETWORK not in likeliest_first([V.SLOW_DOWNSTREAM], busy)
    assert "Network slow" not in told(busy, V.CANNOT_TELL, "queue_backed_up")
    found = shortfall_of(busy, State.CANNOT_TELL)
    assert found is not None and [it.cause for it in found.parts] == ["slow_downstream"]
    waits = late(own_work=None, **known)
    assert V.SLOW_NETWORK in likeliest_first([V.SLOW_DOWNSTREAM], waits)


def test_nothing_stands_beside_a_lag_that_is_not_known() -> None:
    """Whether it lags at all comes first."""
    row = late(answers={"lagging": Answer.CANNOT_TELL, "throttled": YES})
    assert told(row, V.CANNOT_TELL) == ""
    assert likeliest_first([V.HEALTHY, V.SLOW_DOWNSTREAM], row) == [V.SLOW_DOWNSTREAM, V.HEALTHY]


def test_slower_handlers_that_wait_for_a_quota_are_named() -> None:
    """They hold nothing up now, and would without it."""
    known = {"median_slow_down": 3.8, "known_count": 2, "own_work": False, "answers": {"all_slow": NO, "one_slow": NO}}
    assert "Handlers slower: half of the processors take at least 3.8" in told(late(**known), V.THROTTLED)
    assert "All slower" not in told(late(**{**known, "median_slow_down": 1.05}), V.THROTTLED)
    assert "All slower" not in told(late(**{**known, "queueless": False}), V.THROTTLED)
    one = {**known, "known_count": 1, "one_slow": True}
    assert "One processor slow" in told(late(**one), V.THROTTLED) and "All slower" not in told(late(**one), V.THROTTLED)


@pytest.mark.parametrize(
    ("arriving", "first"), [(1.0, V.TOO_FEW_CONSUMERS), (0.7, V.TOO_FEW_CONSUMERS), (1.3, V.BURST), (None, V.BURST)]
)
def test_a_burst_is_no_first_guess_where_no_more_arrives(arriving: float | None, first: Verdict) -> None:
    """A reader at its usual pace with a backlog has got more, or has not yet caught up with what a stop of its own has left."""
    row = late(frozen_partitions=(), moving_partitions=3, pace_ratio=1.02, arrival_ratio=arriving)
    assert likeliest_first([V.SLOW_DOWNSTREAM, V.BURST, V.TOO_FEW_CONSUMERS], row)[0] is first
