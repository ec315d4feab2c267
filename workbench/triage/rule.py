"""Rules: a question is answered by the first rule that holds, and shown with that rule's sentence and operands.

What a screen, a report, JSON or a "cannot tell" says is the rule that decided, so the evidence cannot differ from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.numbers import Number
from workbench.settings import Thresholds
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Answer

# Of a subscription and the thresholds of its group; what is not known (None) does not hold.
Test = Callable[[SubscriptionFeatures, Thresholds], bool | None]


@dataclass(frozen=True, slots=True)
class Operand:
    """A number that a rule compares.

    Attributes:
        fact: field of `SubscriptionFeatures` with the value.
        unit: of value and limit.
        relation: what has to hold between value and limit for the rule: ">", ">=", "<", "<=" or "=".
        setting: the threshold that is the limit; or None.
        number: a limit of its own, or a multiple of `of`.
        of: fact that the setting or number multiplies: "its baseline"; or None.
        why: reason for a number that is no setting; default: that of `workbench.numbers`.
    """

    fact: str
    unit: str
    relation: str
    setting: str | None = None
    number: float | None = None
    of: str | None = None
    why: str | None = None

    @property
    def origin(self) -> str:
        """Where the limit comes from, in words."""
        factor = f"setting {self.setting}" if self.setting is not None else f"{self.number:g}"
        words = factor if self.of is None else self.of if self.number == 1 else f"{factor} × {self.of}"
        return words if self.reason is None else f"{words}: {self.reason}"

    @property
    def reason(self) -> str | None:
        """Why a number is that number; None for a setting, which says so itself."""
        return self.number.why if self.why is None and isinstance(self.number, Number) else self.why

    def limit(self, row: SubscriptionFeatures, thresholds: Thresholds) -> float | None:
        """The limit for a subscription, in `unit`; None if what it multiplies is not known."""
        limit: float | None = getattr(thresholds, self.setting) if self.setting is not None else self.number
        if self.of is None or limit is None:
            return limit
        of: float | None = getattr(row, self.of)
        return None if of is None else limit * of


@dataclass(frozen=True, slots=True)
class Rule:
    """One reason for an answer.

    Attributes:
        id: unique within its question.
        answer: given if it is the first rule that holds.
        because: the reason, half a sentence that holds for every subscription.
        when: whether it holds.
        operands: the numbers that it compares.
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


def yes(rule: str, because: str, when: Test, *operands: Operand) -> Rule:
    """A rule that answers yes."""
    return Rule(rule, Answer.YES, because, when, operands)


def proves(rule: str, because: str, when: Test, *operands: Operand) -> Rule:
    """A rule that answers yes, and stands whatever earlier question is open."""
    return Rule(rule, Answer.YES, because, when, operands, proof=True)


def no(rule: str, because: str, when: Test, *operands: Operand) -> Rule:
    """A rule that answers no."""
    return Rule(rule, Answer.NO, because, when, operands)


def leaves_open(rule: str, because: str, when: Test, *operands: Operand, look: str | None = None) -> Rule:
    """A rule that says why the question cannot be answered."""
    return Rule(rule, Answer.CANNOT_TELL, because, when, operands, look)


def always(_row: SubscriptionFeatures, _thresholds: Thresholds) -> bool:
    """For the last rule of a question."""
    return True


def deciding(rules: Sequence[Rule], row: SubscriptionFeatures, thresholds: Thresholds) -> Rule:
    """The first rule that holds; the last rule of every question always does."""
    return next(rule for rule in rules if rule.when(row, thresholds) is True)
