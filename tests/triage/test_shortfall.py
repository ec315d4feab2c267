"""How much of what is not read each cause explains: by hand-made features, for any features, and in the order of two real causes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.triage.made import made, subscription
from workbench.features.subscription_measurements import PartitionFeatures, ProcessorFeatures
from workbench.triage.build_finding import build_finding
from workbench.triage.finding import Shortfall
from workbench.triage.lag_share_by_cause import shortfall_of
from workbench.triage.question_order import TREE
from workbench.triage.verdict_names import Answer, State, Verdict

YES = Answer.YES


def parts(number: int, arrival: float = 50.0, slope: float = 0.0) -> tuple[PartitionFeatures, ...]:
    """Partitions from 0 on."""
    return tuple(
        made(PartitionFeatures, partition=it, arrival_per_second=arrival, lag_slope=slope) for it in range(number)
    )


def handler(name: str, usual: float, now: float, rate: float = 100.0) -> ProcessorFeatures:
    """One with its process times in seconds."""
    return made(ProcessorFeatures, processor=name, process_seconds=now, baseline_seconds=usual, rate_per_second=rate)


def of(missing: float = 100.0, **known: Any) -> Shortfall | None:
    """Of 200 messages/s in four partitions."""
    row = subscription(**{"arrival_per_second": 200.0, "lag_slope": missing, "partitions": parts(4), **known})
    return shortfall_of(row, State.LAGGING)


ONE: dict[str, tuple[dict[str, Any], str, float]] = {
    "a partition that stands still": ({"frozen_partitions": (2,)}, "stuck_partition", 50.0),
    "all of them": ({"frozen_partitions": (0, 1, 2, 3)}, "consumer_stopped", 100.0),
    "a member less": ({"usual_members": 4.0, "group_members_recent": 3.0}, "consumer_stopped", 50.0),
    "handlers with four times their usual time": (
        {"processors": (handler("a", 0.01, 0.04), handler("b", 0.02, 0.08))},
        "slow_downstream",
        100.0,
    ),
    "one of two handlers": (
        {"processors": (handler("a", 0.01, 0.02), handler("b", 0.02, 0.02)), "slow_processors": ("a",)},
        "slow_processor",
        50.0,
    ),
    "a quota": ({"at_quota": True, "read_quota_per_second": 120.0}, "throttled", 80.0),
    "fetches held back": (
        {"throttle_seconds": 0.1, "rtt_baseline_seconds": 0.3, "answers": {"throttled": YES}},
        "throttled",
        50.0,
    ),
    "round trips": (
        {"rtt_seconds": 0.4, "rtt_baseline_seconds": 0.3, "answers": {"slow_network": YES}},
        "slow_network",
        50.0,
    ),
    "rebalances": ({"group_state_mean": 3.5, "answers": {"rebalancing": YES}}, "rebalance_storm", 50.0),
    "a hot partition": (
        {
            "partitions": parts(3, slope=-1.0) + parts(1, arrival=80.0, slope=60.0),
            "hot_partitions": (0,),
            "answers": {"hot_partition": YES},
        },
        "hot_partition",
        60.0,
    ),
    "a burst": ({"arrival_baseline_per_second": 140.0}, "burst", 60.0),
}


@pytest.mark.parametrize("name", ONE)
def test_one_cause_and_what_it_takes(name: str) -> None:
    """A quarter of the capacity is a quarter of the arrivals; nothing is more than the whole shortfall."""
    known, cause, amount = ONE[name]
    found = of(**known)
    assert found is not None
    [part] = found.parts
    assert (part.cause, part.per_second, part.share) == (cause, pytest.approx(amount), pytest.approx(amount / 100))
    assert found.words == "Of 200/s arriving, 100/s are not read"


def test_of_two_causes_the_larger_is_first() -> None:
    """Both are named, each with its own share."""
    found = of(missing=150.0, frozen_partitions=(1,), processors=(handler("a", 0.01, 0.02), handler("b", 0.01, 0.02)))
    assert found is not None
    assert [(it.cause, round(it.share, 2)) for it in found.parts] == [
        ("slow_downstream", 0.67),
        ("stuck_partition", 0.33),
    ]


@pytest.mark.parametrize(
    "known",
    [
        {"lag_slope": 9.0},  # less than a twentieth of the arrivals
        {"lag_slope": -5.0},
        {"lag_slope": None},
        {"arrival_per_second": None},
        {"arrival_per_second": 0.0},
        {"frozen_partitions": ()},  # nothing explains it
        {"own_work": False},  # slow handlers that wait for records hold nothing up
        {"frozen_partitions": (1,), "at_quota": True},  # under a quota, partitions wait for their turn
    ],
)
def test_nothing_is_made_up(known: dict[str, Any]) -> None:
    """Without a shortfall, or without a number that explains it, there is none."""
    slower = (handler("a", 0.01, 0.02),) if "own_work" in known else ()
    standing = () if "frozen_partitions" in known or "own_work" in known else (1,)
    assert of(**{"processors": slower, "frozen_partitions": standing, **known}) is None


@pytest.mark.parametrize("state", [State.HEALTHY, State.DRAINING])
def test_who_does_not_lag_falls_short_of_nothing(state: State) -> None:
    """However the numbers look."""
    row = subscription(arrival_per_second=200.0, lag_slope=100.0, partitions=parts(4), frozen_partitions=(1,))
    assert shortfall_of(row, state) is None


RATES = st.one_of(st.none(), st.floats(0, 1e9), st.just(0.0))


@given(
    st.fixed_dictionaries({
        "lag_slope": RATES, "arrival_per_second": RATES, "arrival_baseline_per_second": RATES, "usual_members": RATES,
        "group_members_recent": RATES, "throttle_seconds": RATES, "rtt_seconds": RATES, "rtt_baseline_seconds": RATES,
        "read_quota_per_second": RATES, "at_quota": st.booleans(), "group_state_mean": st.one_of(st.none(), st.floats(0, 4)),
        "frozen_partitions": st.sampled_from([(), (0,), (1, 2), (0, 1, 2, 3)]), "hot_partitions": st.sampled_from([(), (3,)]),
    }),
    st.sampled_from(list(Answer)),
    st.lists(st.tuples(st.floats(1e-6, 1e4), st.floats(1e-6, 1e4)), max_size=3),
)  # fmt: skip
def test_for_any_numbers_no_part_is_more_than_the_whole(
    known: dict[str, Any], answer: Answer, handlers: list[tuple[float, float]]
) -> None:
    """The parts are in order, and each is a share of it."""
    names = ("throttled", "slow_network", "rebalancing", "hot_partition", "queue_backed_up")
    processors = tuple(handler(f"p{number}", *of_) for number, of_ in enumerate(handlers))
    found = of(**known, processors=processors, answers=dict.fromkeys(names, answer))
    if found is None:
        return
    amounts = [it.per_second for it in found.parts]
    assert amounts == sorted(amounts, reverse=True)
    assert all(0 < it <= found.missing_per_second for it in amounts)
    assert all(0 < it.share <= 1 for it in found.parts)


@pytest.mark.parametrize(
    ("throttle", "own", "asked"), [(4.0, Answer.YES, True), (4.0, Answer.NO, False), (None, YES, False)]
)
def test_what_is_to_be_done_about_the_larger_of_two_faults_is_said(
    throttle: float | None, own: Answer, asked: bool
) -> None:
    """Beside a partition that stands still; only of a cause that the data show."""
    row = subscription(
        arrival_per_second=200.0, lag_slope=190.0, partitions=parts(8, arrival=25.0), frozen_partitions=(2,),
        throttle_seconds=throttle, at_quota=throttle is not None, verdict=Verdict.STUCK_PARTITION,
        answers={**dict.fromkeys(TREE, Answer.NO), "lagging": YES, "stuck": YES, "throttled": own},
    )  # fmt: skip
    titles = [it.title for it in build_finding(row, profiles=()).actions]
    assert titles
    assert any("quota" in it for it in titles) is asked
    assert len(set(titles)) == len(titles)
