"""What the first line of an open answer says: what is known of where, before what is not known of why."""

from __future__ import annotations

from typing import Any

import pytest

from tests.triage.made import made, subscription
from workbench.features.subscription_measurements import PartitionFeatures
from workbench.thresholds import Thresholds
from workbench.triage.build_finding import build_finding
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import Answer, Verdict


def headline(verdict: Verdict, **known: Any) -> str:
    """Of a subscription of which only this is known."""
    return leaf_of(verdict).headline(subscription(limits=Thresholds(), verdict=verdict, **known))


def part(number: int, **known: Any) -> PartitionFeatures:
    """A partition of which only this is known."""
    return made(PartitionFeatures, partition=number, **known)


def test_partitions_without_a_commit_are_named_if_they_have_records() -> None:
    """Not 0 s behind: nobody reads them. One without a record needs none."""
    read = part(0, lag_messages=0.0, log_end=100.0, log_start=0.0)
    unread = part(1, log_end=50.0, log_start=20.0)
    empty = part(2, log_end=20.0, log_start=20.0)
    said = headline(Verdict.CANNOT_TELL, path=("lagging",), partitions=(read, unread, empty))
    assert "no commit of partition 1 is known, where records wait" in said
    assert "no commit" not in headline(Verdict.CANNOT_TELL, path=("lagging",), partitions=(read, empty))


@pytest.mark.parametrize(
    ("members", "usual", "told"), [(0.0, 4.0, True), (4.0, 4.0, False), (0.0, 0.0, False), (None, None, False)]
)
def test_without_data_a_group_that_lost_its_members_is_named(
    members: float | None, usual: float | None, told: bool
) -> None:
    """Its exporter may leave out the lag then, and is not down."""
    said = headline(Verdict.NO_DATA, group_members=members, usual_members=usual)
    assert ("usually has members and has none" in said) is told


@pytest.mark.parametrize(("missing", "told"), [(10.0, True), (40.0, False)])
def test_what_explains_most_is_in_the_first_line(missing: float, told: bool) -> None:
    """2 of 3 members gone explain 15/s: all of 10/s, and not most of 40/s."""
    answers = dict.fromkeys(subscription().answers, Answer.CANNOT_TELL) | {"lagging": Answer.YES}
    row = subscription(
        limits=Thresholds(), verdict=Verdict.CANNOT_TELL, answers=answers, path=(), arrival_per_second=45.0,
        lag_slope=missing, group_members_recent=2.0, usual_members=3.0,
    )  # fmt: skip
    assert (" Measured: 2 members instead of 3." in build_finding(row, profiles=()).headline) is told


@pytest.mark.parametrize(("left", "when"), [(0.0, "now"), (0.3, "now"), (90.0, "in about 1 min 30 s")])
def test_when_retention_deletes_what_is_unread_comes_first(left: float, when: str) -> None:
    """ "In about 0 s" is read as nonsense."""
    row = subscription(limits=Thresholds(), verdict=Verdict.THROTTLED, loss_seconds=left, throttle_seconds=1.0)
    assert build_finding(row, profiles=()).headline.startswith(f"Retention deletes unread messages {when}. ")
