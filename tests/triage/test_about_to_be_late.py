"""What a group that is in time says where it will not be for long, and what is known of why."""

from __future__ import annotations

import pytest

from tests.triage.made import made, subscription
from workbench.features.subscription_measurements import PartitionFeatures
from workbench.profiles import load_profile
from workbench.thresholds import Thresholds
from workbench.triage.build_finding import build_finding
from workbench.triage.question_order import TREE
from workbench.triage.second_faults import also_true
from workbench.triage.status import lagging
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import Answer, Verdict


def row(waiting: float, unread: float, *, late: bool = False, rhythm: float = 0.0) -> SubscriptionFeatures:
    """One partition of 100 messages/s, with what it waited and what of its arrivals was not read lately."""
    story = {"late": float(late), "waiting": waiting, "lag_course": unread * 100, "cadence": rhythm}
    part = made(
        PartitionFeatures, partition=0, log_end=1e6, lag_messages=waiting * 100, arrival_per_second=100.0, story=story
    )
    answers = dict.fromkeys(TREE, Answer.NO)
    return made(
        SubscriptionFeatures, partitions=(part,), partition_count=1, limits=Thresholds(), answers=answers, reasons={},
        verdict=Verdict.HEALTHY,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("waiting", "unread", "seconds"),
    [(80, 0.5, 80.0), (100, 1.0, 20.0), (80, 0.02, None), (80, -0.5, None), (80, 3.0, None)],
)
def test_when_it_will_be_late_is_told_by_the_last_samples(waiting: float, unread: float, seconds: float | None) -> None:
    """Of what clearly grows; more than arrives is not unread, it was misread."""
    assert row(waiting, unread).late_in_seconds == (None if seconds is None else pytest.approx(seconds))


def test_who_is_late_is_not_about_to_be() -> None:
    """Nor who is within its rhythm."""
    assert row(200, 1.0, late=True).late_in_seconds is None


@pytest.mark.parametrize(("throttled", "told"), [(Answer.YES, 1), (Answer.NO, 0), (Answer.CANNOT_TELL, 0)])
def test_what_holds_it_back_is_said_before_it_is_late(throttled: Answer, told: int) -> None:
    """The cause is measured minutes before the objective is missed."""
    known = subscription(
        late_in_seconds=40.0, throttle_seconds=0.8, verdict=Verdict.HEALTHY,
        answers={**dict.fromkeys(TREE, Answer.NO), "throttled": throttled},
    )  # fmt: skip
    assert len(also_true(known, (), leaf_of(Verdict.HEALTHY))) == told
    assert "; late in 40 s if it goes on" in lagging.words(
        subscription(late_in_seconds=40.0, time_lag_seconds=80.0, lag_messages=8000.0, lag_slope=50.0)
    )


@pytest.mark.parametrize(("profiles", "late"), [(["confluent_cloud"], True), (["confluent_cloud", "kminion"], False)])
def test_how_old_values_are_when_they_arrive_is_said(profiles: list[str], late: bool) -> None:
    """A service that publishes minutes later shows the state of then; not where another source has it at once."""
    known = subscription(verdict=Verdict.HEALTHY, answers=dict.fromkeys(TREE, Answer.NO))
    headline = build_finding(known, profiles=[load_profile(it) for it in profiles]).headline
    assert ("5 min old when they arrive" in headline) is late
