"""A group that lags because its handlers fail, by what its threads do meanwhile; and groups that fail, and lag for other reasons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, Story, growing, lagging, steps
from tests.triage.judging import rows_of
from tests.triage.test_own_work import ONSET, handler, idle, loop
from workbench.triage.build_finding import build_finding
from workbench.triage.verdict_names import Verdict

pytestmark = pytest.mark.jvm

READ = 120.0  # records/s that are committed, of 200 that arrive


def failing(story: Story, share: float, *, before: float = 0.0, rate: float = 100.0) -> Story:
    """Of the handler's attempts this share fails since the onset."""
    shares = np.where(TIMES > ONSET, share, before)[1:]
    for stat, part in (("failed", shares), ("ok", 1 - shares)):
        counts = np.concatenate([[0.0], np.cumsum(np.diff(TIMES) * rate * part)])
        story.add(
            "processed", counts.tolist(), stat=stat, group=story.group, topic=story.topic, member="m-0", processor="all"
        )
    return story


def little(story: Story) -> Story:
    """Its handlers have less to do than before."""
    return handler(story, before=0.02, after=0.01)


def hot(story: Story) -> Story:
    """One partition of six gets far more, and its member is busy."""
    story.partitions = 6
    for number in range(6):
        more = {"rate": 200.0, "lag": growing(40.0, start=5, since=ONSET), "time_lag": growing(0.7, since=ONSET)}
        story.partition(number, **(more if number == 2 else {"rate": 20.0}))
    story.people(rtt=0.01)
    return handler(story, before=0.005, after=0.005)


def one_waits(story: Story) -> Story:
    """One partition of six stands still, and all of them are behind."""
    story.partitions = 6
    for number in range(6):
        story.partition(
            number,
            rate=20.0,
            lag=growing(20.0 if number == 2 else 5.0, since=ONSET),
            time_lag=growing(0.9, since=ONSET),
        )
    return handler(story.people(rtt=0.01), before=0.005, after=0.005)


CASES: dict[str, tuple[Callable[[Story], Story], Verdict]] = {
    "a back-off": (lambda s: failing(idle(little(loop(s)), 0.0), 0.3), Verdict.FAILING_RECORDS),
    "all fail": (lambda s: failing(idle(little(loop(s)), 0.1), 1.0), Verdict.FAILING_RECORDS),
    "polls are read again": (lambda s: failing(idle(little(loop(s)), 0.35), 0.1), Verdict.FAILING_RECORDS),
    "all fail, and a partition waits": (lambda s: failing(one_waits(s), 1.0, rate=120.0), Verdict.FAILING_RECORDS),
    "few are counted, and a partition waits": (
        lambda s: failing(one_waits(s), 0.1, rate=15.0),
        Verdict.STUCK_PARTITION,
    ),
    "some fail, and a partition waits": (lambda s: failing(one_waits(s), 0.1, rate=120.0), Verdict.STUCK_PARTITION),
    "tried again at once": (
        lambda s: failing(handler(loop(s), before=0.007, after=0.007, rate_after=3 * READ), 0.6, rate=3 * READ),
        Verdict.FAILING_RECORDS,
    ),
    "handled again, and none fails": (
        lambda s: failing(handler(loop(s), before=0.007, after=0.007, rate_after=3 * READ), 0.0, rate=3 * READ),
        Verdict.PARTITION_CEILING,
    ),
    "none fails": (lambda s: failing(idle(little(loop(s)), 0.0), 0.0), Verdict.CANNOT_TELL),
    "as many fail as ever": (lambda s: failing(idle(little(loop(s)), 0.0), 0.3, before=0.28), Verdict.CANNOT_TELL),
    "nobody counts them": (lambda s: idle(little(loop(s)), 0.0), Verdict.CANNOT_TELL),
    "given up by handlers that have no room": (
        lambda s: failing(handler(loop(s), before=0.0305, after=0.0305), 0.1),
        Verdict.PARTITION_CEILING,
    ),
    "throttled": (
        lambda s: failing(little(lagging(s).people(rtt=0.01, throttle=steps(0.0, 0.31, at=ONSET))), 0.1),
        Verdict.THROTTLED,
    ),
    "a slow network": (
        lambda s: failing(little(lagging(s).people(rtt=steps(0.01, 0.9, at=ONSET))), 0.1),
        Verdict.SLOW_NETWORK,
    ),
    "commits over a slow network": (
        lambda s: failing(idle(little(lagging(s).people(rtt=steps(0.01, 0.31, at=ONSET))), 0.0), 0.1),
        Verdict.SLOW_NETWORK,
    ),
    "nothing tells of the network": (lambda s: failing(little(lagging(s)), 0.1), Verdict.CANNOT_TELL),
    "one partition gets far more": (lambda s: failing(hot(s), 0.1), Verdict.HOT_PARTITION),
    "slower handlers": (lambda s: failing(handler(loop(s), before=0.01, after=0.05), 0.1), Verdict.SLOW_PROCESSOR),
}


def test_failures_are_the_reason_where_nothing_else_takes_the_time(spark: Any) -> None:
    """What follows a failure takes time that neither handlers nor the network do; who merely fails, too, lags for another reason."""
    found = rows_of(spark, [make(Story(group=name, topic=name)) for name, (make, _) in CASES.items()])
    assert {name: found[name].verdict for name in CASES} == {name: wanted for name, (_, wanted) in CASES.items()}, {
        name: (found[name].path[-1], found[name].reasons[found[name].path[-1]]) for name in CASES
    }
    finding = build_finding(found["a back-off"], profiles=[], bootstrap="broker:9092")
    assert "while the group falls behind" in finding.headline
    assert not any("Records failing" in it for it in finding.contributing)
