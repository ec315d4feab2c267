"""Largest partitions that get no more than ever, in a runtime whose queues are empty; and a group that reads more than arrives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, Story, growing
from tests.triage.judging import rows_of
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Answer, Verdict

pytestmark = pytest.mark.jvm
LATE = growing(0.7, since=-80.0)


def uneven(name: str, rate: float) -> Story:
    """One of six partitions falls behind; it gets so many messages/s, the others 50."""
    story = Story(group=name, topic=name, partitions=6, members=6)
    story.partition(0, rate=rate, lag=growing(40.0, start=5, since=-80.0), time_lag=LATE)
    for number in range(1, 6):
        story.partition(number)
    return story.calm()


def one_of_many(name: str, *, backlog: float) -> Story:
    """Two members for eight partitions: half of them fall behind, while the others work off so many messages/s more than arrive."""
    story = Story(group=name, topic=name, partitions=8, members=2)
    for number in range(4):
        story.partition(
            number, lag=growing(20.0, start=900.0, since=-80.0), time_lag=growing(0.4, start=18.0, since=-80.0)
        )
    for number in range(4, 8):
        late = 20_000.0 - backlog * np.maximum(TIMES + 80.0, 0)
        story.partition(number, lag=late.tolist(), time_lag=(late / 50.0).tolist())
    return story.calm()


@pytest.fixture(scope="module")
def judged(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All of them in one job."""
    return rows_of(
        spark,
        [
            uneven("ever", 55.0),
            uneven("more", 170.0),
            one_of_many("drains", backlog=60.0),
            one_of_many("not", backlog=-20.0),
        ],
    )


def test_the_usual_share_is_not_hot(judged: dict[str, SubscriptionFeatures]) -> None:
    """A partition is hot if more arrives there; a tenth more, as ever, and empty queues point elsewhere."""
    assert judged["ever"].answers["hot_partition"] is Answer.CANNOT_TELL
    assert judged["more"].answers["hot_partition"] is Answer.YES


def test_who_reads_more_than_arrives_has_consumers_enough(judged: dict[str, SubscriptionFeatures]) -> None:
    """Some partitions drain, others do not: more members are no cure for it."""
    assert judged["drains"].answers["too_few"] is Answer.CANNOT_TELL
    assert judged["not"].answers["too_few"] is Answer.YES
    assert judged["not"].verdict is Verdict.TOO_FEW_CONSUMERS
