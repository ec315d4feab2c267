"""Elements of the tree: questions, the numbers behind their answers, and where each answer leads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from workbench.settings import Thresholds
from workbench.triage.rule import Rule, Test
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


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
    """An answer that is a verdict."""

    verdict: Verdict

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Its verdict."""
        return (self.verdict,)


@dataclass(frozen=True, slots=True)
class Choose:
    """An answer that is one of several verdicts.

    Attributes:
        options: pairs of (condition, verdict); the first condition that holds decides.
        otherwise: the verdict if none holds.
    """

    options: tuple[tuple[Test, Verdict], ...]
    otherwise: Verdict

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Each possible verdict once, in order."""
        return tuple(dict.fromkeys((*(verdict for _, verdict in self.options), self.otherwise)))

    def verdict_of(self, row: SubscriptionFeatures, thresholds: Thresholds) -> Verdict:
        """The one that a subscription gets."""
        return next((verdict for holds, verdict in self.options if holds(row, thresholds) is True), self.otherwise)


Outcome = Ask | Conclude | Choose


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
        yes, no: where these answers lead.
        words: the reason for the answer, in half a line.
        needs: signals without which the answer is "cannot tell".
        contributes: whether a yes off the path is shown ("also true").
        by: gate: an open answer ends the walk. proof: it does unless something after it is proven. elimination: a verdict that all
            others must be ruled out for. side: an open answer ends nothing but an all-clear.
    """

    id: str
    number: int
    question: str
    short: str
    rules: tuple[Rule, ...]
    yes: Outcome
    no: Outcome
    words: Callable[[SubscriptionFeatures], str]
    needs: tuple[str, ...]
    measures: tuple[Measure, ...]
    contributes: bool = False
    by: Literal["gate", "proof", "elimination", "side"] = "proof"

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
