"""Odd life, of a seed that nothing was tuned on: how often a sick group is called calm, and a healthy one sick, at most."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stories.odd_book import draw
from tests.stories.score import Judged, Mark, score

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

# What is known to be called calm. The first records of a new partition that were skipped look like records that were read fast; so do
# offsets that were set by hand to a time, deleted, or set while 120 s lay between two samples. A group that is killed every quarter of
# an hour is well in between.
CALM = {
    "new_partitions_latest", "skipped_to_datetime", "deleted_group", "skip_before_window", "skipped_after_hours", "one_step_skip",
    "outage_again", "clients_alone", "dropped_group", "leaderless",
}  # fmt: skip
# And to be called sick: an exporter that repeats its last values, aborted records at the end of a log that nobody writes to any more,
# what was read much faster than ever before, and a group that commits every few minutes and whose members are not counted any more.
ALARMED = {
    "stale_exporter",
    "aborted_tail",
    "quick_catch_up",
    "caught_up_before_window",
    "stale_for_a_while",
    "migrated",
}


@pytest.fixture(scope="module")
def judged(spark: Any) -> list[Judged]:
    """All of them in one job."""
    return score(spark, draw(35))


def kinds(judged: list[Judged], mark: Mark) -> list[str]:
    """Kinds of the stories with this mark."""
    return sorted(it.story.cast.kind for it in judged if it.mark is mark)


def test_a_sick_group_is_called_calm_in_known_kinds_only(judged: list[Judged]) -> None:
    """And not often: 2.9 to 4.8 % on the seeds 31, 32 and 34."""
    calm = kinds(judged, Mark.CALM)
    assert set(calm) <= CALM
    assert len(calm) <= 0.06 * len(judged)


def test_a_healthy_group_alarms_in_known_kinds_only(judged: list[Judged]) -> None:
    """4 to 7 % of the healthy ones, on the same seeds."""
    alarmed = kinds(judged, Mark.ALARM)
    assert set(alarmed) <= ALARMED
    assert len(alarmed) <= 0.03 * len(judged)


def test_causes_are_right_or_open(judged: list[Judged]) -> None:
    """0.6 to 1.3 % are wrong, and 0.5 % get harmful advice, on the same seeds."""
    assert len(kinds(judged, Mark.WRONG)) <= 0.02 * len(judged)
    assert sum(bool(it.harmful) for it in judged) <= 0.01 * len(judged)
