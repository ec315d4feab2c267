"""The golden table of hot partitions: how many of how many may be hot before it is everybody's problem.

`mean + 2σ` cannot fire on five partitions or fewer (one outlier among n equal ones stands √(n-1) deviations out), nor when a fifth
of them is hot. `lag > k · min(mean, median)` with a floor in messages fires in all of these (Bilibili's rule); half of them is no
longer "a few".
"""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.stories import Story, growing
from tests.triage.judging import rows_of
from workbench.triage.verdict_names import Verdict

pytestmark = pytest.mark.jvm

COUNTS = (3, 5, 6, 12, 50)


def hot_counts(count: int) -> dict[str, int]:
    """One, a fifth, half, all."""
    return {"one": 1, "a fifth": max(1, count // 5), "half": count // 2, "all": count}


TABLE = [(count, name, hot) for count in COUNTS for name, hot in hot_counts(count).items()]


def story_of(count: int, name: str, hot: int, *, lag: float, normal: float = 5.0, rate: float = 5.0) -> Story:
    """So many partitions, some of which get four times as much, lag and fall behind."""
    story = Story(
        group=f"{count}/{name}/{lag:g}/{normal:g}",
        topic=f"{count}/{name}/{lag:g}/{normal:g}",
        partitions=count,
        members=count,
    )
    for number in range(count):
        behind = lag if number < hot else normal
        arriving = 4 * rate if number < hot < count else rate
        story.partition(number, rate=arriving, lag=behind, time_lag=behind / arriving)
    return story.calm()


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, Any]:
    """All of the table in one job."""
    stories = [story_of(count, name, hot, lag=600.0) for count, name, hot in TABLE]
    stories += [
        story_of(12, "under the floor", 1, lag=99.0, normal=5.0, rate=50.0),
        story_of(12, "over the floor", 1, lag=101.0, normal=5.0, rate=50.0),
    ]
    stories += [
        story_of(12, "below the factor", 1, lag=590.0, normal=200.0),
        story_of(12, "above the factor", 1, lag=610.0, normal=200.0),
    ]
    return rows_of(spark, stories)


@pytest.mark.parametrize(("count", "name", "hot"), TABLE, ids=lambda value: str(value))
def test_the_table(count: int, name: str, hot: int, rows: dict[str, Any]) -> None:
    """A few are named; half or all are a matter of the whole group."""
    row = rows[f"{count}/{name}/600/5"]
    few = max(1, count // 3)
    if hot <= few:
        assert row.verdict == Verdict.HOT_PARTITION
        assert row.hot_partitions == tuple(range(hot))
    else:
        # All of them late by the same all the time may be meant.
        assert row.verdict == (Verdict.CANNOT_TELL if hot == count else Verdict.PARTITION_CEILING)


@pytest.mark.parametrize(
    ("name", "hot"),
    [
        ("under the floor/99/5", 0),
        ("over the floor/101/5", 1),
        ("below the factor/590/200", 0),
        ("above the factor/610/200", 1),
    ],
)
def test_both_sides_of_the_floor_and_of_the_factor(name: str, hot: int, rows: dict[str, Any]) -> None:
    """100 messages, and three times what is typical."""
    assert len(rows[f"12/{name}"].hot_partitions) == hot


def test_what_waits_beside_a_hot_partition_is_not_hot(spark: Any) -> None:
    """A member's loop or pool takes the records of all its partitions in turn: its others are late, too, with few messages each."""
    story = Story(group="pool", topic="pool", partitions=6, members=3)
    for number, (rate, per_second) in enumerate(((120.0, 60.0), (2.0, 1.5), *[(2.0, 0.0)] * 4)):
        late = growing(0.8, since=-90.0) if per_second else 0.1
        story.partition(number, rate=rate, lag=growing(per_second, start=1.0, since=-90.0), time_lag=late)
    [row] = rows_of(spark, [story.people()]).values()
    assert row.behind_partitions == (0, 1)
    assert row.hot_partitions == (0,)
    assert row.verdict is Verdict.HOT_PARTITION
