"""Counted things are in the singular if there is one: by `plural` or `counted`, never by an `s` beside a number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench
from workbench.humanize import counted, plural

PACKAGE = Path(workbench.__file__).parent
NOUNS = "|".join(
    (
        "alert|batch|broker|change|cluster|column|command|commit|consumer|deploy|event|file|finding|group",
        "incident|instance|key|letter|line|member|message|metric|notebook|offset|partition|plan|processor|profile",
        "queue|question|record|request|round|row|rule|run|sample|scenario|series|signal|slot|step",
        "subscription|thread|time|topic",
    )
)
NOUN = re.compile(rf"^ (?:[a-z]+ )?(?:{NOUNS})s\b(?!/)")
TEMPLATE = re.compile(rf"}}}} (?:{NOUNS})s\b")
# What is always many, or is a name and no number.
MANY = re.compile(r"^(?:n\.)?[A-Z_.]+$|_TIMES|_MOST|MOST_|HTTP_BATCH|^kind$|^kind |^verb$|^name$|^(plural|counted)\(")


def beside_numbers(tree: ast.AST) -> Iterator[str]:
    """Values of f-strings with a noun in the plural right behind them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant):
                    expression = ast.unparse(value.value)
                    if NOUN.match(str(text.value)) and not MANY.search(expression):
                        yield f"{{{expression}}}{text.value}"


PARTS = ("api", "cli", "redrive", "replay", "report", "runbooks", "serve", "sweep", "triage", "widgets")
FILES = sorted(it for it in PACKAGE.rglob("*.py") if it.relative_to(PACKAGE).parts[0] in PARTS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_number_is_followed_by_a_fixed_plural(path: Path) -> None:
    """`1 messages` reads like a program; "of 3 members" and the like count, too."""
    assert list(beside_numbers(ast.parse(path.read_text(encoding="utf-8")))) == []


def test_templates_count_too() -> None:
    """The pages of reports, panels and `serve`."""
    found = [
        f"{path.name}: {line.strip()}"
        for path in PACKAGE.rglob("*.j2")
        for line in path.read_text(encoding="utf-8").splitlines()
        if TEMPLATE.search(line)
    ]
    assert found == []


def test_one_is_singular() -> None:
    """Humanised, exact, irregular, and unknown."""
    assert (counted(1, "message"), counted(2, "message"), counted(12_345, "message")) == (
        "1 message", "2 messages", "12.3 k messages",
    )  # fmt: skip
    assert (counted(None, "message"), counted(1.0, "letter is", "letters are")) == ("unknown messages", "1 letter is")
    assert (plural(1, "sample"), plural(16_427, "sample")) == ("1 sample", "16,427 samples")
