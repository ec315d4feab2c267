"""Judgement of one subscription: its features answer every question, and the walk through the tree ends at a verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime

from workbench.features.subscription_measurements import MeasuredSubscription
from workbench.schedule import schedule_of
from workbench.settings_of_groups import NOTHING_EXPECTED, Expectations
from workbench.thresholds import Thresholds
from workbench.triage.question_order import ROOT, TREE
from workbench.triage.question_types import Ask, Conclude, Node, Outcome, Rule, deciding
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Answer, Verdict

_MEASURED = tuple(field.name for field in fields(MeasuredSubscription))
Step = tuple[Node, Answer]


def judged(
    measured: MeasuredSubscription,
    thresholds: Thresholds,
    expectations: Expectations = NOTHING_EXPECTED,
    *,
    at: datetime | None = None,
) -> SubscriptionFeatures:
    """Answer every question about a subscription.

    Args:
        measured: its features.
        thresholds: of the tree; objective and commit interval of its group come from `expectations`.
        at: the window's end; without it, no group is a batch.
    """
    limits, batch = expectations.limits(thresholds, measured.group), expectations.of(measured.group).settings.batch
    row = SubscriptionFeatures(
        **{name: getattr(measured, name) for name in _MEASURED},
        limits=limits,
        schedule=schedule_of(batch) if batch is not None else None,
        at=at,
        answers={},
        reasons={},
        verdict=Verdict.CANNOT_TELL,
    )
    rules = decided(row)
    answers = {name: rule.answer for name, rule in rules.items()}
    reasons = {name: rule.id for name, rule in rules.items()}
    way = way_of(answers, proven_by(reasons), row)
    path, passed = tuple(it.id for it in way.path), tuple(it.id for it in way.passed)
    return row.with_answers(answers=answers, reasons=reasons, verdict=way.verdict, path=path, passed=passed)


def decided(row: SubscriptionFeatures) -> dict[str, Rule]:
    """The rule that answers each question, by the question's id."""
    return {name: deciding(node.rules, row) for name, node in TREE.items()}


def ways(
    answers: Mapping[str, Answer] | None = None, start: Outcome | None = None
) -> Iterator[tuple[tuple[Step, ...], Conclude]]:
    """Every way of questions, each answered yes or no, and where it ends: the candidates and the steps of a runbook are all ways.

    Args:
        answers: only ways that these leave open; default: all.
        start: where to begin; default: the root.
    """
    start = start or Ask(ROOT)
    if not isinstance(start, Ask):
        yield (), start
        return
    node = TREE[start.node]
    for answer, outcome in ((Answer.YES, node.yes), (Answer.NO, node.no)):
        if answers is None or answers[node.id] in (answer, Answer.CANNOT_TELL):
            for way, end in ways(answers, outcome):
                yield ((node, answer), *way), end


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


CALM = frozenset({Verdict.HEALTHY, Verdict.RECOVERED, Verdict.PRODUCER_BURST, Verdict.PRODUCER_SILENT})


def way_of(
    answers: Mapping[str, Answer], proven: Collection[str], row: SubscriptionFeatures, start: Outcome | None = None
) -> Way:
    """Follow the answers.

    What is proven stands, whatever earlier question is open. Without a proof, an open question ends the walk. An open side question
    ends none, but an all-clear needs all of them.

    Args:
        answers: of every question, by id.
        proven: questions whose yes is a proof.
        start: where to begin; default: the root.
    """
    here: Outcome = start or Ask(ROOT)
    path: list[Node] = []
    passed: list[Node] = []
    while isinstance(here, Ask):
        node, answer = TREE[here.node], answers[here.node]
        path.append(node)
        if answer is Answer.CANNOT_TELL and node.by == "side":
            passed.append(node)
        elif answer is Answer.CANNOT_TELL:
            proof = _proof(answers, proven, here) if node.by == "proof" else None
            if proof is None:
                return Way(Verdict.CANNOT_TELL, tuple(path), tuple(passed))
            way, here = proof
            path[-1:] = way
            passed += [it for it in way if answers[it.id] is Answer.CANNOT_TELL]
            break
        here = node.yes if answer is Answer.YES else node.no
    verdict = here.verdict_of(row)
    if verdict in CALM and passed:
        return Way(Verdict.CANNOT_TELL, tuple(path[: path.index(passed[-1]) + 1]), tuple(passed[:-1]))
    return Way(verdict, tuple(path), tuple(passed))


def _proof(answers: Mapping[str, Answer], proven: Collection[str], start: Ask) -> tuple[list[Node], Conclude] | None:
    """The questions from an open one to the first proof, and its verdict; what needs an answer on the way has one."""
    for way, end in ways(answers, start):
        last, answer = way[-1]
        has_answers = all(node.by in ("proof", "side") or answers[node.id] is not Answer.CANNOT_TELL for node, _ in way)
        if answer is answers[last.id] is Answer.YES and last.id in proven and has_answers:
            return [node for node, _ in way], end
    return None


def proven_by(reasons: Mapping[str, str]) -> set[str]:
    """Questions whose yes is a proof, by the rule that decided each."""
    return {name for name, rule in reasons.items() if TREE[name].rule(rule).proof}


def open_questions(answers: Mapping[str, Answer]) -> list[Node]:
    """Questions without an answer that are reachable if both branches are followed wherever the answer is not known."""
    reached = {node.id for way, _ in ways(answers) for node, _ in way}
    return [node for node in TREE.values() if node.id in reached and answers[node.id] is Answer.CANNOT_TELL]


def candidates(answers: Mapping[str, Answer]) -> list[Verdict]:
    """Verdicts that are reachable if both branches are followed wherever the answer is not known."""
    return list(dict.fromkeys(verdict for _, end in ways(answers) for verdict in end.verdicts))
