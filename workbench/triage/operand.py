"""A number that a rule compares, with where its limit comes from, and reasons of which the first one that holds is named: the same
object decides, and is what screens show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from workbench.judgement_numbers import Number
from workbench.thresholds import Thresholds
from workbench.triage.facts.unknown_numbers import RELATIONS, Known, all_of, any_of

Said = TypeVar("Said", covariant=True)


class Limited(Protocol):
    """A subscription, which knows the limits of its group."""

    @property
    def limits(self) -> Thresholds:
        """The thresholds of this group."""


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
        why: reason for a number that is no setting; default: that of `workbench.judgement_numbers`.
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
        return self.number.reason(self.relation) if self.why is None and isinstance(self.number, Number) else self.why

    def limit(self, row: Limited) -> float | None:
        """The limit for a subscription, in `unit`; None if what it multiplies is not known."""
        limit: float | None = getattr(row.limits, self.setting) if self.setting is not None else self.number
        if self.of is None or limit is None:
            return limit
        of: float | None = getattr(row, self.of)
        return None if of is None else limit * of

    def holds(self, row: Limited) -> bool | None:
        """Whether value and limit stand in this relation; None if one of them is not known."""
        return RELATIONS[self.relation](getattr(row, self.fact), self.limit(row))


@dataclass(frozen=True, slots=True)
class Reason(Generic[Said]):
    """One of several reasons; the first that holds is named.

    Attributes:
        id: unique among them.
        says: what it stands for.
        because: in words, half a sentence.
        operands: the numbers that it compares; all hold.
        either: whether one of the operands is enough.
        besides: what of a subscription has to hold, too.
    """

    id: str
    says: Said
    because: str
    operands: tuple[Operand, ...] = ()
    either: bool = False
    besides: Callable[[Any], Known] = lambda _row: True

    def holds(self, row: Limited) -> Known:
        """Whether it does; None if that is not known."""
        compared = (any_of if self.either else all_of)(*(it.holds(row) for it in self.operands))
        return all_of(compared, self.besides(row))


def first_of(reasons: Iterable[Reason[Said]], row: Limited) -> Said | None:
    """What the first reason that surely holds stands for; None if none does."""
    return next((it.says for it in reasons if it.holds(row) is True), None)
