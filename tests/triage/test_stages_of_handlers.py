"""Handlers whose stages are timed, and whose outcomes are counted as a whole; and owners whose handlers try a record again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.triage.made import made, subscription
from workbench.features.subscription_measurements import MemberFeatures, ProcessorFeatures
from workbench.thresholds import Thresholds
from workbench.triage.question_order import TREE
from workbench.triage.question_types import deciding
from workbench.triage.subscription import SubscriptionFeatures


def stages(**whole: Any) -> tuple[ProcessorFeatures, ...]:
    """Two stages of a handler that has ended 680 records in 17 s; what it counts itself is of no stage."""
    each = {"attempts": 680.0, "rate_per_second": 40.0}
    timed = (made(ProcessorFeatures, processor=it, **each) for it in ("parse", "store"))
    return (made(ProcessorFeatures, processor="all", **whole), *timed)


def of(*facts: str, **known: Any) -> SubscriptionFeatures:
    """A row that works these facts out."""
    row = subscription(limits=Thresholds(), **known)
    for fact in facts:
        vars(row).pop(fact, None)
    return row


def test_a_record_is_handled_once_however_many_stages_are_timed() -> None:
    """Else it would look as if its members handled twice what they commit, as in a storm of rebalances."""
    count = {"outcomes": 680.0, "failed": 0.0}
    assert of("handled_per_second", processors=stages(**count)).handled_per_second == pytest.approx(40.0)
    # Without a count, nothing tells stages from event types.
    assert of("handled_per_second", processors=stages()).handled_per_second == pytest.approx(80.0)


def test_types_of_events_are_added_up() -> None:
    """Each has records, and outcomes, of its own."""
    each = {"attempts": 680.0, "rate_per_second": 40.0, "outcomes": 340.0, "failed": 0.0}
    types = tuple(made(ProcessorFeatures, processor=it, **each) for it in ("order", "refund"))
    assert of("handled_per_second", processors=types).handled_per_second == pytest.approx(80.0)


def test_a_stage_without_outcomes_hides_no_baseline_of_failures() -> None:
    """Whether more fail than before is known of the handler as a whole."""
    count = {"outcomes": 680.0, "failed": 170.0, "failing_baseline": 0.01}
    assert of("failing_baseline_share", processors=stages(**count)).failing_baseline_share == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("again", "worked_ago", "members", "rule"),
    [
        (True, 1.0, 2.0, None),
        (True, 60.0, 2.0, "owner_unknown"),
        (True, None, 2.0, "owner_unknown"),
        (True, 1.0, 3.0, "owner_unknown"),  # one of them is not measured
        (False, 1.0, 2.0, "owner_unknown"),
    ],
)
def test_who_tries_a_record_again_does_not_hang(
    again: bool, worked_ago: float | None, members: float, rule: str | None
) -> None:
    """Where nobody tells polls, attempts that end in every member show as well that none of them hangs."""
    people = tuple(
        made(MemberFeatures, member=it, live=True, worked_ago_seconds=worked_ago if it == "a" else 1.0) for it in "ab"
    )
    known: dict[str, Any] = {"stuck_count": 2, "moving_partitions": 4, "frozen_count": 2}
    known |= {"each_members_partitions": 2.0, "every_member_polls": False, "rebalances_often": False}
    row = of("every_member_works", group_members=members, members=people, committed_moved=100.0, **known)
    vars(row)["tried_again"] = again
    assert (deciding(TREE["consuming"].rules, row).id == "owner_unknown") is (rule is not None)
