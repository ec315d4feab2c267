"""The walk through the tree: answers, verdict, path, and what open questions leave possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from workbench.settings import Thresholds
from workbench.triage.node import Ask, Choose, Conclude, Node, Outcome
from workbench.triage.rule import Rule, deciding
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.tree import ROOT, TREE
from workbench.triage.verdict import Answer, Verdict

T = TypeVar("T")


def fold(
    conclude: Callable[[Conclude], T],
    choose: Callable[[Choose], T],
    ask: Callable[[Node, T, T], T],
    start: Outcome | None = None,
) -> T:
    """Fold the tree from its leaves up; the verdict, the path, the candidates and the steps of a runbook are all folds.

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


def decided(row: SubscriptionFeatures, thresholds: Thresholds) -> dict[str, Rule]:
    """The rule that answers each question, by the question's id."""
    return {name: deciding(node.rules, row, thresholds) for name, node in TREE.items()}


def verdict_of(answers: Mapping[str, Answer], row: SubscriptionFeatures, thresholds: Thresholds) -> Verdict:
    """Where the answers lead."""

    def ask(node: Node, yes: Verdict, no: Verdict) -> Verdict:
        return {Answer.YES: yes, Answer.NO: no, Answer.CANNOT_TELL: Verdict.CANNOT_TELL}[answers[node.id]]

    return fold(lambda it: it.verdict, lambda it: it.verdict_of(row, thresholds), ask)


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
