"""Rules of the numbers behind an answer: all of them in one unit."""

from __future__ import annotations

import pytest

from tests.triage.made import subscription
from workbench.triage.build import build_finding
from workbench.triage.cause import Measure
from workbench.triage.order import TREE
from workbench.triage.verdict import Answer, Verdict

RATIOS = [
    measure
    for node in TREE.values()
    for measure in node.measures
    if measure.threshold is not None and measure.threshold.endswith("_ratio")
]


@pytest.mark.parametrize("measure", RATIOS, ids=lambda it: f"{it.column}-{it.threshold}")
def test_a_ratio_limits_only_what_is_a_ratio(measure: Measure) -> None:
    """A limit of 3 beside 0.231 s means nothing: it is a multiple of something, and says of what."""
    assert measure.unit.startswith(("×", "of ")) or measure.times is not None


def test_a_multiple_becomes_a_limit_in_the_unit_of_the_value() -> None:
    """3 × 4.13 ms = 12.4 ms; without a baseline there is the rule alone."""
    answers = dict.fromkeys(TREE, Answer.NO) | dict.fromkeys(
        ("data_usable", "lagging", "consuming", "queue_backed_up", "one_slow"), Answer.YES
    )
    row = subscription(
        answers=answers,
        path=("one_slow",),
        verdict=Verdict.SLOW_PROCESSOR,
        slowest_seconds=0.231,
        slowest_baseline_seconds=0.00413,
        slowest_processors=(),
    )
    for known, limit in ((row, pytest.approx(0.01239)),):
        found = build_finding(known, profiles=[])
        [step] = [step for step in found.path if step.node == "one_slow"]
        first = step.evidence[0]
        assert (first.value, first.unit, first.threshold, first.rule) == (0.231, "s", limit, "3 × its baseline")
