"""Rules of names that do not exist: an answer with near names, before anything slow begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import check, run_here

CAPTURE = str(Path(__file__).parent.parent.parent / "notebooks" / "captures" / "incident-1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--group", "payment"], "Did you mean `payments`?"),
        (["--topic", "order"], "Did you mean `orders`?"),
        (["--group", "nope"], "It has: payments."),
    ],
)
def test_an_unknown_name_is_answered_before_spark_starts(words: list[str], said: str, tmp_path: Path) -> None:
    """`run_here` checks that no start of Spark was left behind."""
    check(run_here("triage", "--capture", CAPTURE, *words, cwd=tmp_path), 4, said)
