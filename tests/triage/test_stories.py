"""Triage against the story book: real life, at default thresholds and windows, written without looking at how triage decides."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stories.book import draw
from tests.stories.score import Judged, Mark, score, shares, table

pytestmark = pytest.mark.jvm

SEED = 20261121


@pytest.fixture(scope="module")
def judged(spark: Any) -> list[Judged]:
    """All of them, in one job."""
    return score(spark, draw(SEED))


def told(judged: list[Judged], failed: list[Judged]) -> str:
    """For a failure: the table, and the first stories."""
    return "\n".join(["", table(judged), *map(str, failed[:10])])


def test_no_sick_group_is_called_calm(judged: list[Judged]) -> None:
    """Nobody is sent back to bed."""
    failed = [it for it in judged if it.mark is Mark.CALM]
    assert not failed, told(judged, failed)


def test_healthy_groups_alarm_nobody(judged: list[Judged]) -> None:
    """At most one alarm on 200 healthy groups."""
    failed = [it for it in judged if it.mark is Mark.ALARM]
    assert shares(judged)["alarms on healthy"] <= 0.005, told(judged, failed)


def test_causes_are_right(judged: list[Judged]) -> None:
    """At most one of fifty sick groups gets a cause that is not its own."""
    failed = [it for it in judged if it.mark is Mark.WRONG]
    assert shares(judged)["wrong cause"] <= 0.02, told(judged, failed)


def test_no_advice_does_harm(judged: list[Judged]) -> None:
    """No consumers, partitions, restarts or skipped records for a cause that is another one."""
    failed = [it for it in judged if it.harmful]
    assert not failed, told(judged, failed)
