"""The walk through the questions: of one partition, and of a subscription over its partitions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.triage.pulsar.pulsar_facts import Known
from workbench.triage.pulsar.pulsar_questions import LEAVES, QUESTIONS
from workbench.triage.pulsar.question_types import DispatchLeaf, DispatchQuestion, DispatchRule
from workbench.triage.verdict_names import Answer, AnyVerdict, State, Verdict

_WORST_FIRST = (State.LAGGING, State.CANNOT_TELL, State.DRAINING, State.HEALTHY)
DispatchStep = tuple[DispatchQuestion, DispatchRule]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPart:
    """One partition with its verdict.

    Attributes:
        path: questions that were asked, with the rule that answered each; the last one decided.
        passed: those of them that are open, and over which something proven stands.
        besides: why it lags beside a loss; None if there is no loss, or it does not lag.
    """

    known: Known
    verdict: AnyVerdict
    path: tuple[DispatchStep, ...]
    passed: tuple[DispatchStep, ...] = ()
    besides: JudgedPart | None = None

    @property
    def leaf(self) -> DispatchLeaf:
        """Of its verdict."""
        return LEAVES[self.verdict]

    @property
    def is_loss(self) -> bool:
        """Whether entries are lost, and not only late."""
        question, rule = self.path[-1]
        return question.goes_on and rule.answer is Answer.YES

    @property
    def candidates(self) -> tuple[AnyVerdict, ...]:
        """For "cannot tell": verdicts of lagging that no answer has ruled out."""
        if self.verdict is not Verdict.CANNOT_TELL:
            return ()
        answered = {question.id for question, rule in self.path if rule.answer is not Answer.CANNOT_TELL}
        left = (it.yes for it in QUESTIONS if it.id not in answered)
        return tuple(it for it in left if it is not None and LEAVES[it].state is State.LAGGING)


def judged_part(known: Known, questions: Sequence[DispatchQuestion] = QUESTIONS) -> JudgedPart:
    """Ask about one partition.

    What is proven stands, whatever earlier question is open. Without a proof, an open question ends the walk where it stands; an
    all-clear needs every answer.
    """
    path: list[DispatchStep] = []
    passed: list[DispatchStep] = []
    for number, question in enumerate(questions):
        rule = question.deciding(known)
        step = (question, rule)
        path.append(step)
        if rule.answer is Answer.CANNOT_TELL:
            passed.append(step)
            if question.by == "gate":
                return _open_at(known, path, passed)
            continue
        verdict = question.yes if rule.answer is Answer.YES else question.no
        if verdict is None:
            continue
        calm = LEAVES[verdict].state in (State.HEALTHY, State.DRAINING)
        if any(calm or (it.by != "side" and not rule.proof) for it, _ in passed):
            return _open_at(known, path, passed)
        besides = (
            judged_part(known, questions[number + 1 :]) if question.goes_on and rule.answer is Answer.YES else None
        )
        lags = besides is not None and besides.leaf.state is State.LAGGING
        return JudgedPart(
            known=known, verdict=verdict, path=tuple(path), passed=tuple(passed), besides=besides if lags else None
        )
    return _open_at(known, path, passed)


def _open_at(known: Known, path: Sequence[DispatchStep], passed: Sequence[DispatchStep]) -> JudgedPart:
    """Cannot tell: the last open question of the path decides where a person looks; all of them are said."""
    last = path.index(passed[-1]) + 1 if passed else len(path)
    return JudgedPart(known=known, verdict=Verdict.CANNOT_TELL, path=tuple(path[:last]), passed=tuple(passed))


def worst_first(parts: Sequence[JudgedPart]) -> list[JudgedPart]:
    """By state; a loss first; then the largest backlog, where one that is not known may be the largest."""

    def place(it: JudgedPart) -> tuple[int, bool, float, int]:
        entries = it.known.part.entries
        return (
            _WORST_FIRST.index(it.leaf.state),
            not it.is_loss,
            -(float("inf") if entries is None else entries),
            it.known.part.partition,
        )

    return sorted(parts, key=place)
