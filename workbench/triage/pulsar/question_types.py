"""What a question about a subscription of Pulsar is written in. A rule holds if all that it compares does: its evidence is the rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from workbench.humanize import quantity, size
from workbench.judgement_numbers import Number
from workbench.queues.dispatching_queues import DispatchTools
from workbench.triage.facts.unknown_numbers import RELATIONS, times
from workbench.triage.finding import Action, Because, Compared
from workbench.triage.pulsar.pulsar_facts import FACTS, Known
from workbench.triage.verdict_names import Answer, AnyVerdict, State

NOT_KNOWN = "is not known"


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison.

    Attributes:
        fact: key of `FACTS`.
        relation: of `RELATIONS`, or `NOT_KNOWN`.
        limit: a number, or how many times `of`.
        of: another fact, or `objective_seconds`.
    """

    fact: str
    relation: str
    limit: float = 0.0
    of: str | None = None

    __test__ = False  # for pytest

    def bound(self, it: Known) -> float | None:
        """What the fact is compared with, in its unit."""
        if self.relation == NOT_KNOWN:
            return None
        if self.of is None:
            return float(self.limit)
        return times(float(self.limit), it.fact(self.of))

    def holds(self, it: Known) -> bool | None:
        """None if a number is missing."""
        value = it.fact(self.fact)
        return value is None if self.relation == NOT_KNOWN else RELATIONS[self.relation](value, self.bound(it))

    @property
    def origin(self) -> str:
        """Where the limit comes from, in words."""
        factor = f"{float(self.limit):g}"
        why = f": {self.limit.reason(self.relation)}" if isinstance(self.limit, Number) else ""
        if self.of is None:
            return factor + why
        of = (
            "the objective: time_lag_objective and commit_every of the settings"
            if self.of == "objective_seconds"
            else FACTS[self.of][0]
        )
        return of + why if self.limit == 1 else f"{factor} × {of}{why}"

    def compared(self, it: Known) -> Compared:
        """For a finding."""
        return Compared(
            name=self.fact,
            value=it.fact(self.fact),
            unit=FACTS[self.fact][1],
            relation=self.relation,
            limit=self.bound(it),
            origin=self.origin,
        )

    def words(self, it: Known) -> str:
        """ "age of the oldest entry 3 h > 2 min"; what can only be yes or no is left to the rule's sentence."""
        name, unit = FACTS[self.fact]
        if self.relation == NOT_KNOWN:
            return f"{name} not known"
        value = _shown(it.fact(self.fact), unit)
        return f"{name} {value}" + ("" if self.relation == "=" else f" {self.relation} {_shown(self.bound(it), unit)}")

    @property
    def is_flag(self) -> bool:
        """Whether its value is yes or no."""
        return FACTS[self.fact][1] == "yes is 1"


@dataclass(frozen=True, slots=True)
class DispatchRule:
    """One reason for an answer.

    Attributes:
        id: unique within its question.
        because: half a sentence that holds for every subscription.
        tests: all hold.
        look: for an open answer: what would decide.
        proof: of a yes: it stands over earlier questions that are open.
    """

    id: str
    answer: Answer
    because: str
    tests: tuple[Test, ...] = ()
    look: str | None = None
    proof: bool = False

    def holds(self, it: Known) -> bool:
        """Whether it decides: what is not known does not hold."""
        return all(test.holds(it) is True for test in self.tests)

    def words(self, it: Known) -> str:
        """The reason with its numbers."""
        numbers = "; ".join(test.words(it) for test in self.tests if not test.is_flag)
        return self.because + (f" ({numbers})" if numbers else "")

    def because_of(self, it: Known) -> Because:
        """For a finding."""
        return Because(
            rule=self.id,
            sentence=self.because,
            operands=tuple(test.compared(it) for test in self.tests),
            look=self.look,
        )


def _shown(value: float | None, unit: str) -> str:
    kind, _, per = unit.partition("/")
    text = size(value) if kind == "bytes" and value is not None else quantity(value, unit)
    return f"{text}/{per}" if per else text


def says_yes(rule: str, because: str, *tests: Test) -> DispatchRule:
    """A rule that answers yes if no earlier question is open."""
    return DispatchRule(rule, Answer.YES, because, tests)


def proof_of(rule: str, because: str, *tests: Test) -> DispatchRule:
    """A rule that answers yes, and stands whatever earlier question is open."""
    return DispatchRule(rule, Answer.YES, because, tests, proof=True)


def says_no(rule: str, because: str, *tests: Test) -> DispatchRule:
    """A rule that answers no."""
    return DispatchRule(rule, Answer.NO, because, tests)


def stays_open(rule: str, because: str, *tests: Test, look: str) -> DispatchRule:
    """A rule that says why there is no answer, and what would decide."""
    return DispatchRule(rule, Answer.CANNOT_TELL, because, tests, look)


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchQuestion:
    """One question about a partition.

    Attributes:
        rules: the first one that holds answers; the last one tests nothing.
        yes, no: the verdict of that answer; None: the next question.
        by: gate: an open answer ends the walk. proof: it does unless something after it is proven. side: an open answer ends
            nothing but an all-clear.
        goes_on: whether the walk goes on after a yes, for why it lags besides.
    """

    id: str
    question: str
    short: str
    rules: tuple[DispatchRule, ...]
    yes: AnyVerdict | None = None
    no: AnyVerdict | None = None
    by: Literal["gate", "proof", "side"] = "proof"
    goes_on: bool = False

    def deciding(self, it: Known) -> DispatchRule:
        """The rule that answers."""
        return next(rule for rule in self.rules if rule.holds(it))

    @property
    def verdicts(self) -> tuple[AnyVerdict, ...]:
        """That it leads to."""
        return tuple(it for it in (self.yes, self.no) if it is not None)


@dataclass(frozen=True, slots=True)
class DispatchLeaf:
    """A verdict with its texts and actions.

    Attributes:
        headline: in one sentence, of the worst partition.
        actions: most reversible first.
    """

    verdict: AnyVerdict
    headline: Callable[[Known], str]
    actions: Callable[[DispatchTools, Known], Sequence[Action]] = lambda _tools, _known: ()
    state: State = State.LAGGING
    has_runbook: bool = True

    @property
    def runbook(self) -> str | None:
        """File of the runbook, by the verdict's name: `ack_hole` → `runbooks/AckHole.md`."""
        return f"runbooks/{self.verdict.value.title().replace('_', '')}.md" if self.has_runbook else None
