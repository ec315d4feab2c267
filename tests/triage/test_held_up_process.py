"""Handlers that are slow because their process cannot run: a CPU limit stops it, or it collects garbage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, Story, lagging, steps, values
from tests.triage.judging import rows_of
from tests.triage.made import subscription
from workbench.triage.action_subject import Subject
from workbench.triage.causes import slow_downstream, slow_processor
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Verdict

SLOWER = steps(0.01, 0.05)


def row_of(**known: Any) -> SubscriptionFeatures:
    """A group of which this is known; what holds it up is computed."""
    row = subscription(**known)
    del vars(row)["held_up_by"]
    return row


@pytest.mark.parametrize(
    ("measured", "cause"),
    [
        ({"cpu_stopped_share": 0.6, "cpu_stopped_before": 0.02}, "cpu_limit"),
        ({"cpu_stopped_share": 0.6, "cpu_stopped_before": 0.0}, "cpu_limit"),
        ({"cpu_stopped_share": 0.6, "cpu_stopped_before": 0.5}, None),  # as before: no reason to be slower now
        ({"cpu_stopped_share": 0.2, "cpu_stopped_before": 0.0}, None),
        ({"cpu_stopped_share": 0.6}, None),  # nobody knows whether it was so before
        ({"gc_share": 0.4, "gc_share_before": 0.01}, "garbage_collection"),
        ({"gc_share": 0.1, "gc_share_before": 0.01}, None),
        ({"cpu_stopped_share": 0.6, "cpu_stopped_before": 0.0, "gc_share": 0.4, "gc_share_before": 0.01}, "cpu_limit"),
        ({}, None),
    ],
)
def test_what_holds_a_process_up_does_so_far_more_than_before(measured: dict[str, float], cause: str | None) -> None:
    """And more than the setting."""
    assert row_of(**measured).held_up_by == cause


def told(story: Story, **shares: tuple[float, float]) -> Story:
    """With what two processes of the group tell of this: the share before the window, and in it."""
    for pod in ("a", "b"):
        for signal, (before, now) in shares.items():
            stopped = np.concatenate([[0.0], np.cumsum(np.diff(TIMES) * values(steps(before, now))[1:])])
            of = {"group": story.group, "member": pod}
            story.add(signal, stopped.tolist(), stat="stopped", **of).add(signal, TIMES.tolist(), stat="all", **of)
    return story


def slow(name: str, *, processors: int = 1) -> Story:
    """A group that lags while each of its processors takes five times as long as before."""
    story = lagging(Story(group=name, topic=name, partitions=4, members=2)).people().enqueue(0.2)
    for number in range(processors):
        story.processor(f"p{number}", seconds=SLOWER, fill=0.9)
    return story


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All of them in one job."""
    return rows_of(
        spark,
        [
            slow("plain", processors=3),
            told(slow("cpu", processors=3), cpu_periods=(0.02, 0.6)),
            told(slow("gc"), gc_time=(0.01, 0.4)),
            told(slow("as before"), cpu_periods=(0.6, 0.6), gc_time=(0.3, 0.3)),
        ],
    )


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("name", "verdict", "cause", "words"),
    [
        ("plain", Verdict.SLOW_DOWNSTREAM, None, "shared dependency"),
        (
            "cpu",
            Verdict.SLOW_DOWNSTREAM,
            "cpu_limit",
            "the CPU limit stops the process in 60 % of its periods, was 2 %",
        ),
        (
            "gc",
            Verdict.SLOW_PROCESSOR,
            "garbage_collection",
            "the process collects garbage for 40 % of the time, was 1 %",
        ),
        ("as before", Verdict.SLOW_PROCESSOR, None, "5.0 × its own baseline."),
    ],
)
def test_slow_handlers_are_told_by_what_holds_up_their_process(
    rows: dict[str, SubscriptionFeatures], name: str, verdict: Verdict, cause: str | None, words: str
) -> None:
    """Two processes tell; they are no members of the group."""
    row = rows[name]
    leaf = {it.LEAF.verdict: it.LEAF for it in (slow_downstream, slow_processor)}[row.verdict]
    assert (row.verdict, row.held_up_by, leaf.scope(row).cause) == (verdict, cause, cause)
    assert row.live_members == rows["plain"].live_members == 2
    assert words in leaf.headline(row)
    first = leaf.actions(Subject("c", "g", "t"), row)[0]
    assert ("CPU limit" in first.title, "memory" in first.title) == (
        cause == "cpu_limit",
        cause == "garbage_collection",
    )
