"""Odd life, of a seed that nothing was tuned on: no sick group is called calm, and how often a healthy one sick, at most."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.stories.odd_book import draw
from evaluation.stories.score import Judged, Mark, score

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

# What is known to be called sick: what was read much faster than ever before, and seldom commits of members that are not counted.
ALARMED = {"quick_catch_up", "stale_for_a_while", "migrated", "caught_up_before_window"}


@pytest.fixture(scope="module")
def judged(spark: Any) -> list[Judged]:
    """All of them in one job."""
    return score(spark, draw(35))


def kinds(judged: list[Judged], mark: Mark) -> list[str]:
    """Kinds of the stories with this mark."""
    return sorted(it.story.cast.kind for it in judged if it.mark is mark)


def test_no_sick_group_is_called_calm(judged: list[Judged]) -> None:
    """However rarely somebody looks: what the data do not decide is open."""
    assert kinds(judged, Mark.CALM) == []


def test_a_healthy_group_alarms_in_known_kinds_only(judged: list[Judged]) -> None:
    """Nor often."""
    alarmed = kinds(judged, Mark.ALARM)
    assert set(alarmed) <= ALARMED
    assert len(alarmed) <= 0.007 * len(judged)


def test_causes_are_right_or_open(judged: list[Judged]) -> None:
    """Wrong ones are rare, and so is harmful advice."""
    assert len(kinds(judged, Mark.WRONG)) <= 0.02 * len(judged)
    assert sum(bool(it.harmful) for it in judged) <= 0.01 * len(judged)
