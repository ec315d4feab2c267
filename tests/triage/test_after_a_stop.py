"""A group that has just come back, and one that is slow at times: what it read before, and at its best, says what may be advised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluation.stories import THRESHOLDS, TIMES, Story
from tests.triage.judging import rows_of
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Answer, Verdict

RATE = 50.0


def stopped(name: str, *, back: float, throttle: float = 0.0) -> Story:
    """It stood still from 70 s before the end on; so many seconds before it, it went on, as fast as records arrive, queues full."""
    lag = np.clip(np.minimum(RATE * (TIMES + 70), RATE * (70 - back)), 5.0, None)
    story = Story(group=name, topic=name, partitions=4, members=4)
    for number in range(4):
        story.partition(number, rate=RATE, lag=lag.tolist(), time_lag=(lag / RATE).tolist())
    return story.people(throttle=throttle).processor("order", fill=0.0 if throttle else 1.0).enqueue().fetch_queue()


def at_a_pace(name: str, paces: np.ndarray) -> Story:
    """As many members as partitions, behind all the time, and read so fast at each moment; nothing else is odd."""
    story = Story(group=name, topic=name, partitions=4, members=4)
    read = np.concatenate([[0.0], np.cumsum(paces[1:] * np.diff(TIMES))])
    lag = 3000.0 + RATE * (TIMES - TIMES[0]) - read
    for number in range(4):
        story.partition(number, rate=RATE, lag=lag.tolist(), time_lag=(lag / RATE).tolist())
    return story.people().processor("order", rate=200.0).processor("refund").enqueue().fetch_queue()


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All of them in one job."""
    slow = np.full(len(TIMES), 0.8 * RATE)
    waves = RATE * (0.85 + 0.5 * np.sin(2 * np.pi * TIMES / 60 + np.pi))
    stories = [
        stopped("just back", back=7.0),
        stopped("back for a while", back=20.0),
        stopped("held back", back=7.0, throttle=0.5),
        at_a_pace("even", slow),
        at_a_pace("waves", waves),
    ]
    return rows_of(spark, stories, thresholds=THRESHOLDS)


def test_who_has_just_come_back_is_not_judged_by_the_time_before(rows: dict[str, SubscriptionFeatures]) -> None:
    """Its queues are full of what had waited: some samples later it drains, or does not."""
    assert (rows["just back"].verdict, rows["just back"].reasons["consuming"]) == (Verdict.CANNOT_TELL, "just_back")
    assert rows["back for a while"].verdict is Verdict.SATURATED_PROCESSORS


def test_whom_the_broker_holds_back_has_not_stopped(rows: dict[str, SubscriptionFeatures]) -> None:
    """Under a quota a pause is a wait for the next turn; the throttle that the clients tell is the cause."""
    assert rows["held back"].verdict is Verdict.THROTTLED, rows["held back"].reasons


def test_a_group_that_has_read_more_than_arrives_has_consumers_enough(rows: dict[str, SubscriptionFeatures]) -> None:
    """A ceiling holds all the time; who reads in waves is held up by something else, and partitions cannot be taken away again."""
    assert rows["even"].verdict is Verdict.PARTITION_CEILING, rows["even"]
    assert rows["waves"].answers["too_few"] is Answer.CANNOT_TELL
    assert rows["waves"].verdict is Verdict.CANNOT_TELL, rows["waves"]
