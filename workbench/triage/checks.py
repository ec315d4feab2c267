"""Checks that show whether an action worked, as data: a look at features can be held against them without a person."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.triage.verdict import Answer

Row = Mapping[str, Any]

_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
# What tells one element of an array of features from another.
_NAMES = {"partitions": "partition", "members": "member", "processors": "processor", "queues": "processor"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison.

    Attributes:
        feature: column of a subscription's features (`features.subscriptions`, `triage.anomalies`), or one of its arrays.
        relation: one of < <= > >= =.
        value: what it is held against, in the feature's unit.
        field, items: of an array, which number of which elements (all of them if none is named); every one must pass.
    """

    feature: str
    relation: str
    value: float
    field: str | None = None
    items: tuple[str, ...] = ()

    def holds(self, row: Row) -> Answer:
        """Whether a later look passes; "cannot tell" where the feature is not known any more."""
        values = self._values(row)
        if not values or any(value is None for value in values):
            return Answer.CANNOT_TELL
        passed = all(_RELATIONS[self.relation](float(value), self.value) for value in values)
        return Answer.YES if passed else Answer.NO

    def _values(self, row: Row) -> list[Any]:
        if self.field is None:
            return [row[self.feature]]
        name = _NAMES[self.feature]
        chosen = [item for item in row[self.feature] or () if not self.items or str(item[name]) in self.items]
        if self.feature == "queues":
            # A queue that has ended while others of the same member and type go on was taken away: there is nothing to be known of it.
            heard = {(item[name], item["member"]) for item in chosen if item[self.field] is not None}
            chosen = [it for it in chosen if it[self.field] is not None or (it[name], it["member"]) not in heard]
        return [item[self.field] for item in chosen]


def all_hold(checks: Sequence[Check], row: Row) -> Answer:
    """Whether every check passes; without a check nobody can tell."""
    answers = [check.holds(row) for check in checks]
    if Answer.NO in answers:
        return Answer.NO
    return Answer.YES if answers and Answer.CANNOT_TELL not in answers else Answer.CANNOT_TELL
