"""The tree as a document: printed from the code, for every question and rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.triage.made import subscription
from workbench.cli import root
from workbench.settings import Thresholds
from workbench.triage.build import because
from workbench.triage.reference import as_markdown, document
from workbench.triage.tree import TREE
from workbench.triage.verdict import Verdict

PAGE = Path(__file__).parents[2] / "docs" / "tree.md"


def test_the_page_is_what_the_code_says() -> None:
    """docs/tree.md is `workbench tree --markdown`."""
    assert PAGE.read_text(encoding="utf-8") == as_markdown(), "write it again: workbench tree --markdown > docs/tree.md"
    printed = CliRunner().invoke(root, ["tree", "--markdown"])
    assert printed.output == as_markdown()


def test_the_document_has_every_question_rule_and_number() -> None:
    """`workbench.tree/1`: rules by what they answer, in the order in which they are asked; each setting once, with its reason."""
    found = document()
    assert [it["id"] for it in found["questions"]] == list(TREE)
    for question in found["questions"]:
        rules = [it["id"] for name in ("proves", "contradicts", "leaves_open") for it in question[name]]
        assert sorted(rules) == sorted(question["order"])
    settings = [it for it in found["numbers"] if it["origin"] == "setting"]
    assert [it["name"] for it in settings] == list(Thresholds.model_fields)
    assert all(it["why"] for it in found["numbers"])


@pytest.mark.parametrize(
    ("name", "questions"),
    [
        ("throttled", ["throttled"]),
        ("stuck_partition", ["stuck", "frozen"]),
        ("healthy", ["silent"]),
        ("lagging", ["lagging"]),
    ],
)
def test_one_cause_is_what_leads_to_it(name: str, questions: list[str]) -> None:
    """By the verdict or by the question."""
    printed = CliRunner().invoke(root, ["tree", name, "--json"])
    assert [it["id"] for it in json.loads(printed.output)["questions"]] == questions


def test_an_unknown_cause_is_a_usage_error_with_the_nearest_name() -> None:
    """Exit code 2, and no traceback."""
    printed = CliRunner().invoke(root, ["tree", "throtled"], standalone_mode=False)
    assert "No question or verdict is named 'throtled'" in str(printed.exception) and "throttled" in str(
        printed.exception
    )


def test_what_is_shown_is_what_was_compared() -> None:
    """The limit of data that are too old is the one that the rule uses, and not the setting that it is made of."""
    row = subscription(
        last_sample_age_seconds=140.0, stale_seconds=135.0, reasons={"data_usable": "old"}, verdict=Verdict.NO_DATA
    )
    shown = because(TREE["data_usable"], row, Thresholds())
    assert shown is not None
    [operand] = shown.operands
    assert (operand.name, operand.value, operand.relation, operand.limit) == (
        "last_sample_age_seconds",
        140.0,
        ">",
        135.0,
    )


def test_an_open_answer_says_what_would_decide() -> None:
    """The rule that left it open has a sentence, and a look."""
    row = subscription(reasons={"throttled": "not_measured"})
    shown = because(TREE["throttled"], row, Thresholds())
    assert shown is not None
    assert shown.sentence == "nothing shows whether the broker throttles it" and shown.look is not None
