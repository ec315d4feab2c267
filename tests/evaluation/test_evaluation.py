"""The evaluation itself: its intervals, its grounding, its perturbations and the methods that it compares with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from evaluation.stories import END
from evaluation.stories.score import Mark
from evaluation.tiers import __main__ as command
from evaluation.tiers import baselines, faults
from evaluation.tiers.cases import Case, looked_earlier, of_book, renamed, seen, skewed, thinned, without
from evaluation.tiers.score import alarms, curve, of_finding, row, wilson

STATISTICS = "lag + statistics + process time"


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Some quick kinds."""
    return of_book(17, STATISTICS, kinds=["throttled", "members_gone", "one_partition"])


def throttled(cases: list[Case]) -> Case:
    """The first of that kind."""
    return next(case for case in cases if case.fault == "throttled")


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(0, 0, 0.0, 1.0), (10, 10, 0.7225, 1.0), (95, 100, 0.8882, 0.9785), (1, 2, 0.0945, 0.9055)],
)
def test_wilson_intervals(hits: int, of: int, low: float, high: float) -> None:
    """As published tables have them."""
    assert wilson(hits, of) == pytest.approx((low, high), abs=1e-3)


def test_what_was_injected_is_measured_from_the_life(cases: list[Case]) -> None:
    """The last commits and ends in the samples agree with it to what arrives between two scrapes."""
    for case in cases:
        last = {}
        rows = case.samples.filter(pc.equal(case.samples["signal"], "consumer_lag")).to_pylist()
        for it in sorted(rows, key=lambda it: it["ts"]):
            last[it["partition"]] = it["value"]
        slack = 2.5 * case.scrape_seconds * case.injected.arrival_per_second + 5
        assert sum(last.values()) == pytest.approx(case.injected.lag_messages, abs=slack)
        assert case.injected.onset_seconds is not None


def test_only_incidents_count(cases: list[Case]) -> None:
    """An injected fault that broke no objective is no case."""
    case = throttled(cases)
    assert case.valid
    assert not replace(case, worst_age_seconds=10.0).valid


def test_tiers_show_less_and_less(cases: list[Case]) -> None:
    """Of the same life."""
    case = throttled(cases)
    signals = [set(seen(case.samples, tier)["signal"].to_pylist()) for tier in (STATISTICS, "lag + statistics", "lag")]
    assert signals[0] > signals[1] > signals[2]
    assert "process_time" not in signals[1] and "throttle_time" not in signals[2]


def test_an_earlier_look_sees_nothing_of_later(cases: list[Case]) -> None:
    """Its onset is nearer by as much."""
    case = throttled(cases)
    earlier = looked_earlier(case, 120.0)
    assert earlier is not None and earlier.truth.onset == pytest.approx((case.truth.onset or 0) - 120)
    newest = max(earlier.samples["ts"].to_pylist())
    assert (END - newest).total_seconds() >= -1e-6
    assert earlier.samples.num_rows < case.samples.num_rows
    assert looked_earlier(case, (case.truth.onset or 0) - 10) is None


def test_perturbations_change_what_they_say(cases: list[Case]) -> None:
    """Fewer samples, a signal less, another clock."""
    case = throttled(cases)
    assert thinned(case, 4).samples.num_rows == pytest.approx(case.samples.num_rows / 4, rel=0.1)
    assert "throttle_time" not in set(without(case, "throttle_time").samples["signal"].to_pylist())
    ours = pc.equal(case.samples["source"], "runtime")
    slow = skewed(case, -30.0).samples
    moved = pc.subtract(case.samples.filter(ours)["ts"], slow.filter(pc.equal(slow["source"], "runtime"))["ts"])
    assert {it.total_seconds() for it in moved.to_pylist()} == {30.0}


def test_renamed_cases_keep_to_themselves(cases: list[Case]) -> None:
    """Two of them in one capture share no group and no topic."""
    one, two = renamed(cases[0], 1), renamed(cases[0], 2)
    for column in ("group", "topic"):
        both = set(one.samples[column].to_pylist()) & set(two.samples[column].to_pylist())
        assert both <= {None}
    assert one.topic in one.samples["topic"].to_pylist()


@pytest.mark.jvm
def test_triage_is_scored_and_grounded(spark: Any, cases: list[Case]) -> None:
    """Right verdicts agree with what was injected; a number that does not is found."""
    pairs = command.judged(spark, cases)
    outcomes = [of_finding(case, finding) for case, finding in pairs]
    table = row("all", outcomes)
    assert table.top == len(cases) and table.wrong == 0 and alarms(outcomes) == 0
    assert table.compared > 2 * len(cases) and table.grounded >= 0.95 * table.compared
    case, finding = next((case, finding) for case, finding in pairs if case.fault == "throttled")
    other = replace(case, injected=replace(case.injected, throttle_seconds=case.injected.throttle_seconds * 3))
    assert any("throttle_seconds" in it for it in of_finding(other, finding).disagreements)
    missing = of_finding(case, None)
    assert missing.mark is Mark.UNKNOWN and curve([*outcomes, missing])[0][0] < 1.0


@pytest.mark.jvm
def test_everything_is_written(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Truth, results and scores of a tier, with the baselines beside ours."""
    monkeypatch.setattr(command, "of_book", lambda seed, tier: of_book(seed, tier, kinds=["throttled"]))
    monkeypatch.setattr(faults, "PAIRS", {"throttled_and_slow": faults.throttled_and_slow})
    monkeypatch.setattr(faults, "UNKNOWN", {"slow_disk": faults.slow_disk})
    told = command.evaluate(spark, [17], [STATISTICS], tmp_path)
    assert "Burrow's rules" in told and "both named 100%" in told
    assert {it.name for it in tmp_path.iterdir()} == {"cases.jsonl", "results.jsonl", "scores.json"}


def test_the_largest_deviation_is_ranked_first(cases: list[Case]) -> None:
    """n-sigma and BARO by their definitions; a throttled client leaves its usual values by far."""
    case = throttled(cases)
    found = {
        ("throttle_time", "value", "", "", "m", "1", "", ""): _line(0.0, 5.0),
        ("broker_rtt", "value", "", "", "m", "1", "", ""): _line(1.0, 1.5),
    }
    begun = replace(case, truth=replace(case.truth, onset=300.0))
    for robust in (True, False):
        assert baselines.ranked(begun, found, robust=robust).ranking[:2] == ("throttled", "slow_network")


def _line(before: float, after: float) -> baselines.Line:
    at = np.arange(-3600.0, 0.0, 60.0)
    noise = 0.01 * np.sin(at)
    return at, np.where(at < -300, before, after) + noise


def test_burrow_and_klag_see_a_stop(cases: list[Case]) -> None:
    """Both name what their documents say, of a group whose members are gone."""
    case = next(case for case in cases if case.fault == "members_gone")
    found = baselines.series(case.samples, case.topic)
    assert baselines.burrow(case, found).mark is not Mark.CALM
    assert baselines.klag(case, found).ranking[0] == "consumer_stopped"


@pytest.mark.jvm
def test_of_two_faults_both_are_named_where_both_show(spark: Any) -> None:
    """Without process times: the larger as the first candidate, the other one beside it."""
    cases = [
        it
        for it in faults.pairs(17, "lag + statistics", each=2)
        if it.also != {"slow_downstream"} or "stuck" in it.fault
    ]
    assert {it.fault for it in cases} == set(faults.PAIRS)
    found = command.outcomes(spark, cases)
    assert [(it.case.fault, it.both, it.first) for it in found if not (it.both and it.first)] == []
