"""Evaluation of the tree: in Spark for all subscriptions at once, and in Python for the path of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from workbench.spark.columns import extend
from workbench.triage.node import Ask, Choose, Conclude, Node, Outcome
from workbench.triage.tree import ROOT, TREE
from workbench.triage.verdict import Answer, Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from workbench.settings import Thresholds

T = TypeVar("T")


def fold(
    conclude: Callable[[Conclude], T],
    choose: Callable[[Choose], T],
    ask: Callable[[Node, T, T], T],
    start: Outcome | None = None,
) -> T:
    """Fold the tree from its leaves up; the SQL, the path, the candidates and the steps of a runbook are all folds.

    Args:
        conclude, choose: result for an answer without a further question.
        ask: result for a question, given the results for yes and no.
        start: where to begin; default: the root.
    """
    match start or Ask(ROOT):
        case Conclude() as end:
            return conclude(end)
        case Choose() as end:
            return choose(end)
        case Ask(node=name):
            node = TREE[name]
            yes, no = (fold(conclude, choose, ask, outcome) for outcome in node.outcomes)
            return ask(node, yes, no)


def answer_column(node: Node) -> str:
    """Name of the column with a node's answer (true, false or null)."""
    return f"answer_{node.id}"


def with_verdicts(suspects: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Answer every question for every subscription, and walk the tree.

    Returns:
        `suspects` with `answer_<node>` (boolean) for each node, and `verdict`.
    """
    numbers = thresholds.model_dump()
    tests = {answer_column(node): node.test.format(**numbers) for node in TREE.values()}
    return extend(extend(suspects, tests), {"verdict": verdict_sql().format(**numbers)})


def verdict_sql() -> str:
    """SQL for the verdict, over the columns of the answers; thresholds are in braces."""

    def choose(it: Choose) -> str:
        whens = " ".join(f"WHEN {condition} THEN '{verdict.value}'" for condition, verdict in it.options)
        return f"CASE {whens} ELSE '{it.otherwise.value}' END"

    def ask(node: Node, yes: str, no: str) -> str:
        answer = answer_column(node)
        return f"CASE WHEN {answer} THEN {yes} WHEN NOT {answer} THEN {no} ELSE '{Verdict.CANNOT_TELL.value}' END"

    return fold(lambda it: f"'{it.verdict.value}'", choose, ask)


def path_of(answers: Mapping[str, Answer]) -> list[Node]:
    """Questions on the path, in order, down to the verdict or to the first one without an answer."""

    def ask(node: Node, yes: list[Node], no: list[Node]) -> list[Node]:
        match answers[node.id]:
            case Answer.YES:
                return [node, *yes]
            case Answer.NO:
                return [node, *no]
            case Answer.CANNOT_TELL:
                return [node]

    return fold(lambda _: [], lambda _: [], ask)


def open_questions(answers: Mapping[str, Answer]) -> list[Node]:
    """Questions without an answer that are reachable if both branches are followed wherever the answer is not known."""
    found = _left(answers, lambda _verdicts: [], lambda node: [node] if answers[node.id] is Answer.CANNOT_TELL else [])
    return sorted(found, key=lambda node: node.number)


def candidates(answers: Mapping[str, Answer]) -> list[Verdict]:
    """Verdicts that are reachable if both branches are followed wherever the answer is not known."""
    return _left(answers, list, lambda _node: [])


def _left(
    answers: Mapping[str, Answer], at_end: Callable[[tuple[Verdict, ...]], list[T]], at_node: Callable[[Node], list[T]]
) -> list[T]:
    """Collect what is reachable through the branches that the answers leave open, each item once."""

    def ask(node: Node, yes: list[T], no: list[T]) -> list[T]:
        answer = answers[node.id]
        return [*at_node(node), *(yes if answer is not Answer.NO else []), *(no if answer is not Answer.YES else [])]

    found = fold(lambda it: at_end(it.verdicts), lambda it: at_end(it.verdicts), ask)
    return [item for number, item in enumerate(found) if item not in found[:number]]
