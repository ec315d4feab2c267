"""Partitions that hold records and have no commit, beside others that are read well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, WINDOW_SECONDS, Story
from tests.triage.judging import rows_of
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import State

pytestmark = pytest.mark.jvm

BEFORE = -2 * WINDOW_SECONDS  # in the baseline


def came(begin: float, end: float) -> np.ndarray:
    """A log's end that grows from one time to another and stands still before and after."""
    return 3000.0 + 2.0 * (np.clip(TIMES, begin, end) - begin)


def judged(spark: Any, end: np.ndarray, *, start: float, placeholder: bool) -> SubscriptionFeatures:
    """Two partitions that are read, and one without a commit; an exporter says -1 of it, or nothing."""
    story = Story(partitions=3, members=2)
    for number in (1, 2):
        story.partition(number)
    story.add("log_end_offset", end.tolist(), topic=story.topic, partition=0)
    story.add("log_start_offset", start, topic=story.topic, partition=0)
    for signal in ("committed_offset", "consumer_lag") if placeholder else ():
        story.add(signal, -1.0, group=story.group, topic=story.topic, partition=0)
    [row] = rows_of(spark, story.people().samples()).values()
    return row


@pytest.mark.parametrize("placeholder", [True, False])
@pytest.mark.parametrize(("begin", "end"), [(TIMES[0], 0.0), (BEFORE, BEFORE + 30.0), (-20.0, -10.0)])
def test_arrivals_that_nobody_commits_are_no_all_clear(spark: Any, begin: float, end: float, placeholder: bool) -> None:
    """Whether they came in the window, in the baseline alone, or for a moment."""
    row = judged(spark, came(begin, end), start=0.0, placeholder=placeholder)
    leaf = leaf_of(row.verdict)
    assert leaf.state is State.CANNOT_TELL, (row.verdict, row.answers)
    assert "no commit of partition 0 is known" in leaf.headline(row)


@pytest.mark.parametrize(("start", "told"), [(0.0, True), (3000.0, False)])
def test_records_from_before_the_data_without_a_commit_are_named(spark: Any, start: float, told: bool) -> None:
    """They may be older than the group, which is well; but they are not 0 messages. An empty partition needs no commit."""
    row = judged(spark, came(0.0, 0.0), start=start, placeholder=True)
    leaf = leaf_of(row.verdict)
    assert leaf.state is State.HEALTHY, (row.verdict, row.answers)
    assert ("no commit of partition 0 is known" in leaf.headline(row)) is told


@pytest.mark.parametrize("assigned", [True, False])
def test_members_without_any_commit_are_named(spark: Any, assigned: bool) -> None:
    """The group that consumes nothing at all is not merely one without data; who has no member is."""
    story = Story(partitions=2, members=1)
    for number in range(2):
        labels = {"topic": story.topic, "partition": number}
        story.add("log_end_offset", came(TIMES[0], 0.0).tolist(), **labels)
        story.add("committed_offset", -1.0, group=story.group, **labels)
        story.add("assigned", float(assigned), group=story.group, **labels)
    [row] = rows_of(spark, story.people().samples()).values()
    leaf = leaf_of(row.verdict)
    assert leaf.state is State.CANNOT_TELL
    assert ("the group has no commit there" in leaf.headline(row)) is assigned
