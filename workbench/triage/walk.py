"""The walk through the tree: answers, verdict, path, and what open questions leave possible."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from workbench.settings import Thresholds
from workbench.triage.cause import Ask, Choose, Conclude, Node, Outcome, Rule, deciding
from workbench.triage.order import ROOT, TREE
from workbench.triage.subscription import SubscriptionFeatures
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


@dataclass(frozen=True, slots=True)
class Way:
    """Where the answers lead.

    Attributes:
        verdict: at its end.
        path: questions on it, in order; the last one is open if the verdict is "cannot tell".
        passed: those of them that are open, and that something proven stands over, or that are only a side question.
    """

    verdict: Verdict
    path: tuple[Node, ...]
    passed: tuple[Node, ...] = ()

    def after(self, node: Node, *, passed: bool = False) -> Way:
        """With a question before it."""
        return Way(self.verdict, (node, *self.path), (node, *self.passed) if passed else self.passed)


_CALM = frozenset({Verdict.HEALTHY, Verdict.RECOVERED, Verdict.PRODUCER_BURST, Verdict.PRODUCER_SILENT})


def way_of(
    answers: Mapping[str, Answer],
    proven: Collection[str],
    row: SubscriptionFeatures,
    thresholds: Thresholds,
    start: Outcome | None = None,
) -> Way:
    """Follow the answers.

    What is proven stands, whatever earlier question is open. Without a proof, an open question ends the walk. An open side question
    ends none, but an all-clear needs all of them.

    Args:
        answers: of every question, by id.
        proven: questions whose yes is a proof.
        start: where to begin; default: the root.
    """

    def follow(outcome: Outcome) -> Way:
        match outcome:
            case Conclude(verdict=verdict):
                return Way(verdict, ())
            case Choose():
                return Way(outcome.verdict_of(row, thresholds), ())
            case Ask(node=name):
                node, answer = TREE[name], answers[name]
                if answer is not Answer.CANNOT_TELL:
                    return follow(node.yes if answer is Answer.YES else node.no).after(node)
                if node.by == "side":
                    way = follow(node.no)
                    return (
                        way.after(node, passed=True) if way.verdict not in _CALM else Way(Verdict.CANNOT_TELL, (node,))
                    )
                proof = prove(node.yes) or prove(node.no) if node.by == "proof" else None
                return proof.after(node, passed=True) if proof is not None else Way(Verdict.CANNOT_TELL, (node,))

    def prove(outcome: Outcome) -> Way | None:
        if not isinstance(outcome, Ask):
            return None
        node, answer = TREE[outcome.node], answers[outcome.node]
        if answer is Answer.YES and not isinstance(node.yes, Ask):
            return follow(node.yes).after(node) if node.id in proven else None
        branches = {Answer.YES: (node.yes,), Answer.NO: (node.no,), Answer.CANNOT_TELL: (node.yes, node.no)}[answer]
        found = next((way for branch in branches if (way := prove(branch)) is not None), None)
        return None if found is None else found.after(node, passed=answer is Answer.CANNOT_TELL)

    return follow(start or Ask(ROOT))


def proven_by(reasons: Mapping[str, str]) -> set[str]:
    """Questions whose yes is a proof, by the rule that decided each."""
    return {name for name, rule in reasons.items() if TREE[name].rule(rule).proof}


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
