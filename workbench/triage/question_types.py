"""What a cause is written in: questions with their rules, the numbers behind an answer, where it leads, and leaves.

A question is answered by the first of its rules that holds. What a screen, a report, JSON or a "cannot tell" says is that rule's
sentence and its operands, so the evidence cannot differ from what decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from workbench.triage.action_subject import Subject
from workbench.triage.capacity import Sizing
from workbench.triage.facts.unknown_numbers import all_of
from workbench.triage.finding import Action, Scope
from workbench.triage.operand import Operand, Reason
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Answer, State, Verdict

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from workbench.features.chart_series import Series

    # A line of the series (None if there is none), and the limit that it exceeds while the verdict holds.
    Sign = tuple[npt.NDArray[np.float64] | None, float]

# Of a subscription, which knows the limits of its group; what is not known (None), nothing or empty does not hold.
Test = Callable[[Row], object]


@dataclass(frozen=True, slots=True)
class Rule:
    """One reason for an answer.

    Attributes:
        id: unique within its question.
        answer: given if it is the first rule that holds.
        because: the reason, half a sentence that holds for every subscription.
        when: whether it holds.
        operands: the numbers that it compares.
        either: whether one of the operands is enough; else all of them hold.
        look: for an open answer: what would decide.
        proof: of a yes: only this cause makes what is seen, so it stands over earlier questions that are open.
    """

    id: str
    answer: Answer
    because: str
    when: Test
    operands: tuple[Operand, ...] = ()
    look: str | None = None
    proof: bool = False
    either: bool = False


def _rule(
    rule: str, answer: Answer, because: str, when: Test | Operand, operands: tuple[Operand, ...], **more: Any
) -> Rule:
    if isinstance(when, Operand):
        compared = (when, *operands)
        return Rule(rule, answer, because, lambda row: all_of(*(it.holds(row) for it in compared)), compared, **more)
    return Rule(rule, answer, because, when, operands, **more)


def yes(rule: str, because: str, when: Test | Operand, *operands: Operand) -> Rule:
    """A rule that answers yes: if its test holds, or without one, if all that it compares does."""
    return _rule(rule, Answer.YES, because, when, operands)


def proves(rule: str, because: str, when: Test | Operand, *operands: Operand) -> Rule:
    """A rule that answers yes, and stands whatever earlier question is open."""
    return _rule(rule, Answer.YES, because, when, operands, proof=True)


def no(rule: str, because: str, when: Test | Operand, *operands: Operand) -> Rule:
    """A rule that answers no."""
    return _rule(rule, Answer.NO, because, when, operands)


def leaves_open(rule: str, because: str, when: Test | Operand, *operands: Operand, look: str | None = None) -> Rule:
    """A rule that says why the question cannot be answered."""
    return _rule(rule, Answer.CANNOT_TELL, because, when, operands, look=look)


def always(_row: Row) -> bool:
    """For the last rule of a question."""
    return True


def deciding(rules: Sequence[Rule], row: Row) -> Rule:
    """The first rule that holds; the last rule of every question always does."""
    return next(rule for rule in rules if rule.when(row))


@dataclass(frozen=True, slots=True)
class Ask:
    """An answer that leads to another question, named by its id."""

    node: str

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """No verdict yet."""
        return ()


@dataclass(frozen=True, slots=True)
class Conclude:
    """An answer that is a verdict, or one of several.

    Attributes:
        verdict: which one.
        unless: (condition, another verdict, the condition in words); the first condition that holds decides.
    """

    verdict: Verdict
    unless: tuple[tuple[Test, Verdict, str], ...] = ()

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Each possible verdict once, in order."""
        return tuple(dict.fromkeys((*(verdict for _, verdict, _ in self.unless), self.verdict)))

    def verdict_of(self, row: Row) -> Verdict:
        """The one that a subscription gets."""
        return next((verdict for holds, verdict, _ in self.unless if holds(row)), self.verdict)


Outcome = Ask | Conclude
NEXT = Ask("the next one")


@dataclass(frozen=True, slots=True)
class Measure:
    """A number behind an answer.

    Attributes:
        signal: the canonical signal (or a quantity derived from some).
        column: feature with its value; `baseline` and `peers` likewise, or None.
        unit: of all of them.
        threshold: name of the threshold to compare with, or None.
        times: what a threshold multiplies, if it is a ratio and the value is not: "its baseline".
    """

    signal: str
    column: str
    unit: str
    threshold: str | None = None
    baseline: str | None = None
    peers: str | None = None
    times: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One question.

    Attributes:
        rules: the first one that holds answers it; the last one always holds.
        yes, no: where these answers lead; a no by default to the next question of `triage.question_order`.
        words: the reason for the answer, in half a line.
        needs: signals without which the answer is "cannot tell".
        contributes: whether a yes off the path is shown ("also true").
        by: gate: an open answer ends the walk. proof: it does unless something after it is proven. elimination: a verdict that all
            others must be ruled out for. side: an open answer ends nothing but an all-clear.
        look: where it ended the walk, what tells the candidates apart for the least effort; it can be done now.
        causes: why a yes is so, of which the first that holds is named in the finding.
        number: its place in `triage.question_order`.
    """

    id: str
    question: str
    short: str
    rules: tuple[Rule, ...]
    yes: Outcome
    no: Outcome = NEXT
    words: Callable[[Row], str]
    needs: tuple[str, ...]
    measures: tuple[Measure, ...]
    contributes: bool = False
    by: Literal["gate", "proof", "elimination", "side"] = "proof"
    look: str | None = None
    causes: tuple[Reason[str], ...] = ()
    number: int = 0

    def rule(self, name: str) -> Rule:
        """One of its rules."""
        return next(rule for rule in self.rules if rule.id == name)

    @property
    def outcomes(self) -> tuple[Outcome, Outcome]:
        """Where the answers lead, yes first."""
        return self.yes, self.no

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Verdicts that it leads to directly."""
        return tuple(dict.fromkeys(verdict for outcome in self.outcomes for verdict in outcome.verdicts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A verdict with its texts, sizing and actions.

    Attributes:
        verdict: which one.
        state: of a subscription with this verdict; every cause is a cause of lagging.
        headline: the verdict in one sentence.
        scope: what it is about; the sizing's `keep_up` fills in `needed`.
        sizing: number of threads or consumers that are needed, for verdicts about capacity.
        actions: what to do, most reversible first, with the checks that show whether it worked.
        share: of what arrives (given in messages/s) and is not read, what it explains: what is measured, and messages/s that would be
            read, too, without it.
        names_members: whether the headline names the members that came or went.
        onset: the line that shows when it began; None: the time lag, above the floor of growth.
        began_ago: seconds since it began, where an event that the offsets show is the beginning; it comes before any line.
    """

    verdict: Verdict
    headline: Callable[[Row], str]
    state: State = State.LAGGING
    scope: Callable[[Row], Scope] = lambda _row: Scope()
    sizing: Callable[[Row], Sizing | None] = lambda _row: None
    actions: Callable[[Subject, Row], Sequence[Action]] = lambda _subject, _row: ()
    share: Callable[[Row, float], Iterable[tuple[str, float]]] = lambda _row, _arriving: ()
    names_members: bool = False
    onset: Callable[[Series, Row], Sign] | None = None
    began_ago: Callable[[Row], float | None] = lambda _row: None

    @property
    def runbook(self) -> str | None:
        """File of the runbook, by the verdict's name: `slow_processor` → `runbooks/SlowProcessor.md`; None for `healthy`."""
        if self.state is State.HEALTHY:
            return None
        return f"runbooks/{self.verdict.value.title().replace('_', '')}.md"
