"""The tree as a document: printed from the code, for every question and rule."""

from __future__ import annotations

import ast
import json
import pickle
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.triage.made import subscription
from workbench.cli import root
from workbench.numbers import all_numbers
from workbench.settings import Thresholds
from workbench.triage.build import because
from workbench.triage.order import TREE
from workbench.triage.reference import as_markdown, document
from workbench.triage.verdict import Verdict

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tree.md"


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
    shown = because(TREE["data_usable"], row)
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
    shown = because(TREE["throttled"], row)
    assert shown is not None
    assert shown.sentence == "nothing shows whether the broker throttles it" and shown.look is not None


# Room and sizes, no judgement: pieces of work, resolutions of searches, units.
SIZES = re.compile(
    r"_?(PIECE_ROWS|ONE_TASK_ROWS|SEARCHED|STEPS|BINS|MICRO|MOST_RUNS|HINGE_\w+|TURNS|WEEK_MS|"
    r"SAME_SECONDS|BASELINE_PERIODS|NOW|LATER)$"
)
NO_JUDGEMENT = ("warm_up.py", "series.py")  # a first made-up job; what is drawn
PLAIN = {0, 1, -1, 2, 0.5, 1e6, 1000, 1e-6, 1e-9}


def test_no_number_of_the_judgement_stands_outside_of_the_registry() -> None:
    """At most 70 with the settings; no bare number in triage, histories or features, but for units, halves and sizes."""
    assert len(all_numbers()) + len(Thresholds.model_fields) <= 70
    assert all(it.why and it.unit for it in all_numbers().values())
    for it in all_numbers().values():
        again = pickle.loads(pickle.dumps(it))
        assert (again, again.unit, again.why, again.origin) == (it, it.unit, it.why, it.origin)
    found = []
    for folder in ("triage", "chronicle", "features"):
        for path in sorted((ROOT / "workbench" / folder).rglob("*.py")):
            if path.name in NO_JUDGEMENT:
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            sizes = [
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.Assign)
                and all(
                    SIZES.match(name.id) for it in node.targets for name in ast.walk(it) if isinstance(name, ast.Name)
                )
            ]
            numbered = [
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.keyword) and node.arg in ("number", "most", "parameters")
            ]
            left_out = {id(node) for it in (*sizes, *numbered) for node in ast.walk(it)}
            found += [
                f"{path.name}:{node.lineno}: {node.value}"
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant)
                and isinstance(node.value, int | float)
                and not isinstance(node.value, bool)
                and node.value not in PLAIN
                and id(node) not in left_out
            ]
    assert not found, found
