"""The walk through the tree: in Spark for all subscriptions at once, and in Python for the path of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.spark.columns import extend
from workbench.triage.tree import ROOT, TREE, Node
from workbench.triage.verdict import Answer, Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from workbench.settings import Thresholds


def answer_column(node: Node) -> str:
    """Name of the column with a node's answer (true, false or null)."""
    return f"answer_{node.id}"


def with_verdicts(suspects: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Answer every question for every subscription, and walk.

    Returns:
        `suspects` with `answer_<node>` (boolean) for each node, `choice_<node>` for those whose no is a choice, and `verdict`.
    """
    numbers = thresholds.model_dump()
    tests = {answer_column(node): node.test.format(**numbers) for node in TREE.values()}
    return extend(extend(suspects, tests), {"verdict": _verdict(ROOT).format(**numbers)})


def _verdict(target: str | Verdict) -> str:
    """SQL for the walk from a node down."""
    if isinstance(target, Verdict):
        return f"'{target.value}'"
    node = TREE[target]
    answer = answer_column(node)
    return f"CASE WHEN {answer} THEN {_verdict(node.yes)} WHEN NOT {answer} THEN {_no(node)} ELSE '{Verdict.CANNOT_TELL.value}' END"


def _no(node: Node) -> str:
    if not isinstance(node.no, tuple):
        return _verdict(node.no)
    *conditions, (_, otherwise) = node.no
    whens = " ".join(f"WHEN {condition} THEN '{verdict.value}'" for condition, verdict in conditions)
    return f"CASE {whens} ELSE '{otherwise.value}' END"


def answers_of(row: Mapping[str, Any]) -> dict[str, Answer]:
    """The answers to all questions, on the path or off it."""
    found = {}
    for node in TREE.values():
        value = row[answer_column(node)]
        found[node.id] = Answer.CANNOT_TELL if value is None else Answer.YES if value else Answer.NO
    return found


def path_of(answers: Mapping[str, Answer]) -> list[Node]:
    """The questions that were asked, in order, down to the verdict or to the first one that cannot be answered."""
    path: list[Node] = []
    target: str | Verdict | tuple[tuple[str | None, Verdict], ...] = ROOT
    while isinstance(target, str) and not isinstance(target, Verdict):
        node = TREE[target]
        path.append(node)
        answer = answers[node.id]
        if answer is Answer.CANNOT_TELL:
            break
        target = node.yes if answer is Answer.YES else node.no
    return path


def open_questions(answers: Mapping[str, Answer]) -> list[Node]:
    """The questions without an answer that can be come to when both ways are gone wherever the answer is not known."""
    found: dict[str, Node] = {}

    def go(target: str | Verdict | Sequence[tuple[str | None, Verdict]]) -> None:
        if isinstance(target, str) and not isinstance(target, Verdict):
            node, answer = TREE[target], answers[target]
            if answer is Answer.CANNOT_TELL:
                found[node.id] = node
            if answer is not Answer.NO:
                go(node.yes)
            if answer is not Answer.YES:
                go(node.no)

    go(ROOT)
    return sorted(found.values(), key=lambda node: node.number)


def candidates(answers: Mapping[str, Answer], start: str = ROOT) -> list[Verdict]:
    """The verdicts that are left when both ways are gone wherever the answer is not known."""
    found: dict[Verdict, None] = {}

    def go(target: str | Verdict | Sequence[tuple[str | None, Verdict]]) -> None:
        if isinstance(target, Verdict):
            found[target] = None
        elif isinstance(target, str):
            node = TREE[target]
            answer = answers[node.id]
            if answer is not Answer.NO:
                go(node.yes)
            if answer is not Answer.YES:
                go(node.no)
        else:
            for _, verdict in target:
                found[verdict] = None

    go(start)
    return list(found)
