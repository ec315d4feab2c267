"""What triage says of every recorded incident, into a file; and the difference between two such files.

    python -m tests.tools.verdicts write before.json
    python -m tests.tools.verdicts compare before.json after.json

For changes of the code that must not change a verdict: write a file before and one after. The exit code is 1 if they differ in
more than words.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from workbench.collect.capture import Capture, read_capture

ROOT = Path(__file__).parent.parent.parent
# Fields of a finding that are words for people; a difference in any other field is a difference in what triage found.
WORDING = re.compile(
    r"(^|\.)(headline|sizing)$|\.path\[\]\.(question|words)$|\.contributing(\[\])?$"
    r"|\.missing\[\]\.how_to_get_it$|\.actions\[\]\.(title|verify)$"
)


def captures() -> Iterator[tuple[str, Capture]]:
    """Every recorded incident as it is and as a lag exporter alone would show it, the shipped captures, and the tests' stories."""
    from evaluation.stories import Story
    from tests.triage.test_verdicts import CASES, capture_of

    for folder in sorted((ROOT / "notebooks").glob("*/incident-*")):
        whole, name = read_capture(folder), f"{folder.parent.name}/{folder.name}"
        yield name, whole
        lag_only = whole.samples.filter(pc.equal(whole.samples["source"], "kafka_exporter"))
        if lag_only.num_rows:
            yield f"{name}, lag only", replace(whole, samples=lag_only)
    yield (
        "stories",
        capture_of([case.make(Story(group=name, topic=f"about-{name}")) for name, case in CASES.items()]),
    )


def write(place: Path) -> int:
    """Judge them all in one session, and write the findings as `triage --json` prints them, with the answer of each check."""
    from workbench.spark.session import end, session
    from workbench.triage.outcome_checks import all_hold
    from workbench.triage.triage_engine import triage

    spark = session()
    found: dict[str, Any] = {}
    for name, capture in captures():
        looked = triage(capture, spark)
        document = looked.to_json()
        for finding, printed in zip(looked.findings, document["findings"], strict=True):
            for action, told in zip(finding.actions, printed["actions"], strict=True):
                told["holds"] = str(all_hold(action.checks, finding.features))
        found[name] = document
    end(spark)
    place.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False), encoding="utf-8")
    print(f"{len(found)} looks, {sum(len(it['findings']) for it in found.values())} findings")
    return 0


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a document with its path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        yield f"{path}.length", len(value)
        for number, item in enumerate(value):
            yield from flat(item, f"{path}[{number}]")
    else:
        yield path, value


def differences(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """(path, before, after) of every leaf that differs; "(nothing)" where a file does not have it."""
    old, new = dict(flat(before)), dict(flat(after))
    return [
        (path, old.get(path, "(nothing)"), new.get(path, "(nothing)"))
        for path in dict.fromkeys([*old, *new])
        if path not in old or path not in new or old[path] != new[path]
    ]


def field_of(path: str) -> str:
    """The path of a leaf without its numbers."""
    return re.sub(r"\[\d+\]", "[]", path)


def _differ_in_last_digits(old: Any, new: Any) -> bool:
    """Whether two numbers are one sum, added up in another order."""
    return isinstance(old, float) and isinstance(new, float) and math.isclose(old, new, rel_tol=1e-12)


def compare(before: Path, after: Path) -> int:
    """Print the differences by field: words, and everything else."""
    documents = [json.loads(place.read_text(encoding="utf-8")) for place in (before, after)]
    words, last_digits, others = Counter[str](), Counter[str](), Counter[str]()
    examples: dict[str, tuple[str, Any, Any]] = {}
    for name in dict.fromkeys([*documents[0], *documents[1]]):
        for path, old, new in differences(documents[0].get(name), documents[1].get(name)):
            field = field_of(path)
            (words if WORDING.search(field) else last_digits if _differ_in_last_digits(old, new) else others)[
                field
            ] += 1
            examples.setdefault(field, (f"{name}: {path}", old, new))
    for title, counted in (("words", words), ("the last digits of numbers", last_digits), ("everything else", others)):
        print(f"{sum(counted.values())} differences in {title}")
        for field, number in counted.most_common():
            where, old, new = examples[field]
            print(f"  {number:>5} {field}\n        {where}\n        - {old}\n        + {new}")
    return 1 if others else 0


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    todo = parser.add_subparsers(required=True, dest="todo")
    todo.add_parser("write").add_argument("file", type=Path)
    both = todo.add_parser("compare")
    both.add_argument("before", type=Path)
    both.add_argument("after", type=Path)
    given = parser.parse_args()
    return write(given.file) if given.todo == "write" else compare(given.before, given.after)


if __name__ == "__main__":
    sys.exit(main())
