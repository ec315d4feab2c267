"""Triage against the story book: real life, at default thresholds and windows, written without looking at how triage decides."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.stories import END
from evaluation.stories.book import draw
from evaluation.stories.score import Judged, Mark, score, shares, table
from workbench.triage.verdict_names import State

pytestmark = pytest.mark.jvm

SEED = 20261121


@pytest.fixture(scope="module", params=["lag exporter and runtime", "other people's consumers"])
def judged(spark: Any, request: pytest.FixtureRequest) -> list[Judged]:
    """Every second one, in one job; `make stories` judges them all."""
    return score(spark, draw(SEED, clients=request.param != "lag exporter and runtime")[::2])


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


def test_words_agree_with_numbers(judged: list[Judged]) -> None:
    """Headlines, ages, estimates and advice of 300 findings never contradict what was measured."""
    for it in judged:
        finding = it.finding
        if finding is None:
            continue
        row, name = finding.features, str(it)
        late = finding.time_lag.seconds or 0.0
        if finding.state is State.HEALTHY and late > row.objective_seconds + row.commit_every_seconds:
            rhythm = max(part.cadence_seconds or 0.0 for part in row.partitions)
            waits = max((part.story or {}).get("waiting", 0.0) for part in row.partitions)
            # The cadence explains it, or it was well at the last sample, some time ago.
            assert late <= row.objective_seconds + rhythm or waits <= row.objective_seconds / 2, name
        if finding.time_lag.method == "extrapolated_capped":
            assert finding.time_lag.words.startswith(("over ", "about ")), name
            assert "older than the data read" in finding.time_lag.how, name
        if finding.eta_drain_seconds is not None and finding.eta_drain_seconds > 0:
            assert not row.frozen_partitions, name
            assert not row.behind_partitions, name
        if row.frozen_partitions or row.stuck_partitions:
            assert not {"add_consumers", "add_partitions"} & {action.kind for action in finding.actions}, name
        if any(action.kind == "dead_letter" for action in finding.actions):
            assert finding.scope.cause == "poison_record", name
        if row.without_baseline:
            assert "normal" not in finding.headline, name
        if finding.since is not None:
            assert finding.since <= END, name
