"""Who has the partitions, and what is restored first: what the coordinator and Kafka Streams' own clients say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from evaluation.stories import TIMES, Story, growing
from tests.triage.judging import rows_of
from tests.triage.test_verdicts import stuck
from workbench.triage.build_finding import build_finding
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Verdict

pytestmark = pytest.mark.jvm

NOW = TIMES >= -0.1
NOBODY_INSIDE = np.zeros(len(TIMES), dtype=bool)


def outside(story: Story, standing: list[int]) -> Story:
    """A lag exporter's view: these partitions stand still since a minute and a half."""
    for number in range(story.partitions):
        lag = growing(50.0, start=5, since=-90) if number in standing else 5.0
        story.partition(number, lag=lag, time_lag=None)
    return story.people(keep=NOBODY_INSIDE)


def owned(story: Story, *numbers: int) -> Story:
    """Kafka's answer at the end of the window: members have these partitions."""
    for number in range(story.partitions):
        story.add(
            "assigned", float(number in numbers), keep=NOW, group=story.group, topic=story.topic, partition=number
        )
    return story


def added(story: Story, end: float, *, told: bool = False) -> Story:
    """Two partitions more, which no member looks for; an exporter tells nothing of the group there, or the placeholder of no commit."""
    for number in (story.partitions, story.partitions + 1):
        of = {"topic": story.topic, "partition": number}
        story.add("log_end_offset", np.maximum(0.0, end + TIMES) if end else 0.0, **of)
        story.add("log_start_offset", 0.0, **of)
        story.add("assigned", 0.0, keep=NOW, group=story.group, **of)
        if told:
            story.add("committed_offset", -1.0, group=story.group, **of)
    return story


def restoring(story: Story, left: float, per_second: float) -> Story:
    """What its restoring clients must still read."""
    return story.add("restoring", np.maximum(left + TIMES * per_second, 0.0), group=story.group)


def failing(story: Story, standing: list[int], counted_as: str = "retry", since: float = -90.0) -> Story:
    """Its handlers fail at once, and are called again each second, since these partitions stand still (or since another time)."""
    attempts = np.where(TIMES < -90, 100.0 * (TIMES - TIMES[0]), 100.0 * (-90 - TIMES[0]) + (TIMES + 90))
    labels = {"group": story.group, "topic": story.topic, "member": "m-0", "processor": "order"}
    outside(story, standing)
    story.people()
    story.add("process_time", attempts.tolist(), stat="count", **labels)
    story.add("process_time", (0.001 * attempts).tolist(), stat="sum", **labels)
    if counted_as == "failed":  # as Spring, which counts those that succeed beside them
        story.add(
            "processed", (attempts if len(standing) == 4 else 100.0 * (TIMES - TIMES[0])).tolist(), stat="ok", **labels
        )
    return story.add("processed", np.maximum(0.0, TIMES - since).tolist(), stat=counted_as, **labels)


class Case(NamedTuple):
    """A story, its verdict, and words of its headline."""

    make: Callable[[Story], Story]
    verdict: Verdict
    words: str


CASES = {
    "nobody-has-one": Case(lambda s: owned(outside(s, [2]), 0, 1, 3), Verdict.STUCK_PARTITION, "no member has partition 2"),
    "nobody-has-two": Case(lambda s: owned(outside(s, [1, 2]), 0, 3), Verdict.STUCK_PARTITION, "no member has partitions 1 and 2"),
    "nobody-has-one-that-waits-not": Case(lambda s: owned(stuck(s, [1]), 0, 1, 2), Verdict.STUCK_PARTITION, "partition 1"),
    "no-member-reads-the-topic": Case(lambda s: owned(outside(s, [0, 1, 2, 3])), Verdict.CONSUMER_STOPPED, "Nobody reads this topic"),
    "all-are-owned": Case(lambda s: owned(outside(s, [0, 1, 2, 3]), 0, 1, 2, 3), Verdict.CANNOT_TELL, "Cannot tell"),
    "added": Case(lambda s: added(owned(outside(s, []), 0, 1, 2, 3), 900), Verdict.STUCK_PARTITION, "no member has partitions 4 and 5"),
    "added-and-told": Case(
        lambda s: added(owned(outside(s, []), 0, 1, 2, 3), 900, told=True), Verdict.STUCK_PARTITION, "partitions 4 and 5",
    ),
    "added-and-empty": Case(lambda s: added(owned(outside(s, []), 0, 1, 2, 3), 0), Verdict.HEALTHY, "Healthy"),
    "all-fail": Case(lambda s: failing(s, [0, 1, 2, 3]), Verdict.STUCK_PARTITION, "its handlers fail and try again"),
    "all-fail-and-no-second-try-is-counted": Case(
        lambda s: failing(s, [0, 1, 2, 3], "failed"), Verdict.STUCK_PARTITION, "its handlers fail and try again"
    ),
    "one-fails-and-no-second-try-is-counted": Case(
        lambda s: failing(s, [1], "failed"), Verdict.STUCK_PARTITION, "a record that the handler cannot process"
    ),
    "as-many-fail-as-usual": Case(
        lambda s: failing(s, [1], "failed", since=TIMES[0]), Verdict.STUCK_PARTITION, "while 3 others are."
    ),
    "restores": Case(lambda s: restoring(outside(s, [0, 1, 2, 3]), 50_000, -500), Verdict.STUCK_PARTITION, "about 1 min 40 s"),
    "has-restored": Case(lambda s: restoring(outside(s, [0, 1, 2, 3]), 0, -500), Verdict.CANNOT_TELL, "Cannot tell"),
    # Another partition is handled, so its stores are there: the standbys read changelogs, too.
    "standbys": Case(lambda s: restoring(stuck(s, [1]), 40, 0), Verdict.STUCK_PARTITION, "Stuck: partition 1"),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All of them in one job."""
    return rows_of(spark, [case.make(Story(group=name, topic=f"about-{name}")) for name, case in CASES.items()])


@pytest.mark.parametrize("name", CASES)
def test_verdict_and_headline(name: str, rows: dict[str, SubscriptionFeatures]) -> None:
    """By what is told, and only where it explains what stands still."""
    row, case = rows[name], CASES[name]
    finding = build_finding(row, profiles=[], bootstrap="broker:9092")
    assert row.verdict is case.verdict, (row.path, row.reasons)
    assert case.words in finding.headline
    if "restores" in name:
        assert not any("skip" in it.title or (it.kind or "").startswith("restart") for it in finding.actions)
