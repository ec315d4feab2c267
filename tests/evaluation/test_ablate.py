"""Ablation on kept cases: what a rule decides is judged otherwise without it, and the page says so."""

from __future__ import annotations

from datetime import date

import pytest

from evaluation import ablate
from evaluation.kept import read
from workbench.triage.question_order import TREE

CASES = [case for case, _, _ in read()]
LINES = list(ablate.of_rules(CASES, [case.judged() for case in CASES]))


def test_every_rule_has_a_line() -> None:
    """In the order of the tree."""
    assert [it.name for it in LINES] == [f"{node.id}.{rule.id}" for node in TREE.values() for rule in node.rules]


@pytest.mark.parametrize("rule", ["data_usable.usable", "lost.skipped", "stuck.stuck"])
def test_a_rule_that_decides_is_missed(rule: str) -> None:
    """Kept cases are right: without a rule that decides some, they are only judged worse."""
    line = next(it for it in LINES if it.name == rule)
    assert line.used >= line.changed >= line.worse > 0
    assert line.better == 0


def test_a_number_that_is_changed_is_put_back() -> None:
    """Each number, twice; afterwards the cases are judged as before."""
    few = CASES[:10]
    rows = [case.judged() for case in few]
    numbers = list(ablate.of_numbers(few, rows))
    assert {it.name.split(" ")[1] for it in numbers} == {"×"}
    assert [case.judged().verdict for case in few] == [row.verdict for row in rows]


def test_the_page_has_the_reasons_and_the_numbers_that_matter() -> None:
    """A number that changes nothing is left out; a rule is named by what it says."""
    numbers = [
        ablate.Line(name="MOST × 0.8", used=3, changed=2, worse=1, better=0),
        ablate.Line(name="NOISE × 0.8", used=3, changed=0, worse=0, better=0),
    ]
    page = ablate.as_page("5001", 3277, date(2026, 11, 29), LINES, numbers)
    assert "| `MOST × 0.8` | 2 | 1 | 0 |" in page
    assert "NOISE" not in page
    for node in TREE.values():
        for rule in node.rules:
            assert f"| `{node.id}` | {rule.because} |" in page
