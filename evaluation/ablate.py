"""Take each reason out in turn, and change each number, and judge everything again: what changes nothing has no place in the tree.

python -m evaluation.ablate --seeds 5001,5101 [--recordings DIR] [--no-numbers] [--page docs/decisions/DAY-ablation.md]

The kept cases of the tests are judged, too. A rule that decides nothing here has a story of its own in the tests, or goes out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from evaluation import kept as kept_cases
from evaluation.corpus import Case, harm_of, load
from workbench.files import write_text
from workbench.judgement_numbers import Number, all_numbers
from workbench.triage.question_order import TREE
from workbench.triage.question_types import Rule
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.tree_walk import proven_by, way_of
from workbench.triage.verdict_names import Answer

_CHANGES = (0.8, 1.25)  # times a number: what does not matter between them is no knife's edge


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What one reason does.

    Attributes:
        used: cases that it decided. changed: cases whose verdict is another one without it.
        worse, better: of these, those that are judged worse, or better, without it.
    """

    name: str
    used: int
    changed: int
    worse: int
    better: int


def _compare(name: str, used: int, pairs: Sequence[tuple[Case, SubscriptionFeatures, SubscriptionFeatures]]) -> Line:
    changed = [(case, old, new) for case, old, new in pairs if old.verdict != new.verdict]
    harm = [(harm_of(case.mark(old)), harm_of(case.mark(new))) for case, old, new in changed]
    return Line(
        name=name,
        used=used,
        changed=len(changed),
        worse=sum(new > old for old, new in harm),
        better=sum(new < old for old, new in harm),
    )


def _without(case: Case, row: SubscriptionFeatures, node: str, gone: Rule) -> SubscriptionFeatures:
    left = [it for it in TREE[node].rules if it is not gone]
    rule = next((it for it in left if it.when(row)), None)
    answers: dict[str, Answer] = {**row.answers, node: rule.answer if rule is not None else Answer.CANNOT_TELL}
    proven = proven_by({name: it for name, it in row.reasons.items() if name != node})
    if rule is not None and rule.proof:
        proven.add(node)
    return replace(row, answers=answers, verdict=way_of(answers, proven, row).verdict)


def of_rules(cases: Sequence[Case], rows: Sequence[SubscriptionFeatures]) -> Iterator[Line]:
    """Each rule; only the cases that it decided can change."""
    for node in TREE.values():
        for rule in node.rules:
            used = [(case, row) for case, row in zip(cases, rows, strict=True) if row.reasons[node.id] == rule.id]
            pairs = [(case, row, _without(case, row, node.id, rule)) for case, row in used]
            yield _compare(f"{node.id}.{rule.id}", len(used), pairs)


def _set(name: str, value: float) -> Iterator[tuple[Any, str, Any]]:
    """Put another value where modules and rules of the judgement have a number; yields what was there."""
    old = all_numbers()[name]
    new = Number(value, old.unit, old.why, old.origin)
    for module in [it for key, it in sys.modules.items() if key.startswith("workbench.triage")]:
        if module.__dict__.get(name) is old:
            yield module, name, old
            setattr(module, name, new)
    for operand in [it for node in TREE.values() for rule in node.rules for it in rule.operands]:
        if operand.number is old:
            yield operand, "number", old
            object.__setattr__(operand, "number", new)  # it is frozen


def of_numbers(cases: Sequence[Case], rows: Sequence[SubscriptionFeatures]) -> Iterator[Line]:
    """Each number of the judgement, a fifth smaller and a quarter larger. (Those of the histories need the samples.)"""
    for name, number in all_numbers().items():
        for factor in _CHANGES:
            kept = list(_set(name, float(number) * factor))
            if not kept:
                continue
            try:
                changed = [case.judged() for case in cases]
            finally:
                for owner, key, old in kept:
                    (setattr if isinstance(owner, ModuleType) else object.__setattr__)(owner, key, old)
            yield _compare(f"{name} × {factor:g}", len(cases), list(zip(cases, rows, changed, strict=True)))


def as_page(seeds: str, cases: int, day: date, rules: Sequence[Line], numbers: Sequence[Line]) -> str:
    """The table by reason and number, as a page of docs/decisions."""
    because = {f"{node.id}.{rule.id}": rule.because for node in TREE.values() for rule in node.rules}
    return "\n".join(
        [
            "# What each rule decides",
            "",
            f"Measured on {day:%Y-%m-%d} (`make ablate`, seed {seeds}): {cases:,} simulated, recorded and kept cases, judged again",
            "without each rule of [the tree](../tree.md), and with each number a fifth smaller and a quarter larger. *Worse* is wrong",
            'instead of open, or open instead of right; *better* the reverse: a rule that says "cannot tell" gives up a guess that',
            "was right here by chance. A rule that decides nothing here has a test with a story of its own.",
            "",
            "| question | rule | decides | judged otherwise without it | worse | better |",
            "|---|---|---:|---:|---:|---:|",
            *(
                f"| `{it.name.split('.')[0]}` | {because[it.name]} | {it.used:,} | {it.changed:,} | {it.worse:,} | {it.better:,} |"
                for it in rules
            ),
            "",
            "## Numbers of the rules",
            "",
            "Those that change a verdict when they are changed; the others are no knife's edge.",
            "",
            "| number | judged otherwise | worse | better |",
            "|---|---:|---:|---:|",
            *(f"| `{it.name}` | {it.changed:,} | {it.worse:,} | {it.better:,} |" for it in numbers if it.changed),
            "",
        ]
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="5001,5101")
    parser.add_argument("--recordings", type=Path)
    parser.add_argument("--no-numbers", action="store_true")
    parser.add_argument("--page", type=Path, help="write the table there, too")
    given = parser.parse_args()
    cases = load([int(it) for it in given.seeds.split(",")], recordings=given.recordings)
    cases += [case for case, _, _ in kept_cases.read()]
    rows = [case.judged() for case in cases]
    print(f"{len(cases)} cases\n{'without':<44}{'decides':>9}{'changes':>9}{'worse':>7}{'better':>8}")
    rules, numbers = list[Line](), list[Line]()
    for line in of_rules(cases, rows):
        rules.append(line)
        print(f"{line.name:<44}{line.used:>9}{line.changed:>9}{line.worse:>7}{line.better:>8}", flush=True)
    for line in () if given.no_numbers else of_numbers(cases, rows):
        numbers.append(line)
        print(f"{line.name:<44}{'':>9}{line.changed:>9}{line.worse:>7}{line.better:>8}", flush=True)
    if given.page is not None:
        write_text(given.page, as_page(given.seeds, len(cases), datetime.now(UTC).date(), rules, numbers))


if __name__ == "__main__":
    main()
